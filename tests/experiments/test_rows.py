import errno
import importlib
import json
import os

import attrs
import pyarrow
import pyarrow.parquet
import pytest

from dtrdiag.errors import InputError, OutputError, UsageError
from dtrdiag.experiments import atomic
from dtrdiag.experiments.outcomes import Outcome
from dtrdiag.experiments.rows import (
    RESULTS_SCHEMA,
    definition_of,
    key_of,
    read_metadata,
    read_rows,
    write_rows,
)
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace.catalog import resolve

RULES = RunConfig("dtr", overhead_limit=10)


@pytest.fixture(scope="module")
def trace():
    return resolve("chain-64")


@pytest.fixture(scope="module")
def outcomes(trace):
    budgets = (1, 3_000_000, 4_000_000, 8_000_000, None)
    return [
        Outcome.of(simulate(trace, attrs.evolve(RULES, budget_bytes=budget, ratio=0.5)))
        for budget in budgets
    ]


@pytest.fixture
def path(tmp_path, trace, outcomes):
    """A file of results."""
    write_rows(tmp_path / "x.parquet", definition_of(trace, RULES), outcomes, {"note": [1, None]})
    return tmp_path / "x.parquet"


def test_what_is_written_is_what_is_read(path, trace, outcomes):
    rows = read_rows(path)
    assert list(rows.outcomes) == outcomes
    assert {outcome.end.outcome for outcome in rows.outcomes} == {"oom", "ok"}
    assert rows.definition == definition_of(trace, RULES)
    assert rows.extra == {"note": [1, None]}
    assert read_metadata(path) == (rows.definition, rows.extra)
    assert [type(row.header.overhead_limit) for row in rows.outcomes] == [int] * len(outcomes)


def test_other_programs_read_it_as_a_table(path, outcomes):
    table = pyarrow.parquet.read_table(path)
    assert table.column("decisions_sha256").to_pylist() == [
        o.end.decisions_sha256 for o in outcomes
    ]
    assert table.column("interval_hi_bytes").to_pylist()[-1] is None
    assert table.column("overhead").to_pylist()[-1] == 1.0
    assert table.schema.metadata[b"dtrdiag.schema"] == RESULTS_SCHEMA.encode()


def test_no_rows_are_a_file_too(tmp_path, trace):
    write_rows(tmp_path / "x.parquet", definition_of(trace, RULES), [])
    assert read_rows(tmp_path / "x.parquet").outcomes == ()


@pytest.mark.parametrize(
    "other",
    [
        {"policy": "lru"},
        {"dealloc": "ignore"},
        {"overhead_limit": 10.5},
        {"overhead_limit": None},
        {"seed": 1},
    ],
)
def test_the_key_depends_on_what_decisions_depend_on(trace, other):
    key = key_of(definition_of(trace, RULES))
    assert key_of(definition_of(trace, attrs.evolve(RULES, **other))) != key


@pytest.mark.parametrize(
    "other",
    [
        {"engine": "python"},
        {"budget_bytes": 5},
        {"ratio": 0.5},
        {"peak_bytes": 7},
        {"overhead_limit": 10.0},
    ],
)
def test_and_on_nothing_else(trace, other):
    key = key_of(definition_of(trace, RULES))
    assert key_of(definition_of(trace, attrs.evolve(RULES, **other))) == key


def test_the_key_depends_on_trace_policy_file_and_version(trace, monkeypatch):
    keys = {
        key_of(definition_of(trace, RULES)),
        key_of(definition_of(resolve("tree-4"), RULES)),
        key_of(definition_of(trace, RULES, "ab" * 32)),
    }
    monkeypatch.setattr("dtrdiag.experiments.rows.__version__", "99")
    keys.add(key_of(definition_of(trace, RULES)))
    assert len(keys) == 4


def test_every_truncation_is_refused(path):
    content = path.read_bytes()
    for size in [*range(0, len(content), 97), len(content) - 1]:
        path.write_bytes(content[:size])
        why = "a Parquet file without its end: cut" if size >= 4 else "not Parquet, or truncated"
        with pytest.raises(InputError, match=why) as caught:
            read_rows(path)
        assert caught.value.path == str(path)
        assert "\n" not in str(caught.value)


