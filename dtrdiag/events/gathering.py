"""How rows of a Parquet log become a batch again, with everything checked that a batch can break.

The counterpart of `dtrdiag.events.parquet`, which describes the columns.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from dtrdiag.errors import LogError
from dtrdiag.events.codec import MAX_DEPTH, decode, too_deep
from dtrdiag.events.columns import (
    FLOAT,
    INT,
    KIND_CODES,
    KINDS,
    NULL,
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
from dtrdiag.events.conversion import columns_of
from dtrdiag.events.fields import FIELDS
from dtrdiag.events.parquet import KIND, ONCE, REST, STORED, arrow_schema, physical_names
from dtrdiag.events.records import Event

_ONCE_CODES = [KIND_CODES[kind] for kind in ONCE]


class Gatherer:
    """Makes batches of the tables of one file.

    Args:
        pa: the module `pyarrow`.
        schema: the `pyarrow.Schema` of the file.
        names: the columns of `EventColumns` to read; None: everything.

    Attributes:
        wanted: the columns of the file to read.

    Raises:
        LogError: the file lacks a column.
    """

    def __init__(self, pa: Any, schema: Any, names: Collection[str] | None) -> None:
        self._pa = pa
        self._types = {field.name: field.type for field in arrow_schema(pa)}
        self._stored = [spec for name, spec in STORED.items() if names is None or name in names]
        whole = names is None or not STORED.keys() >= set(names)
        self._rare = whole
        if whole:
            # An event that is once in a log is decoded from all of its fields.
            once = {column_name(kind, f.name) for kind in ONCE for f in FIELDS[kind]}
            self._stored = [s for s in STORED.values() if s in self._stored or s.name in once]
        self.wanted = [KIND, *(n for spec in self._stored for n in physical_names(spec))]
        self._foreign = (
            [] if names is not None else [name for name in schema.names if name not in self._types]
        )
        if whole:
            self.wanted += [REST, *self._foreign]
        for name in self.wanted:
            if name not in schema.names:
                raise LogError(f"an event log without the column {name!r}")

    def kinds(self, table: Any) -> tuple[npt.NDArray[np.int32], list[Any]]:
        """The kinds of a table's events as indices into a list of words."""
        array = self._whole(table, KIND)
        if array.null_count:
            raise LogError(f"column {KIND!r} is null somewhere")
        codes, words = array.indices.to_numpy(), array.dictionary.to_pylist()
        if len(codes) and not 0 <= codes.min() <= codes.max() < len(words):
            raise LogError(f"column {KIND!r} has a code beyond its words")
        return codes, words

    def batch(self, table: Any) -> EventColumns:
        """The batch that a table or record batch holds, all of whose kinds are known. O(n).

        Raises:
            LogError: what it holds is no batch of events; says what is wrong.
        """
        codes, words = self.kinds(table)
        unknown = [word for word in words if word not in KIND_CODES]
        if unknown:
            raise LogError(f"unknown kind of event {str(unknown[0])[:40]!r}")
        of_words = np.array([KIND_CODES[word] for word in words] or [0], np.uint8)
        columns = EventColumns(of_words[codes], {}, {})
        fields: dict[str, Column] = {}
        for spec in self._stored:
            fields[spec.name] = self._column(table, spec, columns.rows(spec.name))
        columns = EventColumns(columns.kind, fields, {})
        if self._rare:
            columns = self._with_rest(table, columns)
        return columns

    def _whole(self, table: Any, name: str) -> Any:
        """A column as one Arrow array of the type that it should have."""
        array = table.column(name)
        if isinstance(array, self._pa.ChunkedArray):
            array = array.combine_chunks()
            if isinstance(array, self._pa.ChunkedArray):
                array = array.chunk(0)
        if array.type != self._types[name]:
            try:
                array = array.cast(self._types[name])
            except self._pa.ArrowException:
                what = f"column {name!r} is of type {array.type}, not {self._types[name]}"
                raise LogError(what) from None
        return array

    def _column(self, table: Any, spec: ColumnSpec, rows: npt.NDArray[np.bool_]) -> Column:
        arrays = [self._whole(table, name) for name in physical_names(spec)]
        at = np.flatnonzero(rows)
        column, entries = self._gather(spec, arrays, at)
        if sum(len(array) - array.null_count for array in arrays) != entries:
            raise LogError(f"column {spec.name!r} has values for events that lack the field")
        return column

    def _gather(
        self, spec: ColumnSpec, arrays: list[Any], at: npt.NDArray[np.intp]
    ) -> tuple[Column, int]:
        """The packed column, and how many values there are in it."""
        first = arrays[0]
        valid = _valid(first, at)
        entries = len(at) if valid is None else int(valid.sum())
        if spec.form is Ints:
            return Ints(_values(first, np.int64, at, valid), valid), entries
        if spec.form is Flags:
            self._require_all(spec, valid)
            return Flags(first.fill_null(False).to_numpy(zero_copy_only=False)[at]), entries
        if spec.form is Texts:
            return _texts(spec, first, at, valid), entries
        if spec.form is Numbers:
            whole = _valid(arrays[1], at)
            numbers = _numbers(arrays, at, valid, whole)
            more = len(at) if whole is None else int(whole.sum())
            return numbers, entries + more
        if spec.form is Lists:
            self._require_all(spec, valid)
            offsets = _offsets(first, at)
            return Lists(offsets, _values(first.flatten(), np.int64, None, None)), entries
        return self._candidates(first, at), entries

    def _require_all(self, spec: ColumnSpec, valid: npt.NDArray[np.bool_] | None) -> None:
        if valid is not None and not valid.all():
            raise LogError(f"column {spec.name!r} is null for an event that has the field")

    def _candidates(self, array: Any, at: npt.NDArray[np.intp]) -> Candidates:
        # Null stands for no candidates as well: nobody has to spell out that there are none.
        parts = array.flatten().flatten()
        if any(part.null_count for part in parts[:1]):
            raise LogError("a candidate without a storage")
        every = np.arange(len(parts[0]))
        scores = _numbers(parts[1:], every, _valid(parts[1], every), _valid(parts[2], every))
        return Candidates(_offsets(array, at), _values(parts[0], np.int64, None, None), scores)

    def _with_rest(self, table: Any, columns: EventColumns) -> EventColumns:
        rest = {row: _parsed(text) for row, text in self._texts(table, REST)}
        for name in self._foreign:
            for row, value in enumerate(table.column(name).to_pylist()):
                if value is not None:
                    rest.setdefault(row, {}).setdefault(name, value)
        fields = dict(columns.fields)
        extra: dict[int, str] = {}
        rare: list[EventColumns] = []
        for row in np.flatnonzero(np.isin(columns.kind, _ONCE_CODES)).tolist():
            event = _decoded(columns.slice(row, row + 1), rest.pop(row, {}))
            rare.append(columns_of([event]))
            extra.update((row, text) for text in rare[-1].extra.values())
        if rare:
            joined = EventColumns.concat(rare)
            fields.update((n, c) for n, c in joined.fields.items() if n not in STORED)
        for row, foreign in rest.items():
            extra[row] = _foreign_text(KINDS[columns.kind[row]], foreign)
        return EventColumns(columns.kind, fields, dict(sorted(extra.items())))

    def _texts(self, table: Any, name: str) -> list[tuple[int, str]]:
        array = self._whole(table, name)
        if array.null_count == len(array):
            return []
        rows = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))
        return list(zip(rows.tolist(), array.drop_null().to_pylist(), strict=True))


