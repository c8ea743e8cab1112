"""Pages in one HTML file that opens from a disk, with nothing fetched from anywhere."""
