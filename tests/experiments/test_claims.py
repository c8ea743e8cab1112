"""A ledger: its files read, its claims run, their statuses computed."""

import json
import textwrap

import pytest

from dtrdiag.errors import DtrdiagError, LedgerError
from dtrdiag.experiments.claims import (
    Laboratory,
    differing,
    judge,
    own_ledger,
    read_claim,
    read_ledger,
    reproduction,
    run_claims,
    write_statuses,
)

CLAIM = """
id = "{id}"
title = "A claim"
statement = "Something holds."
source = "a notebook"
scope = "chain-64"
kind = "{kind}"
refuted_if = "it does not"
"""
RUNS = """
[[evidence]]
check = "run"
trace = "chain-64"
ratio = 0.2
expect = ["outcome == 'ok'", "overhead > 1"]
"""
FALSE = RUNS.replace("overhead > 1", "overhead < 1")
INVERSION = """
[defaults]
trace = "recurrent-16"
budget = 38_359_636

[[evidence]]
check = "oom"
expect = ["outcome == 'oom'", "pinned_bytes + locked_bytes == resident_bytes"]
"""
LSTM = '[[evidence]]\ncheck = "run"\ntrace = "lstm"\nratio = 0.5\nexpect = ["remats > 0"]\n'


@pytest.fixture
def ledger(tmp_path):
    """Writes a claim a file, `name=body`, and gives the folder."""

    def write(kind="observation", **bodies):
        for name, body in bodies.items():
            head = CLAIM.format(id=name, kind=kind)
            (tmp_path / f"{name}.toml").write_text(head + textwrap.dedent(body))
        return tmp_path

    return write


@pytest.fixture
def judged(ledger, tmp_path_factory):
    """Runs a single claim."""

    def run(body, kind="observation"):
        claim = read_claim(ledger(kind, a=body) / "a.toml")
        return judge(claim, Laboratory(tmp_path_factory.mktemp("scratch"), claim.path.parent))

    return run


def test_evidence_that_holds_makes_an_observation(judged):
    found = judged(RUNS)
    assert found.status == "observed"
    (item,) = found.items
    assert [p["verdict"] for p in item["predicates"]] == ["holds", "holds"]
    assert item["predicates"][0]["measured"] == {"outcome": "ok"}


def test_a_predicate_that_does_not_hold_refutes(judged):
    found = judged(FALSE)
    assert found.status == "refuted"
    measured = found.items[0]["predicates"][1]["measured"]["overhead"]
    assert measured > 1


def test_without_evidence_it_is_a_hypothesis(judged):
    assert judged("").status == "hypothesised"
    assert judged("", "mechanism").status == "hypothesised"


THRASHES = """
[[evidence]]
check = "run"
trace = "recurrent-16"
ratio = 0.6
overhead_limit = 1.2
expect = ["outcome == 'thrashed'", "{}"]
"""


@pytest.mark.parametrize(
    ("expected", "status"),
    [
        ("overhead >= 1.2", "observed"),  # it has paid that already
        ("overhead >= 5", "censored"),
        ("overhead < 5", "censored"),
        ("overhead < 1.1", "refuted"),
        ("evictions.pressure > 0", "observed"),
        ("evictions.pressure == 3", "refuted"),
        ("remats > 100000", "censored"),
        ("policy == 'dtr'", "observed"),
    ],
)
def test_a_bound_decides_what_it_can(judged, expected, status):
    assert judged(THRASHES.format(expected)).status == status


def test_a_run_out_of_memory_has_exact_counts_and_a_bound_as_overhead(judged):
    body = INVERSION.replace('oom"\nexpect', 'run"\nexpect')
    body = body.partition("expect")[0] + 'expect = ["remats == {0}", "overhead <= {1}"]\n'
    counts = judged(body.format(0, 99)).items[0]["predicates"]
    remats = counts[0]["measured"]["remats"]
    assert isinstance(remats, int)
    assert counts[1]["measured"]["overhead"]["at_least"] > 1
    assert judged(body.format(remats, 99)).status == "censored"
    assert judged(body.format(remats, 1)).status == "refuted"


