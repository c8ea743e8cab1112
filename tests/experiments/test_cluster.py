import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from dtrdiag.errors import ExecutorError, UsageError
from dtrdiag.experiments import sweep
from dtrdiag.experiments.cluster import DaskWorkers, check_address

from .conftest import digests

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-m", "dtrdiag"]

pytestmark = pytest.mark.filterwarnings("default")  # a cluster's own are not ours to mend


@pytest.fixture(scope="module")
def cluster():
    """A scheduler and two workers, all in this process."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        yield cluster


def test_a_sweep_on_a_cluster_finds_what_one_process_finds(grid, expected, cluster, tmp_path):
    def workers():
        return DaskWorkers(cluster.scheduler_address)

    assert digests(sweep(grid, executor=workers, folder=tmp_path / "kept")) == expected
    assert digests(sweep(grid, folder=tmp_path / "kept")) == expected


def test_the_executor_of_a_client_will_do(grid, expected, cluster):
    from distributed import Client

    with Client(cluster, set_as_default=False) as client:
        assert digests(sweep(grid, executor=client.get_executor(), jobs=4)) == expected


@pytest.mark.parametrize("address", ["nonsense://x", "127.0.0.1:abc", "tcp://", "a b", ""])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(UsageError, match="--dask needs 'local' or a scheduler's address"):
        check_address(address)


def test_where_no_scheduler_answers(monkeypatch):
    monkeypatch.setattr("dtrdiag.experiments.cluster.CONNECT_SECONDS", 0.5)
    with pytest.raises(
        ExecutorError, match=r"the dask cluster at tcp://127.0.0.1:1 cannot be reac"
    ):
        DaskWorkers("tcp://127.0.0.1:1")


def test_a_cluster_that_has_no_workers(monkeypatch):
    from distributed import LocalCluster

    monkeypatch.setattr("dtrdiag.experiments.cluster.WORKERS_SECONDS", 0.5)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as empty,
        pytest.raises(ExecutorError, match="has no workers"),
    ):
        DaskWorkers(empty.scheduler_address)


def test_a_scheduler_that_is_gone_is_told(grid, tmp_path):
    from distributed import LocalCluster

    cluster = LocalCluster(n_workers=1, processes=False, dashboard_address=":0")
    told = []

    def tell():
        told.append(1)
        if len(told) == 3:
            cluster.close()

    with pytest.raises(ExecutorError) as caught:
        sweep(
            grid,
            executor=lambda: DaskWorkers(cluster.scheduler_address),
            folder=tmp_path / "kept",
            tell=tell,
        )
    assert "was lost: its scheduler is gone; the results so far are kept in" in str(caught.value)
    kept = sweep(grid, jobs=1, folder=tmp_path / "kept")
    assert sum(run.reused_from is not None for run in kept) >= 3


def test_without_dask_one_line_says_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UsageError, match=r"pip install 'dtrdiag\[dask\]'"):
        check_address("local")


def test_a_local_cluster_from_the_command_line(tmp_path):
    command = [*PROGRAM, "sweep", "chain-64", "--ratios", "0.2,0.5", "--json"]
    local = [*command, "--dask", "local", "-j", "1", "-o", str(tmp_path / "kept")]
    done = subprocess.run(local, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    alone = subprocess.run([*command, "-j", "1"], capture_output=True, text=True, check=True)
    found, wanted = (
        [run["decisions_sha256"] for run in json.loads(text)["runs"]]
        for text in (done.stdout, alone.stdout)
    )
    assert found == wanted


def test_the_command_line_refuses_what_it_cannot_use(tmp_path):
    for options, why in (
        (["--dask", "nonsense://x"], "--dask needs 'local' or a scheduler's address"),
        (["--dask", "127.0.0.1:1", "-j", "2"], "-j does not apply to a cluster that runs already"),
    ):
        command = [*PROGRAM, "sweep", "chain-64", "--ratios", "0.5", *options, "-o", "kept"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith(f"dtrdiag: error: {why}")
        assert done.stderr.count("\n") == 1
        assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_kills_at_random_moments_change_nothing():
    script = [sys.executable, "benchmarks/kill_sweep.py", "--kills", "12", "--seed", "3"]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "passed: 12 kills" in done.stdout
