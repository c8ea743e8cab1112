"""What do a recording and a live run have in common while their block runs?"""

from __future__ import annotations

import gc
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from dtrdiag.instrumentation.pytorch.errors import NestedContextError


class OwnMode(TorchDispatchMode):  # type: ignore[misc]
    """A dispatch mode of ours. Two of them at a time would see each other's operators."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Else the first operator imports the compiler: that takes seconds, and leaves frames of the
        # program in a cycle, so that its tensors die later than in the next recording.
        return False

    def refuse_nested(self) -> None:
        """Refuse to begin inside another mode of ours.

        Raises:
            NestedContextError: there is one.
        """
        stack: list[Any] = _get_current_dispatch_mode_stack()
        if any(isinstance(mode, OwnMode) for mode in stack):
            raise NestedContextError("a recording or live run is going on already in this thread")


class QuietCollector:
    """Keeps the garbage collector from deciding when a storage dies.

    Reference counts alone free tensors then, at the same places in every run.

    Args:
        collects: collect what is there first, which takes a tenth of a second or two.
    """

    def __init__(self, *, collects: bool) -> None:
        self._collects = collects
        self._was_enabled = False

    def begin(self) -> None:
        """Collect what is there, if asked to, then collect no more."""
        self._was_enabled = gc.isenabled()
        if self._collects:
            gc.collect()
        gc.disable()

    def end(self) -> None:
        """As it was before."""
        if self._was_enabled:
            gc.enable()
