"""A page of claims has each under its status, with what was run and what was measured."""

import copy
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


def test_differences_have_a_section(document):
    line = f"{document['claims'][0]['id']}: refuted, and observed is written down: it fails"
    page = ledger_page({**document, "differences": [line]}, "")
    assert page.sections[-1].parts == (Words((line,)),)


def test_each_status_is_explained(page):
    found = [section for section in page.sections if section.id.startswith("status-")]
    assert len(found) >= 3
    for section in found:
        assert section.parts[0].paragraphs[0] in STATUS_WORDS.values()


def test_texts_of_a_foreign_document_stay_texts(document):
    def spoiled(value):
        if isinstance(value, dict):
            return {name: spoiled(each) for name, each in value.items()}
        if isinstance(value, list):
            return [spoiled(each) for each in value]
        known = ("evidence", "moves", "control", "holds", "fails", "undecided", *STATUS_WORDS)
        return value if not isinstance(value, str) or value in known else value + EVIL

    text = page_html(ledger_page(spoiled(as_written(document)), EVIL))
    assert text.count("<script") == 1
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in text


@pytest.mark.parametrize(
    "broken", [[], {}, {"claims": 7}, {"claims": [7], "differences": []}, {"claims": [{}]}, None]
)
def test_what_is_no_such_document_is_refused(broken):
    with pytest.raises(InputError, match="not as `dtrdiag reproduce` writes it"):
        ledger_page(broken, "")


def as_written(document):
    """The same with every status as it is written down."""
    claims = [{**claim, "committed": claim["status"]} for claim in document["claims"]]
    return {**document, "claims": claims, "differences": []}


def forged(document, *path, value):
    made = copy.deepcopy(document)
    place = made
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return made


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (["claims", 0, "status"], "amazing", r'claims\[0\]\.status is "amazing", not one of'),
        (["claims", 0, "seconds"], None, r"claims\[0\]\.seconds is null, not a number of seconds"),
        (["claims", 0, "seconds"], -1, r"claims\[0\]\.seconds is -1"),
        (["claims", 0, "evidence", 0, "verdict"], "great", r"evidence\[0\]\.verdict is \"great\""),
        (["claims", 0, "evidence"], "x", r"claims\[0\]\.evidence is \"x\", not a list"),
        (["claims"], [], "claims is empty"),
        (["differences"], [1], r"differences\[0\] is 1, not a text"),
    ],
)
def test_a_field_that_is_wrong_is_named(document, path, value, said):
    with pytest.raises(InputError, match=said):
        ledger_page(forged(document, *path, value=value), "")


def test_a_status_that_is_not_as_written_down_must_be_listed(document):
    document = as_written(document)
    claim = document["claims"][0]
    other = "refuted" if claim["committed"] != "refuted" else "observed"
    made = forged(document, "claims", 0, "status", value=other)
    with pytest.raises(InputError, match=f"{claim['id']} is {other}, .* does not list it"):
        ledger_page(made, "")
    made["differences"] = [f"{claim['id']}: {other}, and {claim['committed']} is written down: x"]
    assert "1 status not as written down" in " ".join(ledger_page(made, "").answer)
