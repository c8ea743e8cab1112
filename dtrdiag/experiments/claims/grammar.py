"""What can a predicate say?

Python's parser reads the text, and what it found is held against the few forms of docs/claims.md.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dtrdiag.errors import LedgerError
from dtrdiag.experiments.claims import bounds
from dtrdiag.experiments.claims.bounds import Answer
from dtrdiag.suggestions import no_such

MAX_CHARACTERS = 1000
MAX_DEPTH = 40
CONSTANTS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}
Key = str | int
Path = tuple[Key, ...]

ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: bounds.add,
    ast.Sub: bounds.subtract,
    ast.Mult: bounds.multiply,
    ast.Div: bounds.divide,
}
ORDERS: dict[type[ast.cmpop], Callable[[Any, Any], Answer]] = {
    ast.Lt: bounds.less,
    ast.LtE: bounds.at_most,
    ast.Gt: lambda a, b: bounds.less(b, a),
    ast.GtE: lambda a, b: bounds.at_most(b, a),
}
_EQUALITIES = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
ARGUMENTS: Mapping[str, int] = {
    "abs": 1,
    "close": 3,
    "each": 2,
    "len": 1,
    "max": 1,
    "min": 1,
    "subset": 2,
    "sum": 1,
}
"""The functions, with how many arguments each takes."""
MEASURED = ("each", "len")
"""The functions whose value is reported, rather than the lists that they are given."""
ANSWERING = ("close", "subset")
"""The functions whose value is an answer, so that they are predicates by themselves."""


def parse_path(text: str) -> Path:
    """The path that a text such as `first_divergence.index` stands for.

    Raises:
        LedgerError: it is none.
    """
    try:
        path = path_of(ast.parse(text.strip()[:MAX_CHARACTERS], mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        path = None
    if path is None:
        raise LedgerError(f"this is no field: {text[:80]!r}")
    return path


def path_text(path: Path) -> str:
    """A path as a predicate writes it.

    >>> path_text(("sets", "pressure", "jaccard")), path_text(("inversions", 0, 1))
    ('sets.pressure.jaccard', 'inversions[0][1]')
    """
    text = str(path[0])
    for key in path[1:]:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            text += f".{key}" if key.isidentifier() else f"[{key!r}]"
    return text


def path_of(node: ast.expr) -> Path | None:
    """The path that an expression is; None: it is something else."""
    keys: list[Key] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            keys.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript):
            key = _key(node.slice)
            if key is None:
                return None
            keys.append(key)
            node = node.value
        else:
            return None
    return None if node.id in CONSTANTS else (node.id, *reversed(keys))


def _key(node: ast.expr) -> Key | None:
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -1
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
        return None
    if isinstance(node.value, int):
        return sign * node.value
    return node.value if isinstance(node.value, str) and sign == 1 else None


def terms_of(node: ast.expr, depth: int) -> Iterator[tuple[str, ast.expr]]:
    """The terms of an expression, which is made of known forms alone."""
    if depth > MAX_DEPTH:
        raise LedgerError(f"it is nested more than {MAX_DEPTH} deep")
    path = path_of(node)
    if path is not None:
        yield path_text(path), node
        return
    parts = [term for part in _parts(node) for term in terms_of(part, depth + 1)]
    if parts and isinstance(node, ast.Call) and node.func.id in MEASURED:  # type: ignore[attr-defined]
        yield ast.unparse(node), node
    else:
        yield from parts


def _parts(node: ast.expr) -> list[ast.expr]:
    """The expressions that a known form consists of."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str):
        return []
    if isinstance(node, ast.Name) and node.id in CONSTANTS:
        return []
    if isinstance(node, ast.BoolOp):
        return _only_answers(node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _only_answers([node.operand])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return [node.operand]
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        return [node.left, node.right]
    if isinstance(node, ast.List):
        return node.elts
    if isinstance(node, ast.Compare) and all(_is_comparison(op) for op in node.ops):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        name = node.func.id
        if name not in ARGUMENTS:
            raise LedgerError(no_such("function", name, ARGUMENTS))
        if len(node.args) != ARGUMENTS[name]:
            raise LedgerError(f"{name} takes {ARGUMENTS[name]} arguments, not {len(node.args)}")
        if name == "each":
            each_path(node)
        return node.args
    raise LedgerError(f"{ast.unparse(node)[:60]!r} is nothing that a predicate can say")


def _is_comparison(op: ast.cmpop) -> bool:
    return type(op) in ORDERS or isinstance(op, _EQUALITIES)


def _only_answers(nodes: list[ast.expr]) -> list[ast.expr]:
    for node in nodes:
        if not answers(node):
            raise LedgerError(f"{ast.unparse(node)[:60]!r} compares nothing")
    return nodes


def answers(node: ast.expr) -> bool:
    """Whether the value of an expression is an answer."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ANSWERING
    negation = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return negation or isinstance(node, ast.BoolOp | ast.Compare)


def each_path(node: ast.Call) -> Path:
    """The path within each item: the second argument of `each`, a text."""
    second = node.args[1]
    if isinstance(second, ast.Constant) and isinstance(second.value, str):
        return parse_path(second.value)
    raise LedgerError("each takes a list and the name of a field, such as each(runs, 'outcome')")
