"""A page of claims has each under its status, with what was run and what was measured."""

import json
from pathlib import Path

import pytest

from dtrdiag.errors import InputError
from dtrdiag.rendering.pages.ledgerpage import STATUS_WORDS, ledger_page
from dtrdiag.rendering.pages.page import page_html
from dtrdiag.rendering.pages.parts import Table, Words

RESULTS = Path(__file__).parents[2] / "reports" / "preprint" / "results" / "results.json"
EVIL = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def document():
    return json.loads(RESULTS.read_text())


@pytest.fixture(scope="module")
def page(document):
    return ledger_page(document, "dtrdiag report results.json")


def texts(page):
    """Every text of a page, with the heading of its section."""
    found = []
    for section in page.sections:
        for part in section.parts:
            if isinstance(part, Words):
                found += [(section.heading, text) for text in (part.heading, *part.paragraphs)]
            else:
                rows = [(part.caption,), *part.rows]
                found += [(section.heading, cell) for row in rows for cell in row]
    return found


def test_every_claim_stands_under_its_status(page, document):
    found = texts(page)
    for claim in document["claims"]:
        status = claim["status"].capitalize()
        headings = {heading for heading, text in found if text == claim["title"]}
        assert any(heading.startswith(status) for heading in headings), claim["id"]
        assert any(claim["statement"] == text for _, text in found)
        assert any(claim["reason"] in (text or "") for _, text in found)


def test_every_predicate_is_there_with_its_answer(page, document):
    rows = {
        (row[-3], row[-2])
        for section in page.sections
        for part in section.parts
        if isinstance(part, Table)
        for row in part.rows
    }
    marks = {"holds": {"yes"}, "fails": {"NO", "no"}, "undecided": {"not decided"}}
    for claim in document["claims"]:
        for item in (*claim["evidence"], *claim["interventions"]):
            for predicate in item["predicates"]:
                there = {mark for text, mark in rows if text == predicate["text"]}
                assert there & marks[predicate["verdict"]], predicate["text"]


def test_a_bound_is_shown_as_one(page):
    assert any("at least 10.0002630175060" in (text or "") for _, text in texts(page))


def test_what_did_not_move_the_outcome_says_so(document):
    claim = next(one for one in document["claims"] if one["interventions"])
    item = {**claim["interventions"][0], "holds_without": True}
    page = ledger_page({**document, "claims": [{**claim, "interventions": [item]}]}, "")
    assert any("It did not move the outcome." in (text or "") for _, text in texts(page))


def test_a_claim_that_was_not_run_says_why(document):
    claim = {**document["claims"][0], "status": None, "not_run": "its trace is missing"}
    page = ledger_page({**document, "claims": [claim]}, "")
    assert ("not run", "1") in page.facts
    assert any(text == "Not run: its trace is missing." for _, text in texts(page))


def test_differences_have_a_section(page, document):
    assert page.sections[-1].parts == (Words(tuple(document["differences"])),)


def test_each_status_is_explained(page):
    for section in page.sections[1:-1]:
        assert section.parts[0].paragraphs[0] in STATUS_WORDS.values()


def test_texts_of_a_foreign_document_stay_texts(document):
    def spoiled(value):
        if isinstance(value, dict):
            return {name: spoiled(each) for name, each in value.items()}
        if isinstance(value, list):
            return [spoiled(each) for each in value]
        known = ("evidence", "moves", "control", "holds", "fails", "undecided")
        return value if not isinstance(value, str) or value in known else value + EVIL

    text = page_html(ledger_page(spoiled(document), EVIL))
    assert text.count("<script") == 1
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in text


@pytest.mark.parametrize(
    "broken", [[], {}, {"claims": 7}, {"claims": [7], "differences": []}, {"claims": [{}]}, None]
)
def test_what_is_no_such_document_is_refused(broken):
    with pytest.raises(InputError, match="not as `dtrdiag reproduce` writes it"):
        ledger_page(broken, "")
