"""What a run can report: the typed, versioned events and their order."""
