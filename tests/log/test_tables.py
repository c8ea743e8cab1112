"""Is a log the same as a table: each event in its row, each field in its column?"""

# mypy: no-check-untyped-defs

import sys
from pathlib import Path

import attrs
import numpy as np
import pytest

from dtrdiag.analyses.map_table import COLUMNS, map_columns
from dtrdiag.cli.sources import record
from dtrdiag.errors import AnalysisError, LogError, UsageError
from dtrdiag.events import encode
from dtrdiag.events.columns import column_name
from dtrdiag.events.parquet import STORED, arrow_schema, load_pyarrow
from dtrdiag.log import open_log, tables
from dtrdiag.simulator import RunConfig
from dtrdiag.trace.catalog import resolve

pa, parquet = load_pyarrow()


@pytest.fixture(scope="module", params=["jsonl", "parquet"])
def log(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / f"run.{request.param}"
    record(resolve("recurrent-16"), RunConfig("dtr", 38_000_000, candidates=2), path)
    return open_log(path)


def cells(event):
    """The cells of an event's row that are not null, apart from `rest`."""
    fields = encode(event)
    found = {"event": fields.pop("event")}
    for name, value in fields.items():
        column = column_name(event.kind, name)
        if column not in STORED or value is None:
            continue
        if column == "score" and isinstance(value, int):
            column = "score_int"
        if column == "evict_candidates":
            value = [row(storage, score) for storage, score in value]
        found[column] = list(value) if isinstance(value, tuple) else value
    return found


def row(storage, score):
    whole = isinstance(score, int)
    return {
        "storage": storage,
        "score": None if whole else float(score),
        "score_int": score if whole else None,
    }


def test_a_row_is_an_event(log):
    table = log.to_arrow()
    assert table.schema.equals(arrow_schema(pa))
    table.validate(full=True)
    for found, event in zip(table.to_pylist(), log, strict=True):
        found.pop("rest")
        present = {name: value for name, value in found.items() if value is not None}
        wanted = cells(event)
        for name in ("score",):
            if name in wanted:
                wanted[name] = float(wanted[name])
        assert present == wanted
    assert log.complete


def test_columns_are_those_asked_for_in_that_order(log):
    whole = log.to_arrow()
    part = log.to_arrow(["clock_ns", "event", "cause", "defined"])
    assert part.column_names == ["clock_ns", "event", "cause", "defined"]
    for name in part.column_names:
        assert part.column(name).to_pylist() == whole.column(name).to_pylist()


def test_both_forms_of_a_log_give_the_same_table(tmp_path):
    made = []
    for suffix in ("jsonl", "parquet"):
        record(resolve("chain-64"), RunConfig("dtr", 8_000_000), tmp_path / f"x.{suffix}")
        made.append(open_log(tmp_path / f"x.{suffix}").to_arrow().to_pylist())
    assert made[0] == made[1] == parquet.read_table(tmp_path / "x.parquet").to_pylist()


def test_batches_share_one_dictionary(log, monkeypatch):
    whole = log.to_arrow(["name", "event"])
    monkeypatch.setattr(tables, "_HELD_EVENTS", 70)
    monkeypatch.setattr("dtrdiag.log.parquet.BATCH", 70)
    pieces = log.to_arrow(["name", "event"])
    assert pieces.column("name").num_chunks > 10
    assert pieces.column("name").to_pylist() == whole.column("name").to_pylist()
    dictionaries = {tuple(c.dictionary.to_pylist()) for c in pieces.column("name").chunks}
    assert len(dictionaries) == 1


def test_a_frame_keeps_whole_numbers_whole(log):
    frame = log.to_pandas(["event", "seq", "op", "fits", "score", "memory_bytes", "cause"])
    events = list(log)
    assert len(frame) == len(events)
    assert frame.dtypes.astype(str).to_dict() == {
        "event": "category",
        "seq": "Int64",
        "op": "Int64",
        "fits": "boolean",
        "score": "float64",
        "memory_bytes": "Int64",
        "cause": "category",
    }
    evicted = frame[frame.event == "evict"]
    assert evicted.groupby("cause", observed=True).size().to_dict() == {
        "pressure": events[-1].evictions_pressure,
        "release": events[-1].evictions_release,
    }
    assert frame[frame.event == "rematerialise"].memory_bytes.max() <= 38_000_000


def test_an_unknown_column_is_refused(log):
    with pytest.raises(UsageError, match='no column of a log "memory"; did you mean memory_bytes'):
        log.to_arrow(["memory"])


@pytest.mark.parametrize(("module", "extra"), [("pandas", "frames"), ("pyarrow", "parquet")])
def test_what_is_not_installed_is_named(log, monkeypatch, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=rf"dtrdiag\[{extra}\]"):
        log.to_pandas(["seq"])


def test_a_log_that_was_cut_is_a_table_up_to_the_cut(log, tmp_path):
    if log.path.endswith(".parquet"):
        pytest.skip("a Parquet log is whole or cannot be read")
    lines = Path(log.path).read_bytes().splitlines(keepends=True)
    (tmp_path / "cut.jsonl").write_bytes(b"".join(lines[:40]))
    cut = open_log(tmp_path / "cut.jsonl")
    assert cut.to_arrow().num_rows == 40
    assert not cut.complete


def test_what_no_column_holds_is_refused(log, tmp_path):
    if log.path.endswith(".parquet"):
        pytest.skip("it could not have been written")
    lines = Path(log.path).read_bytes().splitlines(keepends=True)
    huge = lines[1].replace(b'"cost_ns":0', b'"cost_ns":' + str(1 << 70).encode())
    assert huge != lines[1]
    (tmp_path / "huge.jsonl").write_bytes(b"".join([lines[0], huge]))
    with pytest.raises(LogError, match="cost_ns"):
        open_log(tmp_path / "huge.jsonl").to_arrow()


@pytest.fixture(scope="module")
def budget_map(map_between):
    return map_between("chain-64", 7_000_000, 8_000_000)


def test_a_map_is_a_row_per_interval(budget_map):
    table = budget_map.to_arrow()
    assert tuple(table.column_names) == COLUMNS
    assert table.to_pydict() == map_columns(budget_map)
    frame = budget_map.to_pandas()
    assert frame.lo_bytes.tolist() == [run.interval_lo_bytes for run in budget_map.runs]
    assert np.allclose(frame.overhead, [budget_map.overhead(run) for run in budget_map.runs])


def test_an_interval_without_an_end_has_none(budget_map):
    last = attrs.evolve(budget_map.runs[-1], interval_hi_bytes=None)
    open_ended = attrs.evolve(budget_map, runs=(*budget_map.runs[:-1], last))
    assert open_ended.to_pandas().hi_bytes.isna().tolist()[-2:] == [False, True]


def test_a_map_with_huge_numbers_is_refused(budget_map):
    last = attrs.evolve(budget_map.runs[-1], remat_cost_ns=1 << 70)
    with pytest.raises(AnalysisError, match="64 bits"):
        attrs.evolve(budget_map, runs=(*budget_map.runs[:-1], last)).to_arrow()
