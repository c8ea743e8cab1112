"""Does a log on disk hold every event, whatever happens while it is written?"""

import os
import subprocess
import sys
from io import FileIO
from pathlib import Path

import numpy as np
import orjson
import pytest

from dtrdiag.errors import LogError, OutputError
from dtrdiag.events import EVENT_TYPES, encode
from dtrdiag.instrumentation import EventRecorder, JsonlWriter
from dtrdiag.log import open_log, read_events

ROOT = Path(__file__).resolve().parents[2]
FOREIGN = ROOT / "tests" / "data" / "foreign-runtime.jsonl"
EVENTS = read_events(FOREIGN)
NAMES = ["run.jsonl", "run.jsonl.gz", "run.jsonl.zst"]


def write(path, events=EVENTS, **options):
    with JsonlWriter(path, **options) as writer:
        for event in events:
            writer(event)
    return path.read_bytes()


def failing(events):
    """The events, then an exception, as of a run that breaks down."""
    yield from events
    raise ZeroDivisionError


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_read_back(tmp_path, name):
    write(tmp_path / name)
    log = open_log(tmp_path / name)
    assert list(log) == EVENTS
    assert log.complete


@pytest.mark.parametrize("name", NAMES)
def test_the_same_events_give_the_same_bytes_under_any_name(tmp_path, name):
    assert write(tmp_path / name) == write(tmp_path / f"other-{name}")


def test_one_json_object_a_line_with_its_kind_in_front(tmp_path):
    lines = write(tmp_path / "run.jsonl").splitlines(keepends=True)
    assert len(lines) == len(EVENTS)
    for line, event in zip(lines, EVENTS, strict=True):
        assert line.startswith(f'{{"event":"{event.kind}","seq":{event.seq},'.encode())
        assert line.endswith(b"}\n")


def test_an_existing_file_is_kept_without_force(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text("precious")
    with pytest.raises(OutputError, match=r"exists already; --force replaces it \(.*run.jsonl\)"):
        JsonlWriter(path)
    assert path.read_text() == "precious"
    write(path, force=True)
    assert read_events(path) == EVENTS


def test_force_keeps_a_file_that_cannot_be_opened_for_writing(tmp_path, monkeypatch):
    path = tmp_path / "run.jsonl"
    path.write_text("precious")

    def refuse(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("dtrdiag.instrumentation.jsonl.FileIO", refuse)
    with pytest.raises(OutputError, match=r"cannot be created: Permission denied \(.*run.jsonl\)"):
        JsonlWriter(path, force=True)
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing/run.jsonl", "the folder does not exist"),
        (".", "is a directory"),
        ("file/run.jsonl", "cannot be created: Not a directory"),
        ("nul\0.jsonl", "cannot be created: embedded null"),
    ],
)
@pytest.mark.parametrize("force", [False, True])
def test_a_place_where_no_file_can_be_is_refused(tmp_path, name, message, force):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=message) as caught:
        JsonlWriter(f"{tmp_path}/{name}", force=force)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("repeats", [1, 2000])
def test_a_full_disk_is_one_error_and_the_writer_closes_quietly_after_it(repeats):
    writer = JsonlWriter("/dev/full", force=True)

    def write_and_close():
        for event in EVENTS * repeats:
            writer(event)
        writer.close()

    with pytest.raises(OutputError, match=r"cannot be written: No space left .*\(/dev/full\)"):
        write_and_close()
    writer.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_is_told_at_the_first_event():
    with pytest.raises(OutputError, match="No space left on device"):
        write(Path("/dev/full"), EVENTS[:1], force=True)


