"""What changes when one thing is changed, and the rest is left to the rules?

These checks make a run, or a map, twice: as it is (`base`), and with an intervention (`changed`).
Only they can show a mechanism at work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dtrdiag.errors import LedgerError
from dtrdiag.experiments.claims.checks import run_of
from dtrdiag.experiments.claims.laboratory import Laboratory, Run
from dtrdiag.experiments.claims.mapchecks import MAP, map_of
from dtrdiag.experiments.claims.parameters import RUN, run, side
from dtrdiag.experiments.claims.registry import Document, check

CHANGEABLE = ("policy", "dealloc", "seed", "semantics", "interventions")
"""A budget changed as a whole would be another run, not an intervention."""


def change(value: Any) -> dict[str, Any]:
    """What is changed for the whole run."""
    changed = side(value)
    for name in changed:
        if name not in CHANGEABLE:
            raise ValueError(f"a table of some of {', '.join(CHANGEABLE)}")
    return changed


def both_runs(given: Mapping[str, Any]) -> tuple[Run, Run]:
    """The run as it is and the changed one.

    Raises:
        LedgerError: nothing is changed.
        DtrdiagError: the rules cannot be used.
    """
    changes = dict(given.get("change", {}))
    if "interventions" in given:
        if "interventions" in changes:
            raise LedgerError("'interventions' is given twice")
        changes["interventions"] = given["interventions"]
    base = {name: value for name, value in given.items() if name != "interventions"}
    before, after = run(base), run(base | changes)
    if before == after:
        raise LedgerError("nothing is changed; give interventions, or change = {...}")
    return before, after


_WHATIF = {**RUN, "change": change}


@check("whatif", _WHATIF, ("trace",), both_runs)
def whatif_check(laboratory: Laboratory, given: Mapping[str, Any]) -> Document:
    """A run as it is and changed: `base`, `changed`, `same_decisions`."""
    base, changed = (run_of(laboratory, each) for each in both_runs(given))
    same = base["decisions_sha256"] == changed["decisions_sha256"]
    return {"base": base, "changed": changed, "same_decisions": same}


_WHATIF_MAP = {**MAP, "change": change}


@check("whatif-map", _WHATIF_MAP, ("trace", "from", "to"), both_runs)
def whatif_map_check(laboratory: Laboratory, given: Mapping[str, Any]) -> Document:
    """A range of budgets as it is and changed: `base` and `changed`, each as `map`."""
    base, changed = (map_of(laboratory, each, given) for each in both_runs(given))
    return {"base": base, "changed": changed}


INTERVENING = ("whatif", "whatif-map")
"""The checks that an intervention may use."""
