"""Event logs: reading them, the state at any point (`Replay`), and their rules (`verify`)."""

from dtrdiag.log.reader import LogReader, open_log, read_events
from dtrdiag.log.replay import Replay
from dtrdiag.log.rules import RULES, Problem, Verification
from dtrdiag.log.state import Frame, Tally
from dtrdiag.log.verifier import verify

__all__ = [
    "RULES",
    "Frame",
    "LogReader",
    "Problem",
    "Replay",
    "Tally",
    "Verification",
    "open_log",
    "read_events",
    "verify",
]
