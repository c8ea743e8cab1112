"""Did another thread compute something? A dispatch mode sees the operators of its own alone."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class OtherThreads:
    """Notes operators that threads dispatch which are started while it watches.

    Threads that compute nothing, such as progress bars and loaders of data, do not matter.

    Attributes:
        computed: name of the first operator that another thread dispatched; None: none did.
    """

    def __init__(self) -> None:
        self.computed: str | None = None
        self._before: Any = None
        self._watching = False

    def begin(self) -> None:
        """Watch threads that are started from now on."""
        self._before = threading.getprofile()
        self._watching = True
        threading.setprofile(self._started)

    def end(self) -> None:
        """Let new threads be."""
        self._watching = False
        threading.setprofile(self._before)

    def _started(self, frame: Any, event: str, argument: Any) -> None:
        # Called once in each new thread, before anything that it does.
        sys.setprofile(self._before)
        if self._watching:
            _Noting(self).__enter__()


class _Noting(TorchDispatchMode):  # type: ignore[misc]
    """Notes an operator of the thread in which it was entered."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # See `contexts.OwnMode`.
        return False

    def __init__(self, watch: OtherThreads) -> None:
        super().__init__()
        self._watch = watch

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if self._watch._watching and self._watch.computed is None:
            self._watch.computed = str(func)
        return func(*args, **(kwargs or {}))