def _parsed(text: str) -> dict[str, Any]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise LogError(f"column {REST!r} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise LogError(f"column {REST!r} is not a JSON object")
    return found


def _decoded(columns: EventColumns, rest: dict[str, Any]) -> Event:
    """An event that is once in a log, checked like one of a log of JSON lines."""
    kind = KINDS[columns.kind[0]]
    names = [(field.name, column_name(kind, field.name)) for field in FIELDS[kind]]
    stored = {f: columns.column(n).tolist()[0] for f, n in names if n in columns.fields}
    return decode({"event": kind, **stored, **rest})


def _foreign_text(kind: str, fields: dict[str, Any]) -> str:
    for name, value in fields.items():
        if name == "event" or any(field.name == name for field in FIELDS[kind]):
            raise LogError(f"{kind}: extra field {name!r} hides a field of the schema")
        if too_deep(value):
            raise LogError(f"{kind}: field {name!r} is nested more than {MAX_DEPTH} deep")
    try:
        return orjson.dumps(fields).decode()
    except (orjson.JSONEncodeError, UnicodeError) as error:
        raise LogError(f"{kind}: an extra field has no JSON form: {error}") from None


def _valid(array: Any, at: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_] | None:
    if not array.null_count:
        return None
    if array.null_count == len(array):
        return np.zeros(len(at), np.bool_)
    valid: npt.NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)[at]
    return None if valid.all() else valid


