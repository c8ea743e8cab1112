"""What do a run and the same run with interventions say side by side?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from rich.table import Table

from dtrdiag.analyses.diff import RunDiff
from dtrdiag.rendering.tables import outcome_text
from dtrdiag.rendering.words import divergence_words
from dtrdiag.units import (
    both_bytes,
    count,
    duration,
    interval_words,
    overhead_words,
    plain_name,
)

Document = Mapping[str, Any]
_LONGEST = 400
_PLACED = re.compile(r"(?:^|(?<=; ))(force|forbid|policy|budget) ([0-9]+)(?:=([^;]*))?")

_FACTS: dict[str, Callable[[Document], str]] = {
    "outcome": lambda run: str(run["outcome"]),
    "overhead": lambda run: overhead_words(run["overhead"]),
    "rematerialisations": lambda run: f"{run['remats']:,}",
    "cost of rematerialisation": lambda run: duration(run["remat_cost"]),
    "evictions under pressure": lambda run: f"{run['evictions']['pressure']:,}",
    "evictions on release": lambda run: f"{run['evictions']['release']:,}",
    "evictions for good": lambda run: f"{run['evictions']['banish']:,}",
    "distinct storages evicted": lambda run: f"{run['distinct_evicted']['total']:,}",
    "largest memory in use": lambda run: both_bytes(run["max_memory"]),
    "same decisions for budgets": lambda run: interval_words(*run["interval"]),
    "decisions": lambda run: str(run["decisions_sha256"])[:16],
}
"""What is told of each run, in this order; exact figures decide whether a fact moved."""
_EXACT: dict[str, Callable[[Document], object]] = {
    "overhead": lambda run: run["overhead"],
    "cost of rematerialisation": lambda run: run["remat_cost"],
    "decisions": lambda run: run["decisions_sha256"],
}


def moved_facts(base: Document, run: Document) -> dict[str, bool]:
    """Which facts of a run are others in another, by their names.

    Args:
        base: a `dtrdiag.run/1` document.
        run: the other.
    """
    facts: dict[str, Callable[[Document], object]] = {**_FACTS, **_EXACT}
    return {name: fact(base) != fact(run) for name, fact in facts.items()}


def placed_words(interventions: str, events: Mapping[tuple[str, int], int]) -> str:
    """Interventions as the header's text has them, with words for where they take effect.

    Args:
        interventions: the canonical text, in which numbers are indices of decisions.
        events: by intervention (`force`, `forbid`, `policy`, `budget`) and index of the decision,
            the number of the event that was given for it, where one was.
    """

    def words(found: re.Match[str]) -> str:
        what, index, value = found[1], int(found[2]), found[3]
        event = events.get((what, index))
        at = f"decision @{index}" if event is None else f"event {event} (decision @{index})"
        if what in ("policy", "budget"):
            shown = value if what == "policy" else f"{int(value):,} B"
            return f"{what} {shown} from {at} on"
        return f"{what} {'' if value is None else f'storage {value} '}at {at}"

    return _PLACED.sub(words, interventions)


def whatif_words(
    document: Document, found: RunDiff, events: Mapping[tuple[str, int], int]
) -> list[str]:
    """What was changed, what moved and what did not, and where the runs part.

    Args:
        document: a `dtrdiag.whatif/1` document.
        found: the base run, a, and the intervened one, b.
        events: the numbers of events that were given, as for `placed_words`.
    """
    base, run = document["base"], document["run"]
    changes = placed_words(run["interventions"] or "none", events)
    if run["semantics"] != base["semantics"]:
        changes = f"semantics {run['semantics']}" + ("" if changes == "none" else f"; {changes}")
    sentences = [
        f"{plain_name(base['trace']['name'])} under {plain_name(base['policy'])}, with: "
        f"{plain_name(changes, _LONGEST)}."
    ]
    if base["interventions"] is not None:
        words = plain_name(placed_words(base["interventions"], events), _LONGEST)
        sentences.append(f"The run that it is compared with has: {words}.")
    if not document["changed"]:
        sentences.append(
            "The intervention changed nothing: all "
            f"{count(document['common_prefix'], 'decision')} are equal."
        )
        moved = moved_facts(base, run)
        return [*sentences, *_rest_words(moved)] if any(moved.values()) else sentences
    moved = moved_facts(base, run)
    sentences.append(_ended_words(base, run))
    sentences += _rest_words(moved)
    if found.divergence is None:
        every = count(found.common_prefix, "decision")
        return [*sentences, f"All {every} are equal; the runs end differently."]
    told = "a is the run as it was, b the intervened one"
    first, *rest = divergence_words(found.divergence)
    return [*sentences, f"{first.rstrip('.')} ({told}).", *rest]


def _ended_words(base: Document, run: Document) -> str:
    if base["outcome"] != run["outcome"]:
        return f"The outcome is {run['outcome']} instead of {base['outcome']}."
    if base["overhead"] == run["overhead"]:
        return f"The outcome is {run['outcome']} as before, and the overhead is the same."
    was, now = overhead_words(base["overhead"]), overhead_words(run["overhead"])
    return f"The outcome is {run['outcome']} as before, with an overhead of {now} instead of {was}."


def _rest_words(moved: Mapping[str, bool]) -> list[str]:
    names = [name for name, is_other in moved.items() if is_other]
    stayed = [name for name, is_other in moved.items() if not is_other]
    sentences = [f"Moved: {', '.join(names)}."] if names else []
    return sentences + ([f"Not moved: {', '.join(stayed)}."] if stayed else [])


def whatif_table(base: Document, run: Document) -> Table:
    """Both runs, a fact a row."""
    table = Table(title="as it was, and intervened")
    table.add_column("")
    for name in ("as it was", "intervened"):
        table.add_column(name, justify="right")
    table.add_column("moved")
    for name, is_other in moved_facts(base, run).items():
        cells = [_FACTS[name](base), _FACTS[name](run)]
        shown = map(outcome_text, cells) if name == "outcome" else cells
        label = "digest of decisions, its start" if name == "decisions" else name
        table.add_row(label, *shown, "yes" if is_other else "")
    return table
