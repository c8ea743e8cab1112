"""How an event becomes one JSON object and how it is read back, with every field checked.

An object names its kind in `event`, then come the record's fields in order of definition, then the
fields in `extra`. In a field that holds scores, the strings `"inf"` and `"-inf"` stand for
the two numbers that JSON lacks; nan is refused.

Versions. A newer *minor* version may add fields to a kind and may add kinds; it changes nothing
about the fields, choices and kinds that are there. So unknown fields are accepted in a log of any
minor version and kept in `extra`. An unknown kind is an error for `decode`; the log reader passes
over such an event, checking only its `seq`, where the header names a newer minor version than
`SCHEMA`. Another *major* version is a `LogTooNewError` or `LogTooOldError`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from operator import attrgetter, itemgetter
from typing import Any, cast

from dtrdiag.errors import LogError, LogTooNewError, LogTooOldError
from dtrdiag.events.construct import fast_constructor
from dtrdiag.events.fields import FIELDS, INFINITIES, Field, Values
from dtrdiag.events.records import (
    EVENT_TYPES,
    SCHEMA,
    SCHEMA_MAJOR,
    SCHEMA_NAME,
    Event,
    RunHeader,
)

_VERSION = re.compile(rf"{re.escape(SCHEMA_NAME)}/([0-9]{{1,9}})\.([0-9]{{1,9}})")
_ONLY_INT = {int}
MAX_DEPTH = 32
"""How deep the value of a field that the schema does not know may be nested."""


class _Plan:
    """What encoding and decoding one kind of event takes, worked out once."""

    def __init__(self, kind: str) -> None:
        fields = FIELDS[kind]
        self.kind = kind
        self.record: type[Any] = EVENT_TYPES[kind]
        self.construct: Callable[..., Event] = fast_constructor(self.record)
        self.fields = fields
        self.keys = ("event", *(field.name for field in fields))
        # Both return one tuple: every kind has two fields or more.
        self.read: Callable[[Any], tuple[Any, ...]] = attrgetter("kind", *self.keys[1:])
        self.pick: Callable[[Any], tuple[Any, ...]] = itemgetter(*self.keys[1:])
        self.reals = tuple(f.name for f in fields if f.value and f.value.base is float)
        self.rows = tuple(f.name for f in fields if len(f.items) > 1)
        self.exact = not (self.rows or self.reals)
        # Type tuples that passed the slow check once; at most one per combination of nulls.
        self.accepted: set[tuple[type, ...]] = set()


_PLAN_OF = {record: _Plan(kind) for kind, record in EVENT_TYPES.items()}


def encode(event: Event) -> dict[str, Any]:
    """The event as a JSON object: `event` first, fields in order, then `extra`.

    Tuples are left as they are, since JSON encoders write them as lists. The types of fields are
    not checked; `decode` does that.

    Raises:
        LogError: a nan, or a field in `extra` that would hide one of the record's own.
    """
    plan = _PLAN_OF[type(event)]
    fields = dict(zip(plan.keys, plan.read(event), strict=False))
    if not plan.exact:
        _encode_reals(plan, fields)
    if event.extra:
        for name in event.extra:
            if name in fields:
                raise LogError(f"{plan.kind}: extra field {name!r} hides a field of the schema")
        fields.update(event.extra)
    return fields


def _encode_reals(plan: _Plan, fields: dict[str, Any]) -> None:
    for name in plan.reals:
        if type(fields[name]) is float:
            fields[name] = _encode_real(plan.kind, name, fields[name])
    for name in plan.rows:
        if fields[name]:
            fields[name] = tuple(
                tuple(_encode_real(plan.kind, name, value) for value in row) for row in fields[name]
            )


def _encode_real(kind: str, name: str, value: Any) -> Any:
    if type(value) is not float or math.isfinite(value):
        return value
    if math.isnan(value):
        raise LogError(f"{kind}: field {name!r} is nan")
    return "inf" if value > 0 else "-inf"


def decode(mapping: Mapping[str, Any]) -> Event:
    """The event that a parsed JSON object describes.

    Lists become tuples and the names of infinities floats; fields that the schema does not know
    are kept in `extra`, in their order.

    Raises:
        LogTooNewError, LogTooOldError: a header with another major version.
        LogError: not an object, an unknown kind, a missing field, a value of the wrong type or
            none of the choices. The message names kind and field.
    """
    try:
        decoder = _DECODERS[mapping["event"]]
    except (KeyError, TypeError):
        raise _no_kind(mapping) from None
    return decoder(mapping)


def _decoder(plan: _Plan) -> Callable[[Mapping[str, Any]], Event]:
    """The quick way for one kind: all fields there, no others, types seen before.

    Nearly every event takes it. Whatever does not fit is decided one field at a time by
    `_decode_with_care`, so this one may give up anywhere.
    """
    size, pick, accepted, construct = len(plan.keys), plan.pick, plan.accepted, plan.construct
    numbered = tuple(enumerate(plan.fields))
    ints = tuple(i for i, field in numbered if len(field.items) == 1)
    choices = tuple((i, frozenset(field.choices)) for i, field in numbered if field.choices)
    reals = tuple(i for i, field in numbered if field.name in plan.reals)
    rows = tuple((i, field) for i, field in numbered if field.name in plan.rows)
    plain = not (ints or choices or reals or rows)

    def quick(mapping: Mapping[str, Any]) -> Event:
        if len(mapping) != size:
            return _decode_with_care(plan, mapping)
        try:
            values = pick(mapping)
        except KeyError:
            return _decode_with_care(plan, mapping)
        if tuple(map(type, values)) not in accepted:
            return _decode_with_care(plan, mapping)
        if plain:
            return construct(*values)
        row = list(values)
        for index, allowed in choices:
            if row[index] not in allowed:
                return _decode_with_care(plan, mapping)
        for index in ints:
            items = row[index]
            if not _ONLY_INT.issuperset(map(type, items)):
                return _decode_with_care(plan, mapping)
            row[index] = tuple(items)
        for index in reals:
            # An infinity by name, or nan, the only number that differs from itself.
            if type(row[index]) is str or row[index] != row[index]:
                return _decode_with_care(plan, mapping)
        for index, field in rows:
            row[index] = _decode_field(plan.kind, field, row[index]) if row[index] else ()
        return construct(*row)

    return quick


_DECODERS = {plan.kind: _decoder(plan) for plan in _PLAN_OF.values()}


def _decode_with_care(plan: _Plan, mapping: Mapping[str, Any]) -> Event:
    if plan.record is RunHeader:
        # First of all: a header of another major version may have quite other fields.
        header_version(mapping)
    values: list[Any] = []
    for field in plan.fields:
        if field.name in mapping:
            values.append(_decode_field(plan.kind, field, mapping[field.name]))
        elif field.required:
            raise LogError(f"{plan.kind}: field {field.name!r} is missing")
        else:
            values.append(field.default)
    known = set(plan.keys)
    extra = {name: value for name, value in mapping.items() if name not in known}
    for name, value in extra.items():
        if too_deep(value):
            deep = f"field {_short(name)} is nested more than {MAX_DEPTH} deep"
            raise LogError(f"{plan.kind}: {deep}")
    if not extra and len(mapping) == len(plan.keys) and plan.record is not RunHeader:
        plan.accepted.add(tuple(map(type, plan.pick(mapping))))
    return cast(Event, plan.record(*values, extra=extra))


def too_deep(value: Any) -> bool:
    """Whether writers that recurse could fail on a value of a foreign field."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for outer in level
            if isinstance(outer, dict | list)
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def header_version(mapping: Mapping[str, Any]) -> tuple[int, int]:
    """Major and minor schema version that a parsed header names.

    Raises:
        LogTooNewError, LogTooOldError: the major version is not `SCHEMA_MAJOR`.
        LogError: there is no version, or it is none.
    """
    schema = mapping.get("schema")
    match = _VERSION.fullmatch(schema) if isinstance(schema, str) else None
    if match is None:
        raise LogError(f"run: field 'schema' must be like {SCHEMA!r}, not {_short(schema)}")
    major, minor = int(match[1]), int(match[2])
    if major > SCHEMA_MAJOR:
        raise LogTooNewError(f"{schema} is newer than this reader, which knows {SCHEMA}")
    if major < SCHEMA_MAJOR:
        raise LogTooOldError(f"{schema} is older than any that this reader knows ({SCHEMA})")
    return major, minor


