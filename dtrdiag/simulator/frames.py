"""What waits on the pending stack, and how a run ends early."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from dtrdiag.ids import OpId, StorageId, TensorId
from dtrdiag.simulator.config import PendingOp, Stop


class Stopped(Exception):  # noqa: N818 - a way to end a run, not an error
    """The run ended early; `outcome` is "oom" or "thrashed"."""

    def __init__(self, outcome: str) -> None:
        super().__init__(outcome)
        self.outcome = outcome


@attrs.define(eq=False)
class Frame:
    """One op of the pending stack: an execution that waits for its inputs, or for room."""

    op: int
    tensor: int
    """The output that is wanted."""
    first: bool
    inputs: list[int]
    missing: list[int]
    """Inputs undefined when the op was pushed, in order; `found` of them are locked by now."""
    seq: int
    """`seq` of the op's `materialise` event."""
    found: int = 0
    held: list[int] = attrs.field(factory=list)
    """Storages locked by this op, in order, once per lock."""
    defined: list[int] = attrs.field(factory=list)
    """What its execution defined: the wanted output, then siblings by index."""


def stop_at(
    frame: Frame,
    requested_bytes: int,
    memory_bytes: int,
    pending: Iterable[Frame],
    pinned: Iterable[int],
    pool: Iterable[int],
) -> Stop:
    """A copy of where a run stops, before anything unwinds; the arguments are `Stop`'s."""

    def storages(ids: Iterable[int]) -> tuple[StorageId, ...]:
        return tuple(map(StorageId, ids))

    frames = tuple(
        PendingOp(OpId(f.op), TensorId(f.tensor), f.first, storages(f.held)) for f in pending
    )
    sizes = (requested_bytes, memory_bytes)
    return Stop(OpId(frame.op), *sizes, frames, storages(pinned), storages(pool))
