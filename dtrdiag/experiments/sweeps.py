"""What became of each run of a grid, computed by any executor and kept in a folder?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from typing import Any

import attrs

from dtrdiag.errors import ExecutorError, UsageError
from dtrdiag.events.records import End, RunHeader
from dtrdiag.experiments.executors import Here, Processes, Workers, default_jobs
from dtrdiag.experiments.grid import Group, compute
from dtrdiag.experiments.outcomes import Outcome
from dtrdiag.experiments.policyfile import PolicyFile
from dtrdiag.experiments.resultsfolder import ResultsFolder
from dtrdiag.experiments.rows import definition_of
from dtrdiag.experiments.saving import Saver
from dtrdiag.simulator import RunConfig
from dtrdiag.trace import Trace


@attrs.frozen
class SweepRun:
    """One point of a grid, and what became of it.

    Attributes:
        header: as in a log of the run itself: its budget and ratio are the point's.
        end: how the run ended.
        engine: which engine decided.
        simulate_seconds: time of the simulation that gave the result.
        reused_from: budget in bytes of the run that stands for this one, since both are in its
            interval; None: it was simulated now.
    """

    header: RunHeader
    end: End
    engine: str
    simulate_seconds: float
    reused_from: int | None


def sweep(
    runs: Iterable[tuple[Trace, RunConfig]],
    *,
    executor: Executor | Callable[[], Workers] | None = None,
    jobs: int | None = None,
    folder: str | os.PathLike[str] | ResultsFolder | None = None,
    policy_file: PolicyFile | None = None,
    request: Mapping[str, Any] | None = None,
    tell: Callable[[], None] | None = None,
) -> list[SweepRun]:
    """Make runs, each at its budget, and none twice.

    Args:
        runs: traces and rules; every budget must be given. Policies other than dtrdiag's own must
            come from `policy_file`, unless the executor's workers are threads of this process.
        executor: any executor of `concurrent.futures`, which stays open; or what makes `Workers`,
            called only if there is something to simulate. By default `jobs` processes.
        jobs: how many runs at a time; by default what the executor can, or one a CPU. 1 without an
            executor: no other process.
        folder: results are kept there within a second, and those that are there are used.
        policy_file: loaded in every worker.
        request: noted in the folder, see `ResultsFolder.begin`.
        tell: called after each run that is done.

    Returns:
        One result for each of `runs`, in their order.

    Raises:
        UsageError: a run has no budget, or an extra that is needed is not installed.
        ExecutorError: workers were lost for good.
        OutputError: results cannot be kept; those kept before are intact.
        InputError: the folder holds something else, or a damaged file.
        DtrdiagError: of the first run that fails. Results that had come are kept.
    """
    points = list(runs)
    groups = _groups(points, policy_file)
    with ExitStack() as stack:
        keep = stack.enter_context(_kept(folder, groups.values(), request))

        def told(group: Group, outcome: Outcome | None) -> None:
            if outcome is not None:
                keep(group, outcome)
            if tell is not None:
                tell()

        missing = sum(group.missing() for group in groups.values())
        workers = stack.enter_context(_workers(executor, jobs, missing))
        compute(list(groups.values()), workers, told)
    return [_result(groups[_identity(trace, config)], config) for trace, config in points]


def _groups(
    points: Sequence[tuple[Trace, RunConfig]], policy_file: PolicyFile | None
) -> dict[tuple[str, RunConfig], Group]:
    groups: dict[tuple[str, RunConfig], Group] = {}
    for trace, config in points:
        if config.budget_bytes is None:
            raise UsageError("a run of a sweep needs a budget")
        identity = _identity(trace, config)
        group = groups.get(identity)
        if group is None:
            digest = None if policy_file is None else policy_file.sha256
            definition = definition_of(trace, config, digest)
            rules = attrs.evolve(identity[1], engine=config.engine, peak_bytes=config.peak_bytes)
            group = groups[identity] = Group(trace, rules, definition, policy_file)
        group.points.append((config.budget_bytes, config.ratio))
    return groups


def _identity(trace: Trace, config: RunConfig) -> tuple[str, RunConfig]:
    """What tells groups apart: all but the budget, and what is noted alone."""
    rules = attrs.evolve(config, budget_bytes=None, ratio=None, peak_bytes=None, candidates=0)
    return trace.sha256, rules


@contextmanager
def _kept(
    folder: str | os.PathLike[str] | ResultsFolder | None,
    groups: Iterable[Group],
    request: Mapping[str, Any] | None,
) -> Iterator[Callable[[Group, Outcome], None]]:
    if folder is None:
        yield lambda group, outcome: None
        return
    place = folder if isinstance(folder, ResultsFolder) else ResultsFolder(folder)
    # Read before anything is written: what cannot be used is left as it is.
    for group in groups:
        group.outcomes = place.outcomes(group.definition)
    with place.begin(request):
        try:
            with Saver(place) as saver:
                yield lambda group, outcome: saver.add(group.definition, outcome)
        except ExecutorError as error:
            what = f"{error.what}; the results so far are kept in {place.path}"
            raise ExecutorError(what) from error


def _workers(
    executor: Executor | Callable[[], Workers] | None, jobs: int | None, missing: int
) -> Workers:
    if not missing:
        return Here()
    if isinstance(executor, Executor):
        return Workers(executor, jobs)
    if executor is not None:
        return executor()
    jobs = min(jobs or default_jobs(), missing)
    return Here() if jobs == 1 else Processes(jobs)


def _result(group: Group, config: RunConfig) -> SweepRun:
    budget_bytes = config.budget_bytes or 0
    outcome = group.outcomes.find(budget_bytes)
    if outcome is None:
        raise ExecutorError(f"the run at {budget_bytes} bytes was not made")
    header = attrs.evolve(
        outcome.header,
        trace_name=group.trace.name,
        budget_bytes=budget_bytes,
        ratio=config.ratio,
        peak_bytes=config.peak_bytes,
    )
    simulated = budget_bytes in group.simulated
    reused = None if simulated else outcome.header.budget_bytes
    return SweepRun(header, outcome.end, outcome.engine, outcome.simulate_seconds, reused)
