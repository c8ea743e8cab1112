"""How is one piece of evidence read, and how do figures of other checks get into its parameters?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dtrdiag.errors import DtrdiagError, LedgerError
from dtrdiag.experiments.claims.grammar import parse_path
from dtrdiag.experiments.claims.places import Places
from dtrdiag.experiments.claims.predicates import Predicate, parse_predicate
from dtrdiag.experiments.claims.records import EVIDENCE, MOVES, ROLES, Item, Reference
from dtrdiag.experiments.claims.registry import Check, find_check
from dtrdiag.experiments.claims.whatif import INTERVENING
from dtrdiag.suggestions import no_such

OWN_KEYS = ("check", "title", "expect", "refer", "role")
"""Keys of an item that are no parameters of its check."""
INHERITED = ("trace", "policy", "dealloc", "overhead_limit", "seed", "semantics")
"""Parameters that a reference takes over from its item, where its check has them."""
_NAMED = re.compile(r"\{([^{}+-]*)([+-][0-9]+)?\}")


def read_item(
    table: Mapping[str, Any],
    defaults: Mapping[str, Any],
    kind: str,
    index: int,
    path: Path,
    places: Places,
) -> Item:
    """One `[[evidence]]` or `[[intervention]]`.

    Args:
        table: as TOML gives it.
        defaults: parameters of all items, used where a check has such a parameter.
        kind: name of the table.
        index: which of the tables of that name.
        path: the file.
        places: lines of the file.

    Raises:
        LedgerError: it cannot be used; with its line.
    """
    reader = _Reader(table, kind)
    try:
        title, role, check = reader.title(), reader.role(), reader.check()
        expect = reader.predicates()
        parameters, references = reader.parameters(check, defaults)
    except DtrdiagError as error:
        line = places.of(kind, index, reader.key)
        if reader.text is not None:
            line = _line_of(places, kind, index, reader.text)
        raise LedgerError(error.what, path=path, line=line) from None
    line = places.of(kind, index)
    lines = tuple(_line_of(places, kind, index, predicate.text) for predicate in expect)
    return Item(title, role, check, parameters, tuple(expect), references, path, line, lines)


class _Reader:
    """Reads one table, and knows which key and which text it is at, for messages."""

    def __init__(self, table: Mapping[str, Any], kind: str) -> None:
        self.key: str | None = None
        self.text: str | None = None
        self._table = table
        self._kind = kind

    def title(self) -> str:
        self.key = "title"
        title = self._table.get("title", "")
        if not isinstance(title, str):
            raise LedgerError("title must be a text")
        return title

    def role(self) -> str:
        self.key = "role"
        return _role(self._table, self._kind)

    def check(self) -> Check:
        self.key = "check"
        return _check(self._table, self._kind)

    def predicates(self) -> list[Predicate]:
        self.key = "expect"
        found = []
        for text in _texts(self._table.get("expect")):
            self.text = text
            found.append(parse_predicate(text))
        self.text = None
        return found

    def parameters(
        self, check: Check, defaults: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Reference]]:
        parameters = _with_defaults(check, self._table, defaults)
        for name, value in parameters.items():
            self.key = name if name in self._table else None
            if not names_in(value):
                check.value(name, value)
        self.key = "refer"
        references = _references(self._table.get("refer", {}), parameters)
        self.key = None
        _check_early(check, parameters, references)
        return parameters, references


def _line_of(places: Places, kind: str, index: int, text: str) -> int | None:
    quoted = [quote + text + quote for quote in "\"'"]
    for holding in (*quoted, text):
        line = places.of(kind, index, holding=holding)
        if line != places.of(kind, index):
            return line
    return places.of(kind, index, "expect")


def _check(table: Mapping[str, Any], kind: str) -> Check:
    name = table.get("check")
    if not isinstance(name, str):
        raise LedgerError(f"{kind} must name a check")
    check = find_check(name)
    if kind != EVIDENCE and name not in INTERVENING:
        raise LedgerError(f"{name!r} intervenes in nothing; use {' or '.join(INTERVENING)}")
    return check


def _role(table: Mapping[str, Any], kind: str) -> str:
    if kind == EVIDENCE:
        if "role" in table:
            raise LedgerError("evidence has no role; an intervention has")
        return EVIDENCE
    role = table.get("role", MOVES)
    if role not in ROLES:
        raise LedgerError(no_such("role", role, ROLES))
    return str(role)


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(x, str) for x in value):
        raise LedgerError("expect must be a list of predicates, one at least")
    return value


def _with_defaults(
    check: Check, table: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    own = {name: value for name, value in table.items() if name not in OWN_KEYS}
    return {name: defaults[name] for name in defaults if name in check.parameters} | own


def _references(given: Any, parameters: Mapping[str, Any]) -> dict[str, Reference]:
    if not isinstance(given, dict) or not all(isinstance(value, dict) for value in given.values()):
        raise LedgerError("refer must be a table of tables: [intervention.refer.NAME]")
    found = {}
    for name, table in given.items():
        if not name.isidentifier():
            raise LedgerError(f"a reference must be named by a word, not {name[:60]!r}")
        check_name, text = table.get("check"), table.get("field")
        if not isinstance(check_name, str) or not isinstance(text, str):
            raise LedgerError(f"the reference {name!r} must have a check and a field")
        check = find_check(check_name)
        own = {key: value for key, value in table.items() if key not in ("check", "field")}
        shared = {
            key: parameters[key]
            for key in INHERITED
            if key in parameters and key in check.parameters
        }
        found[name] = Reference(name, check, shared | own, parse_path(text))
    _check_circles(found)
    for reference in found.values():
        try:
            _check_early(reference.check, reference.parameters, found)
        except DtrdiagError as error:
            raise LedgerError(f"the reference {reference.name!r}: {error.what}") from None
    return found


def _check_circles(references: Mapping[str, Reference]) -> None:
    uses = {name: names_in(reference.parameters) for name, reference in references.items()}
    for name, used in uses.items():
        _refuse_unknown(used, references)
        reached, waiting = set[str](), list(used)
        while waiting:
            other = waiting.pop()
            if other not in reached:
                reached.add(other)
                waiting.extend(uses.get(other, ()))
        if name in reached:
            raise LedgerError(f"the reference {name!r} needs itself")


def _refuse_unknown(used: list[str], references: Mapping[str, Reference]) -> None:
    for name in used:
        if name not in references:
            raise LedgerError(no_such("reference", name, references))


def _check_early(
    check: Check, parameters: Mapping[str, Any], references: Mapping[str, Reference]
) -> None:
    """Refuse parameters that no figure of a reference could make usable."""
    used = names_in(parameters)
    _refuse_unknown(used, references)
    for name, value in parameters.items():
        if name not in check.parameters or not names_in(value):
            check.value(name, value)
    if not used:  # what is to come of a parameter that names a figure cannot be known yet
        check.parsed(parameters)


def _shifted(figure: int | str, named: re.Match[str]) -> str:
    if named[2] is None:
        return str(figure)
    if isinstance(figure, str):
        raise LedgerError(f"nothing can be added to the text {figure[:40]!r}: {named[0]}")
    return str(figure + int(named[2]))


def names_in(value: Any) -> list[str]:
    """The references that texts in a value name, in order of appearance."""
    if isinstance(value, str):
        return [name for name, _ in _NAMED.findall(value)]
    parts = value.values() if isinstance(value, Mapping) else value
    if not isinstance(value, Mapping | list):
        return []
    return [name for part in parts for name in names_in(part)]


def filled(value: Any, figure: Callable[[str], int | str]) -> Any:
    """A value with the figure of each reference in its place.

    Raises:
        LedgerError: a number is to be added to a text.
    """
    if isinstance(value, str):
        return _NAMED.sub(lambda named: _shifted(figure(named[1]), named), value)
    if isinstance(value, Mapping):
        return {name: filled(part, figure) for name, part in value.items()}
    if isinstance(value, list):
        return [filled(part, figure) for part in value]
    return value
