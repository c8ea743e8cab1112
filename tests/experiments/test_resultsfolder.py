import contextlib
import errno
import os
import subprocess
import threading

import attrs
import pytest

from dtrdiag.errors import InputError, OutputError
from dtrdiag.experiments import atomic, resultsfolder, sweep
from dtrdiag.experiments.outcomes import Outcome
from dtrdiag.experiments.resultsfolder import MAX_PARTS, ResultsFolder
from dtrdiag.experiments.rows import definition_of, key_of
from dtrdiag.experiments.saving import Saver
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace.catalog import resolve

RULES = RunConfig("dtr")


@pytest.fixture(scope="module")
def definition():
    return definition_of(resolve("chain-64"), RULES)


@pytest.fixture(scope="module")
def outcomes():
    """Forty outcomes, of different intervals."""
    trace = resolve("chain-64")
    first = Outcome.of(simulate(trace, attrs.evolve(RULES, budget_bytes=8_000_000)))
    return [
        attrs.evolve(
            first,
            header=attrs.evolve(first.header, budget_bytes=low),
            end=attrs.evolve(first.end, interval_lo_bytes=low, interval_hi_bytes=low + 1),
        )
        for low in range(1, 41)
    ]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "kept"


def parts(path):
    return sorted(path.glob("runs/*/*"))


def kept(path, definition):
    return list(ResultsFolder(path).outcomes(definition))


def test_what_is_added_is_there_at_once_and_for_others(path, definition, outcomes):
    folder = ResultsFolder(path)
    with folder.begin():
        for count, outcome in enumerate(outcomes[:3], start=1):
            folder.add(definition, [outcome])
            assert kept(path, definition) == outcomes[:count]
            assert len(parts(path)) == count
    assert len(parts(path)) == 1
    assert kept(path, definition) == outcomes[:3]


def test_many_parts_are_put_together_on_the_way(path, definition, outcomes):
    folder = ResultsFolder(path)
    with folder.begin():
        for outcome in outcomes:
            folder.add(definition, [outcome])
            assert len(parts(path)) <= MAX_PARTS
        assert kept(path, definition) == outcomes
    assert kept(path, definition) == outcomes


def test_two_at_once_lose_nothing(path, definition, outcomes):
    one, other = ResultsFolder(path), ResultsFolder(path)
    with one.begin():
        with other.begin():
            for at in range(0, 40, 2):
                one.add(definition, [outcomes[at]])
                other.add(definition, [outcomes[at + 1]])
        # The other has ended, but did not have the folder for itself: all parts are there.
        assert len(parts(path)) > 2
        assert kept(path, definition) == outcomes
    assert len(parts(path)) == 1
    assert kept(path, definition) == outcomes


def test_a_reader_finds_what_is_put_together_meanwhile(path, definition, outcomes, monkeypatch):
    writer = ResultsFolder(path)
    with writer.begin():
        for outcome in outcomes[: MAX_PARTS - 1]:
            writer.add(definition, [outcome])
        read = resultsfolder._read

        def late(part, wanted):
            # The first file is opened only after all were replaced.
            monkeypatch.setattr(resultsfolder, "_read", read)
            writer.add(definition, [outcomes[MAX_PARTS - 1]])
            return read(part, wanted)

        monkeypatch.setattr(resultsfolder, "_read", late)
        assert kept(path, definition) == outcomes[:MAX_PARTS]


@pytest.mark.parametrize("step", ["written", "some removed"])
def test_a_kill_while_parts_are_put_together_loses_nothing(
    path, definition, outcomes, monkeypatch, step
):
    class KilledError(BaseException):
        pass

    def killed(old):
        if step == "some removed":
            next(iter(old)).unlink()
        raise KilledError

    folder = ResultsFolder(path)
    monkeypatch.setattr(resultsfolder, "_remove", killed)
    with pytest.raises(KilledError), folder.begin():  # noqa: PT012
        for outcome in outcomes[:5]:
            monkeypatch.setattr(resultsfolder, "_remove", lambda old: None)
            folder.add(definition, [outcome])
        monkeypatch.setattr(resultsfolder, "_remove", killed)
    monkeypatch.undo()
    assert len(parts(path)) > 1
    assert kept(path, definition) == outcomes[:5]
    folder = ResultsFolder(path)
    assert list(folder.outcomes(definition)) == outcomes[:5]
    with folder.begin():
        pass
    assert len(parts(path)) == 1
    assert kept(path, definition) == outcomes[:5]