def test_a_frontier_says_nothing_of_a_run_that_finishes(judged):
    body = INVERSION.replace("38_359_636", "38_359_635")
    found = judged(body)
    assert found.status == "refuted"
    assert found.items[0]["predicates"][0]["measured"] == {"outcome": "ok"}


DIFF = """
[[evidence]]
check = "diff"
trace = "recurrent-16"
budgets = [38_359_635, 38_359_636]
expect = [
  "first_divergence.kind == 'fit'",
  "first_divergence.margin_bytes.b == 0",
  "a.outcome != b.outcome",
  "sets.all.jaccard <= 1",
]

[[evidence]]
check = "pair"
trace = "recurrent-16"
a = { budget = 38_359_635 }
b = { budget = 38_359_635, policy = "lru" }
expect = ["a.policy == 'dtr' and b.policy == 'lru'", "overhead_factor >= 1"]
"""


def test_pairs_are_compared_with_logs_and_without(judged):
    assert judged(DIFF).status == "observed"


def test_a_sweep_lists_its_runs(judged):
    body = """
    [[evidence]]
    check = "sweep"
    trace = "recurrent-16"
    budgets = [38_359_635, 38_359_636]
    policies = ["dtr", "lru"]
    expect = [
      "each(runs, 'policy') == ['dtr', 'dtr', 'lru', 'lru']",
      "runs[0].outcome == 'ok' and runs[1].outcome == 'oom'",
      "len(runs) == 4",
    ]
    """
    assert judged(body).status == "observed"


def test_a_map_tells_its_inversion(judged):
    body = """
    [[evidence]]
    check = "map"
    trace = "recurrent-16"
    from = 38_000_000
    to = 39_500_000
    expect = ["summary.inversions == [[38_359_636, 39_408_216]]", "complete == true"]
    """
    assert judged(body).status == "observed"


def whatif(expect, **more):
    lines = "\n".join(f"{name} = {value}" for name, value in more.items())
    return f"""
    [[intervention]]
    check = "whatif"
    title = "another policy"
    trace = "recurrent-16"
    budget = 38_359_636
    change = {{ policy = "size" }}
    expect = {json.dumps(expect)}
    {lines}
    """


MOVES = ["base.outcome == 'oom'", "changed.outcome != 'oom'"]


def test_an_intervention_that_moves_the_outcome_demonstrates(judged):
    found = judged(INVERSION + textwrap.dedent(whatif(["changed.policy == 'size'"])), "mechanism")
    assert found.status == "demonstrated"


def test_what_holds_without_the_intervention_as_well_shows_nothing(judged):
    found = judged(whatif(["base.outcome == 'oom'", "changed.remats > 0"]), "mechanism")
    assert found.status == "hypothesised"
    assert found.items[0]["holds_without"]


def test_an_intervention_that_does_not_move_is_named_as_tried(judged):
    found = judged(whatif(["changed.outcome == 'no such'"]), "mechanism")
    assert found.status == "hypothesised"
    assert "another policy" in found.reason


def test_a_control_that_moves_takes_the_demonstration_away(judged):
    moved = textwrap.dedent(whatif(["changed.policy == 'size'"]))
    steady = whatif(["changed.baseline_cost == base.baseline_cost"], role='"control"')
    disturbed = whatif(["changed.decisions_sha256 == base.decisions_sha256"], role='"control"')
    assert judged(moved + textwrap.dedent(steady), "mechanism").status == "demonstrated"
    assert judged(moved + textwrap.dedent(disturbed), "mechanism").status == "hypothesised"


def test_refuted_evidence_outweighs_every_intervention(judged):
    body = FALSE + textwrap.dedent(whatif(["changed.policy == 'size'"]))
    assert judged(body, "mechanism").status == "refuted"


