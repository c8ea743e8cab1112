"""How a log looks as a Parquet file: which columns, of which types, and how a batch fills them.

`docs/events.md` describes the layout: one wide table, a row per event. What only the kinds have
that occur once in a log (header, stop, end) shares one column of JSON texts, because a column
costs time for every row, also where it is null.

pyarrow is an optional extra: it is loaded when a function here is called, never before.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from dtrdiag.errors import UsageError
from dtrdiag.events.columns import (
    COLUMNS,
    FLOAT,
    INT,
    KIND_CODES,
    KINDS,
    Candidates,
    Column,
    ColumnSpec,
    EventColumns,
    Flags,
    Ints,
    Lists,
    Numbers,
    Texts,
    column_name,
)
from dtrdiag.events.fields import FIELDS

MAGIC = b"PAR1"
"""The first and the last bytes of a Parquet file."""
SUFFIX = ".parquet"
KIND, REST = "event", "rest"
SCHEMA_KEY, RUN_KEY = b"dtrdiag.schema", b"dtrdiag.run"
"""File metadata: the version of the event schema, and the run header as a JSON object."""

ONCE = ("run", "oom", "thrashed", "end")
"""Kinds of which a log has at most one event."""
STORED = {name: spec for name, spec in COLUMNS.items() if not set(spec.kinds) <= set(ONCE)}
"""The columns that are columns of the file too, in its order."""
_ONCE_CODES = np.isin(np.arange(len(KINDS)), [KIND_CODES[kind] for kind in ONCE])
_MISSING = "a log as Parquet needs pyarrow: pip install 'dtrdiag[parquet]'"


def load_pyarrow() -> tuple[Any, Any]:
    """The modules `pyarrow` and `pyarrow.parquet`.

    Raises:
        UsageError: pyarrow is not installed; says what to install.
    """
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UsageError(_MISSING) from None


def parquet_available() -> bool:
    """Whether pyarrow is installed."""
    try:
        load_pyarrow()
    except UsageError:
        return False
    return True


def physical_names(spec: ColumnSpec) -> list[str]:
    """The columns of the file that hold a column; two for numbers, which may be ints."""
    return [spec.name, f"{spec.name}_int"] if spec.form is Numbers else [spec.name]


def arrow_schema(pa: Any) -> Any:
    """The `pyarrow.Schema` of a log, without metadata."""
    text = pa.dictionary(pa.int32(), pa.string())
    number = [pa.float64(), pa.int64()]
    losers = zip(("storage", "score", "score_int"), (pa.int64(), *number), strict=True)
    types = {
        Ints: [pa.int64()],
        Flags: [pa.bool_()],
        Texts: [text],
        Numbers: number,
        Lists: [pa.list_(pa.int64())],
        Candidates: [pa.list_(pa.struct(list(losers)))],
    }
    fields = [pa.field(KIND, text, nullable=False)]
    for spec in STORED.values():
        once_each = spec.name == "seq"
        fields += [
            pa.field(name, of_type, nullable=not once_each)
            for name, of_type in zip(physical_names(spec), types[spec.form], strict=True)
        ]
    return pa.schema([*fields, pa.field(REST, pa.string())])


class TableMaker:
    """Makes Arrow tables of batches of at most `rows` events.

    What is null throughout is made once and shared by all tables, and all tables are made in the
    same memory: asking the system for it anew would cost as much as filling it.

    Attributes:
        schema: the `pyarrow.Schema` of the tables.
    """

    def __init__(self, pa: Any, rows: int) -> None:
        self._pa = pa
        self._memory = _Memory(rows)
        self.schema = arrow_schema(pa)
        self._nulls = {of_type: pa.nulls(rows, of_type) for of_type in set(self.schema.types)}
        self._kinds = pa.array(KINDS)

    def table(self, columns: EventColumns) -> Any:
        """A batch as a `pyarrow.Table`, good until the next call. O(events x columns)."""
        pa = self._pa
        self._memory.reuse()
        kinds = pa.array(columns.kind.astype(np.int32))
        arrays: list[Any] = [pa.DictionaryArray.from_arrays(kinds, self._kinds)]
        spreads: dict[tuple[str, ...], _Spread] = {}
        for name, spec in STORED.items():
            column = columns.fields.get(name)
            if column is None or not len(column):
                arrays += [None] * len(physical_names(spec))
                continue
            if spec.kinds not in spreads:
                spreads[spec.kinds] = _Spread(pa, columns.rows(name), self._memory)
            arrays += spreads[spec.kinds].arrays(column)
        arrays.append(self._rest(columns))
        whole = [
            self._nulls[field.type].slice(0, len(columns)) if array is None else array
            for array, field in zip(arrays, self.schema, strict=True)
        ]
        return pa.Table.from_arrays(whole, schema=self.schema)

    def _rest(self, columns: EventColumns) -> Any:
        texts = dict(columns.extra)
        for row, fields in rare_fields(columns).items():
            fields.update(orjson.loads(texts.get(row, "{}")))
            texts[row] = orjson.dumps(fields).decode()
        if not texts:
            return None
        return self._pa.array([texts.get(row) for row in range(len(columns))], self._pa.string())


def rare_fields(columns: EventColumns) -> dict[int, dict[str, Any]]:
    """The fields of some events by row: of those that are once in a log, what has no column."""
    found = {}
    for row in np.flatnonzero(_ONCE_CODES[columns.kind]).tolist():
        kind = KINDS[columns.kind[row]]
        event = columns.slice(row, row + 1)
        names = [(field.name, column_name(kind, field.name)) for field in FIELDS[kind]]
        found[row] = {
            field: event.column(name).tolist()[0] for field, name in names if name not in STORED
        }
    return found


class _Memory:
    """Arrays that are used again and again."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._arrays: dict[np.dtype[Any], list[npt.NDArray[Any]]] = {}
        self._used: dict[np.dtype[Any], int] = {}

    def reuse(self) -> None:
        """Let go of everything."""
        self._used.clear()

    def array(self, dtype: np.dtype[Any], size: int) -> npt.NDArray[Any]:
        """An array of at most `rows` items, filled with whatever."""
        arrays = self._arrays.setdefault(dtype, [])
        used = self._used.get(dtype, 0)
        self._used[dtype] = used + 1
        if used == len(arrays):
            arrays.append(np.empty(self._rows + 1, dtype))
        return arrays[used][:size]


