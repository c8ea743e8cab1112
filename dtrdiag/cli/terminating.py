"""What happens when a verb is asked to end by SIGTERM: the same as for Ctrl-C, in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """The process was asked to end."""


@contextmanager
def terminable() -> Iterator[None]:
    """Meanwhile SIGTERM raises `Terminated`, so that results are kept and workers are ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, _raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _raise(number: int, frame: FrameType | None) -> None:
    # Once: what is done about it then is not to be interrupted by the next one.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated
