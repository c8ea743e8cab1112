"""How do several processes share the ranges of budgets that are to be enumerated?

How many intervals a range holds is not known before it has been walked: one percent of the budgets
may hold most of them. So nobody is given a share for good. A worker walks its range for a moment
and gives back what is left of it, and whoever is idle gets the next range, or a part of one.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from dtrdiag.errors import ContradictionError, DtrdiagError, SimulationError
from dtrdiag.experiments.executors import (
    end_processes,
    interrupts_held_back,
    start_resource_tracker,
    start_worker,
)
from dtrdiag.experiments.outcomes import Outcome
from dtrdiag.simulator import RunConfig, RunResult, runs_between
from dtrdiag.trace import Trace

Range = tuple[int, int]
"""Lowest and highest budget, both included."""
Walk = tuple[list[Outcome], Range | None]
"""What was found, ascending, and what is left of the range."""
WALK_SECONDS = 0.5
"""How long a worker walks before it reports."""


class Walker:
    """Enumerates ranges of one trace under one set of rules, a while at a time.

    Runs at neighbouring budgets share their beginning, as long as one enumeration goes on. So a
    range that begins where the last walk stopped continues that enumeration.
    """

    def __init__(self, trace: Trace, rules: RunConfig) -> None:
        self._trace = trace
        self._rules = rules
        self._runs: Iterator[RunResult] = iter(())
        self._next_bytes: int | None = None
        self._high_bytes = 0

    def walk(self, budgets: Range, seconds: float = WALK_SECONDS) -> Walk:
        """Enumerate a range from its low end on, one interval at least, until the time is up.

        That intervals follow each other without gaps is checked, not believed.

        Raises:
            ContradictionError: a run's interval does not hold the budget that was its turn.
            DtrdiagError: of a run that fails.
        """
        low, high = budgets
        until = time.monotonic() + seconds
        found: list[Outcome] = []
        while True:
            outcome = self._run_at(low, high)
            found.append(outcome)
            after = self._next_bytes = outcome.end.interval_hi_bytes
            if after is None or after > high:
                return found, None
            low = after
            if time.monotonic() >= until:
                return found, (low, high)

    def _run_at(self, low: int, high: int) -> Outcome:
        result = None
        if low == self._next_bytes and high <= self._high_bytes:
            result = next(self._runs, None)
        if result is None:
            self._runs, self._high_bytes = runs_between(self._trace, self._rules, low, high), high
            result = next(self._runs, None)
        if result is None:
            raise ContradictionError(f"there is no run at {low} bytes")
        outcome = Outcome.of(result)
        if not outcome.covers(low):
            raise ContradictionError(f"the run at {low} bytes is missing among its neighbours")
        return outcome


def usable_cpus() -> int:
    """How many CPUs there are for this process, at least 1."""
    usable = getattr(os, "sched_getaffinity", None)
    return max(1, len(usable(0)) if usable is not None else os.cpu_count() or 1)


class Ranges:
    """Ranges that wait for a worker.

    Args:
        ranges: ascending.
        pieces: into about how many parts of equal width to split them to begin with.
    """

    def __init__(self, ranges: Sequence[Range], pieces: int) -> None:
        width = sum(high - low + 1 for low, high in ranges)
        most = max(1, -(-width // max(pieces, 1)))
        self._waiting = [part for each in ranges for part in _parts(each, most)]

    def __len__(self) -> int:
        return len(self._waiting)

    def put_back(self, budgets: Range) -> None:
        """Let what is left of a range be the next to be taken."""
        self._waiting.insert(0, budgets)

    def take(self, idle: int) -> Range:
        """The next range, or its lower part where more workers are idle than ranges wait."""
        low, high = self._waiting.pop(0)
        takers = min(idle - len(self._waiting), high - low + 1)
        if takers > 1:
            border = low + (high - low + 1) // takers
            self.put_back((border, high))
            high = border - 1
        return low, high


def _parts(budgets: Range, most: int) -> Iterator[Range]:
    low, high = budgets
    while low <= high:
        yield low, min(low + most - 1, high)
        low += most


class Workers:
    """Processes that walk ranges of one trace, under one set of rules or several.

    Args:
        trace: what to run.
        rules: each set apart from the budget.
        jobs: how many processes.
        prepare: called in each process before its first walk, for example to load a policy file.
            It is sent there, so it must be a function of a module, or a `partial` of one.
    """

    def __init__(
        self,
        trace: Trace,
        rules: Sequence[RunConfig],
        jobs: int,
        prepare: Callable[[], object] | None = None,
    ) -> None:
        self.jobs = jobs
        self._before = set(multiprocessing.active_children())
        start_resource_tracker()
        # Spawned, not forked: numpy may hold threads, and a fork of those can hang.
        self._executor = ProcessPoolExecutor(
            jobs, multiprocessing.get_context("spawn"), _start, (trace, tuple(rules), prepare)
        )

    def each(self, ranges: Ranges, trim: Callable[[Range], list[Range]]) -> Iterator[Walk]:
        """Walk all ranges, in no particular order, and hand over what is found as it comes.

        Args:
            ranges: what to walk, under the first set of rules.
            trim: what of a range is still unknown, asked just before it is given to a worker.

        Raises:
            DtrdiagError: of the first run that fails, or because a worker was killed.
        """
        for _, walk in self.each_of([ranges], lambda _, budgets: trim(budgets)):
            yield walk

    def each_of(
        self, queues: Sequence[Ranges], trim: Callable[[int, Range], list[Range]]
    ) -> Iterator[tuple[int, Walk]]:
        """As `each`, for several sets of rules: those that come first have precedence.

        Args:
            queues: what to walk under each set of rules, in their order.
            trim: as for `each`, with the index of the rules.

        Returns:
            Each walk with the index of its rules.

        Raises:
            as `each`.
        """
        running: dict[Future[Walk], int] = {}
        while any(queues) or running:
            while any(queues) and len(running) < self.jobs:
                which = next(at for at, queue in enumerate(queues) if queue)
                others = sum(len(queue) for at, queue in enumerate(queues) if at != which)
                unknown = trim(which, queues[which].take(self.jobs - len(running) - others))
                for other in reversed(unknown[1:]):
                    queues[which].put_back(other)
                if unknown:
                    with interrupts_held_back():
                        running[self._executor.submit(_walk, which, unknown[0])] = which
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                which = running.pop(future)
                found, left = _result(future)
                if left is not None:
                    queues[which].put_back(left)
                yield which, (found, left)

    def end(self) -> None:
        """Let the processes go when they have done what they were given."""
        self._executor.shutdown()

    def kill(self) -> None:
        """End the processes now."""
        try:
            self._executor.shutdown(wait=False, cancel_futures=True)
        finally:
            end_processes(self._before)


@contextmanager
def workers(
    trace: Trace,
    rules: Sequence[RunConfig],
    jobs: int,
    prepare: Callable[[], object] | None = None,
) -> Iterator[Workers]:
    """Workers that are gone afterwards, however it ended; arguments as for `Workers`."""
    pool = Workers(trace, rules, jobs, prepare)
    try:
        yield pool
    except BaseException:
        pool.kill()
        raise
    pool.end()


def _result(future: Future[Walk]) -> Walk:
    try:
        return future.result()
    except BrokenProcessPool:
        raise SimulationError(
            "a worker process was killed, perhaps for lack of memory; try a smaller -j"
        ) from None


# --- in a worker ----------------------------------------------------------------------------------

_trace: Trace | None = None
_rules: tuple[RunConfig, ...] = ()
_walker: tuple[int, Walker] | None = None
# Of the rules that were walked last: a walker keeps what the next walk of the range can begin with.
_problem: DtrdiagError | None = None
# Why it could not be prepared. An error at the start would only be told as a broken pool.


def _start(
    trace: Trace, rules: tuple[RunConfig, ...], prepare: Callable[[], object] | None
) -> None:
    global _trace, _rules, _problem
    start_worker()
    _trace, _rules = trace, rules
    if prepare is not None:
        try:
            prepare()
        except DtrdiagError as error:
            _problem = error


def _walk(which: int, budgets: Range) -> Walk:
    global _walker
    if _problem is not None:
        raise _problem
    if _trace is None:
        raise SimulationError("a worker was given a range before it was started")
    if _walker is None or _walker[0] != which:
        _walker = which, Walker(_trace, _rules[which])
    return _walker[1].walk(budgets)
