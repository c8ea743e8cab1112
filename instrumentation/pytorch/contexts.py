"""What do a recording and a live run have in common while their block runs?"""

from __future__ import annotations

import gc
import os
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from dtrdiag.instrumentation.pytorch.describe import SKIPPED_NAMESPACES
from dtrdiag.instrumentation.pytorch.errors import (
    NestedContextError,
    UnsupportedOpError,
)

_frames: Any = torch._C._dynamo.eval_frame
_STRATEGY = _frames._FrameExecStrategy(_frames._FrameAction.SKIP, _frames._FrameAction.DEFAULT)


def not_compiled(function: Any) -> Any:
    """Have a function of ours called as it is, also where what calls it is being compiled."""
    _frames.set_code_exec_strategy(function.__code__, _STRATEGY)
    return function


@not_compiled
def refuse_compiled(func: Any, args: Any, kwargs: Any) -> Any:
    """Refuse an operator that compiled code dispatches, since it does not dispatch them all.

    Raises:
        UnsupportedOpError: it is more than bookkeeping, which PyTorch does not expect to fail.
    """
    before = _frames.set_eval_frame(None)
    try:
        if func.namespace in SKIPPED_NAMESPACES:
            return func(*args, **kwargs)
        raise UnsupportedOpError(
            f"{func}: inside torch.compile, and what compiled code executes cannot be told; use "
            "the function as it was, or torch.compiler.set_stance('force_eager')"
        )
    finally:
        _frames.set_eval_frame(before)


class OneProcessMode(TorchDispatchMode):  # type: ignore[misc]
    """A dispatch mode that is not for processes forked within it, such as loaders of data."""

    forked = False
    """Whether this is such a process, which executes operators as if there was no mode."""

    def leave_behind(self) -> None:
        """Called in a forked process: its operators are none of ours."""
        self.forked = True


def _forked() -> None:
    stack: list[Any] = _get_current_dispatch_mode_stack()
    for mode in stack:
        if isinstance(mode, OneProcessMode):
            mode.leave_behind()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class OwnMode(OneProcessMode):
    """A dispatch mode of ours. Two of them at a time would see each other's operators."""

    supports_higher_order_operators = True
    """They come here, to be refused by name."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Else the first operator imports the compiler: that takes seconds, and leaves frames of the
        # program in a cycle, so that its tensors die later than in the next recording.
        return False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        not_compiled(cls.__dict__["__torch_dispatch__"])

    @staticmethod
    @not_compiled
    def is_compiling() -> bool:
        """Whether an operator is inside a function that went through torch.compile.

        To be called first thing in `__torch_dispatch__`.
        """
        return bool(_frames.get_eval_frame_callback())

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
