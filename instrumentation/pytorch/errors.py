"""Which errors recording and running PyTorch programs raise, each for one kind of fault."""

from __future__ import annotations

from typing import Any

import attrs

from dtrdiag.errors import DtrdiagError


class TorchMissingError(DtrdiagError):
    """PyTorch is not installed, or too old."""


class ProgramError(DtrdiagError):
    """The program that is recorded or run raised an error of its own."""


class RecordingError(DtrdiagError):
    """A program cannot be recorded faithfully; nothing is written."""


class UnsupportedOpError(RecordingError):
    """An operator whose reads, writes or sizes cannot be told: sparse, data-dependent, unknown."""


class UndeclaredWriteError(RecordingError):
    """An operator wrote to a tensor that neither its schema nor the table of exceptions names."""


class NestedContextError(DtrdiagError):
    """A recording or a live run was begun inside another one."""


class LiveRunError(DtrdiagError):
    """A live run cannot go on; the model is left as it was before the step."""


class EscapedTensorError(LiveRunError):
    """A tensor of a live run that has ended without it is used."""


class SizeMismatchError(LiveRunError):
    """A kernel made a storage of another size than was accounted for."""


class BudgetError(LiveRunError):
    """The budget is less than what the step needs whatever is evicted: constants and outputs."""


@attrs.frozen
class FrontierStorage:
    """A storage that was in memory when nothing could be evicted."""

    storage: int
    """Its id in the log of the run."""
    nbytes: int
    state: str
    """`pinned` (a parameter, buffer, input or output), or `locked` by ops that wait."""
    made_by: str
    """Name of the operator that made it; `constant` for what was there before."""
    held_by: tuple[str, ...]
    """Names of the waiting operators that hold it, outermost first."""


class RematOutOfMemoryError(LiveRunError):
    """An operator does not fit into the budget, and nothing can be evicted.

    Attributes:
        result: what the run came to; its log is complete.
        frontier: the storages in memory, pinned ones first.
        requested_bytes: what the operator asked for.
        memory_bytes: what was in use.
    """

    def __init__(self, what: str, result: Any, frontier: tuple[FrontierStorage, ...]) -> None:
        super().__init__(what)
        self.result = result
        self.frontier = frontier
        self.requested_bytes = int(result.stop.requested_bytes)
        self.memory_bytes = int(result.stop.memory_bytes)


class RematThrashedError(LiveRunError):
    """Recomputation has cost more than the overhead limit allows.

    Attributes:
        result: what the run came to; its log is complete.
    """

    def __init__(self, what: str, result: Any) -> None:
        super().__init__(what)
        self.result = result