def _values(
    array: Any,
    dtype: type[Any],
    at: npt.NDArray[np.intp] | None,
    valid: npt.NDArray[np.bool_] | None,
) -> npt.NDArray[Any]:
    """The numbers of an array at some positions, 0 where null."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array) if at is None else len(at), dtype)
    values = np.frombuffer(buffer, dtype)[array.offset : array.offset + len(array)]
    if at is not None and len(at) != len(values):
        values = values[at]
    return values if valid is None else np.where(valid, values, dtype(0))


def _texts(
    spec: ColumnSpec, array: Any, at: npt.NDArray[np.intp], valid: npt.NDArray[np.bool_] | None
) -> Texts:
    codes = _values(array.indices, np.int32, at, valid)
    words = tuple(array.dictionary.to_pylist())
    if None in words:
        raise LogError(f"column {spec.name!r} is null among its words")
    if spec.words is None or words == spec.words:
        return Texts(codes, words, valid)
    index = {word: code for code, word in enumerate(spec.words)}
    unknown = len(spec.words)
    new = np.array([index.get(word, unknown) for word in words] or [0], np.int32)[codes]
    if (new == unknown).any():
        word = next(word for word in words if word not in index)
        what = f"must be one of {', '.join(spec.words)}, not {word[:40]!r}"
        raise LogError(f"column {spec.name!r} {what}")
    return Texts(new, spec.words, valid)


def _numbers(
    arrays: list[Any],
    at: npt.NDArray[np.intp],
    is_float: npt.NDArray[np.bool_] | None,
    is_int: npt.NDArray[np.bool_] | None,
) -> Numbers:
    floats = _values(arrays[0], np.float64, at, is_float)
    if is_int is not None and not is_int.any():
        tags = np.full(len(at), FLOAT, np.uint8)
        if is_float is not None:
            tags[~is_float] = NULL
        return Numbers(tags, floats)
    twice = is_int if is_float is None else is_float if is_int is None else is_float & is_int
    if len(at) and (twice is None or twice.any()):
        raise LogError("a number is there twice, as a float and as an int")
    tags = np.zeros(len(at), np.uint8)
    tags[slice(None) if is_float is None else is_float] = FLOAT
    tags[slice(None) if is_int is None else is_int] = INT
    return Numbers(tags, floats, _values(arrays[1], np.int64, at, is_int))


def _offsets(array: Any, at: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    """Offsets of the lists at some positions; what is between them is null, so has no values."""
    ends = np.frombuffer(array.buffers()[1], np.int32)[array.offset :][: len(array) + 1]
    lengths = np.diff(ends)
    if array.null_count:
        lengths = lengths * array.is_valid().to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(at) + 1, np.int64)
    np.cumsum(lengths[at], out=offsets[1:])
    return offsets
