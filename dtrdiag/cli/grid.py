"""How is a grid of runs computed: in processes, and no run twice?

A run at one budget is, decision for decision, the run at every budget of its interval [lo, hi). So
a result answers all points of the grid in its interval, and results of earlier sweeps do too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

import attrs

from dtrdiag.cli.policyfile import load_policy_file
from dtrdiag.errors import DtrdiagError, SimulationError
from dtrdiag.experiments.outcomes import Outcome, Outcomes
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace import Trace


@attrs.define
class Group:
    """The runs of a grid that differ in their budget alone.

    Attributes:
        trace: position among the traces of the grid.
        rules: the run, apart from budget and ratio.
        points: budgets in bytes, with the ratio that chose each one, if any.
        outcomes: what is known; `compute` adds to it.
        simulated: budgets that `compute` simulated.
    """

    trace: int
    rules: RunConfig
    points: tuple[tuple[int, float | None], ...]
    outcomes: Outcomes = attrs.field(factory=Outcomes)
    simulated: set[int] = attrs.field(factory=set)


def compute(
    traces: Sequence[Trace],
    groups: Sequence[Group],
    jobs: int,
    policy_file: str | None,
    tell: Callable[[Group | None], None],
) -> None:
    """Simulate until every point of every group has an outcome.

    Args:
        traces: what the groups' `trace` counts.
        groups: what to compute; outcomes that they have already are used.
        jobs: processes; 1: this one alone.
        policy_file: to be loaded in each process.
        tell: called after each point that is done, with its group if it was simulated.

    Raises:
        DtrdiagError: of the first run that fails. What was computed until then is in the groups.
    """
    waiting = deque((group, point) for group in groups for point in group.points)
    if jobs == 1:
        for group, (budget_bytes, ratio) in waiting:
            simulated = group.outcomes.find(budget_bytes) is None
            if simulated:
                config = _at(group.rules, budget_bytes, ratio)
                _keep(group, budget_bytes, _outcome(traces[group.trace], config))
            tell(group if simulated else None)
        return
    with _workers(jobs, traces, policy_file) as submit:
        running: dict[Future[Outcome], tuple[Group, int]] = {}
        while waiting or running:
            while waiting and len(running) < jobs:
                group, (budget_bytes, ratio) = waiting.popleft()
                if group.outcomes.find(budget_bytes) is not None:
                    tell(None)
                    continue
                config = _at(group.rules, budget_bytes, ratio)
                running[submit(_simulate, group.trace, config)] = (group, budget_bytes)
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                group, budget_bytes = running.pop(future)
                _keep(group, budget_bytes, _result(future))
                tell(group)


def default_jobs(runs: int) -> int:
    """As many processes as there are CPUs for this one, and no more than runs; at least 1."""
    usable = getattr(os, "sched_getaffinity", None)
    cpus = len(usable(0)) if usable is not None else os.cpu_count() or 1
    return max(1, min(cpus, runs))


def _at(rules: RunConfig, budget_bytes: int, ratio: float | None) -> RunConfig:
    return attrs.evolve(rules, budget_bytes=budget_bytes, ratio=ratio)


def _keep(group: Group, budget_bytes: int, outcome: Outcome) -> None:
    group.outcomes.add(outcome)
    group.simulated.add(budget_bytes)


def _outcome(trace: Trace, config: RunConfig) -> Outcome:
    return Outcome.of(simulate(trace, config))


def _result(future: Future[Outcome]) -> Outcome:
    try:
        return future.result()
    except BrokenProcessPool:
        raise SimulationError(
            "a worker process was killed, perhaps for lack of memory; try a smaller -j"
        ) from None


# --- workers ------------------------------------------------------------------------------------

_traces: Sequence[Trace] = ()
# In a worker: the grid's traces, sent once and not with every run.
_problem: DtrdiagError | None = None
# In a worker: why the policy file cannot be used. An error at the start would be told otherwise.


@contextmanager
def _workers(
    jobs: int, traces: Sequence[Trace], policy_file: str | None
) -> Iterator[Callable[..., Future[Outcome]]]:
    # Spawned, not forked: numpy may hold threads, and a fork of those can hang.
    before = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(
        jobs, multiprocessing.get_context("spawn"), _start_worker, (tuple(traces), policy_file)
    )

    def submit(function: Callable[..., Outcome], *arguments: Any) -> Future[Outcome]:
        with _interrupts_ignored():
            return executor.submit(function, *arguments)

    try:
        yield submit
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    executor.shutdown()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Processes started meanwhile ignore Ctrl-C, which goes to all; this one ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _start_worker(traces: Sequence[Trace], policy_file: str | None) -> None:
    global _traces, _problem
    _traces = traces
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if policy_file is not None:
        try:
            load_policy_file(policy_file)
        except DtrdiagError as error:
            _problem = error


def _end_with_parent() -> None:
    """End this process once the one that started it is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _simulate(trace: int, config: RunConfig) -> Outcome:
    if _problem is not None:
        raise _problem
    return _outcome(_traces[trace], config)
