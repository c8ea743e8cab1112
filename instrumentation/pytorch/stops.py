"""Why did a live run stop? The core's stop in terms of the program's operators."""

from __future__ import annotations

from dtrdiag.instrumentation.pytorch.errors import (
    FrontierStorage,
    LiveRunError,
    RematOutOfMemoryError,
    RematThrashedError,
)
from dtrdiag.simulator import LiveRun, RunStoppedError
from dtrdiag.units import exact_bytes


def stop_error(run: LiveRun, stopped: RunStoppedError) -> LiveRunError:
    """The error for the program, with the frontier at an out-of-memory stop."""
    result = stopped.result
    stop = result.stop
    if stopped.outcome != "oom" or stop is None:
        return RematThrashedError(stopped.what, result)
    holders: dict[int, list[str]] = {}
    for pending in stop.pending:
        for storage in pending.locks:
            holders.setdefault(storage, []).append(run.name_of(pending.op))
    states = {int(storage): "pinned" for storage in stop.pinned}
    states.update((int(storage), "locked") for storage in holders if storage not in states)
    frontier = tuple(
        FrontierStorage(
            storage,
            run.size_of(storage),
            state,
            run.name_of(run.op_of(storage)),
            tuple(holders.get(storage, ())),
        )
        for storage, state in states.items()
    )
    return RematOutOfMemoryError(_words(run, stopped, frontier), result, frontier)


def _words(run: LiveRun, stopped: RunStoppedError, frontier: tuple[FrontierStorage, ...]) -> str:
    stop, header = stopped.result.stop, stopped.result.header
    if stop is None:
        return stopped.what
    pinned = sum(each.nbytes for each in frontier if each.state == "pinned")
    locked = sum(each.nbytes for each in frontier if each.state == "locked")
    return (
        f"out of memory: {run.name_of(stop.op)} asks for {exact_bytes(stop.requested_bytes)}; of "
        f"the budget of {exact_bytes(header.budget_bytes or 0)}, {exact_bytes(pinned)} are pinned "
        f"and {exact_bytes(locked)} locked by {len(stop.pending)} waiting operators"
    )
