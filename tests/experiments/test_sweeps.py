import os
import signal
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor

import attrs
import pytest

from dtrdiag.errors import ExecutorError, PolicyError, UsageError
from dtrdiag.experiments import sweep, worker
from dtrdiag.experiments.executors import Here, Processes, Workers
from dtrdiag.experiments.policyfile import PolicyFile, forget_policy_files
from dtrdiag.experiments.worker import Supplies, Task, perform
from dtrdiag.simulator import RunConfig
from dtrdiag.trace.catalog import resolve

from .conftest import BUDGETS, digests

MINE = """
import os, signal
from dtrdiag.simulator import Pool, Quotient, policy

@policy("mine")
def mine(pool: Pool) -> Quotient:
    {first}
    return Quotient(pool.compute_ns, (pool.size_bytes, pool.staleness_ns, pool.staleness_ns))
"""


@pytest.fixture(autouse=True)
def nothing_loaded():
    """Workers that are threads of this process begin empty, and leave nothing."""
    forget_policy_files()
    worker._traces.clear()
    yield
    forget_policy_files()
    worker._traces.clear()


def policy_file(folder, first="pass"):
    path = folder / "mine.py"
    path.write_text(MINE.format(first=first))
    return PolicyFile.read(str(path))


def test_the_runs_of_a_grid_come_in_its_order(grid, expected):
    runs = sweep(grid, jobs=1)
    assert digests(runs) == expected
    assert [(r.header.policy, r.header.budget_bytes) for r in runs] == [
        (config.policy, config.budget_bytes) for _, config in grid
    ]


def test_any_executor_will_do_and_stays_open(grid, expected):
    with ThreadPoolExecutor(3) as threads:
        assert digests(sweep(grid, executor=threads)) == expected
        assert threads.submit(int, "7").result() == 7


def test_a_run_without_a_budget_is_refused(grid):
    with pytest.raises(UsageError, match="needs a budget"):
        sweep([(grid[0][0], RunConfig("dtr"))])


def test_every_run_that_is_done_is_told(grid):
    told = []
    sweep([*grid, *grid], jobs=1, tell=lambda: told.append(1))
    assert len(told) == 2 * len(grid)


def test_points_may_come_in_any_order_and_twice(grid, expected):
    mixed = [*reversed(grid), *grid]
    assert digests(sweep(mixed, jobs=1)) == [*reversed(expected), *expected]


def test_nothing_is_started_for_what_is_known(grid, tmp_path, expected):
    def forbidden():
        raise AssertionError("nothing is missing")

    sweep(grid, jobs=1, folder=tmp_path / "kept")
    again = sweep(grid, executor=forbidden, folder=tmp_path / "kept")
    assert digests(again) == expected
    assert all(run.reused_from is not None for run in again)


def test_what_failed_before_is_kept(grid, tmp_path):
    bad = [*grid[:3], (grid[0][0], RunConfig("nope", 5)), *grid[3:]]
    with pytest.raises(PolicyError, match="no policy"):
        sweep(bad, jobs=1, folder=tmp_path / "kept")
    kept = sweep(grid, jobs=1, folder=tmp_path / "kept")
    assert any(run.reused_from is not None for run in kept)


# --- workers and what they are supplied with ---


def task(grid, **changes):
    trace, config = grid[0]
    return attrs.evolve(Task(trace.sha256, None, config), **changes)


def test_a_worker_asks_for_a_trace_once(grid, expected):
    assert perform(task(grid)) is None
    assert perform(task(grid), Supplies(grid[0][0], None)).end.decisions_sha256 == expected[0]
    assert perform(task(grid)).end.decisions_sha256 == expected[0]


def test_a_worker_asks_for_another_policy_file(grid, tmp_path):
    trace, config = grid[0]
    mine = attrs.evolve(config, policy="mine")
    one, other = policy_file(tmp_path), policy_file(tmp_path, "pool = pool")
    assert perform(Task(trace.sha256, one.sha256, mine), Supplies(trace, one)) is not None
    assert perform(Task(trace.sha256, one.sha256, mine)) is not None
    assert perform(Task(trace.sha256, other.sha256, mine)) is None
    assert perform(Task(trace.sha256, other.sha256, mine), Supplies(trace, other)) is not None
    assert other.is_loaded()
    assert not one.is_loaded()


def test_a_worker_keeps_the_traces_used_last(grid, monkeypatch):
    monkeypatch.setattr(worker, "MAX_TRACES", 2)
    traces = [grid[0][0], resolve("tree-4"), resolve("residual-12")]
    tasks = [Task(trace.sha256, None, RunConfig("dtr", 1)) for trace in traces]
    for one, trace in zip(tasks, traces, strict=True):
        assert perform(one, Supplies(trace, None)) is not None
    assert [perform(one) is None for one in tasks] == [True, False, False]


def test_policy_files_reach_threads(grid, tmp_path):
    file = policy_file(tmp_path)
    runs = [(grid[0][0], RunConfig("mine", budget)) for budget in BUDGETS]
    with ThreadPoolExecutor(2) as threads:
        found = sweep(runs, executor=threads, policy_file=file)
    assert digests(found) == digests(sweep(runs, jobs=1, policy_file=file))


