"""How an event log is read, and what state a run was in, from the log alone."""

from dtrdiag.log.reader import LogReader, open_log, read_events

__all__ = ["LogReader", "open_log", "read_events"]
