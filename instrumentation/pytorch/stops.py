"""Why did a live run stop? The core's stop, or PyTorch's, in terms of the program's operators."""

from __future__ import annotations

import os
from types import TracebackType

from dtrdiag.instrumentation.pytorch.errors import (
    FrontierStorage,
    LiveRunError,
    RematOutOfMemoryError,
    RematThrashedError,
    UnsupportedOpError,
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


_NO_BYTES = ("its data is not allocated yet", "Cannot access data pointer of Tensor")
_NESTED = "Internal error: NestedTensorImpl"
"""Beginnings of what PyTorch says where something wants the memory of a tensor that has none."""


def bytes_error(error: BaseException | None) -> LiveRunError | UnsupportedOpError | None:
    """The error for the program where PyTorch says that a tensor has no memory.

    Args:
        error: what leaves the block; None if nothing does.

    Returns:
        None if it is about something else.
    """
    if not isinstance(error, RuntimeError):
        return None
    said = str(error)
    if _NESTED in said:
        return UnsupportedOpError(
            f"{_place(error)}: a nested tensor of a live run, as the fast path of transformers "
            "makes from a padding mask; torch.backends.mha.set_fastpath_enabled(False) leaves it"
        )
    if any(text in said for text in _NO_BYTES):
        return LiveRunError(
            f"{_place(error)}: what is called there needs the bytes of a tensor of a live run; a "
            "kernel asked for its memory, not by an operator that could be told"
        )
    return None


def _place(error: BaseException) -> str:
    """The innermost line of the program, or of what it calls, that an error came through."""
    step = error.__traceback__
    if step is None:
        return "the block"
    while step.tb_next is not None and not _is_own(step.tb_next):
        step = step.tb_next
    code = step.tb_frame.f_code
    return f"{code.co_name} ({os.path.basename(code.co_filename)}, line {step.tb_lineno})"


def _is_own(step: TracebackType) -> bool:
    return os.path.dirname(step.tb_frame.f_code.co_filename) == os.path.dirname(__file__)
