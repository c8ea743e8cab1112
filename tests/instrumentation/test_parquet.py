"""Is a Parquet log whole or not there at all, whichever way its events came?"""

import os
import subprocess
import sys
from pathlib import Path

import attrs
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtrdiag.errors import LogError, OutputError, UsageError
from dtrdiag.events import EVENT_TYPES, encode
from dtrdiag.events.columns import EventColumns, Ints, Texts
from dtrdiag.events.conversion import columns_of
from dtrdiag.instrumentation import JsonlWriter, ParquetWriter, log_writer, parquet
from dtrdiag.log import open_log, read_events

ROOT = Path(__file__).resolve().parents[2]
EVENTS = read_events(ROOT / "tests" / "data" / "foreign-runtime.jsonl")


def write(path, events=EVENTS, **options):
    with ParquetWriter(path, **options) as writer:
        for event in events:
            writer(event)
    return path.read_bytes()


def write_batches(path, batches, **options):
    with ParquetWriter(path, **options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return path.read_bytes()


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def small_groups(monkeypatch):
    monkeypatch.setattr(parquet, "ROW_GROUP", 8)
    monkeypatch.setattr(parquet, "_HELD_EVENTS", 5)


def test_what_is_written_is_read_back(tmp_path):
    write(tmp_path / "run.parquet")
    log = open_log(tmp_path / "run.parquet")
    assert log.header == EVENTS[0]
    assert list(log) == EVENTS
    assert log.complete
    assert log.problem is None
    assert names_in(tmp_path) == ["run.parquet"]


@pytest.mark.usefixtures("small_groups")
def test_row_groups_are_bounded(tmp_path):
    write(tmp_path / "run.parquet")
    file = pq.ParquetFile(tmp_path / "run.parquet")
    rows = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert rows == [8, 8, 8, 8, 8]


@pytest.mark.usefixtures("small_groups")
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_both_doors_write_the_same_bytes(tmp_path, data, event_lists):
    events = data.draw(event_lists)
    whole = columns_of(events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=3)))
    ends = zip([0, *cuts], [*cuts, len(events)], strict=True)
    batches = [whole.slice(start, stop) for start, stop in ends]
    by_event = write(tmp_path / "a.parquet", events, force=True)
    assert write_batches(tmp_path / "b.parquet", batches, force=True) == by_event


def test_both_doors_may_be_used_in_turn(tmp_path):
    whole = columns_of(EVENTS)
    with ParquetWriter(tmp_path / "mixed.parquet") as writer:
        writer(EVENTS[0])
        writer.write_batch(whole.slice(1, 20))
        for event in EVENTS[20:]:
            writer(event)
    assert (tmp_path / "mixed.parquet").read_bytes() == write(tmp_path / "run.parquet")


def test_the_order_of_an_engines_words_does_not_show(tmp_path):
    whole = columns_of(EVENTS)
    names = whole.column("name")
    last = len(names.words) - 1
    turned = Texts(np.array(last - names.codes, np.int32), (*names.words[::-1], "unused"))
    other = EventColumns(whole.kind, {**whole.fields, "name": turned}, whole.extra)
    assert write_batches(tmp_path / "a.parquet", [other]) == write(tmp_path / "b.parquet")


def test_the_file_says_what_it_is(tmp_path):
    write(tmp_path / "run.parquet")
    metadata = pq.read_schema(tmp_path / "run.parquet").metadata
    assert metadata[b"dtrdiag.schema"] == b"dtrdiag.log/1.1"
    assert b'"runtime":"toy-runtime"' in metadata[b"dtrdiag.run"]
    table = pq.read_table(tmp_path / "run.parquet")
    assert table["event"].to_pylist() == [event.kind for event in EVENTS]
    assert table["seq"].to_pylist() == list(range(len(EVENTS)))
    assert table["score_int"].to_pylist()[22] == 11
    assert table["score"].to_pylist()[22] is None


