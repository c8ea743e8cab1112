"""How event records become columns and how columns become event records, exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from dtrdiag.errors import LogError
from dtrdiag.events.columns import (
    COLUMNS,
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
from dtrdiag.events.construct import fast_constructor
from dtrdiag.events.fields import FIELDS
from dtrdiag.events.records import EVENT_TYPES, Event

_CODE_OF = {record: KIND_CODES[kind] for kind, record in EVENT_TYPES.items()}
# Every kind has two fields or more, so each of these returns a tuple.
_READ: list[Callable[[Event], tuple[Any, ...]]] = [
    attrgetter(*(field.name for field in FIELDS[kind])) for kind in KINDS
]
_CONSTRUCT = [fast_constructor(EVENT_TYPES[kind]) for kind in KINDS]
_NAMES = [[column_name(kind, field.name) for field in FIELDS[kind]] for kind in KINDS]

_Values = tuple[Any, ...]


def columns_of(events: Sequence[Event]) -> EventColumns:
    """Events in columns. O(fields).

    Raises:
        LogError: a field holds what its type does not allow, such as a fraction for an int, an
            integer beyond 64 bits, or an `extra` that is no JSON; the message names the field.
    """
    kind = np.fromiter(map(_CODE_OF.__getitem__, map(type, events)), np.uint8, len(events))
    rows = [np.flatnonzero(kind == code) for code in range(len(KINDS))]
    parts: dict[str, list[tuple[npt.NDArray[np.intp], _Values]]] = {}
    for code, at in enumerate(rows):
        if len(at):
            fields = zip(*map(_READ[code], (events[i] for i in at.tolist())), strict=True)
            for name, values in zip(_NAMES[code], fields, strict=True):
                parts.setdefault(name, []).append((at, values))
    fields_of = {name: _column(COLUMNS[name], parts[name]) for name in COLUMNS if name in parts}
    return EventColumns(kind, fields_of, _extras(events))


def _column(spec: ColumnSpec, parts: list[tuple[npt.NDArray[np.intp], _Values]]) -> Column:
    try:
        packed = [_PACK[spec.form](spec, values) for _, values in parts]
    except (TypeError, ValueError, OverflowError) as error:
        raise LogError(f"field {spec.field!r} holds what a column cannot: {error}") from None
    whole = spec.form.concat(packed)
    if len(parts) == 1:
        return whole
    # One kind after the other so far: back into the order of the events.
    return whole.take(np.argsort(np.concatenate([at for at, _ in parts]), kind="stable"))


def _pack_ints(spec: ColumnSpec, values: Sequence[Any]) -> Ints:
    valid = None
    if spec.nullable and None in values:
        valid = np.fromiter((value is not None for value in values), np.bool_, len(values))
        values = [0 if value is None else value for value in values]
    return Ints(_int64(values), valid)


def _int64(values: Sequence[Any]) -> npt.NDArray[np.int64]:
    found = np.array(values)
    if not len(found):
        return np.empty(0, np.int64)
    if found.dtype.kind != "i" or found.ndim != 1:
        bad = next((v for v in values if not _is_int64(v)), values[0])
        raise TypeError(f"{str(bad)[:40]} is no integer of 64 bits")
    return found.astype(np.int64, copy=False)


def _is_int64(value: object) -> bool:
    return isinstance(value, int | np.integer) and -(2**63) <= int(value) < 2**63


def _pack_flags(spec: ColumnSpec, values: Sequence[Any]) -> Flags:
    found = np.array(values)
    if found.dtype != np.bool_:
        raise TypeError("not only true and false")
    return Flags(found)


def _pack_texts(spec: ColumnSpec, values: Sequence[Any]) -> Texts:
    if spec.words is None:
        index: dict[str, int] = {}
    else:
        index = {word: code for code, word in enumerate(spec.words)}
    valid = None
    if spec.nullable and None in values:
        valid = np.fromiter((value is not None for value in values), np.bool_, len(values))
        values = [value if value is not None else "" for value in values]
    codes = [index.setdefault(value, len(index)) for value in values]
    for word in index:
        if type(word) is not str:
            raise TypeError(f"{str(word)[:40]} is no string")
        word.encode()
    if spec.words is not None and len(index) > len(spec.words):
        raise ValueError(f"{list(index)[-1][:40]!r} is none of {', '.join(spec.words)}")
    return Texts(np.array(codes, np.int32), tuple(index), valid)


def _pack_numbers(spec: ColumnSpec | None, values: Sequence[Any]) -> Numbers:
    tag_of = {type(None): NULL, int: INT, float: FLOAT}
    try:
        tags = np.fromiter((tag_of[type(value)] for value in values), np.uint8, len(values))
    except KeyError as error:
        raise TypeError(f"a {error.args[0].__name__} is no number") from None
    floats = [value if type(value) is float else 0.0 for value in values]
    ints = None
    if (tags == INT).any():
        ints = _int64([value if type(value) is int else 0 for value in values])
    return Numbers(tags, np.array(floats, np.float64), ints)


def _pack_lists(spec: ColumnSpec, values: Sequence[Any]) -> Lists:
    return Lists(_offsets(values), _int64([item for value in values for item in value]))


def _pack_candidates(spec: ColumnSpec, values: Sequence[Any]) -> Candidates:
    rows = [row for value in values for row in value]
    scores = _pack_numbers(None, [score for _, score in rows])
    return Candidates(_offsets(values), _int64([storage for storage, _ in rows]), scores)


def _offsets(values: Sequence[Any]) -> npt.NDArray[np.int64]:
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=offsets[1:])
    return offsets


_PACK: dict[type[Any], Callable[[Any, Any], Column]] = {
    Ints: _pack_ints,
    Flags: _pack_flags,
    Texts: _pack_texts,
    Numbers: _pack_numbers,
    Lists: _pack_lists,
    Candidates: _pack_candidates,
}


def _extras(events: Iterable[Event]) -> dict[int, str]:
    extras = {}
    for row, event in enumerate(events):
        if event.extra:
            try:
                extras[row] = orjson.dumps(event.extra).decode()
            except (orjson.JSONEncodeError, UnicodeError) as error:
                what = f"event {event.seq} ({event.kind}) has no JSON form: {error}"
                raise LogError(what) from None
            for name in event.extra:
                if name == "event" or (event.kind, name) in _KNOWN:
                    what = f"extra field {name!r} hides a field of the schema"
                    raise LogError(f"{event.kind}: {what}")
    return extras


_KNOWN = {(kind, field.name) for kind, fields in FIELDS.items() for field in fields}


def events_of(columns: EventColumns) -> list[Event]:
    """The events of a batch that `EventColumns.check` accepts, in order. O(fields)."""
    of_kind: list[Any] = [iter(())] * len(KINDS)
    for code in np.unique(columns.kind).tolist():
        kind = KINDS[code]
        values = [columns.of(kind, field.name).tolist() for field in FIELDS[kind]]
        of_kind[code] = map(_CONSTRUCT[code], *values)
    events: list[Event] = [next(of_kind[code]) for code in columns.kind.tolist()]
    for row, text in columns.extra.items():
        code = int(columns.kind[row])
        record = EVENT_TYPES[KINDS[code]]
        events[row] = record(*_READ[code](events[row]), extra=orjson.loads(text))
    return events
