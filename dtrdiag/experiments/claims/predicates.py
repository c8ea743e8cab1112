"""Does a document say what a predicate expects of it?

A predicate is a text such as `b.overhead >= 6.3 and first_divergence.kind == 'fit'`. It is parsed
into known forms (`grammar`) and walked; nothing is ever executed as Python. An answer is True,
False, or None where the document holds bounds that do not decide (see `bounds`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from dtrdiag.errors import LedgerError
from dtrdiag.experiments.claims import bounds
from dtrdiag.experiments.claims.bounds import Answer, Bound
from dtrdiag.experiments.claims.grammar import (
    ARITHMETIC,
    CONSTANTS,
    MAX_CHARACTERS,
    ORDERS,
    Path,
    answers,
    each_path,
    path_of,
    path_text,
    terms_of,
)

MAX_ITEMS = 64
"""A longer list is reported by its length and its ends."""


@attrs.frozen
class Predicate:
    """An expectation on a document.

    Attributes:
        text: as written.
        terms: what it measures, as text: fields, lengths of lists, and fields of all items of a
            list, in order of appearance, each once.
    """

    text: str
    terms: Mapping[str, ast.expr] = attrs.field(eq=False, repr=False)
    _tree: ast.expr = attrs.field(eq=False, repr=False)

    def holds(self, document: Mapping[str, Any]) -> Answer:
        """Whether a document is as expected; None where its bounds do not decide.

        Raises:
            LedgerError: a field does not exist, or a value cannot be used as the text does.
        """
        return _Walk(document).answer(self._tree)

    def measured(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Its terms, each with what it is in a document, as JSON types; long lists shortened."""
        walk = _Walk(document)
        return {text: _short(walk.value(term)) for text, term in self.terms.items()}


def _short(value: Any) -> Any:
    items = bounds.plain(value)
    if isinstance(items, list) and len(items) > MAX_ITEMS:
        return {"items": len(items), "first": items[:3], "last": items[-3:]}
    return items


def parse_predicate(text: str) -> Predicate:
    """The predicate that a text stands for.

    Raises:
        LedgerError: it is none; says why.
    """
    shown = repr(text[:80])
    if len(text) > MAX_CHARACTERS:
        raise LedgerError(f"a predicate of more than {MAX_CHARACTERS} characters: {shown}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise LedgerError(f"this is no predicate: {shown}") from None
    try:
        terms = dict(terms_of(tree, 0))
        if not answers(tree):
            raise LedgerError("it compares nothing; write a comparison, such as x == true")
        if not terms:
            raise LedgerError("it looks at no field")
    except LedgerError as error:
        raise LedgerError(f"this is no predicate: {shown}: {error.what}") from None
    return Predicate(text, terms, tree)


def field(document: Mapping[str, Any], path: Path) -> Any:
    """What a document has at a path; any part of null is null.

    Raises:
        LedgerError: there is no such field.
    """
    value: Any = document
    for place, key in enumerate(path):
        if value is None:
            return None
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list | tuple) and isinstance(key, int):
            if not -len(value) <= key < len(value):
                raise LedgerError(
                    f"no field {path_text(path)!r}: {path_text(path[:place])!r} has {len(value)} "
                    "items"
                )
            value = value[key]
        else:
            raise LedgerError(f"no field {path_text(path)!r}{_there(path[:place], value)}")
    return value


def _there(path: Path, value: Any) -> str:
    if not isinstance(value, Mapping):
        return f": {path_text(path)!r} is no table"
    where = f"{path_text(path)!r}" if path else "the document"
    names = ", ".join(sorted(map(str, value)))
    return f": {where} has {names[:400]}"


