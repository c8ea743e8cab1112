"""verify on logs: what is accepted, what is found, what is refused."""

import json

import pytest

from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import log_writer
from dtrdiag.interventions import parse_interventions
from dtrdiag.log import open_log
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, simulate
from dtrdiag.trace.catalog import resolve

CHAIN, RECURRENT = ("--trace", "chain-64"), ("--trace", "recurrent-16")


def altered(log, path, kind, **changes):
    """A copy of a log with other fields in its first event of a kind; returns its seq."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    seq = next(line["seq"] for line in lines if line["event"] == kind)
    lines[seq].update(changes)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return seq


@pytest.mark.parametrize("scores", [(), ("--scores",)])
def test_our_logs_are_accepted(answers, works, fails, small, scores):
    for log, trace in ((works, RECURRENT), (fails, RECURRENT), (small, CHAIN)):
        found = answers("verify", log, *trace, *scores, "--json").json
        assert set(found) == {"schema", "ok", "events", "complete", "scores", "program", "problems"}
        assert found["schema"] == "dtrdiag.verify/1"
        assert (found["ok"], found["complete"], found["problems"]) == (True, True, [])
        assert found["events"] == sum(1 for _ in open_log(log))
        assert found["scores"] is bool(scores)


def test_people_are_told_what_was_checked(answers, small):
    without, scored = (answers("verify", small, *CHAIN, *s).out for s in ((), ("--scores",)))
    assert without.startswith("The log is a true record of a run of the trace: ")
    assert "--scores compares them with the policy's" in without
    assert "Every victim under pressure is the choice of policy dtr" in scored


def test_a_forged_log_fails(dtrdiag, here, small):
    high = list(open_log(small))[-1].interval_hi_bytes
    seq = altered(small, here / "bad.jsonl", "end", interval_hi_bytes=high + 1)
    answer = dtrdiag("verify", "bad.jsonl", *CHAIN, "--json")
    assert (answer.status, answer.err) == (1, "")
    assert answer.json["ok"] is False
    assert answer.json["program"] is None
    (problem,) = answer.json["problems"]
    assert (problem["seq"], problem["rule"]) == (seq, "interval")
    people = dtrdiag("verify", "bad.jsonl", *CHAIN)
    assert people.status == 1
    assert "The log is no true record of a run: 1 problem" in people.out
    assert f"interval_hi_bytes is {high + 1}, not {high}" in people.out


def test_a_wrong_score_needs_scores(dtrdiag, answers, here, small):
    altered(small, here / "bad.jsonl", "evict", score=1e-30)
    assert answers("verify", "bad.jsonl", *CHAIN, "--json").json["ok"]
    found = dtrdiag("verify", "bad.jsonl", *CHAIN, "--scores", "--json")
    assert found.status == 1
    assert [problem["rule"] for problem in found.json["problems"]] == ["score"]


def test_the_log_of_another_trace_fails(dtrdiag, small):
    found = dtrdiag("verify", small, *RECURRENT, "--json")
    assert found.status == 1
    assert [problem["rule"] for problem in found.json["problems"]] == ["trace"]
    assert (found.json["program"]["op"], found.json["program"]["what"]) == (0, "sizes")
    assert "of another program" in dtrdiag("verify", small, *RECURRENT).out


def test_a_cut_log_is_incomplete(dtrdiag, here, small):
    (here / "cut.jsonl").write_bytes(small.read_bytes()[:-30])
    answer = dtrdiag("verify", "cut.jsonl", *CHAIN, "--json")
    assert answer.status == 1
    assert (answer.json["ok"], answer.json["complete"]) == (False, False)
    assert [problem["rule"] for problem in answer.json["problems"]] == ["end"]


def test_a_line_that_cannot_be_read(dtrdiag, here, small):
    lines = small.read_text().splitlines()
    lines[9] = "nonsense"
    (here / "bad.jsonl").write_text("\n".join(lines) + "\n")
    answer = dtrdiag("verify", "bad.jsonl", *CHAIN, "--json")
    assert answer.status == 1
    assert [problem["rule"] for problem in answer.json["problems"]] == ["readable"]


def test_scores_of_a_policy_of_ones_own_are_refused(dtrdiag, refuses, here):
    (here / "own.py").write_text(
        "from dtrdiag.simulator import policy\n\n\n"
        "@policy('own')\ndef own(pool):\n    return pool.size_bytes\n"
    )
    run = ("run", "chain-64", "--policy-file", "own.py", "-r", "0.3", "-o", "own.jsonl")
    assert dtrdiag(*run).status == 0
    assert "which is not one of dtrdiag's" in dtrdiag("verify", "own.jsonl", *CHAIN).out
    assert "policy 'own' cannot be checked" in refuses("verify", "own.jsonl", *CHAIN, "--scores")


def test_bad_input_is_refused_in_one_line(refuses, here, small, chain_lines):
    assert "missing option '--trace'" in refuses("verify", small)
    assert "no trace or file" in refuses("verify", small, "--trace", "nothing")
    (here / "trace.log").write_bytes(b"\n".join(chain_lines))
    assert "not an event log" in refuses("verify", "trace.log", *CHAIN)
    assert "an event log (of a run), not a trace" in refuses("verify", small, "--trace", small)
    (here / "empty.jsonl").write_bytes(b"")
    assert "an empty file" in refuses("verify", "empty.jsonl", *CHAIN)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_the_log_of_an_intervened_run(answers, dtrdiag, here, suffix):
    trace = resolve("chain-64")
    rules = {"budget_bytes": baseline_peak_bytes(trace) // 2, "candidates": 2}
    changes = parse_interventions("repair zero-stops; policy 200=lru; keep 3; costs 0.1@5")
    hooks = Hooks()
    with log_writer(here / f"changed.{suffix}") as writer:
        hooks.subscribe(writer)
        simulate(trace, RunConfig("dtr", **rules, interventions=changes), hooks)
    assert answers("verify", f"changed.{suffix}", *CHAIN, "--scores", "--json").json["ok"]
    assert answers("replay", f"changed.{suffix}", "--verify", "--json").json["ok"]
    if suffix == "jsonl":
        altered(here / "changed.jsonl", here / "silent.jsonl", "run", interventions=None)
        found = dtrdiag("verify", "silent.jsonl", *CHAIN, "--json")
        assert (found.status, found.json["problems"][0]["rule"]) == (1, "trace")
