"""How the arrays that the compiled engine logs become columns of events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dtrdiag.events.columns import (
    COLUMNS,
    FLOAT,
    INT,
    KINDS,
    Candidates,
    Column,
    EventColumns,
    Flags,
    Ints,
    Lists,
    Numbers,
    Texts,
)

_KINDS = (
    "run", "op", "output", "reference", "materialise", "lock", "unlock", "fit", "evict", "compute",
    "rematerialise", "pin", "banish", "oom", "thrashed", "end",
)  # fmt: skip
# The codes of csrc/event_log.hpp, by position.
_PINNED_WORDS = {
    "reason": ("first", "remat", "constant", "output", "banish", "intervention"),
    "cause": ("pressure", "release", "banish"),
}


def columns_from(arrays: dict[str, Any], names: Texts, limit: Numbers) -> EventColumns:
    """One batch of events.

    Args:
        arrays: as csrc/event_arrays.hpp names them.
        names: [ops] operator names, from `names_column`.
        limit: what a `thrashed` event says of the limit.
    """
    kind = arrays["kind"]
    first = arrays["first_seq"]
    fields: dict[str, Column] = {"seq": Ints(np.arange(first, first + len(kind), dtype=np.int64))}
    for name, made in arrays.items():
        if name in _FORMS:
            fields[name] = _FORMS[name](made)
    fields["name"] = names.take(arrays["name_op"])
    offsets, storages = arrays["losers"]
    fields["evict_candidates"] = Candidates(offsets, storages, _numbers(arrays["loser_scores"]))
    if (kind == KINDS.index("thrashed")).any():
        fields["limit_ns"] = limit
    return EventColumns(kind, {name: column for name, column in fields.items() if len(column)})


def _ints(made: Any) -> Ints:
    if not isinstance(made, tuple):
        return Ints(made)
    values, valid = made
    return Ints(values, None if valid.all() else valid.view(np.bool_))


def _numbers(made: Any) -> Numbers:
    tags, floats, ints = made
    return Numbers(tags, floats, ints if (tags == INT).any() else None)


def _texts(name: str) -> Callable[[Any], Texts]:
    return lambda codes: Texts(codes, _PINNED_WORDS[name])


_SPECIAL: dict[str, Callable[[Any], Column]] = {
    "fits": lambda made: Flags(made.view(np.bool_)),
    "score": _numbers,
    "reason": _texts("reason"),
    "cause": _texts("cause"),
}
_FORMS: dict[str, Callable[[Any], Column]] = {
    name: _SPECIAL.get(name, _ints if spec.form is Ints else lambda made: Lists(*made))
    for name, spec in COLUMNS.items()
    if name in _SPECIAL or spec.form in (Ints, Lists)
}


def names_column(names: Iterable[str]) -> Texts:
    """A column of operator names, each distinct one a word."""
    index: dict[str, int] = {}
    codes = [index.setdefault(name, len(index)) for name in names]
    return Texts(np.array(codes, np.int32), tuple(index))


def column_of_number(number: float | int) -> Numbers:
    """A column of one number."""
    if isinstance(number, int):
        return Numbers(np.array([INT], np.uint8), np.zeros(1), np.array([number], np.int64))
    return Numbers(np.array([FLOAT], np.uint8), np.array([number]))


def agrees_with_schema() -> bool:
    """Whether the codes of the compiled engine are those of the schema."""
    return KINDS == _KINDS and all(COLUMNS[n].words == words for n, words in _PINNED_WORDS.items())
