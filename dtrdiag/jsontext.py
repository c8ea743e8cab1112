"""What does a text that should be JSON say, and what would a quick look at it pass over?

Texts in another encoding than UTF-8, objects in which a key stands twice, of which parsers take the
last without a word, and whole numbers that are too long for 64 bits, which become fractions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import orjson

_ENCODINGS = (
    (b"\xff\xfe\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
    (b"{\0\0\0", "UTF-32"),
    (b"\0\0\0{", "UTF-32"),
    (b"{\0", "UTF-16"),
    (b"\0{", "UTF-16"),
)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LONG = re.compile(rb"\d{19}")
_KEY = re.compile(rb'"\s*:')


def encoding_problem(content: bytes) -> str | None:
    """What is wrong with the encoding of a text that begins so; None: nothing that shows there.

    >>> encoding_problem('{"a": 1}'.encode("utf-16"))
    'the text is in UTF-16, and UTF-8 is what is read: save it as UTF-8'
    """
    if content.startswith(_BYTE_ORDER_MARK):
        return "the text begins with a byte-order mark (BOM): save it as UTF-8 without one"
    for begin, name in _ENCODINGS:
        if content.startswith(begin):
            return f"the text is in {name}, and UTF-8 is what is read: save it as UTF-8"
    return None


def parse_json(content: bytes) -> Any:
    """The value that a text holds, with whole numbers as they are given, however long.

    Raises:
        orjson.JSONDecodeError: it is no JSON.
    """
    value = orjson.loads(content)
    if _LONG.search(content) is None:
        return value
    try:
        return json.loads(content)
    except (ValueError, RecursionError):  # longer or deeper than Python reads
        return value


def key_twice(content: bytes, value: Any) -> tuple[Mapping[str, Any], str] | None:
    """An object in which a key stands twice, and the key; None: there is no such object.

    Takes linear time. Objects that are nested deeper than Python reads are taken to have none.

    Args:
        content: a text of JSON.
        value: what it was parsed to.
    """
    # Each key is followed by a colon: no more of these than keys, and none was lost.
    keys = _keys_in(value)
    if content.count(b":") == keys or len(_KEY.findall(content)) == keys:
        return None
    found: list[tuple[Mapping[str, Any], str]] = []

    def look(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        twice = None
        for key, each in pairs:
            twice = key if key in fields else twice
            fields.setdefault(key, each)
        if twice is not None and not found:
            found.append((fields, twice))
        return fields

    try:
        json.loads(content, object_pairs_hook=look, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None
    return found[0] if found else None


def _keys_in(value: Any) -> int:
    """How many keys the objects in a value have, all together."""
    total, stack = 0, [value]
    while stack:
        each = stack.pop()
        if isinstance(each, dict):
            total += len(each)
            stack.extend(inner for inner in each.values() if isinstance(inner, dict | list))
        elif isinstance(each, list):
            stack.extend(inner for inner in each if isinstance(inner, dict | list))
    return total