class _Walk:
    """Evaluates one checked expression on one document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def answer(self, node: ast.expr) -> Answer:
        """Of a form that `_answers`."""
        if isinstance(node, ast.BoolOp):
            answers = [self.answer(value) for value in node.values]
            return (bounds.both if isinstance(node.op, ast.And) else bounds.either)(answers)
        if isinstance(node, ast.UnaryOp):
            return bounds.negation(self.answer(node.operand))
        if isinstance(node, ast.Compare):
            values = [self.value(part) for part in (node.left, *node.comparators)]
            pairs = zip(node.ops, values, values[1:], strict=False)
            return bounds.both([_compared(op, a, b) for op, a, b in pairs])
        return self._called(node)  # type: ignore[no-any-return]

    def value(self, node: ast.expr) -> Any:
        """Of any form."""
        path = path_of(node)
        if path is not None:
            return field(self._document, path)
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return CONSTANTS[node.id]
        if isinstance(node, ast.List):
            return [self.value(part) for part in node.elts]
        if isinstance(node, ast.BinOp):
            return _computed(
                ARITHMETIC[type(node.op)], self.value(node.left), self.value(node.right)
            )
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return _computed(bounds.negate, self.value(node.operand))
        return self._called(node) if isinstance(node, ast.Call) else self.answer(node)

    def _called(self, node: ast.expr) -> Any:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            raise LedgerError("this is no predicate")
        name = node.func.id
        if name == "each":
            items = _listed(self.value(node.args[0]), name)
            return (
                None
                if items is None
                else [field({"": item}, ("", *each_path(node))) for item in items]
            )
        values = [self.value(argument) for argument in node.args]
        if name == "abs":
            return _computed(bounds.magnitude, *values)
        if name == "close":
            distance = _computed(bounds.magnitude, _computed(bounds.subtract, *values[:2]))
            return _compared(ast.LtE(), distance, values[2])
        lists = [_listed(value, name) for value in values]
        if any(items is None for items in lists):
            return False if name == "subset" else None
        if name == "subset":
            return bounds.both([_contained(item, lists[1] or []) for item in lists[0] or []])
        return _of_list(name, lists[0] or [])


def _of_list(name: str, items: list[Any]) -> Any:
    if name == "len":
        return len(items)
    if name == "sum":
        total: Any = 0
        for item in items:
            total = _computed(bounds.add, total, item)
        return total
    if not items or any(item is None for item in items):
        return None
    for item in items:
        _computed(bounds.magnitude, item)  # refuses what is no figure
    lows, highs = zip(*map(bounds.ends, items), strict=True)
    pick = max if name == "max" else min
    low, high = pick(lows), pick(highs)
    return low if low == high else Bound(low, high)


def _listed(value: Any, name: str) -> list[Any] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise LedgerError(f"{name} takes a list, not {_shown(value)}")
    return list(value)


def _computed(function: Callable[..., Any], *values: Any) -> Any:
    """Arithmetic, in which null gives null."""
    if any(value is None for value in values):
        return None
    for value in values:
        if not bounds.is_figure(value):
            raise LedgerError(f"{_shown(value)} is no number")
    try:
        return function(*values)
    except OverflowError:
        raise LedgerError("a figure is too large") from None


def _compared(op: ast.cmpop, a: Any, b: Any) -> Answer:
    if isinstance(op, ast.Eq | ast.NotEq):
        same = bounds.equal(_as_list(a), _as_list(b))
        return same if isinstance(op, ast.Eq) else bounds.negation(same)
    if isinstance(op, ast.In | ast.NotIn):
        items = _listed(b, "in")
        held = False if items is None else _contained(a, items)
        return held if isinstance(op, ast.In) else bounds.negation(held)
    if a is None or b is None:
        return False  # null has no order
    for value in (a, b):
        if not bounds.is_figure(value):
            raise LedgerError(f"{_shown(value)} has no order, since it is no number")
    return ORDERS[type(op)](a, b)


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _contained(value: Any, items: list[Any]) -> Answer:
    return bounds.either([bounds.equal(_as_list(value), _as_list(item)) for item in items])


def _shown(value: Any) -> str:
    return repr(bounds.plain(value))[:60]
