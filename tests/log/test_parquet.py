"""Is a Parquet log read as it was written, and is whatever is wrong with one said in a line?"""

import random
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dtrdiag.errors import DtrdiagError, InputError, LogError, LogTooNewError, UsageError
from dtrdiag.events.conversion import columns_of
from dtrdiag.instrumentation import ParquetWriter
from dtrdiag.log import ParquetReader, open_log, read_columns, read_events
from dtrdiag.log import parquet as reader_module

FOREIGN = Path(__file__).resolve().parents[1] / "data" / "foreign-runtime.jsonl"
EVENTS = read_events(FOREIGN)
END = len(EVENTS) - 1


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "run.parquet"
    with ParquetWriter(path) as writer:
        for event in EVENTS:
            writer(event)
    return path


def rewrite(log, change=None, metadata=None, drop=(), **columns):
    """The log as another program might have written it."""
    table = pq.read_table(log).drop_columns(list(drop))
    rows = table.to_pylist()
    if change is not None:
        rows = change(rows)
    for name, values in columns.items():
        rows = [{**row, name: value} for row, value in zip(rows, values, strict=True)]
    names = [*table.column_names, *(name for name in columns if name not in table.column_names)]
    plain = {
        field.name: field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        for field in table.schema
    }
    made = {}
    for name in names:
        values = [row[name] for row in rows]
        try:
            made[name] = pa.array(values, plain.get(name))
        except pa.ArrowException:
            made[name] = pa.array(values)
    changed = {**table.schema.metadata, **(metadata or {})}
    pq.write_table(pa.table(made).replace_schema_metadata(changed), log)
    return log


def change_row(seq, /, **values):
    return lambda rows: [{**row, **values} if row["seq"] == seq else row for row in rows]


def read(path):
    return list(open_log(path))


def test_a_log_is_read_as_often_as_asked_and_a_batch_at_a_time(log, monkeypatch):
    monkeypatch.setattr(reader_module, "BATCH", 7)
    monkeypatch.setattr(reader_module, "_RECORDS", 3)
    reader = open_log(log)
    for _ in range(2):
        assert list(reader) == EVENTS
        assert (reader.complete, reader.problem, reader.passed_over) == (True, None, 0)
    assert max(len(batch) for batch in reader.batches()) == 7


def test_another_programs_types_serve_if_they_hold_the_same(log):
    """Plain strings for dictionaries, here."""
    assert read(rewrite(log)) == EVENTS


def test_parquet_is_told_by_its_content(log, tmp_path):
    other = log.rename(tmp_path / "run.log")
    assert isinstance(open_log(other), ParquetReader)
    assert read(other) == EVENTS


def test_columns_are_read_by_name(log):
    (batch,) = read_columns(log, ["storage", "cause"])
    assert set(batch.fields) == {"seq", "storage", "cause"}
    assert batch.of("evict", "storage").tolist() == [1, 2]
    assert batch.column("cause").tolist() == ["pressure", "release"]
    (batch,) = read_columns(log, ["outcome", "policy"])
    assert batch.column("outcome").tolist() == ["oom"]
    assert batch.column("policy").tolist() == ["lru"]
    (batch,) = read_columns(log)
    assert set(batch.fields) >= set(columns_of(EVENTS).fields)


def test_columns_that_no_log_has_are_refused(log):
    with pytest.raises(UsageError, match='no column of a log "surprise"; there are '):
        list(read_columns(log, ["surprise"]))
    with pytest.raises(LogError, match="not a Parquet log"):
        list(read_columns(FOREIGN, ["seq"]))


def test_a_log_without_an_end_says_so(log):
    reader = open_log(rewrite(log, lambda rows: rows[:-1]))
    assert list(reader) == EVENTS[:-1]
    assert not reader.complete
    assert reader.problem == "ends after row 39, the event with seq 38, without an end event"


@pytest.mark.parametrize("size", [0, 1, 4, 7, 11, 12, 100, 1000, -9, -8, -4, -1])
def test_a_cut_file_is_refused(log, size):
    content = log.read_bytes()
    log.write_bytes(content[:size])
    with pytest.raises(LogError, match=r"Parquet file.*\(.*run.parquet\)") as caught:
        read(log)
    assert "\n" not in str(caught.value)


def test_what_is_missing_is_an_input_error(tmp_path):
    with pytest.raises(InputError):
        open_log(tmp_path / "gone.parquet")
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(InputError):
        open_log(tmp_path / "folder.parquet")


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_file_is_read_or_refused(log, seed):
    content = bytearray(log.read_bytes())
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 6)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    log.write_bytes(content)
    refused = None
    try:
        read(log)
    except DtrdiagError as error:
        refused = error
    assert refused is None or (refused.path == str(log) and "\n" not in str(refused))


def test_parquet_that_is_no_log_is_refused(tmp_path):
    pq.write_table(pa.table({"event": ["run"]}), tmp_path / "x.parquet")
    with pytest.raises(LogError, match=r"a Parquet file, but not an event log \(.*x.parquet\)"):
        open_log(tmp_path / "x.parquet")
    (tmp_path / "y.parquet").write_text('{"event": "run"}\n')
    with pytest.raises(LogError, match="not a Parquet file, as its name says"):
        open_log(tmp_path / "y.parquet")


