"""Do two runs of one trace serve the same program, and if not, where do the programs part?

Two runs of one recorded schedule always do. A live run is asked by a program, which may ask for
something else than what was recorded of it: then decisions part for that reason, not for the
runtime's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from dtrdiag.events.records import End, Event, OpDefined, ReferenceChanged

_OK = "ok"


@attrs.frozen
class ProgramDifference:
    """The first op that one program has and the other does not, or has otherwise.

    Attributes:
        op: its id.
        what: `references`, `name`, `inputs`, `aliases`, `sizes`, `cost`, or `missing` where one
            program ended.
        a: what the first program has there; None: no such op.
        b: what the second has there; None: no such op.
    """

    op: int
    what: str
    a: str | None
    b: str | None


def program_difference(first: Iterable[Event], second: Iterable[Event]) -> ProgramDifference | None:
    """The first op in which two programs differ; None where one is as the other, or its beginning.

    That one ended early counts only where its log ends with `ok`. An op also differs where other
    references came or went since the op before it.

    Args:
        first: events of one run.
        second: events of the other.
    """
    a, b = (_program(events) for events in (first, second))
    for left, right in zip(a[0], b[0], strict=False):
        for what, of in _PARTS.items():
            if of(left) != of(right):
                return ProgramDifference(
                    left.op.op, what, _op_words(left, what), _op_words(right, what)
                )
    shorter, longer = sorted((a, b), key=lambda side: len(side[0]))
    if len(shorter[0]) == len(longer[0]) or shorter[1] != _OK:
        return None
    extra = longer[0][len(shorter[0])]
    words = _op_words(extra, "name")
    in_a, in_b = (words, None) if longer is a else (None, words)
    return ProgramDifference(extra.op.op, "missing", in_a, in_b)


@attrs.frozen
class _Asked:
    """An op of a program, and what references came and went since the op before."""

    op: OpDefined
    references: tuple[tuple[int, int], ...]


_PARTS: dict[str, Callable[[_Asked], object]] = {
    "references": lambda asked: asked.references,
    "name": lambda asked: asked.op.name,
    "inputs": lambda asked: asked.op.inputs,
    "aliases": lambda asked: (asked.op.outputs, asked.op.storages),
    "sizes": lambda asked: asked.op.sizes_bytes,
    "cost": lambda asked: asked.op.cost_ns,
}


def _program(events: Iterable[Event]) -> tuple[list[_Asked], str | None]:
    ops: list[_Asked] = []
    references: list[tuple[int, int]] = []
    outcome = None
    for event in events:
        if isinstance(event, OpDefined):
            ops.append(_Asked(event, tuple(references)))
            references = []
        elif isinstance(event, ReferenceChanged):
            references.append((event.tensor, event.delta))
        elif isinstance(event, End):
            outcome = event.outcome
    return ops, outcome


def _op_words(asked: _Asked, what: str) -> str:
    op = asked.op
    details: dict[str, Callable[[], str]] = {
        "references": lambda: f" after {_references_words(asked.references)}",
        "inputs": lambda: f" of tensors {_listed(op.inputs)}",
        "aliases": lambda: f" into storages {_listed(op.storages)}",
        "sizes": lambda: f" making {_listed(op.sizes_bytes)} bytes",
        "cost": lambda: f" of {op.cost_ns} ns",
    }
    return op.name + (details[what]() if what in details else "")


def _references_words(references: Sequence[tuple[int, int]]) -> str:
    words = [f"{'retaining' if delta > 0 else 'releasing'} {one}" for one, delta in references]
    return ", ".join(words) or "no release"


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
