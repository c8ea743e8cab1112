"""What is known of a figure of which only bounds are known?

A run that the overhead limit stopped has paid at least what it had paid by then, so its figures are
lower bounds. A `Bound` stands in their place. Whatever is computed from it is a bound again, and
whatever is asked of it has one of three answers: yes, no, or None, which the bound cannot decide.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs

Number = int | float
Answer = bool | None
"""None: not decided by what is known."""


@attrs.frozen
class Bound:
    """A number in [low, high]; `high` is infinite where nothing bounds it."""

    low: Number
    high: Number = math.inf


Figure = Number | Bound


def is_figure(value: object) -> bool:
    """Whether a value is a number or a bound of one; a truth value is neither."""
    return isinstance(value, int | float | Bound) and not isinstance(value, bool)


def ends(value: Figure) -> tuple[Number, Number]:
    """The least and the largest that a figure can be."""
    return (value.low, value.high) if isinstance(value, Bound) else (value, value)


def _made(ends: list[Number]) -> Figure:
    known = [end for end in ends if not math.isnan(end)]
    if len(known) < len(ends):
        return Bound(-math.inf, math.inf)
    low, high = min(known), max(known)
    return low if low == high else Bound(low, high)


def add(a: Figure, b: Figure) -> Figure:
    """A + b."""
    return _made([x + y for x, y in zip(ends(a), ends(b), strict=True)])


def subtract(a: Figure, b: Figure) -> Figure:
    """A - b."""
    return add(a, negate(b))


def negate(a: Figure) -> Figure:
    """-a."""
    return _made([-end for end in ends(a)])


def multiply(a: Figure, b: Figure) -> Figure:
    """A x b."""
    return _made([x * y for x in ends(a) for y in ends(b)])


def divide(a: Figure, b: Figure) -> Figure | None:
    """A / b; None, no value, where b is 0."""
    low, high = ends(b)
    if low == high == 0:
        return None
    if low <= 0 <= high:
        return Bound(-math.inf, math.inf)
    return _made([x / y for x in ends(a) for y in (low, high)])


def magnitude(a: Figure) -> Figure:
    """|a|."""
    low, high = ends(a)
    if low >= 0:
        return a
    return negate(a) if high <= 0 else Bound(0, max(-low, high))


def less(a: Figure, b: Figure) -> Answer:
    """A < b."""
    (a_low, a_high), (b_low, b_high) = ends(a), ends(b)
    if a_high < b_low:
        return True
    return False if a_low >= b_high else None


def at_most(a: Figure, b: Figure) -> Answer:
    """A <= b."""
    return negation(less(b, a))


def equal(a: object, b: object) -> Answer:
    """A == b, for figures, and for anything else; lists element by element."""
    if is_figure(a) and is_figure(b):
        (a_low, a_high), (b_low, b_high) = ends(a), ends(b)  # type: ignore[arg-type]
        if a_low == a_high == b_low == b_high:
            return True
        return False if a_high < b_low or b_high < a_low else None
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return False
        return both([equal(x, y) for x, y in zip(a, b, strict=True)])
    return type(a) is type(b) and a == b


def negation(answer: Answer) -> Answer:
    """The opposite answer."""
    return None if answer is None else not answer


def both(answers: list[Answer]) -> Answer:
    """Whether all hold: one that does not hold decides."""
    if False in answers:
        return False
    return None if None in answers else True


def either(answers: list[Answer]) -> Answer:
    """Whether any holds: one that holds decides."""
    return negation(both([negation(answer) for answer in answers]))


def plain(value: Any) -> Any:
    """A value as JSON types: a bound is written as `at_least` and, if it has one, `at_most`."""
    if isinstance(value, Bound):
        known = {"at_least": value.low, "at_most": value.high}
        return {name: end for name, end in known.items() if math.isfinite(end)}
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value
