"""Which errors recording and running PyTorch programs raise, each for one kind of fault."""

from __future__ import annotations

from dtrdiag.errors import DtrdiagError


class TorchMissingError(DtrdiagError):
    """PyTorch is not installed, or too old."""


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