class _Spread:
    """Spreads packed columns over the rows that they belong to."""

    def __init__(self, pa: Any, rows: npt.NDArray[np.bool_], memory: _Memory) -> None:
        self._pa = pa
        self._memory = memory
        self._size = len(rows)
        self._at = np.flatnonzero(rows)
        self._all = len(self._at) == len(rows)
        self._bits = None if self._all else _bitmap(pa, rows)
        # For a field that many events have it is quicker to fetch than to put.
        self._source = None
        if not self._all and len(self._at) > len(rows) // 8:
            self._source = memory.array(np.dtype(np.intp), len(rows))
            np.cumsum(rows, out=self._source)
            self._source -= 1

    def arrays(self, column: Column) -> list[Any]:
        """The Arrow arrays of one column; None for one that is null throughout."""
        pa = self._pa
        if isinstance(column, Ints):
            return [self._flat(column.values, column.valid)]
        if isinstance(column, Flags):
            # The bits of a flag are a bitmap like that of what is null.
            parts = [self._bits, _bitmap(pa, self._dense(column.values))]
            return [pa.Array.from_buffers(pa.bool_(), self._size, parts)]
        if isinstance(column, Texts):
            codes = self._flat(column.codes, column.valid)
            return [pa.DictionaryArray.from_arrays(codes, pa.array(column.words, pa.string()))]
        if isinstance(column, Numbers):
            return self._numbers(column)
        if isinstance(column, Lists):
            return [self._lists(column.offsets, pa.array(column.flat()))]
        if isinstance(column, Candidates):
            return [self._candidates(column)]
        raise TypeError(type(column).__name__)

    def _numbers(self, column: Numbers) -> list[Any]:
        is_float, is_int = column.tags == FLOAT, column.tags == INT
        return [
            self._flat(column.floats, is_float) if is_float.any() else None,
            self._flat(column.whole(), is_int) if is_int.any() else None,
        ]

    def _candidates(self, column: Candidates) -> Any:
        pa = self._pa
        storages, scores = column.flat()
        if not len(storages):
            return None
        every = np.ones(len(storages), np.bool_)
        parts = _Spread(pa, every, _Memory(len(every))).arrays(scores)
        of_types = (pa.float64(), pa.int64())
        numbers = [
            pa.nulls(len(storages), of_type) if part is None else part
            for part, of_type in zip(parts, of_types, strict=True)
        ]
        names = ["storage", "score", "score_int"]
        struct = pa.StructArray.from_arrays([pa.array(storages), *numbers], names)
        return self._lists(column.offsets, struct)

    def _dense(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """An entry per row; what stands where there is none is anybody's guess."""
        if self._all:
            return np.ascontiguousarray(values)
        dense = self._memory.array(values.dtype, self._size)
        if self._source is not None:
            # Clipped: before the first entry there is none to fetch.
            return np.take(values, self._source, out=dense, mode="clip")
        dense[self._at] = values
        return dense

    def _sparse(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """An entry per row, 0 where there is none."""
        dense = self._memory.array(values.dtype, self._size)
        dense[:] = 0
        dense[self._at] = values
        return dense

    def _flat(self, values: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None) -> Any:
        # The file gets no value for what is null, so it does not matter what stands there.
        pa = self._pa
        bits = self._bits
        if valid is not None and not valid.all():
            bits = _bitmap(pa, self._sparse(valid))
        parts = [bits, pa.py_buffer(self._dense(values))]
        return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), self._size, parts)

    def _lists(self, offsets: npt.NDArray[np.int64], values: Any) -> Any:
        pa = self._pa
        ends = self._memory.array(np.dtype(np.int32), self._size + 1)
        ends[0] = 0
        np.cumsum(self._sparse(np.diff(offsets).astype(np.int32)), dtype=np.int32, out=ends[1:])
        parts = [self._bits, pa.py_buffer(ends)]
        return pa.Array.from_buffers(pa.list_(values.type), self._size, parts, children=[values])


def _bitmap(pa: Any, rows: npt.NDArray[np.bool_]) -> Any:
    return pa.py_buffer(np.packbits(rows, bitorder="little"))
