"""Reading event logs: the state at any point (`Replay`) and the rules of a log (`verify`)."""

from dtrdiag.log.replay import Replay
from dtrdiag.log.rules import RULES, Problem, Verification
from dtrdiag.log.state import Frame, Tally
from dtrdiag.log.verifier import verify

__all__ = ["RULES", "Frame", "Problem", "Replay", "Tally", "Verification", "verify"]