REFER = """
[[evidence]]
check = "run"
trace = "recurrent-16"
budget = "{edge}"
refer.edge = { check = "run", budget = 38_359_635, field = "interval[1]" }
expect = ["budget == 38_359_636", "outcome == 'oom'"]
"""


def test_a_parameter_may_be_a_figure_of_another_check(judged):
    found = judged(REFER)
    assert found.status == "observed"
    assert found.items[0]["references"] == {"edge": 38_359_636}


def test_references_may_use_each_other(judged):
    body = REFER.replace("refer.edge", "refer.low").replace("{edge}", "{high}")
    more = 'refer.high = { check = "run", budget = "{low}", field = "interval[0]" }\n'
    assert judged(body + more).status == "observed"


def test_statuses_are_written_down_and_compared(ledger):
    folder = ledger(a=RUNS, b=FALSE)
    before = read_ledger(folder)
    judged = run_claims(before, before.claims)
    assert [one.status for one in judged] == ["observed", "refuted"]
    assert len(differing(before, judged)) == 2
    write_statuses(before, judged)
    after = read_ledger(folder)
    assert after.committed == {"a": "observed", "b": "refuted"}
    assert differing(after, judged) == []
    (folder / "b.toml").write_text(
        (folder / "b.toml").read_text().replace("overhead < 1", "overhead > 1")
    )
    (folder / "a.toml").unlink()
    changed = read_ledger(folder)
    lines = differing(changed, run_claims(changed, changed.claims))
    assert ["b: observed" in lines[0], "a: a status is written down" in lines[1]] == [True, True]


def test_what_was_not_run_keeps_its_status(ledger):
    folder = ledger(a=RUNS, b=RUNS)
    whole = read_ledger(folder)
    write_statuses(whole, run_claims(whole, whole.claims))
    again = read_ledger(folder)
    write_statuses(again, run_claims(again, again.claims[:1]))
    assert read_ledger(folder).committed == {"a": "observed", "b": "observed"}


def test_a_missing_public_trace_refutes_nothing(ledger, tmp_path, monkeypatch):
    monkeypatch.delenv("DTRDIAG_TRACES", raising=False)
    monkeypatch.setenv("DTRDIAG_CACHE", str(tmp_path / "none"))
    folder = read_ledger(ledger(a=LSTM, b=RUNS))
    one, other = run_claims(folder, folder.claims)
    assert (one.status, one.missing_trace, other.status) == (None, True, "observed")
    assert "dtrdiag traces fetch" in one.reason
    document = reproduction(folder, folder.claims, [one, other])
    assert document["claims"][0]["status"] is None
    assert "dtrdiag traces fetch" in document["claims"][0]["not_run"]


def test_a_trace_may_lie_beside_the_claims(ledger, chain_file):
    folder = ledger(a=RUNS.replace('"chain-64"', '"mine.log"'))
    chain_file(folder / "mine.log")
    found = read_ledger(folder)
    assert [one.status for one in run_claims(found, found.claims)] == ["observed"]


@pytest.fixture
def chain_file():
    from dtrdiag.trace import write_dtr_log
    from dtrdiag.trace.catalog import resolve

    return lambda path: path.write_bytes(write_dtr_log(resolve("chain-64")))