def test_damaged_bytes_are_refused_or_harmless(path, outcomes):
    content = path.read_bytes()
    for at in range(4, len(content), 61):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
        try:
            assert list(read_rows(path).outcomes) == outcomes
        except InputError:
            continue


def _rewritten(path, edit=lambda table: table, **metadata):
    table = edit(pyarrow.parquet.read_table(path))
    found = dict(table.schema.metadata)
    found |= {f"dtrdiag.{name}".encode(): value.encode() for name, value in metadata.items()}
    pyarrow.parquet.write_table(table.replace_schema_metadata(found), path)


def _with(name, value):
    def edit(table):
        at = table.schema.get_field_index(name)
        field = table.schema.field(at)
        return table.set_column(at, field, pyarrow.array([value] * len(table), field.type))

    return edit


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"schema": "dtrdiag.results/1"}, "another version, 'dtrdiag.results/1'"),
        ({"schema": "other"}, "no results of dtrdiag"),
        ({"definition": "["}, "its metadata is damaged"),
        ({"definition": "[" * 100_000}, "its metadata is damaged"),
        ({"definition": "[]"}, "its metadata is damaged"),
        ({"definition": '{"semantics": "later"}'}, "semantics 'later', where simrd, repaired"),
        ({"definition": '{"semantics": "simrd"}'}, "another trace_sha256 than the definition"),
        ({"extra": "7"}, "its metadata is damaged"),
        ({"edit": _with("policy", "lru")}, "another policy than the definition"),
        ({"edit": _with("outcome", "lost")}, "unknown outcome"),
        ({"edit": _with("remats", -1)}, "a negative count"),
        ({"edit": _with("budget_bytes", 2)}, "the budget of a run is not in its interval"),
        ({"edit": lambda table: table.drop_columns(["remats"])}, "other columns"),
    ],
)
def test_what_is_foreign_or_changed_is_refused(path, change, why):
    _rewritten(path, **change)
    with pytest.raises(InputError) as caught:
        read_rows(path)
    assert why in str(caught.value)
    assert str(caught.value).endswith(f"({path})")


def test_parquet_of_something_else_is_refused(tmp_path):
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="no results of dtrdiag"):
        read_rows(tmp_path / "x.parquet")
    with pytest.raises(InputError, match="no results of dtrdiag"):
        read_metadata(tmp_path / "x.parquet")


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_rows(tmp_path / "gone.parquet")
    with pytest.raises(InputError, match="is a directory"):
        read_rows(tmp_path)


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(path, trace, outcomes, monkeypatch, call):
    before = path.read_bytes()

    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    class Full:
        def __init__(self, handle):
            self.handle = handle

        def __enter__(self):
            return self

        def __exit__(self, *_):
            os.close(self.handle)

        write = full

    if call == "write":
        monkeypatch.setattr(atomic.os, "fdopen", lambda handle, mode: Full(handle))
    else:
        monkeypatch.setattr(atomic.os, call, full)
    with pytest.raises(OutputError, match="No space left on device") as caught:
        write_rows(path, definition_of(trace, RULES), outcomes[:1])
    assert caught.value.path == str(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_told(tmp_path, trace, outcomes):
    with pytest.raises(OutputError, match="cannot be written: No such file"):
        write_rows(tmp_path / "gone" / "x.parquet", definition_of(trace, RULES), outcomes)


def test_numbers_beyond_64_bits_are_told(path, trace, outcomes):
    before = path.read_bytes()
    huge = attrs.evolve(outcomes[-1], end=attrs.evolve(outcomes[-1].end, clock_ns=1 << 70))
    with pytest.raises(OutputError, match="cannot be kept as Parquet"):
        write_rows(path, definition_of(trace, RULES), [huge])
    assert path.read_bytes() == before


def test_without_pyarrow_one_line_says_what_to_install(path, trace, monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    for call in (
        lambda: read_rows(path),
        lambda: read_metadata(path),
        lambda: write_rows(path, {}, []),
    ):
        with pytest.raises(UsageError, match=r"pip install 'dtrdiag\[parquet\]'"):
            call()


def test_the_definition_is_plain_json(trace):
    definition = definition_of(trace, RULES)
    assert json.loads(json.dumps(definition)) == definition
