"""Which rules a live run can follow, and how it ends other than with its program."""

from __future__ import annotations

from dtrdiag.errors import DtrdiagError, UsageError
from dtrdiag.interventions import Interventions
from dtrdiag.simulator.config import RunConfig, RunResult


class RunStoppedError(DtrdiagError):
    """A live run stopped short. Its log is complete, `oom` or `thrashed` and `end` included.

    Attributes:
        outcome: "oom" or "thrashed".
        result: what the run came to; `result.stop` is a copy of the state at which it stopped.
    """

    def __init__(self, result: RunResult) -> None:
        self.result = result
        self.outcome = result.end.outcome
        super().__init__(_why(result))


class RunOverError(DtrdiagError):
    """Something is asked of a live run that has ended, or is in the middle of an op."""


def checked_rules(config: RunConfig, baseline_cost_ns: int | None) -> float | int | None:
    """Refuse what a live run cannot do. Returns the limit of remat cost in ns; None: no limit.

    Args:
        config: the rules asked for.
        baseline_cost_ns: cost of executing every op once, if known.

    Raises:
        UsageError: a rule that needs the whole program before it begins.
    """
    if config.dealloc == "banish":
        raise UsageError("a live run cannot have dealloc 'banish': what it frees may be asked for")
    if config.engine == "native":
        raise UsageError("a live run is decided by the Python engine, not by the native one")
    changes = config.interventions
    # Repairs and tie-breaks are rules of choosing; the others name what is not known in advance.
    rules = Interventions(repairs=changes.repairs, tie_break=changes.tie_break)
    if changes != rules:
        raise UsageError(
            f"a live run takes no interventions but repairs and a tie-break: {changes.text()}"
        )
    limit = config.overhead_limit
    if limit is None:
        return None
    if baseline_cost_ns is None:
        raise UsageError(
            f"an overhead limit of {limit} needs baseline_cost_ns, the cost of executing every op "
            "once; without it give overhead_limit=None"
        )
    return baseline_cost_ns * (limit - 1)


def _why(result: RunResult) -> str:
    end, stop = result.end, result.stop
    if end.outcome == "thrashed" or stop is None:
        return f"thrashed: {end.remat_cost_ns} ns of rematerialisation are more than the limit"
    return (
        f"out of memory: op {stop.op} needs {stop.requested_bytes} bytes, {stop.memory_bytes} of "
        f"{result.header.budget_bytes} are in use, and none of them can be evicted"
    )