def test_processes_find_the_same(ledger):
    folder = read_ledger(ledger(a=RUNS, b=FALSE, c=DIFF))
    alone = run_claims(folder, folder.claims)
    told = []
    together = run_claims(folder, folder.claims, 2, told.append)
    assert [one.status for one in together] == [one.status for one in alone]
    assert sorted(one.id for one in told) == ["a", "b", "c"]


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
        ('kind = "observation"', 'kind = "theory"', "unknown kind 'theory'", "kind ="),
        ('source = "a notebook"\n', "", "must have 'source'", None),
        ('id = "a"', 'id = "A b"', "an id is words", "id ="),
        ('id = "a"', 'id = "summary"', "a file of results has that name", "id ="),
        ('id = "a"', 'id = "results"', "a file of results has that name", "id ="),
        ('id = "a"', 'id = "b"', "must be the name of the file, 'a'", "id ="),
        ("title =", "titel = 'x'\ntitle =", "has no 'titel'", "titel ="),
        ("kind =", 'cost = "cheap"\nkind =', "unknown cost 'cheap'", "cost ="),
        ("statement =", "statement ==", "this is not TOML", "statement =="),
        ('check = "run"', 'check = "rum"', "unknown check 'rum'; did you mean run?", "check ="),
        ("ratio =", "ration =", "no parameter 'ration'; did you mean ratio?", "ration ="),
        ("ratio = 0.2", "ratio = -1", "ratio must be a ratio of the peak", "ratio ="),
        ("ratio =", 'policy = "best"\nratio =', "best", "[[evidence]]"),
        ('trace = "chain-64"\n', "", "needs the parameter 'trace'", "[[evidence]]"),
        ("overhead > 1", "overhead", "compares nothing", '"overhead"'),
        ("overhead > 1", "overhead >", "this is no predicate", '"overhead >"'),
        ("overhead > 1", "over.head > 1", "no field 'over.head'", '"over.head'),
        ("overhead > 1", "outcome > 1", "has no order", '"outcome > 1"'),
        ('"chain-64"\nratio', '"nothing.log"\nratio', "nothing.log", "[[evidence]]"),
        ('"chain-64"\nratio', '"chain-65"\nratio', "unknown trace 'chain-65'", "[[evidence]]"),
    ],
)
def test_each_fault_of_a_claim_is_told_with_its_line(ledger, old, new, says, on):
    text = CLAIM.format(id="a", kind="observation") + RUNS
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
    head = CLAIM.format(id="a", kind="mechanism").replace("refuted_if", "# refuted_if")
    error = refused(ledger, "", head=head)
    assert "what would refute it" in error.what
    assert error.line == 7


def test_an_observation_has_no_intervention(ledger):
    assert "needs no intervention" in refused(ledger, whatif(["changed.remats > 0"])).what


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('check = "whatif"', 'check = "run"', "intervenes in nothing"),
        ('change = { policy = "size" }', "", "nothing is changed"),
        ('policy = "size"', "budget = 5", "a table of some of policy, dealloc"),
        ("title =", 'role = "hero"\ntitle =', "unknown role 'hero'"),
        ('change = { policy = "size" }', 'interventions = "forbit 3"', "unknown intervention"),
        ('change = { policy = "size" }', 'interventions = "forbid {x}"', "unknown reference {x}"),
    ],
)
def test_each_fault_of_an_intervention_is_told(ledger, old, new, says):
    body = textwrap.dedent(whatif(["changed.remats > 0"]))
    assert old in body
    assert says in refused(ledger, body.replace(old, new), "mechanism").what


@pytest.mark.parametrize(
    ("refer", "says"),
    [
        ('{ check = "run", budget = "{edge}", field = "interval[1]" }', "'edge' needs itself"),
        ('{ check = "run", budget = 9, field = "interval[1" }', "this is no field"),
        ('{ check = "run", budget = 9 }', "must have a check and a field"),
        ('{ check = "rum", budget = 9, field = "x" }', "unknown check"),
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
    folder = ledger(a=RUNS, b=RUNS)
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
    folder = ledger(a=RUNS)
    (folder / "statuses.json").write_text(content)
    with pytest.raises(LedgerError):
        read_ledger(folder)


def test_every_error_is_one_of_ours(ledger):
    assert issubclass(LedgerError, DtrdiagError)


def test_the_claims_that_come_with_dtrdiag_can_be_read_and_have_a_status_each():
    ledger = read_ledger(own_ledger())
    assert set(ledger.committed) == {claim.id for claim in ledger.claims}
