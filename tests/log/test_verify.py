"""Which logs are in order?"""

import re
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtrdiag.errors import LogError, SimulationError
from dtrdiag.log import RULES, verify
from dtrdiag.simulator import baseline_peak_bytes

DEALLOCS = ["eager", "ignore", "banish"]


def accepted(events):
    verification = verify(events)
    assert verification.problems == ()
    assert verification.ok
    assert verification.complete
    assert verification.events == len(events)
    return True


def rules_broken(events, **options):
    return {problem.rule for problem in verify(events, **options).problems}


def test_logs_made_by_hand_are_accepted(eager_log, banish_log):
    assert accepted(eager_log)
    assert accepted(banish_log)


@pytest.mark.parametrize("dealloc", DEALLOCS)
@pytest.mark.parametrize("policy", ["dtr", "dtr-full", "msps", "lru", "size", "random"])
@pytest.mark.parametrize("budget", [80, 120, 150, 200, None])
def test_logs_of_the_simulator_are_accepted(busy_trace, record_run, dealloc, policy, budget):
    options = {"policy": policy, "dealloc": dealloc, "budget_bytes": budget}
    assert accepted(record_run(busy_trace, **options, candidates=3))


def test_logs_of_thrashed_runs_are_accepted(busy_trace, record_run):
    events = record_run(busy_trace, policy="lru", budget_bytes=150, overhead_limit=1.25)
    assert events[-1].outcome == "thrashed"
    assert accepted(events)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    data=st.data(),
    policy=st.sampled_from(["dtr", "dtr-eq", "dtr-local", "msps", "lru", "size", "none+stale"]),
    ratio=st.floats(0.2, 1.1),
    limit=st.sampled_from([None, 1, 1.5, 2, 10]),
    candidates=st.sampled_from([0, 1, 3, 99]),
)
def test_logs_of_any_trace_are_accepted(
    record_run, random_traces, data, policy, ratio, limit, candidates
):
    trace = data.draw(random_traces)
    for dealloc in DEALLOCS:
        try:
            budget = max(1, int(baseline_peak_bytes(trace) * ratio))
            events = record_run(
                trace,
                policy=policy,
                dealloc=dealloc,
                budget_bytes=budget,
                overhead_limit=limit,
                candidates=candidates,
            )
        except SimulationError:
            continue
        assert accepted(events)


def test_a_list_of_inputs_that_shrinks_while_it_is_walked_is_peculiar_to_simrd(banish_log):
    other = [attrs.evolve(banish_log[0], semantics="other"), *banish_log[1:]]
    assert [(p.seq, p.rule) for p in verify(other).problems] == [(33, "unlock")]


def test_another_runtime_may_give_every_lock_back(banish_log):
    unlock = attrs.evolve(banish_log[29], seq=33, storage=1)
    moved = [attrs.evolve(e, seq=e.seq + 1) for e in banish_log[33:]]
    moved[1] = attrs.evolve(moved[1], cause_seq=34, locks=1)
    events = [attrs.evolve(banish_log[0], semantics="other"), *banish_log[1:33], unlock, *moved]
    assert accepted(events)
    assert "unlock" in rules_broken([banish_log[0], *events[1:]])


def test_another_runtime_may_break_ties_as_it_likes(eager_log):
    assert accepted([attrs.evolve(eager_log[0], semantics="other"), *eager_log[1:]])


@pytest.mark.parametrize("length", [1, 2, 9, 10, 16, 29])
def test_a_log_cut_short_is_reported_only_for_its_end(eager_log, length):
    cut = eager_log[:length]
    verification = verify(cut)
    assert [(p.seq, p.rule) for p in verification.problems] == [(length, "end")]
    assert not verification.complete
    assert verify(cut, complete=False).ok


def test_an_empty_log_has_no_header():
    assert rules_broken([]) == {"header-first"}


def test_a_log_that_cannot_be_read_on_is_a_problem_not_an_exception(eager_log):
    def damaged():
        yield from eager_log[:5]
        raise LogError("not JSON", path="x.jsonl", line=6)

    first = verify(damaged()).problems[0]
    assert (first.seq, first.rule) == (5, "readable")
    assert "x.jsonl:6" in first.message


def test_checking_stops_after_a_hundred_problems(eager_log):
    verification = verify([eager_log[0], *([eager_log[3]] * 500)])
    assert len(verification.problems) < 110
    assert verification.events < 502


def test_every_problem_names_a_rule_of_the_table(eager_log):
    for dropped in range(len(eager_log)):
        for problem in verify(eager_log[:dropped] + eager_log[dropped + 1 :]).problems:
            assert problem.rule in RULES
            assert problem.message


@settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_damage_of_any_kind_is_a_problem_and_never_an_exception(eager_log, banish_log, data):
    whole = data.draw(st.sampled_from([eager_log, banish_log]))
    events = list(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(events) - 1))
        how = data.draw(st.sampled_from(["drop", "double", "swap", "change"]))
        if how == "drop":
            del events[at]
        elif how == "double":
            events.insert(at, events[at])
        elif how == "swap":
            other = data.draw(st.integers(0, len(events) - 1))
            events[at], events[other] = events[other], events[at]
        else:
            field = data.draw(st.sampled_from(whole_number_fields(events[at])))
            events[at] = attrs.evolve(events[at], **{field: data.draw(st.integers(-2, 40))})
        if not events:
            break
    verification = verify(events)
    assert verification.ok == (events == whole)
    assert {problem.rule for problem in verification.problems} <= set(RULES)


def whole_number_fields(event):
    """Fields that only one value fits: none of the header, nor a score that has no rival."""
    if event.kind == "run":
        return ["seq"]
    values = attrs.asdict(event, recurse=False)
    return [name for name, value in values.items() if type(value) is int and name != "score"]


def test_the_documentation_lists_every_rule_as_it_is():
    page = (Path(__file__).parents[2] / "docs" / "replay.md").read_text(encoding="utf-8")
    _, checked = page.split("## What is checked")
    listed = re.findall(r"^\| `(.+)` \| (.+) \|$", checked, flags=re.MULTILINE)
    assert listed == list(RULES.items())
