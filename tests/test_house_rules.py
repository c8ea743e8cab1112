"""Do the sources keep the rules that no linter checks as we want them?"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("dtrdiag", "instrumentation", "analyses")
MAX_LINES = 400
MAX_FUNCTION_LINES = 49
PICKLERS = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "shelve", "marshal"}

MODULES = sorted(
    path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py")
)


TESTS = sorted(path.relative_to(ROOT) for path in (ROOT / "tests").rglob("*.py"))


def imported_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module


def broken_by(node: ast.AST, may_print: bool) -> Iterator[str]:
    if isinstance(node, ast.Assert):
        yield "assert: input is refused by a typed error, and -O removes asserts"
    if isinstance(node, ast.Name) and node.id == "print" and not may_print:
        yield "print: only the command line writes to a terminal"
    if "setrecursionlimit" in (getattr(node, "attr", None), getattr(node, "id", None)):
        yield "setrecursionlimit: use an explicit stack"
    if isinstance(node, ast.ImportFrom) and any(a.name == "setrecursionlimit" for a in node.names):
        yield "setrecursionlimit: use an explicit stack"
    if isinstance(node, ast.FunctionDef):
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > MAX_FUNCTION_LINES:
            yield f"function: {node.name} has {length} lines, at most {MAX_FUNCTION_LINES} are read"
    for name in imported_names(node):
        if name.partition(".")[0] in PICKLERS:
            yield f"{name}: reading such a file runs what it holds"


def too_long(source: str) -> list[str]:
    lines = len(source.splitlines())
    return [f"{lines}: length: a module has at most {MAX_LINES} lines"] if lines > MAX_LINES else []


def problems(source: str, may_print: bool = False) -> list[str]:
    """What a module does against the rules, as ``LINE: RULE``, in source order."""
    tree = ast.parse(source)
    found = []
    if not ast.get_docstring(tree):
        found.append("1: docstring: a module opens by saying what it answers")
    found += too_long(source)
    for node in ast.walk(tree):
        found += [f"{getattr(node, 'lineno', 0)}: {rule}" for rule in broken_by(node, may_print)]
    return found


@pytest.mark.parametrize("path", MODULES, ids=Path.as_posix)
def test_a_module_keeps_the_house_rules(path):
    source = (ROOT / path).read_text(encoding="utf-8")
    assert problems(source, may_print=path.parts[:2] == ("dtrdiag", "cli")) == []


def test_modules_of_tests_are_no_longer_than_others():
    sources = {path.as_posix(): (ROOT / path).read_text(encoding="utf-8") for path in TESTS}
    assert "tests/test_house_rules.py" in sources
    assert {path: said for path, source in sources.items() if (said := too_long(source))} == {}


def test_the_modules_of_every_package_are_looked_at():
    assert {path.parts[0] for path in MODULES} == set(PACKAGES)


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("assert size > 0", "assert"),
        ("print('evicted')", "print"),
        ("show = print", "print"),
        ("import sys\nsys.setrecursionlimit(9999)", "setrecursionlimit"),
        ("from sys import setrecursionlimit", "setrecursionlimit"),
        ("import pickle", "pickle"),
        ("from pickle import loads", "pickle"),
        ("def load():\n    import marshal as m", "marshal"),
        ("\n" * MAX_LINES, "length"),
        ("def f():\n" + "    x = 1\n" * MAX_FUNCTION_LINES, "function"),
    ],
)
def test_a_breach_is_named(source, rule):
    (found,) = problems(f'"""Why."""\n{source}')
    assert found.partition(": ")[2].startswith(f"{rule}:")


def test_a_module_without_a_docstring_is_named():
    (found,) = problems("limit = 10\n")
    assert "docstring" in found


def test_a_clean_module_and_a_printing_command_pass():
    assert problems('"""Why."""\n' + "\n" * (MAX_LINES - 1)) == []
    assert problems('"""Why."""\nprint("done")', may_print=True) == []
