"""Where are many runs made at once: in this process, in others, or on a cluster?

Whatever has the interface of `concurrent.futures.Executor` will do. `Workers` adds what a long
computation must know of it besides: how many runs to hand over at a time, whether it is still
there, and how to begin again when it broke.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from types import FrameType, TracebackType
from typing import Any, TypeVar

from dtrdiag.errors import ExecutorError

Result = TypeVar("Result")


class Workers:
    """An executor that somebody else made, and will shut down.

    A context manager: entering starts what has to be started, leaving ends it; after an error
    nothing is waited for.

    Args:
        executor: takes the runs.
        in_flight: how many to hand over at a time; by default as many as the executor says that it
            has workers, or as this process may use CPUs.
    """

    def __init__(self, executor: Executor, in_flight: int | None = None) -> None:
        self.executor = executor
        self._in_flight = in_flight or getattr(executor, "_max_workers", None) or default_jobs()

    @property
    def in_flight(self) -> int:
        """How many runs to hand over at a time, at least 1."""
        return self._in_flight

    def submit(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Hand over a call.

        Raises:
            BrokenExecutor: `restart` is needed first.
        """
        return self.executor.submit(function, *arguments)

    def check(self) -> None:
        """Look whether an answer can still be expected.

        Raises:
            ExecutorError: it cannot.
        """

    def restart(self) -> None:
        """Begin again after the executor broke; calls that were under way are lost.

        Raises:
            ExecutorError: that is impossible here.
        """
        raise ExecutorError(
            "the executor broke: its workers were killed, perhaps for lack of memory"
        )

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(aborted=error is not None)

    def close(self, aborted: bool) -> None:
        """End what this object started; `aborted`: at once, without waiting for calls."""


class Here(Workers):
    """This process alone, one run after the other."""

    def __init__(self) -> None:
        super().__init__(_Inline(), 1)


class _Inline(Executor):
    """Makes each call when it is handed over."""

    def submit(  # type: ignore[override]
        self, function: Callable[..., Result], /, *arguments: Any
    ) -> Future[Result]:
        future: Future[Result] = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            # An interrupt is nobody's result: it goes to whoever handed the call over.
            future.set_exception(error)
        return future


class Processes(Workers):
    """Processes on this machine. One that is killed is replaced.

    Args:
        jobs: how many.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._before = set(multiprocessing.active_children())
        super().__init__(self._made(), jobs)

    def _made(self) -> Executor:
        start_resource_tracker()
        # Spawned, not forked: numpy may hold threads, and a fork of those can hang.
        spawn = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self._jobs, spawn, start_worker)

    def submit(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """See `Workers.submit`. Processes that this starts ignore Ctrl-C, which goes to all."""
        with interrupts_held_back():
            return super().submit(function, *arguments)

    def restart(self) -> None:
        """See `Workers.restart`."""
        self.close(aborted=True)
        self.executor = self._made()

    def close(self, aborted: bool) -> None:
        """See `Workers.close`."""
        if not aborted:
            self.executor.shutdown()
            return
        try:
            self.executor.shutdown(wait=False, cancel_futures=True)
        finally:
            end_processes(self._before)


def end_processes(before: Collection[BaseProcess], kill: bool = False) -> None:
    """End the processes that this one has started, but for those that were there `before`.

    Args:
        before: `multiprocessing.active_children()` of then.
        kill: give them no chance to do otherwise.
    """
    for process in set(multiprocessing.active_children()).difference(before):
        if kill:
            process.kill()
        else:
            process.terminate()


def default_jobs() -> int:
    """As many processes as there are CPUs for this one; at least 1."""
    usable = getattr(os, "sched_getaffinity", None)
    return max(1, len(usable(0)) if usable is not None else os.cpu_count() or 1)


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Ctrl-C and SIGTERM take effect at the end; processes started meanwhile never see Ctrl-C.

    It goes to all of them, and this process ends them in order. One that is interrupted while it is
    being started would not be known, and would complain.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[tuple[int, FrameType | None]] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        if callable(previous[number]):
            signal.signal(number, lambda *received: held.append(received))
    mask = _block(signal.SIGINT)  # what is blocked stays so in a new process
    try:
        yield
    finally:
        for number, handler in previous.items():
            if callable(handler):
                signal.signal(number, handler)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        # After an error too, which may well be what the same signal did to a process that it went
        # to as well.
        for received, frame in held:
            handler = previous[signal.Signals(received)]
            if callable(handler):
                handler(received, frame)


def start_resource_tracker() -> None:
    """Start the process in which `multiprocessing` notes what is to be removed after a kill.

    Before signals are held back: a thread that starts it lets them through again, and so would all
    processes that this thread starts. It does not complain of what a killed process has left: it
    removes that, and nobody can do more. It does where Python was told which warnings to show.
    """
    if not hasattr(signal, "pthread_sigmask"):
        return
    asked = list(sys.warnoptions)
    if not asked:
        sys.warnoptions.append("ignore:resource_tracker:UserWarning")
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions[:] = asked


def _block(number: signal.Signals) -> set[int | signal.Signals] | None:
    """Block a signal for this thread; returns what was blocked, None where that is unknown."""
    if not hasattr(signal, "pthread_sigmask"):
        return None
    return signal.pthread_sigmask(signal.SIG_BLOCK, {number})


def start_worker() -> None:
    """In a new process: ignore Ctrl-C, and end when the process that started this one is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process once the one that started it is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