def test_without_locks_nothing_of_others_is_removed(path, definition, outcomes, monkeypatch):
    monkeypatch.setattr(resultsfolder, "fcntl", None)
    for outcome in outcomes[:3]:
        folder = ResultsFolder(path)
        with folder.begin():
            folder.add(definition, [outcome])
    assert len(parts(path)) == 3
    assert kept(path, definition) == outcomes[:3]


def test_a_folder_that_another_process_has_locked(path, monkeypatch):
    monkeypatch.setattr(resultsfolder, "LOCK_SECONDS", 0.1)
    one, other = ResultsFolder(path), ResultsFolder(path)
    with one.begin():
        assert one._try_lock("LOCK_EX")
        with pytest.raises(OutputError, match="another process has locked the folder"):
            other.begin().__enter__()


def test_unfinished_files_of_those_at_work_stay(path):
    one, other = ResultsFolder(path), ResultsFolder(path)
    with one.begin():
        unfinished = path / f".part-1.abc{atomic.TEMPORARY}"
        unfinished.write_bytes(b"PAR1")
        with other.begin():
            pass
        assert unfinished.exists()
    with one.begin():
        pass
    assert not unfinished.exists()


def test_a_part_that_is_damaged_is_named_and_stays(path, definition, outcomes):
    folder = ResultsFolder(path)
    with folder.begin():
        folder.add(definition, outcomes)
    (part,) = parts(path)
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.raises(InputError, match="without its end"):
        kept(path, definition)
    assert parts(path) == [part]


# --- a disk that is full ---


def test_a_full_disk_ends_a_sweep_and_leaves_what_was_kept(grid, path, monkeypatch):
    sweep(grid[:2], jobs=1, folder=path)
    before = {part: part.read_bytes() for part in path.rglob("*") if part.is_file()}

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(OutputError, match="cannot be written: No space left on device"):
        sweep(grid, jobs=1, folder=path)
    monkeypatch.undo()
    assert {part: part.read_bytes() for part in path.rglob("*") if part.is_file()} == before
    again = sweep(grid, jobs=1, folder=path)
    assert [run.reused_from is None for run in again] == [False] * 2 + [True] * 8


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 512 KiB, where one may be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_fills_up(grid, small_disk, expected):
    kept = small_disk / "kept"
    sweep(grid[:2], jobs=1, folder=kept)
    ballast = small_disk / "ballast"
    with open(ballast, "wb", buffering=0) as stream, contextlib.suppress(OSError):
        while True:
            stream.write(b"x" * 4096)
    with pytest.raises(OutputError, match="No space left on device"):
        sweep(grid, jobs=1, folder=kept)
    ballast.unlink()
    again = sweep(grid, jobs=1, folder=kept)
    assert [run.end.decisions_sha256 for run in again] == expected
    assert [run.reused_from is None for run in again][:2] == [False, False]


# --- saving on the way ---


def test_results_are_saved_while_the_next_run_takes_long(path, definition, outcomes, monkeypatch):
    saved = threading.Event()
    folder = ResultsFolder(path)
    add = folder.add

    def told(*arguments):
        add(*arguments)
        saved.set()

    monkeypatch.setattr(folder, "add", told)
    with folder.begin(), Saver(folder) as saver:
        saver.add(definition, outcomes[0])
        assert saved.wait(60)
        assert kept(path, definition) == outcomes[:1]


def test_what_cannot_be_saved_is_told_with_the_next_result(path, definition, outcomes, monkeypatch):
    folder = ResultsFolder(path)
    failed = threading.Event()

    def full(*arguments):
        failed.set()
        raise OutputError("full")

    monkeypatch.setattr(folder, "add", full)
    with pytest.raises(OutputError, match="full"), folder.begin(), Saver(folder) as saver:  # noqa: PT012
        saver.add(definition, outcomes[0])
        assert failed.wait(60)
        saver._thread.join()
        saver.add(definition, outcomes[1])


def test_the_folder_of_a_key_is_its_name(path, definition, outcomes):
    folder = ResultsFolder(path)
    with folder.begin():
        folder.add(definition, outcomes)
    assert parts(path)[0].parent.name == key_of(definition)
