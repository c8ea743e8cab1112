"""What is on the page of a ledger of claims: each claim under its status, with its evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from dtrdiag.rendering.claims import (
    MARKS,
    ROLES,
    TRIED_MARKS,
    Document,
    ledger_words,
    measured_words,
)
from dtrdiag.rendering.pages.ledgershape import check_ledger
from dtrdiag.rendering.pages.parts import RIGHT, Column, Page, Part, Section, Table, Words
from dtrdiag.units import LONG_NAME, NOT_KNOWN, plain_name

NOT_RUN = "not run"
STATUS_WORDS = {
    "demonstrated": (
        "A mechanism was shown to be the cause: all evidence holds, an intervention on that cause "
        "alone moved the outcome as expected, and no control did."
    ),
    "observed": "All evidence holds when it is run again. What causes it is not claimed.",
    "hypothesised": (
        "There is no evidence that runs, or interventions were tried and none moved the outcome."
    ),
    "censored": (
        "A figure that decides is known only as a bound, since a run was stopped before its end, "
        "and the bound does not decide."
    ),
    "refuted": "Evidence that the claim needs does not hold.",
    NOT_RUN: "The evidence was not run here, so nothing is known.",
}
"""What each status means, in the order in which a page has them."""
_TEXT = 2000
_VALUE = 300


def ledger_page(document: Document, made_by: str) -> Page:
    """The page of a `dtrdiag.reproduce/1` document.

    Raises:
        InputError: the document is not as `dtrdiag reproduce` writes it.
    """
    check_ledger(document, [status for status in STATUS_WORDS if status != NOT_RUN])
    claims = document["claims"]
    counts = Counter(_status(claim) for claim in claims)
    known = [status for status in STATUS_WORDS if counts[status]]
    sections = [Section("claims", "All claims", (_overview(claims, known),))]
    for number, status in enumerate(known):
        parts: list[Part] = [Words((STATUS_WORDS[status],))]
        for claim in claims:
            if _status(claim) == status:
                parts += _claim_parts(claim)
        heading = f"{status[:1].upper()}{status[1:]} ({counts[status]})"
        sections.append(Section(f"status-{number}", heading, tuple(parts)))
    if document["differences"]:
        lines = tuple(plain_name(line, _TEXT) for line in document["differences"])
        sections.append(Section("differences", "Not as written down", (Words(lines),)))
    seconds = sum(claim["seconds"] for claim in claims)
    facts = [(plain_name(status), f"{counts[status]}") for status in known]
    facts.append(("time it took", f"{seconds:.1f} s"))
    answer = tuple(ledger_words(document))
    return Page("Claims and their evidence", answer, tuple(facts), tuple(sections), made_by)


def _status(claim: Document) -> str:
    return str(claim["status"] or NOT_RUN)


def _overview(claims: Sequence[Document], order: Sequence[str]) -> Table:
    columns = tuple(Column(name) for name in ("claim", "what it says", "kind", "status"))
    columns += (Column("written down"), Column("time", RIGHT))
    rows = [
        (
            plain_name(claim["id"], LONG_NAME),
            plain_name(claim["title"] or claim["statement"], _TEXT),
            plain_name(claim["kind"]),
            plain_name(status),
            plain_name(claim["committed"]) if claim["committed"] else NOT_KNOWN,
            f"{claim['seconds']:.1f} s",
        )
        for status in order
        for claim in claims
        if _status(claim) == status
    ]
    note = (
        "An observation says what happens; a mechanism says why. A status is computed from the "
        "evidence each time; the one written down is what is expected."
    )
    return Table("Claims by status", columns, rows, note)


def _claim_parts(claim: Document) -> list[Part]:
    status = plain_name(_status(claim))
    paragraphs = [plain_name(claim["statement"], _TEXT)]
    for name, label in (("source", "Source"), ("scope", "Scope")):
        if claim[name]:
            paragraphs.append(f"{label}: {plain_name(claim[name], _TEXT)}.")
    if claim["refuted_if"]:
        paragraphs.append(f"It would be refuted if {plain_name(claim['refuted_if'], _TEXT)}.")
    if claim["status"] is None:
        paragraphs.append(f"Not run: {plain_name(claim['not_run'], _TEXT)}.")
    else:
        paragraphs.append(f"So it is {status}: {plain_name(claim['reason'], _TEXT)}.")
    title = plain_name(claim["title"] or claim["id"], _TEXT)
    parts: list[Part] = [Words(tuple(paragraphs), title)]
    for name, what in (("evidence", "Evidence"), ("interventions", "Interventions")):
        if claim[name]:
            caption = f"{what} of {plain_name(claim['id'], LONG_NAME)}"
            parts.append(_items_table(claim[name], caption, interventions=what != "Evidence"))
    return parts


def _items_table(items: Sequence[Document], caption: str, interventions: bool) -> Table:
    columns = [Column("what was run"), Column("what is expected", code=True)]
    columns += [Column("holds"), Column("measured", code=True)]
    if interventions:
        columns.insert(0, Column("role"))
    rows = [row[0 if interventions else 1 :] for item in items for row in _item_rows(item)]
    note = None
    if interventions:
        note = (
            "An intervention is expected to move the outcome, a control is not. One that moved "
            "nothing counts for no claim, and stays here as what was tried."
        )
    return Table(caption, tuple(columns), rows, note)


def _item_rows(item: Document) -> list[tuple[str, ...]]:
    """A row for each predicate of an item; what was run stands in the first."""
    ran = [_what_ran(item)]
    if item["role"] == "moves":
        moved = item["verdict"] == "holds" and not item["holds_without"]
        ran.append("It moved the outcome." if moved else "It did not move the outcome.")
    if item["holds_without"]:
        ran.append("All of it holds without the change as well.")
    marks = TRIED_MARKS if item["role"] == "moves" else MARKS
    rows: list[tuple[str, ...]] = []
    for number, predicate in enumerate(item["predicates"]):
        measured = [
            f"{plain_name(path, LONG_NAME)} = {plain_name(measured_words(value), _VALUE)}"
            for path, value in predicate["measured"].items()
        ]
        first = (ROLES[item["role"]], " ".join(ran)) if number == 0 else ("", "")
        expected = plain_name(predicate["text"], _VALUE)
        rows.append((*first, expected, marks[predicate["verdict"]], "\n".join(measured)))
    return rows or [(ROLES[item["role"]], " ".join(ran), NOT_KNOWN, NOT_KNOWN, NOT_KNOWN)]


def _what_ran(item: Document) -> str:
    asked = ", ".join(
        f"{plain_name(name)} {plain_name(_asked(value), LONG_NAME)}"
        for name, value in item["parameters"].items()
    )
    title = f"{plain_name(item['title'], LONG_NAME)}: " if item["title"] else ""
    return (
        f"{title}{plain_name(item['check'])} of {asked}." if asked else f"{title}{item['check']}."
    )


def _asked(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_asked(each)}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(_asked, value))
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
