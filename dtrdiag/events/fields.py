"""What each field of each event may hold, read off the annotations of `records`.

The codec, the JSON Schema and the tables of `docs/events.md` are derived from these descriptions,
so that none of them can say something else than the records do.
"""

from __future__ import annotations

import typing
from types import NoneType
from typing import Any

import attrs

from dtrdiag.events.records import EVENT_TYPES

INFINITIES = {"inf": float("inf"), "-inf": float("-inf")}
"""How the two numbers that JSON lacks are written in a field that holds scores."""


@attrs.frozen
class Values:
    """What may stand in one place: plain types, and whether null may stand there too.

    Attributes:
        base: `int`, `float` (any JSON number), `bool` or `str`.
        nullable: whether null is a value.
        infinite: whether an infinity by name is a value.
        accepted: the exact Python types that a parsed JSON value may have here.
    """

    base: type
    nullable: bool
    infinite: bool
    accepted: frozenset[type]


@attrs.frozen
class Field:
    """One field of one kind of event.

    Attributes:
        name: its name, in the record and in the log.
        doc: what it means.
        items: empty for a single value; one entry for a list of such values; several for a list
            of fixed-length lists with these values.
        value: what a field that is no list holds, else None.
        choices: the strings that are allowed, if not all are.
        required: whether a log must name it.
        default: what the record takes where a log does not.
    """

    name: str
    doc: str
    value: Values | None
    items: tuple[Values, ...]
    choices: tuple[str, ...] | None
    required: bool
    default: Any

    @property
    def type_text(self) -> str:
        """The type in words, as in `list of [int, number or null]`."""
        if self.value is not None:
            return _text(self.value)
        inner = ", ".join(_text(item) for item in self.items)
        return f"list of {inner}" if len(self.items) == 1 else f"list of [{inner}]"


def fields_of(record: type[Any]) -> tuple[Field, ...]:
    """The fields of a record class in the order of their definition, without `extra`."""
    hints = typing.get_type_hints(record)
    return tuple(
        _describe(attribute, hints[attribute.name])
        for attribute in attrs.fields(record)
        if not attribute.metadata.get("extra")
    )


def _describe(attribute: attrs.Attribute[Any], hint: Any) -> Field:
    value: Values | None = None
    items: tuple[Values, ...] = ()
    if typing.get_origin(hint) is tuple:
        # Only lists of any length: the second argument is the ellipsis.
        item = typing.get_args(hint)[0]
        inner = typing.get_args(item) if typing.get_origin(item) is tuple else (item,)
        items = tuple(_values(one, attribute.metadata["infinite"]) for one in inner)
    else:
        value = _values(hint, attribute.metadata["infinite"])
    return Field(
        name=attribute.name,
        doc=attribute.metadata["doc"],
        value=value,
        items=items,
        choices=attribute.metadata["choices"],
        required=attribute.default is attrs.NOTHING,
        default=attribute.default,
    )


def _values(hint: Any, infinite: bool) -> Values:
    members = {_plain(member) for member in typing.get_args(hint) or (hint,)}
    nullable = NoneType in members
    members.discard(NoneType)
    if float in members:
        by_name = {str} if infinite else set()
        accepted = frozenset({int, float} | by_name | _null(nullable))
        return Values(float, nullable, infinite, accepted)
    if len(members) != 1 or not members <= {int, str, bool}:
        raise TypeError(f"no JSON form is defined for {hint}")
    (base,) = members
    return Values(base, nullable, False, frozenset({base} | _null(nullable)))


def _plain(hint: Any) -> Any:
    return getattr(hint, "__supertype__", hint)


def _null(nullable: bool) -> set[type]:
    return {NoneType} if nullable else set()


def _text(values: Values) -> str:
    name = {int: "int", float: "number", bool: "bool", str: "string"}[values.base]
    if values.infinite:
        name = "score"
    return f"{name} or null" if values.nullable else name


FIELDS: dict[str, tuple[Field, ...]] = {
    kind: fields_of(record) for kind, record in EVENT_TYPES.items()
}
"""The fields of every kind of event."""
