"""How does a log become one flat table of text, for spreadsheets and whatever reads CSV?

A row per event, and the columns that a log has as Parquet (docs/events.md), apart from scores: they
have one column, exact as text, where Parquet needs two. What only the first, the stop and the last
event have is a JSON object in the column `rest`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

import orjson

from dtrdiag.events import encode
from dtrdiag.events.columns import column_name
from dtrdiag.events.fields import FIELDS
from dtrdiag.events.parquet import KIND, REST, STORED
from dtrdiag.events.records import Event

COLUMNS: tuple[str, ...] = (KIND, *STORED, REST)
"""The columns of the table, in order."""

_AT = {name: number for number, name in enumerate(COLUMNS)}
_ROWS = 4096


def write_event_table(events: Iterable[Event], stream: BinaryIO) -> int:
    """Write events as CSV (RFC 4180, UTF-8, lines ended by a newline) and return how many.

    Null is an empty cell, a flag is `true` or `false`, a list has blanks between its items, and a
    list of candidates reads `STORAGE:SCORE STORAGE:SCORE`. Time is linear, memory constant.

    Raises:
        LogError: a field holds nan, or an extra field hides one of the schema.
    """
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for count, event in enumerate(events, 1):
        writer.writerow(_row(event))
        if count % _ROWS == 0:
            _pass_on(buffer, stream)
    _pass_on(buffer, stream)
    return count


def write_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], stream: BinaryIO) -> int:
    """Write any rows as CSV in the same manner, and return how many there are."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    count = 0
    for row in rows:
        writer.writerow([_cell(value) for value in row])
        count += 1
    _pass_on(buffer, stream)
    return count


def _pass_on(buffer: io.StringIO, stream: BinaryIO) -> None:
    # Halves of surrogate pairs have no UTF-8; they cannot come from a log that was read.
    stream.write(buffer.getvalue().encode("utf-8", "replace"))
    buffer.seek(0)
    buffer.truncate()


def _row(event: Event) -> list[str]:
    fields = encode(event)
    kind = fields.pop("event")
    row = [""] * len(COLUMNS)
    row[0] = kind
    rest = {}
    placed = _PLACES[kind]
    for name, value in fields.items():
        at = placed.get(name)
        if at is None:
            rest[name] = value
        else:
            row[at] = _cell(value)
    if rest:
        row[-1] = orjson.dumps(rest).decode()
    return row


def _places(kind: str) -> dict[str, int]:
    """The column of each field of a kind that has one."""
    names = {field.name: column_name(kind, field.name) for field in FIELDS[kind]}
    return {field: _AT[column] for field, column in names.items() if column in STORED}


_PLACES = {kind: _places(kind) for kind in FIELDS}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return " ".join(map(_item, value))
    return repr(value)


def _item(value: Any) -> str:
    return ":".join(map(_cell, value)) if isinstance(value, tuple) else _cell(value)
