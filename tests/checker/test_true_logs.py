"""Whatever we log passes: every policy, every deallocation, every outcome, with scores."""

from functools import cache

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dtrdiag.checker import check
from dtrdiag.checkerscores import CHECKED_POLICIES
from dtrdiag.cli.sources import load_trace
from dtrdiag.errors import SimulationError
from dtrdiag.hooks import Hooks
from dtrdiag.simulator import DEALLOCS, RunConfig, baseline_peak_bytes, policies, simulate
from dtrdiag.trace.catalog import resolve

bundled = cache(resolve)
POLICIES = [policy.name for policy in policies()]


def passes(trace, events, ways=(False, True)):
    for scores in ways:
        found = check(events, trace, scores=scores)
        assert found.problems == []
        assert (found.events, found.complete) == (len(events), True)


def test_every_policy_of_ours_is_known():
    assert set(CHECKED_POLICIES) == set(POLICIES)


@pytest.mark.parametrize("dealloc", DEALLOCS)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_and_deallocation(record_run, small_trace, policy, dealloc):
    peak_bytes = baseline_peak_bytes(small_trace)
    outcomes = set()
    for eighths in (*range(2, 10), None):
        budget = None if eighths is None else peak_bytes * eighths // 8
        options = {"policy": policy, "budget_bytes": budget, "dealloc": dealloc, "seed": 5}
        events = record_run(small_trace, overhead_limit=3, candidates=2, **options)
        passes(small_trace, events)
        outcomes.add(events[-1].outcome)
    assert {"ok", "oom"} <= outcomes


def at_ratio(trace, policy, dealloc, ratio, limit):
    peak = baseline_peak_bytes(trace)
    rules = {"dealloc": dealloc, "overhead_limit": limit, "peak_bytes": peak, "ratio": ratio}
    events: list[object] = []
    hooks = Hooks()
    hooks.subscribe(events.append)
    simulate(trace, RunConfig(policy, int(peak * ratio), **rules), hooks)
    return events


@pytest.mark.parametrize("dealloc", DEALLOCS)
@pytest.mark.parametrize("policy", ["dtr", "dtr-eq", "dtr-full", "msps", "random"])
@pytest.mark.parametrize("name", ["chain-64", "residual-12", "recurrent-16", "tree-4"])
def test_bundled_traces(name, policy, dealloc):
    passes(bundled(name), at_ratio(bundled(name), policy, dealloc, 0.6, 1.2), [True])


def test_classes_around_a_storage_that_came_back_after_it_was_banished():
    events = at_ratio(bundled("tree-4"), "eq+size", "banish", 0.6, 1.5)
    assert {e.storage for e in events if e.kind == "banish"} & {
        storage for e in events if e.kind == "rematerialise" for storage in e.resident
    }
    passes(bundled("tree-4"), events)


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [0.2, 0.4, 0.5, 0.8, 1.1])
@pytest.mark.parametrize("dealloc", DEALLOCS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ["chain-64", "residual-12", "recurrent-16", "tree-4"])
def test_bundled_traces_throughout(name, policy, dealloc, ratio):
    passes(bundled(name), at_ratio(bundled(name), policy, dealloc, ratio, 2))


@pytest.mark.parametrize(
    ("name", "policy", "ratio", "outcome"),
    [
        ("resnet32", "dtr", 0.102, "oom"),
        ("resnet32", "dtr-eq", 0.107, "ok"),
        ("unet", "dtr-local", 0.5, "ok"),
    ],
)
def test_public_traces(traces_archive, name, policy, ratio, outcome):
    trace = load_trace(f"{traces_archive}::{name}")
    events = at_ratio(trace, policy, "eager", ratio, 10)
    assert events[-1].outcome == outcome
    passes(trace, events)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_random_traces(random_traces, record_run, data):
    trace = data.draw(random_traces)
    dealloc = data.draw(st.sampled_from(DEALLOCS))
    policy = data.draw(st.sampled_from(POLICIES))
    limit = data.draw(st.sampled_from([None, 1, 1.5, 10]))
    try:
        most = record_run(trace, dealloc=dealloc)[-1].max_memory_bytes
        budget = data.draw(st.integers(1, max(most, 1)))
        engine = data.draw(st.sampled_from(["auto", "python"]))
        options = {"overhead_limit": limit, "dealloc": dealloc, "engine": engine}
        events = record_run(trace, policy=policy, budget_bytes=budget, candidates=1, **options)
    except SimulationError:
        assume(False)
    passes(trace, events)
