"""A ledger: its files read, its claims run, their statuses computed."""

import json
import textwrap

import pytest

from dtrdiag.cli import main
from dtrdiag.experiments.claims import (
    Laboratory,
    differing,
    judge,
    livechecks,
    own_ledger,
    read_claim,
    read_ledger,
    reproduction,
    run_claims,
    write_statuses,
)

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


LIVE = """
[[evidence]]
check = "fidelity"
target = "zoo:unet"
policies = ["dtr"]
ratios = [0.9]
torch = "0.1"
expect = ["summary.equal == 1"]
"""


@pytest.mark.parametrize("installed", [True, False])
def test_a_live_run_that_cannot_be_made_refutes_nothing(ledger, monkeypatch, capfd, installed):
    if installed:
        pytest.importorskip("torch")
    else:
        monkeypatch.setattr(livechecks, "find_spec", lambda name: None)
    folder = read_ledger(ledger(a=LIVE, b=RUNS))
    one, other = run_claims(folder, folder.claims)
    assert (one.status, one.missing_torch, other.status) == (None, True, "observed")
    assert ("PyTorch 0.1" if installed else "pip install") in one.reason
    write_statuses(folder, [one, other])
    capfd.readouterr()
    assert main(["reproduce", str(folder.folder), "-j", "1"]) == 0
    assert "1 of 2 claims were not run" in capfd.readouterr().err


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


def test_the_claims_that_come_with_dtrdiag_can_be_read_and_have_a_status_each():
    ledger = read_ledger(own_ledger())
    assert set(ledger.committed) == {claim.id for claim in ledger.claims}
