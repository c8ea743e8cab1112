"""What do the values of options mean: sizes, ratios, limits and ranges of them?"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import TypeVar

from dtrdiag.errors import UsageError

UNITS = {
    "": 1,
    "B": 1,
    **{f"{prefix}B": 1000**power for power, prefix in enumerate("kMGTP", start=1)},
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGTP", start=1)},
}
_BY_LOWER = {unit.lower(): size for unit, size in UNITS.items()}
MAX_BYTES = 1 << 62
MAX_POINTS = 100_000
"""A range of more points is a mistake in its step."""
MAX_PLAIN_RATIO = 10
"""Up to here a whole number without a unit is a ratio where both are taken; above, bytes."""
_DIGITS = 40
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)")
_WHOLE = re.compile(r"[0-9]{1,40}")
Value = TypeVar("Value", int, float)


def parse_size(text: str, what: str = "a budget") -> int:
    """A number of bytes, at least 1: `1500000`, `1.5GiB`, `500MB`; a fraction of a byte is cut.

    Units are those of `UNITS` in any case, so `kB` is 1,000 bytes and `KiB` 1,024.

    Args:
        text: as given.
        what: it is the size of, for messages.

    Raises:
        UsageError: no such size, less than 1 byte, or 2**62 bytes and more.
    """
    match = _SIZE.fullmatch(text.strip())
    scale = None if match is None else _BY_LOWER.get(match[2].lower())
    if match is None or scale is None or len(match[1]) > _DIGITS:
        raise UsageError(
            f"{what} must be a size such as 1500000, 500MB or 1.5GiB, not {text[:60]!r}"
        )
    size = int(Decimal(match[1]) * scale)
    if size < 1:
        raise UsageError(f"{what} must be at least 1 byte, not {text[:60]!r}")
    if size >= MAX_BYTES:
        raise UsageError(f"{what} must be less than 4 EiB, not {text[:60]!r}")
    return size


def parse_ratio(text: str) -> float:
    """A positive finite ratio of the peak; the double nearest to the number written.

    Raises:
        UsageError: anything else.
    """
    try:
        ratio = float(text)
    except ValueError:
        ratio = math.nan
    if not (math.isfinite(ratio) and ratio > 0):
        raise UsageError(f"a ratio must be a positive number such as 0.5, not {text[:60]!r}")
    return ratio


def parse_amount(text: str) -> float | int:
    """A ratio of the peak as a float, or a number of bytes as an int.

    A number without a unit is a ratio if it has a point or is at most `MAX_PLAIN_RATIO`; all else
    is a size as `parse_size` reads it.

    >>> parse_amount("0.05"), parse_amount("1"), parse_amount("1024657200"), parse_amount("5B")
    (0.05, 1.0, 1024657200, 5)

    Raises:
        UsageError: neither.
    """
    text = text.strip()
    if not _WHOLE.fullmatch(text):
        # Signs, points and exponents are those of ratios, letters those of units.
        return parse_size(text) if text[-1:].isalpha() and text[:1] != "." else parse_ratio(text)
    if int(text) <= MAX_PLAIN_RATIO:
        return parse_ratio(text)
    return parse_size(text)


def parse_limit(text: str) -> float | int | None:
    """An overhead limit, a number >= 1, an int where it is written as one; `none`: no limit.

    Raises:
        UsageError: anything else.
    """
    if text.strip().lower() == "none":
        return None
    try:
        limit: float | int = int(text)
    except ValueError:
        try:
            limit = float(text)
        except ValueError:
            limit = math.nan
    if not (1 <= limit < 2**53):
        raise UsageError(f"an overhead limit must be a number >= 1 or none, not {text[:60]!r}")
    return limit


def parse_many(text: str, parse: Callable[[str], Value], name: str) -> list[Value]:
    """The values of a list `X,Y,...` in its order, or of a range `A:B:STEP` with both ends.

    A range is counted in decimal, so that `0.098:0.108:0.001` holds exactly the doubles that are
    written 0.098, 0.099 and so on, 0.108 included. Values that repeat are kept once.

    Args:
        text: the list or range.
        parse: turns each part into a value.
        name: the option, for messages.

    Raises:
        UsageError: a part is no value, the range is empty, or it has too many points.
    """
    if ":" in text:
        return list(dict.fromkeys(_span(text, parse, name)))
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise UsageError(f"{name} must be A:B:STEP or X,Y,..., not {text[:60]!r}")
    return list(dict.fromkeys(parse(part) for part in parts))


def _span(text: str, parse: Callable[[str], Value], name: str) -> list[Value]:
    parts = text.split(":")
    if len(parts) != 3:
        raise UsageError(f"{name} must be A:B:STEP, not {text[:60]!r}")
    values = [parse(part) for part in parts]
    first, last, step = (_exact(part, value) for part, value in zip(parts, values, strict=True))
    if last < first:
        raise UsageError(f"{name} {text[:60]!r} is empty: its end is below its start")
    points = int((last - first) / step) + 1
    if points > MAX_POINTS:
        many = f"{points:,}" if points < 10**15 else "more than 10^15"
        raise UsageError(f"{name} {text[:60]!r} has {many} points, more than {MAX_POINTS:,}")
    whole = isinstance(values[0], int)
    return [parse(str(int(x)) if whole else str(x)) for x in _points(first, step, points)]


def _points(first: Decimal, step: Decimal, points: int) -> list[Decimal]:
    return [first + index * step for index in range(points)]


def _exact(part: str, value: float | int) -> Decimal:
    # Sizes have units and become whole bytes first; a ratio stays as it is written.
    if isinstance(value, int):
        return Decimal(value)
    try:
        return Decimal(part.strip())
    except InvalidOperation:
        return Decimal(repr(value))
