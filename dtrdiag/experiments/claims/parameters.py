"""What may a parameter of a check be, and which runs do parameters stand for?

Each parser takes a value of TOML and raises ValueError with what it must be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dtrdiag.errors import LedgerError
from dtrdiag.experiments.claims.laboratory import Amount, Run
from dtrdiag.experiments.claims.registry import Parser

MAX_PLAIN_RATIO = 10
"""Up to here a whole number is a ratio where both are taken, as for the verb `map`."""
MAX_RUNS = 1000


def text(value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text")
    return value


def ratio(value: Any) -> float:
    """A ratio of the peak."""
    if _is_number(value) and math.isfinite(value) and value > 0:
        return float(value)
    raise ValueError("a ratio of the peak, a positive number")


def budget(value: Any) -> int:
    """A number of bytes; also as a text, since a reference puts one there."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise ValueError("a whole number of bytes, at least 1")


def amount(value: Any) -> Amount:
    """A ratio, or a number of bytes."""
    try:
        if isinstance(value, float) or (_is_number(value) and value <= MAX_PLAIN_RATIO):
            return ratio(value)
        return budget(value)
    except ValueError:
        raise ValueError("a ratio of the peak or a whole number of bytes") from None


def limit(value: Any) -> float | int | None:
    """An overhead limit."""
    if value == "none":
        return None
    if _is_number(value) and math.isfinite(value) and value >= 1:
        return value  # type: ignore[no-any-return]
    raise ValueError('a number >= 1 or "none"')


def count(value: Any) -> int:
    """A whole number, 0 or more."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError("a whole number, 0 or more")


def many(parse: Callable[[Any], Any], exactly: int | None = None) -> Parser:
    """A list of what another parser takes."""
    wanted = "a list" if exactly is None else f"a list of {exactly}"

    def parse_list(value: Any) -> list[Any]:
        lengths = range(1, MAX_RUNS + 1) if exactly is None else (exactly,)
        if not isinstance(value, list) or len(value) not in lengths:
            raise ValueError(wanted)
        try:
            return [parse(item) for item in value]
        except ValueError as error:
            raise ValueError(f"{wanted}, each {error}") from None

    return parse_list


RUN: Mapping[str, Parser] = {
    "trace": text,
    "policy": text,
    "ratio": ratio,
    "budget": budget,
    "dealloc": text,
    "overhead_limit": limit,
    "seed": count,
    "semantics": text,
    "interventions": text,
}
"""The parameters of one run."""
RULES: Mapping[str, Parser] = {
    name: parse for name, parse in RUN.items() if name not in ("ratio", "budget")
}
"""Those of many runs that differ in their budgets."""


def side(value: Any) -> dict[str, Any]:
    """Parameters in which one run of two differs."""
    if not isinstance(value, dict) or not value:
        raise ValueError("a table of parameters of a run")
    for name in value:
        if name not in RUN or name == "trace":
            raise ValueError(f"a table of parameters of a run, which {name!r} is not")
    try:
        return {name: RUN[name](given) for name, given in value.items()}
    except ValueError as error:
        raise ValueError(f"a table of parameters of a run, each a proper one: {error}") from None


PAIR: Mapping[str, Parser] = {
    **RUN,
    "ratios": many(ratio, 2),
    "budgets": many(budget, 2),
    "policies": many(text, 2),
    "a": side,
    "b": side,
}
"""The parameters of two runs of one trace."""
_LISTS = {"ratios": "ratio", "budgets": "budget", "policies": "policy"}


def run(given: Mapping[str, Any]) -> Run:
    """The run that parameters stand for; parameters that are not a run's are left alone.

    Raises:
        DtrdiagError: the rules cannot be used.
    """
    made = Run(**{name: value for name, value in given.items() if name in RUN})
    made.rules()
    return made


def pair(given: Mapping[str, Any]) -> tuple[Run, Run]:
    """The two runs that parameters stand for.

    Raises:
        LedgerError: they are one and the same run, or a parameter is there twice.
        DtrdiagError: the rules cannot be used.
    """
    shared = {name: value for name, value in given.items() if name in RUN}
    sides = []
    for index, name in enumerate("ab"):
        own = {_LISTS[many]: given[many][index] for many in _LISTS if many in given}
        twice = set(own) & (set(shared) | set(given.get(name, {})))
        if twice:
            raise LedgerError(f"{min(twice)!r} is given twice for run {name}")
        sides.append(run(shared | own | given.get(name, {})))
    if sides[0] == sides[1]:
        raise LedgerError("runs a and b are the same; give ratios, budgets, policies, or a and b")
    return sides[0], sides[1]


def listed_runs(given: Mapping[str, Any]) -> Sequence[Run]:
    """One run for each of `ratios` or `budgets`, or of `policies`, or of both, policies outermost.

    Raises:
        LedgerError: both ratios and budgets are given, or no list.
        DtrdiagError: the rules cannot be used.
    """
    if "ratios" in given and "budgets" in given:
        raise LedgerError("give ratios or budgets, not both")
    shared = {name: value for name, value in given.items() if name in RUN}
    rows: list[dict[str, Any]] = [{}]
    for many_of in ("policies", "ratios", "budgets"):
        if many_of in given:
            rows = [row | {_LISTS[many_of]: value} for row in rows for value in given[many_of]]
    if rows == [{}]:
        raise LedgerError("give ratios, budgets or policies")
    return [run(shared | row) for row in rows]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
