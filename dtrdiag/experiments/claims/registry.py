"""Which checks are there, and which parameters does each take?

A check is a function of a `Laboratory` and of its parameters, registered by a decorator; it returns
a document of JSON types, in which a `Bound` stands for a figure of which only bounds are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from dtrdiag.errors import LedgerError
from dtrdiag.experiments.claims.laboratory import Laboratory
from dtrdiag.suggestions import no_such

Parser = Callable[[Any], Any]
"""Turns a value of TOML into what a check works with. Raises ValueError, with what it must be."""
Document = dict[str, Any]
CheckFunction = Callable[[Laboratory, Mapping[str, Any]], Document]


@attrs.frozen
class Check:
    """A registered check.

    Attributes:
        name: as claims say it.
        says: one sentence on its document.
        parameters: what each is parsed by.
        required: those that have to be given.
        complete: refuses what no run could be made of, before one is made.
        function: makes the document.
    """

    name: str
    says: str
    parameters: Mapping[str, Parser]
    required: tuple[str, ...]
    complete: Callable[[Mapping[str, Any]], object]
    function: CheckFunction

    def parsed(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters as the check takes them.

        Raises:
            LedgerError: one is unknown or missing, or its value cannot be used.
            DtrdiagError: they cannot be used together.
        """
        found = {name: self.value(name, value) for name, value in given.items()}
        missing = [name for name in self.required if name not in given]
        if missing:
            raise LedgerError(f"check {self.name!r} needs the parameter {missing[0]!r}")
        self.complete(found)
        return found

    def value(self, name: str, value: Any) -> Any:
        """One parameter as the check takes it.

        Raises:
            LedgerError: there is no such parameter, or its value cannot be used.
        """
        if name not in self.parameters:
            raise LedgerError(no_such(f"parameter of check {self.name}", name, self.parameters))
        try:
            return self.parameters[name](value)
        except ValueError as error:
            raise LedgerError(f"{name} must be {error}, not {value!r:.60}") from None


_CHECKS: dict[str, Check] = {}


def check(
    name: str,
    parameters: Mapping[str, Parser],
    required: tuple[str, ...],
    complete: Callable[[Mapping[str, Any]], object],
) -> Callable[[CheckFunction], CheckFunction]:
    """Register a check; its docstring's first line is what it says.

    Raises:
        LedgerError: the name is taken.
    """

    def register(function: CheckFunction) -> CheckFunction:
        if name in _CHECKS:
            raise LedgerError(f"a check named {name!r} exists already")
        says = (function.__doc__ or "").strip().partition("\n")[0]
        _CHECKS[name] = Check(name, says, parameters, required, complete, function)
        return function

    return register


def find_check(name: str) -> Check:
    """The check of a name.

    Raises:
        LedgerError: there is none.
    """
    if name not in _CHECKS:
        raise LedgerError(no_such("check", name, _CHECKS))
    return _CHECKS[name]


def checks() -> list[Check]:
    """All checks, in the order in which they were registered."""
    return list(_CHECKS.values())