def header_json(**changes):
    metadata = orjson.loads(FOREIGN.read_bytes().splitlines()[0])
    return orjson.dumps(metadata | changes)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({b"dtrdiag.schema": b"dtrdiag.log/2.0"}, "dtrdiag.log/2.0 is newer than this reader"),
        ({b"dtrdiag.schema": b"dtrdiag.log/0.9"}, "is older than any"),
        ({b"dtrdiag.schema": b"\xff"}, "field 'schema' must be like"),
        ({b"dtrdiag.run": b"{"}, "the run header is not JSON"),
        ({b"dtrdiag.run": b"[]"}, "an event must be a JSON object"),
        ({b"dtrdiag.run": header_json(seed="x")}, "run: field 'seed' must be an int"),
        ({b"dtrdiag.run": header_json(schema="dtrdiag.log/3.1")}, "3.1 is newer"),
        ({b"dtrdiag.run": header_json(event="lock")}, "lock: field 'cause_seq' is missing"),
    ],
)
def test_a_header_that_cannot_be_used_is_refused(log, metadata, message):
    rewrite(log, metadata=metadata)
    with pytest.raises(LogError, match=message) as caught:
        open_log(log)
    assert caught.value.path == str(log)


def test_other_versions_are_told_by_type(log):
    rewrite(log, metadata={b"dtrdiag.schema": b"dtrdiag.log/2.0"})
    with pytest.raises(LogTooNewError):
        open_log(log)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[1:], "begins with a 'op' event, not with 'run'"),
        (lambda rows: [*rows, {**rows[8], "seq": 40}], "something follows the end event"),
        (change_row(8, event="dance"), "unknown kind of event 'dance'"),
        (change_row(8, event=None), "column 'event' is null somewhere"),
        (change_row(8, locks=None), "lock: field 'locks' must not be null"),
        (change_row(8, seq=None), "must not be null"),
        (change_row(8, cost_ns=5), "column 'cost_ns' has values for events that lack the field"),
        (change_row(9, fits=None), "column 'fits' is null for an event that has the field"),
        (change_row(6, inputs=None), "column 'inputs' is null for an event that has the field"),
        (change_row(22, cause="whim"), "column 'cause' must be one of pressure, release, banish"),
        (change_row(5, reason="remat"), "pin: field 'reason' must be one of constant, output"),
        (change_row(22, score=1.5), "a number is there twice, as a float and as an int"),
        (change_row(22, score=float("nan"), score_int=None), "column 'score' is nan somewhere"),
        (change_row(END, rest="{"), "column 'rest' is not JSON"),
        (change_row(END, rest="[]"), "column 'rest' is not a JSON object"),
        (change_row(END, rest=None), "end: field 'outcome' is missing"),
        (change_row(8, rest='{"locks": 7}'), "lock: extra field 'locks' hides a field"),
        (change_row(8, rest='{"x": ' + "[" * 40 + "]" * 40 + "}"), "nested more than 32 deep"),
    ],
)
def test_rows_that_are_no_events_are_refused(log, change, message):
    rewrite(log, change)
    with pytest.raises(LogError, match=message) as caught:
        read(log)
    assert caught.value.path == str(log)


@pytest.mark.parametrize("name", ["seq", "storage", "score_int", "rest"])
def test_a_log_without_a_column_is_refused(log, name):
    rewrite(log, drop=[name])
    with pytest.raises(LogError, match=f"an event log without the column '{name}'"):
        read(log)


def test_a_column_of_another_type_is_refused(log):
    rewrite(log, locks=["many"] * len(EVENTS))
    with pytest.raises(LogError, match="column 'locks' is of type string, not int64"):
        read(log)


def test_fields_of_a_runtimes_own_are_kept(log):
    mine = [None] * len(EVENTS)
    mine[8] = "gpu:0"
    events = read(rewrite(log, toy_device=mine))
    assert events == [
        event if event.seq != 8 else type(event)(8, 7, 0, 1, 2, extra={"toy_device": "gpu:0"})
        for event in EVENTS
    ]


def newer(log, change):
    metadata = {
        b"dtrdiag.schema": b"dtrdiag.log/1.7",
        b"dtrdiag.run": header_json(schema="dtrdiag.log/1.7"),
    }
    return rewrite(log, change, metadata)


def test_kinds_of_a_newer_minor_version_are_passed_over(log):
    def insert(rows):
        empty = dict.fromkeys(rows[0]) | {"event": "dance", "seq": 8}
        return [*rows[:8], empty, *({**row, "seq": row["seq"] + 1} for row in rows[8:])]

    reader = open_log(newer(log, insert))
    events = list(reader)
    assert [event.kind for event in events] == [event.kind for event in EVENTS]
    assert reader.passed_over == 1
    assert reader.complete


def test_an_unknown_kind_must_count_on(log):
    def insert(rows):
        return [*rows[:8], dict.fromkeys(rows[0]) | {"event": "dance", "seq": 99}, *rows[8:]]

    newer(log, insert)
    with pytest.raises(LogError, match="unknown kind 'dance': field 'seq' does not count on"):
        read(log)