def _decode_field(kind: str, field: Field, value: Any) -> Any:
    if field.value is not None:
        decoded = _decode_value(kind, field, field.value, value)
        if field.choices is not None and decoded not in field.choices:
            raise LogError(
                f"{kind}: field {field.name!r} must be one of {', '.join(field.choices)}, "
                f"not {_short(value)}"
            )
        return decoded
    if not isinstance(value, list | tuple):
        raise _wrong_type(kind, field, value)
    if len(field.items) == 1:
        return tuple(_decode_value(kind, field, field.items[0], item) for item in value)
    return tuple(_decode_row(kind, field, row) for row in value)


def _decode_row(kind: str, field: Field, row: Any) -> tuple[Any, ...]:
    if not isinstance(row, list | tuple) or len(row) != len(field.items):
        raise _wrong_type(kind, field, row)
    return tuple(
        _decode_value(kind, field, values, item)
        for values, item in zip(field.items, row, strict=True)
    )


def _decode_value(kind: str, field: Field, values: Values, value: Any) -> Any:
    if type(value) not in values.accepted:
        raise _wrong_type(kind, field, value)
    if values.base is float:
        if type(value) is str:
            if value not in INFINITIES:
                raise _wrong_type(kind, field, value)
            return INFINITIES[value]
        if type(value) is float and math.isnan(value):
            raise LogError(f"{kind}: field {field.name!r} is nan")
    return value


def _wrong_type(kind: str, field: Field, value: Any) -> LogError:
    return LogError(
        f"{kind}: field {field.name!r} must be {_article(field.type_text)}, not {_short(value)}"
    )


def _article(text: str) -> str:
    return f"an {text}" if text[0] in "aeiou" else f"a {text}"


def _no_kind(mapping: object) -> LogError:
    if not isinstance(mapping, Mapping):
        return LogError(f"an event must be a JSON object, not {_short(mapping)}")
    if "event" not in mapping:
        return LogError("an object without the field 'event', which names its kind")
    return LogError(f"unknown kind of event {_short(mapping['event'])}")


def _short(value: object) -> str:
    text = "null" if value is None else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def is_unknown_kind(mapping: object) -> bool:
    """Whether a parsed object names a kind of event that this version does not know."""
    return (
        isinstance(mapping, Mapping)
        and isinstance(cast(Mapping[str, Any], mapping).get("event"), str)
        and mapping["event"] not in EVENT_TYPES
    )