def test_an_existing_file_is_kept_without_force(tmp_path):
    path = tmp_path / "run.parquet"
    path.write_text("precious")
    with pytest.raises(OutputError, match=r"exists already; --force replaces it \(.*run.parquet\)"):
        ParquetWriter(path)
    assert path.read_text() == "precious"
    path.chmod(0o640)
    write(path, force=True)
    assert read_events(path) == EVENTS
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.parquet").write_text("old")
    link = tmp_path / "link.parquet"
    link.symlink_to("real.parquet")
    write(link, force=True)
    assert link.is_symlink()
    assert read_events(tmp_path / "real.parquet") == EVENTS


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing/run.parquet", "the folder does not exist"),
        (".", "is a directory"),
        ("file/run.parquet", "cannot be created: Not a directory"),
        ("nul\0.parquet", "cannot be created: embedded null"),
    ],
)
@pytest.mark.parametrize("force", [False, True])
def test_a_place_where_no_file_can_be_is_refused(tmp_path, name, message, force):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=message):
        ParquetWriter(f"{tmp_path}/{name}", force=force)
    assert names_in(tmp_path) == ["file"]


def test_two_writers_do_not_share_a_file(tmp_path):
    path = tmp_path / "run.parquet"
    with ParquetWriter(path) as writer:
        with pytest.raises(OutputError, match="is being written by another program"):
            ParquetWriter(path)
        for event in EVENTS:
            writer(event)
    assert read_events(path) == EVENTS


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path):
    path = tmp_path / "run.parquet"
    writer = ParquetWriter(path)
    path.write_text("precious")
    with pytest.raises(OutputError, match="exists already"):
        writer.close()
    assert path.read_text() == "precious"
    assert names_in(tmp_path) == ["run.parquet"]


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("room_bytes", [0, 4, 3000, 9000])
def test_a_full_disk_is_one_error_and_leaves_what_was_there(tmp_path, monkeypatch, room_bytes):
    path = tmp_path / "run.parquet"
    path.write_text("precious")
    written = 0

    def write_within(self, data):
        nonlocal written
        written += len(data)
        if written > room_bytes:
            raise OSError(28, "No space left on device")
        return len(data)

    monkeypatch.setattr(parquet._Sink, "write", write_within)

    def run():
        with ParquetWriter(path, force=True) as writer:
            for event in EVENTS:
                writer(event)

    with pytest.raises(OutputError, match=r"cannot be written: No space left .*run.parquet\)"):
        run()
    assert path.read_text() == "precious"
    assert names_in(tmp_path) == ["run.parquet"]


def test_after_an_exception_a_new_log_reads_up_to_the_last_event(tmp_path):
    def breaks_down(path, events, **options):
        with ParquetWriter(path, **options) as writer:
            for event in events:
                writer(event)
            raise ZeroDivisionError

    path = tmp_path / "run.parquet"
    with pytest.raises(ZeroDivisionError):
        breaks_down(path, EVENTS[:20])
    log = open_log(path)
    assert list(log) == EVENTS[:20]
    assert not log.complete
    assert "seq 19" in (log.problem or "")
    with pytest.raises(ZeroDivisionError):
        breaks_down(path, EVENTS[:10], force=True)
    assert read_events(path) == EVENTS[:20]
    with pytest.raises(ZeroDivisionError):
        breaks_down(tmp_path / "other.parquet", EVENTS[:1])
    assert names_in(tmp_path) == ["run.parquet"]


