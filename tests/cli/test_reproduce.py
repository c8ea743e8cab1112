"""`dtrdiag reproduce`: what it prints, what it writes, and when it fails."""

import csv
import json

import pytest

CLAIM = """
id = "{id}"
title = "A claim"
statement = "Something holds."
source = "a notebook"
scope = "chain-64"
kind = "observation"
cost = "{cost}"

[[evidence]]
check = "run"
trace = "{trace}"
ratio = 0.2
expect = ["outcome == 'ok'", "{expect}"]
"""


@pytest.fixture
def claim(here):
    """Writes a claim into the ledger `mine`."""
    (here / "mine").mkdir()

    def write(name, expect="overhead > 1", trace="chain-64", cost="quick"):
        text = CLAIM.format(id=name, expect=expect, trace=trace, cost=cost)
        (here / "mine" / f"{name}.toml").write_text(text)

    return write


def test_a_status_that_is_not_written_down_fails(dtrdiag, claim):
    claim("grows")
    answer = dtrdiag("reproduce", "mine", "-j", 1)
    assert (answer.status, answer.err) == (1, "")
    assert "1 claim: 1 observed." in answer.out
    assert "yes: overhead > 1" in answer.out
    assert "grows: observed, and no status is written down" in answer.out


def test_written_down_it_passes(dtrdiag, answers, claim):
    claim("grows")
    answers("reproduce", "mine", "--write", "-j", 1)
    assert "as written down" in answers("reproduce", "mine", "-j", 1).out


def test_a_false_claim_fails_and_says_what_was_measured(dtrdiag, claim):
    claim("shrinks", expect="overhead < 1")
    answer = dtrdiag("reproduce", "mine", "-j", 1)
    assert answer.status == 1
    assert "NO: overhead < 1" in answer.out
    assert "overhead = 1." in answer.out
    assert "shrinks: refuted, and no status is written down" in answer.out


def test_a_claim_that_turns_false_fails(dtrdiag, answers, claim):
    claim("grows")
    answers("reproduce", "mine", "--write", "-j", 1)
    claim("grows", expect="overhead < 1")
    answer = dtrdiag("reproduce", "mine", "-j", 1)
    assert answer.status == 1
    assert "grows: refuted, and observed is written down" in answer.out


def test_json_is_one_document(dtrdiag, claim):
    claim("grows")
    claim("slow", cost="full")
    answer = dtrdiag("reproduce", "mine", "--json", "-j", 1)
    assert answer.status == 1
    document = answer.json
    assert document["schema"] == "dtrdiag.reproduce/1"
    assert document["ok"] is False
    assert [(c["id"], c["status"], c["committed"]) for c in document["claims"]] == [
        ("grows", "observed", None),
        ("slow", "observed", None),
    ]
    (item,) = document["claims"][0]["evidence"]
    assert item["parameters"] == {"trace": "chain-64", "ratio": 0.2}
    assert [p["verdict"] for p in item["predicates"]] == ["holds", "holds"]


def test_quick_leaves_out_what_is_not(dtrdiag, claim):
    claim("grows")
    claim("slow", cost="full")
    ran = dtrdiag("reproduce", "mine", "--quick", "--json", "-j", 1).json["claims"]
    assert [c["id"] for c in ran] == ["grows"]


def test_only_runs_what_is_named(dtrdiag, refuses, claim):
    claim("grows")
    claim("other")
    ran = dtrdiag("reproduce", "mine", "--only", "other", "--json", "-j", 1).json["claims"]
    assert [c["id"] for c in ran] == ["other"]
    assert 'no claim "gone"; there are grows, other' in refuses(
        "reproduce", "mine", "--only", "gone"
    )


def test_results_are_written_and_written_again(answers, dtrdiag, claim, here):
    claim("grows")
    answers("reproduce", "mine", "--write", "-o", "results", "-j", 1)
    answers("reproduce", "mine", "-o", "results", "-j", 1)
    folder = here / "results"
    document = json.loads((folder / "results.json").read_text())
    assert document["claims"] == [json.loads((folder / "grows.json").read_text())]
    with open(folder / "claims.csv", newline="") as stream:
        (row,) = csv.DictReader(stream)
    assert (row["id"], row["status"], row["committed"]) == ("grows", "observed", "observed")
    with open(folder / "predicates.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["predicate"] for row in rows] == ["outcome == 'ok'", "overhead > 1"]
    (folder / "grows.json").write_text("{}")
    refused = dtrdiag("reproduce", "mine", "-o", "results")
    assert refused.status == 2
    assert "was changed since" in refused.err


def test_a_public_trace_that_is_missing_is_an_error_and_not_a_refutation(dtrdiag, claim):
    claim("grows")
    claim("public", trace="lstm")
    answer = dtrdiag("reproduce", "mine", "--write", "-j", 1)
    assert answer.status == 2
    assert answer.err.startswith("dtrdiag: error: 1 of 2 claims were not run, since public trace")
    assert "dtrdiag traces fetch" in answer.err
    assert "1 observed" in answer.out
    assert "1 not run" in answer.out


def test_with_quick_it_is_noted_alone(dtrdiag, claim):
    claim("grows")
    claim("public", trace="lstm")
    dtrdiag("reproduce", "mine", "--write", "-j", 1)
    answer = dtrdiag("reproduce", "mine", "--quick", "-j", 1)
    assert answer.status == 0
    assert answer.err.startswith("dtrdiag: note: 1 of 2 claims were not run")
    assert answer.err.count("\n") == 1
    assert "Not run: public trace 'lstm' is not on this machine" in answer.out


@pytest.mark.parametrize(
    ("change", "says", "line"),
    [
        ({"expect": "overheads > 1"}, "no field 'overheads'", 14),
        ({"expect": "overhead"}, "compares nothing", 14),
        ({"trace": "chain-65"}, 'no trace or file "chain-65"', 10),
        ({"trace": "gone.log"}, "gone.log", 10),
        ({"cost": "dear"}, 'no cost "dear"', 8),
    ],
)
def test_a_bad_ledger_is_refused_with_file_and_line(refuses, claim, change, says, line):
    claim("grows", **change)
    refused = refuses("reproduce", "mine", "-j", 1)
    assert says in refused
    assert refused.endswith(f"grows.toml:{line})")


def test_a_typed_status_is_refused(refuses, claim, here):
    claim("grows")
    path = here / "mine" / "grows.toml"
    path.write_text(path.read_text().replace("cost =", 'status = "demonstrated"\ncost ='))
    refused = refuses("reproduce", "mine")
    assert "a status is computed, never typed" in refused
    assert refused.endswith("grows.toml:8)")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "no such folder"),
        (["."], "no claim in this folder"),
        ([".", "-j", "0"], "-j must be 1 to 256"),
    ],
)
def test_what_is_no_ledger_is_refused(refuses, arguments, says):
    assert says in refuses("reproduce", *arguments)


def test_a_ledger_without_quick_claims_is_refused_as_such(refuses, claim):
    claim("slow", cost="full")
    assert "no claim of this ledger is quick" in refuses("reproduce", "mine", "--quick")
