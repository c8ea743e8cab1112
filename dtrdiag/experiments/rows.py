"""How are outcomes of runs kept in a Parquet file: one row per run, and what defines them all?

A file holds outcomes of one trace under one set of rules, which differ in their budget alone. What
they have in common is the *definition*, kept in the file's metadata in full; its digest, `key_of`,
tells such sets apart. Every column is also there for readers that know Parquet and nothing else, so
files of different definitions can be put together and still say what each row is.

| metadata key | holds |
|---|---|
| `dtrdiag.schema` | `dtrdiag.results/2`; a change that an older reader would misread adds 1 |
| `dtrdiag.definition` | the definition, JSON |
| `dtrdiag.extra` | what the writer added, JSON |

Columns: the fields of the first and last event of a run's log (`run` and `end` of docs/events.md,
without `seq`, `schema` and fields of newer versions), then `overhead`, `engine` and
`simulate_seconds`. pyarrow is needed, and loaded when a function here is called.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

import attrs

from dtrdiag import __version__
from dtrdiag.errors import DtrdiagError, InputError, OutputError, UsageError
from dtrdiag.events.fields import FIELDS, Field
from dtrdiag.events.parquet import MAGIC
from dtrdiag.events.records import SCHEMA, End, RunHeader
from dtrdiag.experiments.atomic import replace_file
from dtrdiag.experiments.outcomes import Outcome
from dtrdiag.files import open_file
from dtrdiag.simulator import RunConfig
from dtrdiag.simulator.config import SEMANTICS
from dtrdiag.trace import Trace

RESULTS_NAME = "dtrdiag.results"
RESULTS_SCHEMA = f"{RESULTS_NAME}/2"

Definition = dict[str, Any]
"""What decisions depend on besides the budget; plain JSON values, see `definition_of`."""

_HEADER = tuple(field for field in FIELDS["run"] if field.name not in ("seq", "schema"))
_END = tuple(field for field in FIELDS["end"] if field.name != "seq")
SHARED = (
    "trace_sha256",
    "policy",
    "dealloc",
    "overhead_limit",
    "seed",
    "semantics",
    "interventions",
)
"""What the header of every run has in common with the definition."""
_COUNTS = tuple(
    field.name
    for field in _END
    if field.value is not None and field.value.base is int and not field.value.nullable
)


@attrs.frozen
class Rows:
    """What a file holds.

    Attributes:
        definition: what all runs have in common.
        outcomes: in the order in which they were written.
        extra: what the writer added.
    """

    definition: Definition
    outcomes: tuple[Outcome, ...]
    extra: dict[str, Any]


def definition_of(trace: Trace, rules: RunConfig, policy_sha256: str | None = None) -> Definition:
    """What the decisions of runs depend on, besides their budgets.

    The version of dtrdiag is part of it, because a correction of the simulator changes results. The
    engine is not, because all engines decide alike.

    Args:
        trace: what is run.
        rules: under which rules; budget, ratio, peak, candidates and engine do not matter.
        policy_sha256: SHA-256 of the file that defines the policy, None for dtrdiag's own.
    """
    limit = rules.overhead_limit
    return {
        "version": __version__,
        "semantics": rules.semantics,
        "trace_sha256": trace.sha256,
        "policy": rules.policy,
        "policy_file_sha256": policy_sha256,
        "dealloc": rules.dealloc,
        # 10.0 and 10 are the same rule.
        "overhead_limit": int(limit) if limit is not None and limit == int(limit) else limit,
        "seed": rules.seed,
        "interventions": rules.interventions.text(),
    }


def key_of(definition: Mapping[str, Any]) -> str:
    """Digest of a definition, 16 hexadecimal digits: equal exactly where the definitions are."""
    text = json.dumps(dict(definition), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_rows(
    path: str | os.PathLike[str],
    definition: Definition,
    outcomes: Iterable[Outcome],
    extra_metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write outcomes to a Parquet file, which is replaced as a whole if it exists; O(rows).

    Args:
        path: the file; its folder must exist.
        definition: what the outcomes have in common.
        outcomes: one row each, in this order. Kept in full except `seq` and fields of newer
            versions of the event schema, so what `read_rows` returns is equal for outcomes of runs
            without subscribers.
        extra_metadata: JSON values to keep with them, such as the range that a map covers.

    Raises:
        UsageError: pyarrow is not installed.
        OutputError: it cannot be written (a full disk, say), or a number does not fit into 64
            bits; the old file is intact.
    """
    arrow, parquet = _pyarrow()
    rows = list(outcomes)
    metadata = {
        "dtrdiag.schema": RESULTS_SCHEMA,
        "dtrdiag.definition": json.dumps(definition, sort_keys=True, allow_nan=False),
        "dtrdiag.extra": json.dumps(dict(extra_metadata or {}), sort_keys=True, allow_nan=False),
    }
    sink = arrow.BufferOutputStream()
    try:
        table = arrow.table(_columns(rows), schema=_schema(arrow).with_metadata(metadata))
        parquet.write_table(table, sink, compression="zstd", write_page_checksum=True)
    except (arrow.ArrowException, OverflowError) as error:
        raise OutputError(f"results cannot be kept as Parquet: {error}", path=path) from None
    replace_file(path, sink.getvalue().to_pybytes())