def test_results_of_another_version_are_not_taken(grid, monkeypatch):
    monkeypatch.setattr("dtrdiag.experiments.grid.__version__", "99")
    with pytest.raises(ExecutorError, match=r"a worker has dtrdiag 0\.1\.0, and this is 99"):
        sweep(grid, jobs=1)


# --- workers that are lost ---


@pytest.mark.skipif(os.name == "nt", reason="signals differ")
def test_a_worker_that_is_killed_is_replaced_and_its_run_repeated(grid, tmp_path):
    mark = tmp_path / "killed-once"
    first = f"""if not os.path.exists({str(mark)!r}):
        open({str(mark)!r}, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)"""
    runs = [(grid[0][0], RunConfig("mine", budget)) for budget in BUDGETS]
    found = sweep(runs, jobs=2, policy_file=policy_file(tmp_path, first))
    assert mark.exists()
    assert digests(found) == digests(sweep(runs, jobs=1, policy_file=policy_file(tmp_path)))


@pytest.mark.skipif(os.name == "nt", reason="signals differ")
def test_a_run_that_kills_every_worker_is_named(grid, tmp_path):
    kill = "os.kill(os.getpid(), signal.SIGKILL)"
    runs = [(grid[0][0], RunConfig("mine", budget)) for budget in BUDGETS[:2]]
    with pytest.raises(ExecutorError) as caught:
        sweep(
            [*grid, *runs],
            jobs=2,
            policy_file=policy_file(tmp_path, kill),
            folder=tmp_path / "kept",
        )
    what = str(caught.value)
    assert what.startswith("3 workers were lost over the run of chain-64 under mine at ")
    assert what.endswith(f"the results so far are kept in {tmp_path / 'kept'}")


class Losing(Executor):
    """Answers in this process, except that it loses some calls as a cluster may.

    Args:
        errors: what becomes of the first calls; None: they are answered.
    """

    def __init__(self, errors):
        self.errors = list(errors)
        self.attempts = []

    def submit(self, function, *arguments):
        self.attempts.append(arguments[0].attempt)
        future = Future()
        error = self.errors.pop(0) if self.errors else None
        if error is None:
            future.set_result(function(*arguments))
        elif error == "cancelled":
            future.cancel()
            future.set_running_or_notify_cancel()
        else:
            future.set_exception(error)
        return future


class KilledWorker(Exception):  # noqa: N818 - what dask calls it
    """Stands for the error of that name in dask."""


@pytest.mark.parametrize("error", [KilledWorker("x"), "cancelled"])
def test_calls_that_a_cluster_lost_are_repeated(grid, expected, error):
    executor = Losing([None, None, error, error])
    assert digests(sweep(grid, executor=executor, jobs=1)) == expected
    assert max(executor.attempts) == 2


def test_but_not_for_ever(grid):
    with pytest.raises(ExecutorError, match="3 workers were lost over the run of chain-64"):
        sweep(grid, executor=Losing([KilledWorker("x")] * 9), jobs=1)


def test_an_executor_of_somebody_else_that_broke_is_told(grid):
    with pytest.raises(ExecutorError, match="the executor broke"):
        sweep(grid, executor=Losing([None, None, BrokenExecutor("x")]), jobs=1)


def test_a_worker_without_dtrdiag_is_told(grid):
    with pytest.raises(ExecutorError, match="a worker cannot load dtrdiag: No module"):
        sweep(grid, executor=Losing([ModuleNotFoundError("No module named 'dtrdiag'")]), jobs=1)


class Restarting(Workers):
    """Breaks when it is told to, and begins again."""

    def __init__(self, errors):
        super().__init__(Losing(errors), 3)
        self.restarts = 0

    def restart(self):
        self.restarts += 1


def test_an_executor_that_breaks_while_a_call_is_handed_over(grid, expected):
    class Refusing(Restarting):
        def submit(self, function, *arguments):
            if len(self.executor.attempts) == 4 and not self.restarts:
                raise BrokenExecutor
            return super().submit(function, *arguments)

    workers = Refusing([])
    assert digests(sweep(grid, executor=lambda: workers)) == expected
    assert workers.restarts == 1


def test_one_that_breaks_loses_all_calls_under_way(grid, expected):
    workers = Restarting([None, None, None, *[BrokenExecutor("x")] * 3])
    assert digests(sweep(grid, executor=lambda: workers)) == expected
    assert workers.restarts >= 1


def test_workers_are_ended_whatever_happens(grid):
    class Watched(Here):
        closed = None

        def close(self, aborted):
            self.closed = aborted

    workers = Watched()
    sweep(grid, executor=lambda: workers)
    assert workers.closed is False
    workers = Watched()
    with pytest.raises(PolicyError):
        sweep([(grid[0][0], RunConfig("nope", 5))], executor=lambda: workers)
    assert workers.closed is True


@pytest.mark.skipif(os.name == "nt", reason="signals differ")
def test_processes_are_gone_after_an_error():
    with pytest.raises(KeyError), Processes(2) as workers:  # noqa: PT012
        process = workers.submit(os.getpid).result()
        raise KeyError
    deadline = 200
    while deadline:
        try:
            os.waitpid(process, os.WNOHANG)
            os.kill(process, 0)
        except (ChildProcessError, ProcessLookupError):
            break
        deadline -= 1
        signal.sigtimedwait([], 0.05)
    assert deadline
