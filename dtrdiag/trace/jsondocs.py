"""How does a JSON document that describes a trace become values, with errors that name the place?

Shared by the readers of graphs and of execution traces: a document is parsed whole, and what is
missing or of another type is refused in one line that says where it should stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from dtrdiag.errors import TraceError
from dtrdiag.jsontext import encoding_problem, key_twice, parse_json
from dtrdiag.suggestions import no_such
from dtrdiag.trace.builder import shown

Object = Mapping[str, Any]
REQUIRED = object()
"""As a default: there is none, and a field that is absent is refused."""


def parse_document(content: bytes, path: str) -> dict[str, Any]:
    """The JSON object that a file holds.

    Raises:
        TraceError: it is empty, cut, not UTF-8, not JSON or not an object; with
            the line, where there is one.
    """
    check_text(content, path)
    try:
        document = parse_json(content)
    except orjson.JSONDecodeError as error:
        cut = " (the file ends in the middle of the document)" * (error.pos >= len(content) - 1)
        raise TraceError(f"not JSON: {error.msg}{cut}", path=path, line=error.lineno) from None
    if not isinstance(document, dict):
        raise TraceError("not a JSON object", path=path)
    return document


def check_text(content: bytes, path: str) -> None:
    """Refuse what is no text of a trace whatever is in it.

    Raises:
        TraceError: it is empty, or in another encoding than UTF-8.
    """
    if not content.strip():
        raise TraceError("the file is empty", path=path)
    problem = encoding_problem(content)
    if problem is not None:
        raise TraceError(problem, path=path)


def check_keys(content: bytes, document: Object, path: str) -> None:
    """Refuse a document in which one of two values would be taken without a word.

    Raises:
        TraceError: a key stands twice in one object.
    """
    found = key_twice(content, document)
    if found is not None:
        fields, key = found
        of = f"{shown(fields['name'])}: " if isinstance(fields.get("name"), str) else ""
        raise TraceError(f"{of}{shown(key)} stands twice in one object", path=path)


class Place:
    """A part of a document, whose fields are taken by type.

    Args:
        fields: the JSON object.
        path: of the file, for messages.
        where: what the object is, for messages, such as `node 3 ("conv")`; empty: the document.
    """

    def __init__(self, fields: Object, path: str, where: str = "") -> None:
        self.fields = fields
        self.path = path
        self.where = where

    def error(self, what: str) -> TraceError:
        """A `TraceError` that names this place."""
        return TraceError(f"{self.where}: {what}" if self.where else what, path=self.path)

    def check_known(self, known: Iterable[str]) -> None:
        """Refuse a field that means nothing: it may be a mistyped one that means something."""
        names = list(known)
        for field in self.fields:
            if field not in names:
                raise self.error(no_such("field", field, names))

    def text(self, field: str, default: Any = REQUIRED) -> str:
        """A text that is not empty."""
        value = self._value(field, default)
        if value is not default and not (isinstance(value, str) and value):
            raise self.error(f"{field} is not a text: {shown(value)}")
        return value  # type: ignore[no-any-return]

    def flag(self, field: str) -> bool:
        """A truth value; false where it is absent."""
        value = self._value(field, False)
        if not isinstance(value, bool):
            raise self.error(f"{field} is not true or false: {shown(value)}")
        return value

    def integer(self, field: str, default: Any = REQUIRED) -> int:
        """A whole number; a fraction that is whole, such as 1e6, is one."""
        value = self._value(field, default)
        if value is default:
            return value  # type: ignore[no-any-return]
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(f"{field} is not a whole number: {shown(value)}")
        return value

    def within(self, field: str, most: int, default: Any = REQUIRED) -> int:
        """A whole number from 0 to `most`."""
        value = self.integer(field, default)
        if value is default:
            return value  # type: ignore[no-any-return]
        if value < 0:
            raise self.error(f"{field} is negative: {shown(self.fields[field])}")
        if value > most:
            given = shown(self.fields[field])
            raise self.error(f"{field} is absurdly large: {given}, the limit is {most}")
        return value

    def items(self, field: str, default: Any = REQUIRED) -> list[Any]:
        """A list."""
        value = self._value(field, default)
        if value is not default and not isinstance(value, list):
            raise self.error(f"{field} is not a list: {shown(value)}")
        return value  # type: ignore[no-any-return]

    def part(self, field: str) -> Place:
        """An object within this one."""
        value = self._value(field, REQUIRED)
        if not isinstance(value, dict):
            raise self.error(f"{field} is not an object: {shown(value)}")
        return Place(value, self.path, f"{self.where}, {field}" if self.where else field)

    def _value(self, field: str, default: Any) -> Any:
        value = self.fields.get(field, default)
        if value is REQUIRED:
            raise self.error(f"there is no {field}")
        return value