def read_rows(path: str | os.PathLike[str]) -> Rows:
    """Read what `write_rows` wrote; O(rows). Every row is checked against the definition.

    Raises:
        UsageError: pyarrow is not installed.
        InputError: no such file, truncated or damaged, not Parquet, Parquet of something else, or
            of another schema or semantics version. One line that names the file.
    """
    arrow, parquet = _pyarrow()
    with open_file(os.fspath(path)) as raw:
        try:
            _check_end(raw)
            # From memory and in this thread: pyarrow's own threads, reading from a Python file, may
            # outlive the interpreter and abort the process as it ends.
            held = arrow.BufferReader(raw.read())
            file = parquet.ParquetFile(held, page_checksum_verification=True)
            table = file.read(use_threads=False)
        except InputError as error:
            raise InputError(error.what, path=path) from None
        except (arrow.ArrowException, OSError, ValueError, TypeError, MemoryError) as error:
            why = str(error).partition("\n")[0][:200]
            raise InputError(f"not Parquet, or truncated or damaged: {why}", path=path) from None
    try:
        definition, extra = _metadata(table.schema.metadata or {})
        if not table.schema.equals(_schema(arrow)):
            raise InputError("it has other columns than results have")
        outcomes = _outcomes(table)
        for outcome in outcomes:
            _check(outcome, definition)
    except DtrdiagError as error:
        raise InputError(f"not results that can be used: {error.what}", path=path) from None
    except (arrow.ArrowException, ValueError, TypeError, RecursionError) as error:
        raise InputError(f"damaged results: {error}"[:300], path=path) from None
    return Rows(definition, outcomes, extra)


def read_metadata(path: str | os.PathLike[str]) -> tuple[Definition, dict[str, Any]]:
    """Definition and extra metadata of a file, without reading its rows.

    Raises:
        UsageError: pyarrow is not installed.
        InputError: see `read_rows`; of the content, the end of the file alone is looked at.
    """
    arrow, parquet = _pyarrow()
    with open_file(os.fspath(path)) as raw:
        try:
            _check_end(raw)
            schema = parquet.ParquetFile(arrow.BufferReader(raw.read())).schema_arrow
        except InputError as error:
            raise InputError(error.what, path=path) from None
        except (arrow.ArrowException, OSError, ValueError, TypeError, MemoryError) as error:
            why = str(error).partition("\n")[0][:200]
            raise InputError(f"not Parquet, or truncated or damaged: {why}", path=path) from None
    try:
        return _metadata(schema.metadata or {})
    except DtrdiagError as error:
        raise InputError(f"not results that can be used: {error.what}", path=path) from None


def _check_end(raw: BinaryIO) -> None:
    """Raise InputError where Parquet has begun and does not end; the stream is at its start again.

    Pyarrow says of such a file that it is something else.
    """
    first = raw.read(len(MAGIC))
    size = raw.seek(0, os.SEEK_END)
    raw.seek(max(0, size - len(MAGIC)))
    last = raw.read(len(MAGIC))
    raw.seek(0)
    if first == MAGIC and (last != MAGIC or size < 12):
        raise InputError("a Parquet file without its end: cut, or never finished")


