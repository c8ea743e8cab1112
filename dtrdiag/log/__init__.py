"""How an event log is read, and what state a run was in, from the log alone."""
