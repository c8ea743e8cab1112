"""How are runs made on a cluster of dask.distributed?

The scheduler repeats a run whose worker died, up to a few times. A scheduler that is gone takes
all that was under way with it, so that is told at once; results that had arrived are kept.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from dtrdiag.errors import ExecutorError, UsageError
from dtrdiag.experiments.executors import (
    Result,
    Workers,
    default_jobs,
    end_processes,
    interrupts_held_back,
    start_resource_tracker,
)

LOCAL = "local"
LOOPBACK = "127.0.0.1"
CONNECT_SECONDS = 10
WORKERS_SECONDS = 60
"""How long a cluster may be without any worker."""
ASK_SECONDS = 1
"""How often the scheduler is asked for its workers."""
CLOSE_SECONDS = 5
# Before Python 3.11 a timeout of asyncio is of another class.
_UNREACHABLE = (OSError, TimeoutError, asyncio.TimeoutError, RuntimeError)
_CHATTY = ("distributed", "tornado", "asyncio", "bokeh", "dask")


class DaskWorkers(Workers):
    """The workers of a dask cluster.

    Args:
        address: of the scheduler, such as `tcp://10.0.0.1:8786`; `local`: processes started here.
        jobs: `local`: how many; one a CPU by default.

    Raises:
        UsageError: dask.distributed is not installed, or the address is none.
        ExecutorError: no scheduler answers there, or it has no workers.
    """

    def __init__(self, address: str, jobs: int | None = None) -> None:
        distributed = _distributed()
        check_address(address)
        self._where = "the local cluster" if address == LOCAL else f"the dask cluster at {address}"
        self._cluster: Any = None
        self._client: Any = None
        self._before = set(multiprocessing.active_children())
        try:
            if address == LOCAL:
                start_resource_tracker()
                with interrupts_held_back():
                    self._cluster = distributed.LocalCluster(
                        n_workers=jobs or default_jobs(),
                        threads_per_worker=1,
                        host=LOOPBACK,  # nobody else is to send it what it would run
                        dashboard_address=f"{LOOPBACK}:0",
                        worker_dashboard_address=f"{LOOPBACK}:0",
                        silence_logs=logging.CRITICAL,
                    )
            self._client = distributed.Client(
                self._cluster or address, timeout=CONNECT_SECONDS, set_as_default=False
            )
            self._quiet()
            self._client.wait_for_workers(1, timeout=WORKERS_SECONDS)
        except _UNREACHABLE as error:
            had = "has no workers" if self._client is not None else "cannot be reached"
            if address == LOCAL:
                had = "did not start"
            self.close(aborted=True)
            why = str(error).partition("\n")[0]
            raise ExecutorError(f"{self._where} {had}: {why}") from None
        except BaseException:
            self.close(aborted=True)
            raise
        self._threads, self._asked = 0, 0.0
        self._scheduler: str | None = None
        self._seen = time.monotonic()
        super().__init__(self._client.get_executor(pure=False), 1)
        self.check()

    @property
    def in_flight(self) -> int:
        """Twice the threads of all workers, so that none waits for the next run to arrive."""
        return max(1, 2 * self._threads)

    def check(self) -> None:
        """See `Workers.check`."""
        now = time.monotonic()
        gone = self._client.status != "running"
        if not gone and now - self._asked >= ASK_SECONDS:
            self._asked = now
            gone = not self._ask()
        if gone:
            raise ExecutorError(f"{self._where} was lost: its scheduler is gone")
        if self._threads:
            self._seen = now
        elif now - self._seen > WORKERS_SECONDS:
            raise ExecutorError(f"{self._where} has had no workers for {WORKERS_SECONDS} seconds")

    def _ask(self) -> bool:
        """Ask the scheduler who it is and how many threads it has; whether it still is the same.

        One that was started anew at the same address knows nothing of what is under way.
        """
        try:
            told = self._client.sync(
                self._client.scheduler.identity, callback_timeout=CONNECT_SECONDS
            )
            threads = self._client.sync(
                self._client.scheduler.ncores, callback_timeout=CONNECT_SECONDS
            )
        except _UNREACHABLE:
            return False
        self._threads = sum(threads.values())
        if self._scheduler is None:
            self._scheduler = told["id"]
        return bool(told["id"] == self._scheduler)

    def submit(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """See `Workers.submit`."""
        try:
            return super().submit(function, *arguments)
        except RuntimeError:
            # A client that has closed takes nothing more.
            raise ExecutorError(f"{self._where} was lost: its scheduler is gone") from None

    def close(self, aborted: bool) -> None:
        """See `Workers.close`."""
        try:
            for thing in (self._client, self._cluster):
                if thing is not None:
                    _close(thing)
        finally:
            # Whoever was still being started may have missed that it is to end, and whoever
            # interrupts this once more does not want to wait.
            end_processes(self._before, kill=True)

    def _quiet(self) -> None:
        """What goes wrong is told in one line by whoever asked, not in dask's many."""
        for name in [*_CHATTY, *logging.root.manager.loggerDict]:
            if name.partition(".")[0] in _CHATTY:
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def check_address(address: str) -> None:
    """Refuse what can be no address, before anything is begun.

    A client that was given one all the same is hard to get rid of.

    Raises:
        UsageError: dask.distributed is not installed, or the address is none.
    """
    _distributed()
    if address == LOCAL:
        return
    comm = importlib.import_module("distributed.comm")
    try:
        comm.resolve_address(address)
    except (ValueError, OSError) as error:
        raise UsageError(f"--dask needs {LOCAL!r} or a scheduler's address: {error}") from None


def _close(thing: Any) -> None:
    try:
        thing.close(timeout=CLOSE_SECONDS)
    except Exception as error:
        # What is closed may be gone already, and says so in many ways.
        logging.getLogger("distributed").debug("close: %s", error)


def _distributed() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise UsageError("a cluster needs dask.distributed: pip install 'dtrdiag[dask]'") from None
