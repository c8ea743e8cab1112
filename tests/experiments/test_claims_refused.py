"""Each fault of a ledger is told, with its file and line."""

import textwrap

import pytest

from dtrdiag.errors import LedgerError
from dtrdiag.experiments.claims import read_ledger, run_claims

SOUND = """
[[evidence]]
check = "run"
trace = "chain-64"
ratio = 0.2
expect = ["outcome == 'ok'", "overhead > 1"]
"""
WHATIF = """
[[intervention]]
check = "whatif"
title = "another policy"
trace = "recurrent-16"
budget = 38_359_636
change = { policy = "size" }
expect = ["changed.remats > 0"]
"""
REFER = """
[[evidence]]
check = "run"
trace = "recurrent-16"
budget = "{edge}"
refer.edge = { check = "run", budget = 38_359_635, field = "interval[1]" }
expect = ["budget == 38_359_636"]
"""


def run_all(folder):
    ledger = read_ledger(folder)
    return run_claims(ledger, ledger.claims)


def refused(path_of, body, kind="observation", head=None):
    folder = path_of(kind, a=body)
    if head is not None:
        (folder / "a.toml").write_text(head + textwrap.dedent(body))
    with pytest.raises(LedgerError) as caught:
        run_all(folder)
    return caught.value


@pytest.mark.parametrize(
    ("old", "new", "says", "on"),
    [
        ("kind =", 'status = "observed"\nkind =', "computed, never typed", 'status = "observed"'),
        ('kind = "observation"', 'kind = "theory"', 'no kind "theory"', "kind ="),
        ('source = "a notebook"\n', "", "must have 'source'", None),
        ('id = "a"', 'id = "A b"', "an id is words", "id ="),
        ('id = "a"', 'id = "summary"', "a file of results has that name", "id ="),
        ('id = "a"', 'id = "results"', "a file of results has that name", "id ="),
        ('id = "a"', 'id = "b"', "must be the name of the file, 'a'", "id ="),
        ("title =", "titel = 'x'\ntitle =", "has no 'titel'", "titel ="),
        ("kind =", 'cost = "cheap"\nkind =', 'no cost "cheap"', "cost ="),
        ("statement =", "statement ==", "this is not TOML", "statement =="),
        ('check = "run"', 'check = "rum"', 'no check "rum"; did you mean run?', "check ="),
        ("ratio =", "ration =", 'parameter of check run "ration"; did you mean ratio?', "ration ="),
        ("ratio = 0.2", "ratio = -1", "ratio must be a ratio of the peak", "ratio ="),
        ("ratio =", 'policy = "best"\nratio =', "best", "[[evidence]]"),
        ('trace = "chain-64"\n', "", "needs the parameter 'trace'", "[[evidence]]"),
        ("overhead > 1", "overhead", "compares nothing", '"overhead"'),
        ("overhead > 1", "overhead >", "this is no predicate", '"overhead >"'),
        ("overhead > 1", "over.head > 1", "no field 'over.head'", '"over.head'),
        ("overhead > 1", "outcome > 1", "has no order", '"outcome > 1"'),
        ('"chain-64"\nratio', '"nothing.log"\nratio', "nothing.log", "[[evidence]]"),
        ('"chain-64"\nratio', '"chain-65"\nratio', 'no trace or file "chain-65"', "[[evidence]]"),
    ],
)
def test_each_fault_of_a_claim_is_told_with_its_line(ledger, old, new, says, on):
    text = ledger.head.format(id="a", kind="observation") + SOUND
    assert old in text
    changed = text.replace(old, new)
    error = refused(ledger, "", head=changed)
    assert says in error.what
    assert error.path.endswith("a.toml")
    lines = changed.splitlines()
    assert error.line == (
        None if on is None else 1 + next(n for n, line in enumerate(lines) if on in line)
    )


def test_a_mechanism_says_what_would_refute_it(ledger):
    head = ledger.head.format(id="a", kind="mechanism").replace("refuted_if", "# refuted_if")
    error = refused(ledger, "", head=head)
    assert "what would refute it" in error.what
    assert error.line == 7


def test_an_observation_has_no_intervention(ledger):
    assert "needs no intervention" in refused(ledger, WHATIF).what


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('check = "whatif"', 'check = "run"', "intervenes in nothing"),
        ('change = { policy = "size" }', "", "nothing is changed"),
        ('policy = "size"', "budget = 5", "a table of some of policy, dealloc"),
        ("title =", 'role = "hero"\ntitle =', 'no role "hero"'),
        ('change = { policy = "size" }', 'interventions = "forbit 3"', "unknown intervention"),
        ('change = { policy = "size" }', 'interventions = "forbid {x}"', 'no reference "x"'),
    ],
)
def test_each_fault_of_an_intervention_is_told(ledger, old, new, says):
    body = textwrap.dedent(WHATIF)
    assert old in body
    assert says in refused(ledger, body.replace(old, new), "mechanism").what


@pytest.mark.parametrize(
    ("refer", "says"),
    [
        ('{ check = "run", budget = "{edge}", field = "interval[1]" }', "'edge' needs itself"),
        ('{ check = "run", budget = 9, field = "interval[1" }', "this is no field"),
        ('{ check = "run", budget = 9 }', "must have a check and a field"),
        ('{ check = "rum", budget = 9, field = "x" }', 'no check "rum"; did you mean run?'),
        ('{ check = "run", budget = 90_000_000, field = "intervals" }', "no field 'intervals'"),
        ('{ check = "run", budget = 90_000_000, field = "overhead" }', "no whole number"),
    ],
)
def test_each_fault_of_a_reference_is_told(ledger, refer, says):
    lines = [
        f"refer.edge = {refer}" if line.startswith("refer") else line for line in REFER.splitlines()
    ]
    assert says in refused(ledger, "\n".join(lines)).what


def test_two_claims_of_one_id_are_refused(ledger):
    folder = ledger(a=SOUND, b=SOUND)
    (folder / "b.toml").write_text((folder / "a.toml").read_text())
    with pytest.raises(LedgerError, match=r"duplicate id 'a', as in a\.toml"):
        read_ledger(folder)


def test_a_folder_without_claims_is_refused(tmp_path):
    with pytest.raises(LedgerError, match="no claim in this folder"):
        read_ledger(tmp_path)
    with pytest.raises(LedgerError, match="no such folder"):
        read_ledger(tmp_path / "none")


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{",
        '{"schema": "x", "statuses": {}}',
        '{"schema": "dtrdiag.statuses/1"}',
        '{"schema": "dtrdiag.statuses/1", "statuses": {"a": "true"}}',
    ],
)
def test_damaged_statuses_are_refused(ledger, content):
    folder = ledger(a=SOUND)
    (folder / "statuses.json").write_text(content)
    with pytest.raises(LedgerError):
        read_ledger(folder)
