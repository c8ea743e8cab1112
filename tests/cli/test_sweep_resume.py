"""Sweeps that go on: what a folder of results takes, what it refuses, and who may use it."""

import json
import os
import signal
import subprocess
import sys
import time

import pyarrow.parquet
import pytest

from dtrdiag.experiments import worker
from dtrdiag.simulator import simulate
from dtrdiag.trace import write_dtr_log
from dtrdiag.trace.catalog import resolve

from .test_run import POLICIES

PROGRAM = [sys.executable, "-m", "dtrdiag"]
GRID = ["sweep", "chain-64", "--ratios", "0.1:0.5:0.1", "-j", 1]
KEPT = [*GRID, "-o", "kept"]
RESUME = ["sweep", "--resume", "-o", "kept", "-j", 1]


def decisions(answer):
    """What a sweep found, without what differs from one call to the next."""
    volatile = ("simulate_seconds", "reused_from")
    return [{k: v for k, v in run.items() if k not in volatile} for run in answer.json["runs"]]


def begun(dtrdiag, monkeypatch, *options):
    """A sweep that was interrupted after three runs."""

    def stopping(trace, config, hooks=None):
        if config.ratio == 0.4:
            raise KeyboardInterrupt
        return simulate(trace, config, hooks)

    with monkeypatch.context() as patched:
        patched.setattr(worker, "simulate", stopping)
        assert dtrdiag(*KEPT, *options).status == 130


def part(here):
    (path,) = here.glob("kept/runs/*/*.parquet")
    return path


def test_resume_goes_on_without_another_argument(dtrdiag, answers, monkeypatch):
    begun(dtrdiag, monkeypatch, "-p", "lru", "--dealloc", "ignore", "--overhead-limit", "50")
    resumed = answers(*RESUME, "--json")
    whole = answers(*GRID, "-p", "lru", "--dealloc", "ignore", "--overhead-limit", 50, "--json")
    assert decisions(resumed) == decisions(whole)
    assert [run["reused_from"] is None for run in resumed.json["runs"]] == [False] * 3 + [True] * 2


def test_resume_from_another_folder(answers, here, monkeypatch):
    (here / "mine.py").write_text(POLICIES)
    (here / "chain.log").write_bytes(write_dtr_log(resolve("chain-64")))
    sweep = ["sweep", "chain.log", "--budgets", "4MB,8MB", "--policy-file", "mine.py"]
    first = answers(*sweep, "-o", "kept", "--json", "-j", 1)
    (here / "below").mkdir()
    monkeypatch.chdir(here / "below")
    again = answers("sweep", "--resume", "-o", "../kept", "--json")
    assert decisions(first) == decisions(again)


def test_arguments_that_agree_are_taken(answers):
    answers(*KEPT)
    same = ["chain-64", "-p", "dtr", "--ratios", "0.1,0.20,0.3,0.4,0.5", "--overhead-limit", "10.0"]
    assert "0 of 5 runs" in answers(*RESUME, *same, "--dealloc", "eager", "--seed", "0").out


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (["tree-4"], "TRACE"),
        (["-p", "lru"], "-p"),
        (["-p", "dtr", "-p", "lru"], "-p"),
        (["--ratios", "0.1:0.6:0.1"], "--ratios"),
        (["--budgets", "4MB"], "--budgets"),
        (["--dealloc", "ignore"], "--dealloc"),
        (["--overhead-limit", "11"], "--overhead-limit"),
        (["--overhead-limit", "none"], "--overhead-limit"),
        (["--seed", "1"], "--seed"),
        (["--policy-file", "mine.py", "-p", "dtr"], "--policy-file"),
    ],
)
def test_arguments_that_do_not_agree_are_refused(answers, refuses, here, other, named):
    (here / "mine.py").write_text(POLICIES)
    answers(*KEPT)
    line = refuses(*RESUME, *other)
    assert line.startswith(f"{named} is not what the sweep to resume was begun with")
    assert line.endswith("(kept)")


def test_a_trace_that_changed_is_refused(answers, refuses, here):
    (here / "x.log").write_bytes(write_dtr_log(resolve("chain-64")))
    answers("sweep", "x.log", "--ratios", "0.5", "-o", "kept", "-j", 1)
    (here / "x.log").write_bytes(write_dtr_log(resolve("tree-4")))
    assert "the trace is another than when the sweep began" in refuses(*RESUME)


