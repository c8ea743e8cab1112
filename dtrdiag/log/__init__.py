"""Reading event logs: the state at any point (`Replay`) and the rules of a log (`verify`)."""

from dtrdiag.log.replay import Replay
from dtrdiag.log.state import Frame, Tally

__all__ = ["Frame", "Replay", "Tally"]
