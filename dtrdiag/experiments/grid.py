"""How is a grid of runs computed: by workers that may die, and no run twice?

A run at one budget is, decision for decision, the run at every budget of its interval [lo, hi). So
a result answers all points of the grid in its interval, and results of earlier sweeps do too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait

import attrs

from dtrdiag import __version__
from dtrdiag.errors import ExecutorError
from dtrdiag.experiments.executors import Workers
from dtrdiag.experiments.outcomes import Outcome, Outcomes
from dtrdiag.experiments.policyfile import PolicyFile
from dtrdiag.experiments.rows import Definition
from dtrdiag.experiments.worker import Supplies, Task, perform
from dtrdiag.simulator import RunConfig
from dtrdiag.trace import Trace

MAX_ATTEMPTS = 3
"""A run over which that many workers were lost is given up."""
CHECK_SECONDS = 0.5
"""How often workers are asked whether they are still there."""


@attrs.define(eq=False)
class Group:
    """The runs of a grid that differ in their budget alone.

    Attributes:
        trace: what is run.
        rules: the run, apart from budget and ratio.
        definition: what results of the group stand for.
        policy_file: the file that defines the policy, if one does.
        points: budgets in bytes, with the ratio that chose each one, if any.
        outcomes: what is known; `compute` adds to it.
        simulated: budgets that `compute` simulated.
    """

    trace: Trace
    rules: RunConfig
    definition: Definition
    policy_file: PolicyFile | None
    points: list[tuple[int, float | None]] = attrs.field(factory=list)
    outcomes: Outcomes = attrs.field(factory=Outcomes)
    simulated: set[int] = attrs.field(factory=set)

    def missing(self) -> int:
        """How many points have no outcome yet."""
        return sum(self.outcomes.find(budget) is None for budget, _ in self.points)


Tell = Callable[[Group, Outcome | None], None]
"""Called after each point that is done: with its group, and its outcome if it was simulated."""


def compute(groups: Sequence[Group], workers: Workers, tell: Tell) -> None:
    """Simulate until every point of every group has an outcome.

    A run whose worker was lost is repeated, alone, so that it is known which run it was if that
    happens again.

    Raises:
        ExecutorError: a run lost its worker `MAX_ATTEMPTS` times, or there are no workers any more.
        DtrdiagError: of the first run that fails. What was computed until then is in the groups.
    """
    _Computation(groups, workers, tell).run()


@attrs.define(eq=False)
class _Run:
    group: Group
    budget_bytes: int
    ratio: float | None
    attempts: int = 0
    supplied: bool = False

    def task(self) -> Task:
        rules = attrs.evolve(self.group.rules, budget_bytes=self.budget_bytes, ratio=self.ratio)
        file = self.group.policy_file
        digest = None if file is None else file.sha256
        return Task(self.group.trace.sha256, digest, rules, self.attempts)

    def supplies(self) -> Supplies | None:
        return Supplies(self.group.trace, self.group.policy_file) if self.supplied else None


class _Computation:
    def __init__(self, groups: Sequence[Group], workers: Workers, tell: Tell) -> None:
        self._waiting = deque(_Run(group, *point) for group in groups for point in group.points)
        self._alone: deque[_Run] = deque()
        self._running: dict[Future[Outcome | None], _Run] = {}
        self._workers = workers
        self._tell = tell

    def run(self) -> None:
        while self._waiting or self._alone or self._running:
            broken = not self._fill()
            done = wait(self._running, CHECK_SECONDS, FIRST_COMPLETED).done
            self._workers.check()
            for future in done:
                broken |= not self._finish(future)
            if broken:
                # None of the others will be answered either.
                for future in wait(self._running).done:
                    self._finish(future)
                self._workers.restart()

    def _fill(self) -> bool:
        """Submit what may run now; whether the executor took it."""
        if self._alone:
            return bool(self._running) or self._submit(self._alone.popleft())
        if any(run.attempts for run in self._running.values()):
            return True
        while self._waiting and len(self._running) < self._workers.in_flight:
            run = self._waiting.popleft()
            if run.group.outcomes.find(run.budget_bytes) is not None:
                self._tell(run.group, None)
            elif not self._submit(run):
                return False
        return True

    def _submit(self, run: _Run) -> bool:
        try:
            future = self._workers.submit(perform, run.task(), run.supplies())
        except BrokenExecutor:
            self._lost(run)
            return False
        self._running[future] = run
        return True

    def _finish(self, future: Future[Outcome | None]) -> bool:
        """Take up what became of a run; False: the executor broke."""
        run = self._running.pop(future)
        try:
            outcome = future.result()
        except BrokenExecutor:
            self._lost(run)
            return False
        except (Exception, CancelledError) as error:
            self._failed(run, error)
            return True
        if outcome is None:
            run.supplied = True
            (self._alone if run.attempts else self._waiting).appendleft(run)
            return True
        if outcome.header.runtime_version != __version__:
            found = outcome.header.runtime_version
            raise ExecutorError(f"a worker has dtrdiag {found}, and this is {__version__}")
        run.group.outcomes.add(outcome)
        run.group.simulated.add(run.budget_bytes)
        self._tell(run.group, outcome)
        return True

    def _failed(self, run: _Run, error: BaseException) -> None:
        # By name, because dask need not be installed.
        if isinstance(error, CancelledError) or type(error).__name__ == "KilledWorker":
            self._lost(run)
            return
        if isinstance(error, ImportError):
            raise ExecutorError(f"a worker cannot load dtrdiag: {error}") from error
        raise error

    def _lost(self, run: _Run) -> None:
        run.attempts += 1
        run.supplied = False
        if run.attempts >= MAX_ATTEMPTS:
            trace, policy = run.group.trace.name, run.group.rules.policy
            raise ExecutorError(
                f"{MAX_ATTEMPTS} workers were lost over the run of {trace} under {policy} at "
                f"{run.budget_bytes} bytes, perhaps for lack of memory; try fewer at a time (-j)"
            )
        self._alone.append(run)
