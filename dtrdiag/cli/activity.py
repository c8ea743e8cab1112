"""What is a verb busy with, for people who watch a terminal?

One display for all verbs, on standard error and only on a terminal: a line that comes when
something takes longer than a moment, and goes before the answer is printed. Work of a known length
has a bar (`bar`), all else says what it is about, how far it has come and for how long (`doing`).
"""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import (
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from dtrdiag.cli.streams import printable

PATIENCE_SECONDS = 0.7
"""What takes no longer needs no display."""
_NAME = 50


class _Activity:
    """The line that says what goes on; there is one at a time."""

    def __init__(self, console: Console, what: str) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._progress = _quiet(console, *columns)
        self._what = what
        self._task = self._progress.add_task(what, total=None)
        self._lock = threading.Lock()
        self._over = False
        self._timer = threading.Timer(PATIENCE_SECONDS, self._show)
        self._timer.daemon = True
        self._timer.start()

    def _show(self) -> None:
        with self._lock:
            if not self._over:
                _start(self._progress)

    def say(self, what: str) -> None:
        """Something else goes on now."""
        self._what = what
        self._progress.update(self._task, description=what)

    def tell(self, number: int) -> None:
        """So many events were read or written."""
        self._progress.update(self._task, description=f"{self._what}: {number:,} events")

    def end(self) -> None:
        """Take the line away."""
        self._timer.cancel()
        with self._lock:
            self._over = True
            self._progress.stop()


_current: list[_Activity] = []


def doing(what: str) -> None:
    """Say what goes on, in a line that stays until something is printed or the verb ends."""
    if _current:
        _current[0].say(what)
        return
    console = progress_console()
    if console is not None:
        _current.append(_Activity(console, what))


def reading(path: str) -> None:
    """Say that a log or trace is read."""
    doing(f"reading {printable(Path(path).name)[-_NAME:]}")


def tell(events: int) -> None:
    """Say how many events what goes on has come to."""
    if _current:
        _current[0].tell(events)


def done() -> None:
    """Take the line away, if there is one: something is about to be printed."""
    while _current:
        _current.pop().end()


@contextmanager
def bar(*columns: ProgressColumn) -> Iterator[Progress | None]:
    """A display of work whose length is known, gone at the end; None where nobody watches."""
    done()
    console = progress_console()
    if console is None:
        yield None
        return
    progress = _quiet(console, *columns)
    try:
        _start(progress)
        yield progress
    finally:
        progress.stop()


def _quiet(console: Console, *columns: ProgressColumn) -> Progress:
    # Standard output stays what it is: redirected, answers would go to standard error.
    return Progress(
        *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
    )


def _start(progress: Progress) -> None:
    progress.start()
    # A process that is killed should not leave a terminal without a cursor.
    progress.console.show_cursor(True)


def progress_console() -> Console | None:
    """Where progress is shown: standard error, if that is a terminal and the answer not piped."""
    if _is_pipe():
        return None
    console = Console(stderr=True)
    return console if console.is_terminal and not console.is_dumb_terminal else None


def _is_pipe() -> bool:
    """Whether the answer goes to a program, which may write to the same terminal."""
    try:
        return stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    except (AttributeError, OSError, ValueError):
        return False