def check_pyarrow() -> None:
    """Find out early whether results can be kept.

    Raises:
        UsageError: pyarrow is not installed; says what to install.
    """
    _pyarrow()


def _pyarrow() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UsageError(
            "results are kept as Parquet, which needs pyarrow: pip install 'dtrdiag[parquet]'"
        ) from None


def _schema(arrow: Any) -> Any:
    columns = [_column(arrow, field) for field in (*_HEADER, *_END)]
    columns.append(arrow.field("overhead", arrow.float64()))
    columns.append(arrow.field("engine", arrow.string(), nullable=False))
    columns.append(arrow.field("simulate_seconds", arrow.float64(), nullable=False))
    return arrow.schema(columns)


def _column(arrow: Any, field: Field) -> Any:
    value = field.value
    if value is None:
        raise TypeError(f"a list has no column: {field.name}")
    kinds = {int: arrow.int64(), float: arrow.float64(), str: arrow.string()}
    return arrow.field(field.name, kinds[value.base], nullable=value.nullable)


def _columns(rows: Sequence[Outcome]) -> dict[str, list[Any]]:
    columns = {field.name: [getattr(row.header, field.name) for row in rows] for field in _HEADER}
    columns |= {field.name: [getattr(row.end, field.name) for row in rows] for field in _END}
    columns["overhead"] = [_overhead(row) for row in rows]
    columns["engine"] = [row.engine for row in rows]
    columns["simulate_seconds"] = [row.simulate_seconds for row in rows]
    return columns


def _overhead(row: Outcome) -> float | None:
    baseline_ns = row.header.baseline_cost_ns
    return (baseline_ns + row.end.remat_cost_ns) / baseline_ns if baseline_ns else None


def _metadata(found: Mapping[bytes, bytes]) -> tuple[Definition, dict[str, Any]]:
    schema = found.get(b"dtrdiag.schema", b"").decode(errors="replace")
    if schema != RESULTS_SCHEMA:
        if schema.startswith(f"{RESULTS_NAME}/"):
            raise InputError(f"another version, {schema[:60]!r}, where {RESULTS_SCHEMA!r} is read")
        raise InputError("no results of dtrdiag")
    try:
        definition = json.loads(found[b"dtrdiag.definition"])
        extra = json.loads(found[b"dtrdiag.extra"])
    except (KeyError, ValueError, RecursionError):
        definition = extra = None
    if not isinstance(definition, dict) or not isinstance(extra, dict):
        raise InputError("its metadata is damaged")
    if definition.get("semantics") not in SEMANTICS:
        semantics = str(definition.get("semantics"))[:60]
        raise InputError(f"semantics {semantics!r}, where {', '.join(SEMANTICS)} is read")
    return definition, extra


def _outcomes(table: Any) -> tuple[Outcome, ...]:
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    # Files do not tell 10 from 10.0, and what is written as an int is one nearly always.
    columns["overhead_limit"] = [
        int(limit) if limit is not None and limit.is_integer() else limit
        for limit in columns["overhead_limit"]
    ]
    headers = zip(*(columns[field.name] for field in _HEADER), strict=True)
    ends = zip(*(columns[field.name] for field in _END), strict=True)
    runs = zip(headers, ends, columns["engine"], columns["simulate_seconds"], strict=True)
    return tuple(
        Outcome(RunHeader(0, SCHEMA, *header), End(0, *end), engine, seconds)
        for header, end, engine, seconds in runs
    )


def _check(outcome: Outcome, definition: Definition) -> None:
    header, end = outcome.header, outcome.end
    for name in SHARED:
        if getattr(header, name) != definition.get(name):
            raise InputError(f"a run has another {name} than the definition")
    for field, record in [(f, header) for f in _HEADER] + [(f, end) for f in _END]:
        if field.choices is not None and getattr(record, field.name) not in field.choices:
            raise InputError(f"a run has an unknown {field.name}")
    if min(getattr(end, name) for name in _COUNTS) < 0:
        raise InputError("a run has a negative count")
    high, budget = end.interval_hi_bytes, header.budget_bytes
    if high is not None and (budget is None or not end.interval_lo_bytes <= budget < high):
        raise InputError("the budget of a run is not in its interval")
    if high is None and budget is not None and budget < end.interval_lo_bytes:
        raise InputError("the budget of a run is not in its interval")