def test_what_stopped_the_run_is_not_hidden_by_a_disk_that_is_full_by_then(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    def breaks_down():
        with JsonlWriter(tmp_path / "run.jsonl") as writer:
            for event in EVENTS[:5]:
                writer(event)
            monkeypatch.setattr(writer._file, "_write_all", full)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        breaks_down()


@pytest.mark.parametrize("name", NAMES)
def test_after_an_exception_the_log_reads_up_to_the_last_event(tmp_path, name):
    with pytest.raises(ZeroDivisionError):
        write(tmp_path / name, failing(EVENTS[:20]))
    log = open_log(tmp_path / name)
    assert list(log) == EVENTS[:20]
    assert not log.complete
    assert "seq 19" in (log.problem or "")


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_program_leaves_what_it_wrote_but_for_one_block(tmp_path, name):
    path = tmp_path / name
    code = f"""
import os, sys
from dtrdiag.instrumentation import JsonlWriter
from dtrdiag.log import read_events
writer = JsonlWriter({str(path)!r})
events = read_events({str(FOREIGN)!r})
for event in [events[0]] + events[1:-1] * 100:
    writer(event)
os._exit(9)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert done.returncode == 9
    log = open_log(path)
    read = list(log)
    assert not log.complete
    written = [EVENTS[0], *EVENTS[1:-1] * 100]
    assert read == written[: len(read)]
    lost = sum(len(orjson.dumps(encode(event))) + 1 for event in written[len(read) :])
    assert lost <= 65536


@pytest.mark.parametrize("seed", ["1", "2"])
def test_another_process_with_another_hash_seed_writes_the_same_bytes(tmp_path, seed):
    expected = write(tmp_path / "here.jsonl.zst")
    path = tmp_path / "there.jsonl.zst"
    code = f"""
from dtrdiag.instrumentation import JsonlWriter
from dtrdiag.log import open_log
with JsonlWriter({str(path)!r}) as writer:
    for event in open_log({str(FOREIGN)!r}):
        writer(event)
"""
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, env=environment)
    assert path.read_bytes() == expected


def test_closing_again_is_nothing_and_writing_then_is_refused(tmp_path):
    writer = JsonlWriter(tmp_path / "run.jsonl")
    writer(EVENTS[0])
    writer.close()
    content = (tmp_path / "run.jsonl").read_bytes()
    writer.close()
    with pytest.raises(OutputError, match="the log is closed"):
        writer(EVENTS[1])
    assert (tmp_path / "run.jsonl").read_bytes() == content


@pytest.mark.parametrize("value", [np.int64(3), 2**64, object()])
def test_a_value_without_a_json_form_is_refused_and_leaves_no_half_line(tmp_path, value):
    path = tmp_path / "run.jsonl"
    with JsonlWriter(path) as writer:
        writer(EVENTS[0])
        with pytest.raises(OutputError, match=r"event 7 \(lock\) has no JSON form"):
            writer(EVENT_TYPES["lock"](7, 6, value, 4, 1))
        writer(EVENTS[1])
    assert read_events(path) == EVENTS[:2]


def test_nan_is_refused(tmp_path):
    bad = EVENT_TYPES["evict"](9, 8, 3, 64, "pressure", 4, float("nan"), 2, (), 128, 31)
    with JsonlWriter(tmp_path / "run.jsonl") as writer, pytest.raises(LogError, match="is nan"):
        writer(bad)


def test_processors_may_add_fields_which_stay_when_the_log_is_rewritten(tmp_path):
    def stamp(logger, name, event_dict):
        event_dict["toy_node"] = 4
        return event_dict

    write(tmp_path / "a.jsonl", processors=[stamp])
    events = read_events(tmp_path / "a.jsonl")
    assert [event.extra.pop("toy_node") for event in events] == [4] * len(EVENTS)
    assert events == EVENTS
    line = (tmp_path / "a.jsonl").read_bytes().splitlines()[1]
    assert list(orjson.loads(line))[-1] == "toy_node"


def test_a_recorder_keeps_events_in_order():
    recorder = EventRecorder()
    for event in EVENTS:
        recorder(event)
    assert list(recorder) == recorder.events == EVENTS
    assert len(recorder) == len(EVENTS)


def test_the_bare_name_is_refused():
    done = subprocess.run(
        [sys.executable, "-c", "import instrumentation"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "ImportError: import dtrdiag.instrumentation, not instrumentation" in done.stderr


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("events", [0, 1, 20])
def test_a_log_that_fails_to_replace_another_leaves_it(tmp_path, name, events):
    old = write(tmp_path / name)
    with pytest.raises(ZeroDivisionError):
        write(tmp_path / name, failing(EVENTS[:events]), force=True)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == old


@pytest.mark.parametrize("events", [0, 1])
@pytest.mark.parametrize("force", [False, True])
def test_a_log_with_nothing_beyond_its_header_is_not_kept_after_an_error(tmp_path, events, force):
    with pytest.raises(ZeroDivisionError):
        write(tmp_path / "run.jsonl", failing(EVENTS[:events]), force=force)
    assert list(tmp_path.iterdir()) == []


def test_a_replaced_log_keeps_its_permissions_and_the_link_to_it(tmp_path):
    path, link = tmp_path / "run.jsonl", tmp_path / "link.jsonl"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write(link, force=True)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert read_events(path) == EVENTS
    assert len(list(tmp_path.iterdir())) == 2


class Full(FileIO):
    """A file on a disk that is full."""

    def write(self, data):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("old", [None, b"old"])
def test_on_a_full_disk_nothing_is_left_but_what_was_there(tmp_path, monkeypatch, old):
    path = tmp_path / "run.jsonl"
    if old is not None:
        path.write_bytes(old)
    monkeypatch.setattr("dtrdiag.instrumentation.jsonl.FileIO", Full)
    with pytest.raises(OutputError, match=r"cannot be written: No space left .*run.jsonl\)"):
        write(path, force=old is not None)
    assert [kept.read_bytes() for kept in tmp_path.iterdir()] == [old] * (old is not None)


@pytest.mark.parametrize("name", NAMES)
def test_the_header_reaches_the_file_before_the_first_block_is_full(tmp_path, name):
    with JsonlWriter(tmp_path / name) as writer:
        for event in EVENTS[:5]:
            writer(event)
        # What a crash at this moment would leave.
        left = tmp_path / f"left-{name}"
        left.write_bytes((tmp_path / name).read_bytes())
    log = open_log(left)
    assert list(log) == EVENTS[:1]
    assert not log.complete
