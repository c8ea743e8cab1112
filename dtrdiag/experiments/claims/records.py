"""What is a claim: what it says, what speaks for it, and what would refute it?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from dtrdiag.errors import DtrdiagError, LedgerError
from dtrdiag.experiments.claims.grammar import Path as FieldPath
from dtrdiag.experiments.claims.predicates import Predicate
from dtrdiag.experiments.claims.registry import Check

OBSERVATION, MECHANISM = "observation", "mechanism"
KINDS = (OBSERVATION, MECHANISM)
QUICK, FULL = "quick", "full"
COSTS = (QUICK, FULL)
EVIDENCE, MOVES, CONTROL = "evidence", "moves", "control"
ROLES = (MOVES, CONTROL)
"""What an intervention is for: `moves` is expected to change the outcome, `control` not to."""


@attrs.frozen
class Reference:
    """A figure out of another check, which a parameter names as `{name}`.

    Attributes:
        parameters: as written, with those of the item that it may take over.
        field: where the figure is in the check's document.
    """

    name: str
    check: Check
    parameters: Mapping[str, Any] = attrs.field(eq=False)
    field: FieldPath


@attrs.frozen
class Item:
    """A piece of evidence or an intervention.

    Attributes:
        title: in words, may be empty.
        role: `EVIDENCE`, or one of `ROLES`.
        parameters: of the check, as written; texts may name references.
        expect: what must hold of the check's document.
        references: by name.
        lines: line in the file of the item, and of each predicate, where known.
    """

    title: str
    role: str
    check: Check
    parameters: Mapping[str, Any] = attrs.field(eq=False)
    expect: tuple[Predicate, ...]
    references: Mapping[str, Reference] = attrs.field(eq=False)
    path: Path
    line: int | None
    lines: tuple[int | None, ...]

    def error(self, error: DtrdiagError, predicate: int | None = None) -> LedgerError:
        """An error as one of this item, or of one of its predicates."""
        line = self.line if predicate is None else self.lines[predicate]
        where = "" if error.where is None else f" ({error.where})"
        return LedgerError(error.what + where, path=self.path, line=line)


@attrs.frozen
class Claim:
    """One claim; its fields are those of docs/claims.md."""

    id: str
    title: str
    statement: str
    source: str
    scope: str
    kind: str
    refuted_if: str
    cost: str
    evidence: tuple[Item, ...]
    interventions: tuple[Item, ...]
    path: Path

    @property
    def items(self) -> tuple[Item, ...]:
        """Evidence, then interventions."""
        return (*self.evidence, *self.interventions)

    @property
    def traces(self) -> tuple[str, ...]:
        """The traces that it is about, in order of appearance, each once."""
        names = [item.parameters.get("trace", "") for item in self.items]
        return tuple(dict.fromkeys(name for name in names if name))


@attrs.frozen
class Ledger:
    """The claims of a folder.

    Attributes:
        folder: where they are.
        claims: by ascending id.
        committed: the status of each claim as it was written down; ids may be missing, or be those
            of claims that are gone.
    """

    folder: Path
    claims: tuple[Claim, ...]
    committed: Mapping[str, str] = attrs.field(eq=False)