def test_a_policy_file_that_changed_is_refused(answers, refuses, here):
    (here / "mine.py").write_text(POLICIES)
    answers(*KEPT, "--policy-file", "mine.py")
    (here / "mine.py").write_text(POLICIES + "# other\n")
    assert "the policy file is another than when the sweep began" in refuses(*RESUME)


def test_resume_needs_a_sweep(refuses, here):
    assert refuses("sweep", "--resume") == "--resume needs -o DIR"
    assert refuses(*RESUME) == "no such folder (kept)"
    (here / "kept").mkdir()
    assert refuses(*RESUME) == "there is no sweep to resume (kept)"


def test_resume_with_another_version_is_refused(answers, refuses, monkeypatch):
    answers(*KEPT)
    monkeypatch.setattr("dtrdiag.cli.request.__version__", "99")
    line = refuses(*RESUME)
    assert line.startswith("the sweep was begun by dtrdiag 0.1.0, this is 99: without --resume")


# --- folders that are refused ---


def rewritten(path, **metadata):
    table = pyarrow.parquet.read_table(path)
    found = dict(table.schema.metadata)
    found |= {f"dtrdiag.{name}".encode(): value.encode() for name, value in metadata.items()}
    pyarrow.parquet.write_table(table.replace_schema_metadata(found), path)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-40]), "without its end"),
        (lambda path: path.write_bytes(b""), "truncated or damaged"),
        (lambda path: path.write_bytes(b"notes"), "truncated or damaged"),
        (lambda path: rewritten(path, schema="dtrdiag.results/1"), "another version"),
        (lambda path: rewritten(path, schema="other"), "no results of dtrdiag"),
        (lambda path: rewritten(path, definition='{"semantics": "later"}'), "semantics 'later'"),
    ],
)
def test_a_part_that_is_damaged_or_foreign_is_refused(answers, refuses, here, damage, why):
    answers(*KEPT)
    damage(part(here))
    line = refuses(*KEPT)
    assert why in line
    assert line.endswith(f"({part(here).relative_to(here)})")
    assert why in refuses(*RESUME)


def test_a_part_in_another_place_is_refused(answers, refuses, here):
    answers(*KEPT)
    answers(*KEPT, "-p", "lru")
    one, other = sorted(here.glob("kept/runs/*/*.parquet"))
    one.rename(other.parent / one.name)
    sweep = [*KEPT, "-p", "lru", "-p", "dtr"]
    assert "results of something else than its place says" in refuses(*sweep)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "damaged: no request of a sweep"),
        (b"[" * 100_000, "damaged: no request of a sweep"),
        (b"[]", "damaged: no request of a sweep"),
        (b'{"schema": "dtrdiag.sweep-request/1"}', "damaged: no request of a sweep"),
        (b'{"schema": "dtrdiag.sweep-request/2"}', "results of another version"),
        (b'{"schema": "other/1"}', "not results of sweeps"),
    ],
)
def test_a_request_that_is_damaged_or_foreign_is_refused(answers, refuses, here, content, why):
    answers(*KEPT)
    (here / "kept" / "request.json").write_bytes(content)
    for sweep in (KEPT, RESUME):
        line = refuses(*sweep)
        assert line.startswith(why)
        assert line.endswith("(kept/request.json)")


@pytest.mark.parametrize(
    "change",
    [
        {"traces": []},
        {"traces": "chain-64"},
        {"trace_sha256": []},
        {"policies": [1]},
        {"seed": "x"},
        {"dealloc": 5},
        {"more": 1},
    ],
)
def test_a_request_that_makes_no_sense_is_refused(answers, refuses, here, change):
    answers(*KEPT)
    path = here / "kept" / "request.json"
    document = json.loads(path.read_bytes())
    document["request"].update(change)
    path.write_text(json.dumps(document))
    assert refuses(*RESUME) == "damaged: no request of a sweep (kept/request.json)"