def test_a_killed_program_leaves_a_partial_file_that_the_next_one_replaces(tmp_path):
    path = tmp_path / "run.parquet"
    code = f"""
import os, signal
from dtrdiag.instrumentation import ParquetWriter
from dtrdiag.log import read_events
writer = ParquetWriter({str(path)!r})
for event in read_events({str(ROOT / "tests" / "data" / "foreign-runtime.jsonl")!r}):
    writer(event)
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    assert names_in(tmp_path) == ["run.parquet.partial"]
    write(path)
    assert names_in(tmp_path) == ["run.parquet"]
    assert read_events(path) == EVENTS


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"locks": 1.5}, OutputError, "1.5 is no integer"),
        ({"extra": {"x": object()}}, OutputError, "has no JSON form"),
    ],
)
def test_an_event_that_no_column_can_hold_is_refused(tmp_path, change, error, message):
    wrong = attrs.evolve(next(e for e in EVENTS if e.kind == "lock"), **change)
    with pytest.raises(error, match=message):
        write(tmp_path / "run.parquet", [*EVENTS[:5], wrong])
    assert names_in(tmp_path) == []


def test_nan_is_refused(tmp_path):
    evict = next(event for event in EVENTS if event.kind == "evict")
    with pytest.raises(LogError, match="is nan somewhere"):
        write(tmp_path / "run.parquet", [attrs.evolve(evict, score=float("nan"))])
    assert names_in(tmp_path) == []


def test_a_batch_that_fits_no_events_is_refused_and_the_log_goes_on(tmp_path):
    whole = columns_of(EVENTS)
    broken = EventColumns(whole.kind, {**whole.fields, "locks": Ints(np.array([1]))})
    with ParquetWriter(tmp_path / "run.parquet") as writer:
        with pytest.raises(LogError, match="column 'locks' has 1 entries"):
            writer.write_batch(broken)
        writer.write_batch(whole)
    assert read_events(tmp_path / "run.parquet") == EVENTS


def test_a_closed_log_takes_no_more_and_closes_again(tmp_path):
    writer = ParquetWriter(tmp_path / "run.parquet")
    writer(EVENTS[0])
    writer.close()
    writer.close()
    with pytest.raises(OutputError, match="the log is closed"):
        writer(EVENTS[1])
    with pytest.raises(OutputError, match="the log is closed"):
        writer.write_batch(columns_of(EVENTS[1:]))


def test_the_name_chooses_the_writer(tmp_path):
    with log_writer(tmp_path / "a.parquet") as a, log_writer(tmp_path / "b.jsonl") as b:
        assert isinstance(a, ParquetWriter)
        assert isinstance(b, JsonlWriter)


def test_without_pyarrow_all_but_parquet_works(tmp_path):
    code = f"""
import sys
sys.modules["pyarrow"] = None
import dtrdiag.cli, dtrdiag.analyses, dtrdiag.instrumentation, dtrdiag.log
from dtrdiag.cli import main
assert main(["run", "chain-64", "-r", "0.5", "-o", {str(tmp_path / "x.jsonl")!r}]) == 0
sys.exit(main(["run", "chain-64", "-r", "0.5", "-o", {str(tmp_path / "x.parquet")!r}]))
"""
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "dtrdiag: error: a log as Parquet needs pyarrow: pip install 'dtrdiag[parquet]'\n"
    )
    assert names_in(tmp_path) == ["x.jsonl"]


def test_pyarrow_is_asked_for_by_name(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match="pip install 'dtrdiag\\[parquet\\]'"):
        ParquetWriter(tmp_path / "run.parquet")
    assert names_in(tmp_path) == []


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_json_lines_to_parquet_and_back_loses_nothing(tmp_path, data, event_of):
    body = st.sampled_from([kind for kind in EVENT_TYPES if kind not in ("run", "end")])
    middle = st.lists(body.flatmap(event_of.get), max_size=20)
    events = [data.draw(event_of["run"]), *data.draw(middle), data.draw(event_of["end"])]
    with JsonlWriter(tmp_path / "a.jsonl", force=True) as writer:
        for event in events:
            writer(event)
    write(tmp_path / "a.parquet", open_log(tmp_path / "a.jsonl"), force=True)
    back = read_events(tmp_path / "a.parquet")
    # As text, which tells 1 from 1.0.
    assert [repr(encode(event)) for event in back] == [repr(encode(event)) for event in events]
    with JsonlWriter(tmp_path / "b.jsonl", force=True) as writer:
        for event in back:
            writer(event)
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
