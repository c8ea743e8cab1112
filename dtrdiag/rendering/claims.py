"""How do claims look when their evidence has been run: as a table, in words, as rows of CSV?

All of it is made from a `dtrdiag.reproduce/1` document.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from dtrdiag.units import LONG_NAME, NOT_KNOWN, count, plain_name

Document = Mapping[str, Any]
STYLES = {
    "demonstrated": "bold green",
    "observed": "green",
    "hypothesised": "yellow",
    "censored": "yellow",
    "refuted": "bold red",
}
MARKS = {"holds": "yes", "fails": "NO", "undecided": "not decided"}
TRIED_MARKS = MARKS | {"fails": "no"}
"""Of an intervention: that it moved nothing is a finding, and no fault."""
ROLES = {"evidence": "Evidence", "moves": "Intervention", "control": "Control"}
_SHOWN = 160


def ledger_words(document: Document) -> list[str]:
    """What all claims come to, in a sentence or two."""
    claims = document["claims"]
    counts = Counter(claim["status"] or "not run" for claim in claims)
    listed = ", ".join(f"{number} {status}" for status, number in counts.most_common())
    words = f"{count(len(claims), 'claim')}: {listed}."
    differences = len(document["differences"])
    if differences:
        return [words, f"{count(differences, 'status', 'statuses')} not as written down."]
    if all(claim["status"] is None for claim in claims):
        return [words, "So nothing is known of them here."]
    return [words, "All that was run is as written down."]


def claims_table(document: Document, kinds: bool = True) -> Table:
    """A claim a row; without their kinds it is narrower."""
    table = Table(title="claims")
    table.add_column("claim", no_wrap=True)
    for name in ("kind",) * kinds + ("status", "written down"):
        table.add_column(name)
    table.add_column("seconds", justify="right")
    for claim in document["claims"]:
        status = claim["status"] or "not run"
        table.add_row(
            Text(claim["id"]),
            *(claim["kind"],) * kinds,
            Text(status, style=STYLES.get(status, "")),
            claim["committed"] or NOT_KNOWN,
            f"{claim['seconds']:.1f}",
        )
    return table


def claim_words(claim: Document) -> list[str]:
    """One claim with its evidence and interventions, and what was measured."""
    status = claim["status"] or "not run"
    words = [f"{claim['id']} ({claim['kind']}, {status})", f"  {claim['statement']}"]
    if claim["status"] is None:
        return [*words, f"  Not run: {claim['not_run']}"]
    for item in (*claim["evidence"], *claim["interventions"]):
        words.extend(_item_words(item))
    return [*words, f"  So it is {status}: {claim['reason']}."]


def _item_words(item: Document) -> Iterator[str]:
    title = f": {plain_name(item['title'], LONG_NAME)}" if item["title"] else ""
    yield f"  {ROLES[item['role']]} by {item['check']}{title}{_moved(item)}"
    changes = item["parameters"].get("interventions")
    if changes:
        yield f"    changed: {plain_name(changes, LONG_NAME)}"
    marks = TRIED_MARKS if item["role"] == "moves" else MARKS
    for predicate in item["predicates"]:
        yield f"    {marks[predicate['verdict']]}: {plain_name(predicate['text'], _SHOWN)}"
        for path, value in predicate["measured"].items():
            yield f"      {path} = {measured_words(value)}"
    if item["holds_without"]:
        yield "    But all of that holds without the intervention as well, so nothing moved."


def _moved(item: Document) -> str:
    """Of an intervention: whether it moved the outcome as expected."""
    if item["role"] != "moves":
        return ""
    moved = item["verdict"] == "holds" and not item["holds_without"]
    return " - it moved the outcome" if moved else " - it did not move the outcome"


def measured_words(value: Any) -> str:
    """A measured value on one line, a bound as such.

    >>> measured_words({"at_least": 10.5}), measured_words("ok"), measured_words([1, 2])
    ('at least 10.5', '"ok"', '[1, 2]')
    """
    if isinstance(value, Mapping) and value and set(value) <= {"at_least", "at_most"}:
        return ", ".join(f"{name.replace('_', ' ')} {end}" for name, end in value.items())
    return plain_name(json.dumps(value), _SHOWN)


def status_rows(document: Document) -> list[list[str]]:
    """A claim a row, after a row of names."""
    names = ["id", "kind", "status", "committed", "cost", "title", "statement", "source", "scope"]
    names += ["refuted_if", "reason"]
    rows = [[claim[name] or "" for name in names] for claim in document["claims"]]
    return [names, *rows]


def predicate_rows(document: Document) -> list[list[str]]:
    """A predicate a row, after a row of names."""
    rows = [["id", "item", "role", "check", "predicate", "verdict", "measured"]]
    for claim in document["claims"]:
        for number, item in enumerate((*claim["evidence"], *claim["interventions"]), start=1):
            for predicate in item["predicates"]:
                measured = json.dumps(predicate["measured"])
                row = [claim["id"], str(number), item["role"], item["check"]]
                rows.append([*row, predicate["text"], predicate["verdict"], measured])
    return rows
