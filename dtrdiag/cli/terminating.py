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
    # Once: what is done about it then is not to be interrupted by the next one. By a function, not
    # SIG_IGN: a process that is started meanwhile would inherit that, and could not be ended.
    signal.signal(signal.SIGTERM, _once_was_enough)
    raise Terminated


def _once_was_enough(number: int, frame: FrameType | None) -> None:
    """Do nothing."""
