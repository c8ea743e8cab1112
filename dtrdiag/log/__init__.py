"""Logs: reading the events of a run back, from any runtime that wrote them."""

from dtrdiag.log.reader import LogReader, open_log, read_events

__all__ = ["LogReader", "open_log", "read_events"]