@pytest.mark.parametrize("name", ["notes.json", "chain-64-dtr-0123456789abcdef.sweep.json"])
def test_a_folder_of_something_else_is_refused(refuses, here, name):
    (here / "kept").mkdir()
    (here / "kept" / name).write_text("{}")
    line = "holds something else than results of sweeps: name an empty or a new folder (kept)"
    assert refuses(*KEPT) == line


def test_a_file_where_the_folder_should_be(refuses, here):
    (here / "kept").write_text("mine")
    assert refuses(*KEPT) == "is a file, not a folder (kept)"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no folder that nobody can write to")
def test_a_folder_that_cannot_be_made(refuses):
    line = refuses(*GRID, "-o", "/proc/self/kept")
    assert line.startswith("the folder cannot be made: ")
    assert line.endswith("(/proc/self/kept)")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_folder_that_is_read_only(refuses, answers, here):
    answers(*KEPT)
    for folder in [here / "kept", *here.glob("kept/runs"), *here.glob("kept/runs/*")]:
        folder.chmod(0o555)
    assert "0 of 5 runs" in answers(*RESUME).out
    assert "Permission denied" in refuses(*KEPT, "-p", "lru")


def test_other_files_in_a_folder_of_results_are_left_alone(answers, here):
    answers(*KEPT)
    (here / "kept" / "notes.json").write_text("{")
    answers(*KEPT)
    assert (here / "kept" / "notes.json").read_text() == "{"


# --- what stays ---


def files(here):
    return sorted(path.name for path in (here / "kept").rglob("*") if path.is_file())


def test_one_part_stays_for_each_definition_and_nothing_temporary(answers, here):
    answers("sweep", "chain-64", "--ratios", "0.1:0.5:0.1", "-j", 2, "-o", "kept")
    answers("sweep", "chain-64", "--ratios", "0.1:0.5:0.05", "-j", 2, "-o", "kept")
    assert files(here) == [".lock", part(here).name, "request.json"]
    assert len(pyarrow.parquet.read_table(part(here))) == 9


def test_what_killed_writers_left_is_ignored_and_removed(answers, here):
    answers(*KEPT)
    for folder in (here / "kept", part(here).parent):
        (folder / ".part-1.parquet.abc.dtrdiag-tmp").write_bytes(b"PAR1")
    assert "0 of 5 runs" in answers(*KEPT).out
    assert files(here) == [".lock", part(here).name, "request.json"]


def test_all_results_can_be_read_as_one_table(answers, here):
    answers(*KEPT, "-p", "dtr", "-p", "lru")
    table = pyarrow.parquet.read_table(here / "kept" / "runs")
    assert len(table) == 10
    assert set(table.column("policy").to_pylist()) == {"dtr", "lru"}


@pytest.mark.skipif(os.name == "nt", reason="signals differ")
def test_sigterm_keeps_results_and_ends_the_workers(here):
    sweep = ["sweep", "recurrent-16", "--ratios", "0.3:0.9:0.0005", "-j", "2", "-o", "kept"]
    sweep += ["--engine", "python"]  # the other one may be done before it is told to end
    process = subprocess.Popen([*PROGRAM, *sweep], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for _ in range(1200):
        if list(here.glob("kept/runs/*/*.parquet")) or process.poll() is not None:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    # The pipes are the workers' too: they end when the last of them does.
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (143, b"", b"dtrdiag: terminated\n")
    assert list(here.glob("kept/runs/*/*.parquet"))


def test_two_processes_on_one_folder(answers, here):
    sweep = ["sweep", "chain-64", "-o", "kept", "--ratios"]
    grids = [["0.1:0.5:0.01", "-j", "2"], ["0.3:0.7:0.01", "-j", "1"]]
    both = [subprocess.Popen([*PROGRAM, *sweep, *grid], stdout=subprocess.PIPE) for grid in grids]
    for process in both:
        process.communicate(timeout=240)
        assert process.returncode == 0
    together = ["sweep", "chain-64", "--ratios", "0.1:0.7:0.01", "-j", 1, "--json"]
    kept = answers(*together, "-o", "kept")
    assert all(run["reused_from"] is not None for run in kept.json["runs"])
    assert decisions(kept) == decisions(answers(*together))
    assert files(here) == [".lock", part(here).name, "request.json"]
