"""Logs of runs in which something was changed on purpose pass both verifiers, with scores."""

from functools import cache

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dtrdiag.checker import check
from dtrdiag.errors import SimulationError, UsageError
from dtrdiag.interventions import REPAIRS, TIE_BREAKS, Interventions, Noise, Victim
from dtrdiag.log import Replay, verify
from dtrdiag.simulator import DEALLOCS, baseline_peak_bytes, policies
from dtrdiag.trace import TraceBuilder
from dtrdiag.trace.catalog import resolve

bundled = cache(resolve)
POLICIES = [policy.name for policy in policies()]
TELLING = ["dtr", "dtr-eq", "msps", "dtr-full", "lru", "random"]


def passes(trace, events, ways=(False, True)):
    for scores in ways:
        found = check(events, trace, scores=scores)
        assert found.problems == []
        assert found.complete
    assert verify(events).problems == ()


def evictions(events):
    """(index of the decision, event) of every eviction under pressure."""
    decisions = [e for e in events if e.kind in ("compute", "rematerialise", "evict")]
    return [(at, e) for at, e in enumerate(decisions) if getattr(e, "cause", "") == "pressure"]


def pool_before(events, seq):
    return list(Replay.at(events, seq - 1).pool)


@pytest.fixture(scope="module")
def base(small_trace):
    """Rules under which the small trace is busy."""
    peak_bytes = baseline_peak_bytes(small_trace)
    return {
        "budget_bytes": peak_bytes * 11 // 16,
        "overhead_limit": 4,
        "candidates": 3,
        "seed": 11,
    }


def test_the_run_to_be_changed_evicts(small_trace, record_run, base):
    for dealloc in DEALLOCS:
        assert len(evictions(record_run(small_trace, **base, dealloc=dealloc))) >= 5


@pytest.mark.parametrize("dealloc", DEALLOCS)
@pytest.mark.parametrize("policy", [*TELLING, "eq"])
@pytest.mark.parametrize("repairs", [*((name,) for name in REPAIRS), REPAIRS], ids="+".join)
def test_repairs(small_trace, record_run, base, policy, dealloc, repairs):
    rules = {**base, "policy": policy, "dealloc": dealloc}
    passes(
        small_trace, record_run(small_trace, **rules, interventions=Interventions(repairs=repairs))
    )


@pytest.mark.parametrize("dealloc", DEALLOCS)
@pytest.mark.parametrize("policy", POLICIES)
def test_repaired_semantics(small_trace, record_run, base, policy, dealloc):
    rules = {**base, "policy": policy, "dealloc": dealloc, "semantics": "repaired"}
    events = record_run(small_trace, **rules)
    assert events[0].semantics == "repaired"
    passes(small_trace, events)


@pytest.mark.parametrize("dealloc", DEALLOCS)
@pytest.mark.parametrize("policy", ["none", "none+size", "dtr", "lru", "local"])
@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_tie_breaks(small_trace, record_run, base, policy, dealloc, tie_break):
    rules = {**base, "policy": policy, "dealloc": dealloc}
    changes = Interventions(tie_break=tie_break)
    passes(small_trace, record_run(small_trace, **rules, interventions=changes))


@pytest.mark.parametrize("dealloc", DEALLOCS)
@pytest.mark.parametrize("policy", TELLING)
@pytest.mark.parametrize("which", [0, 2, 4])
def test_forced_and_forbidden_victims(small_trace, record_run, base, policy, dealloc, which):
    rules = {**base, "policy": policy, "dealloc": dealloc}
    events = record_run(small_trace, **rules)
    at, evict = [(at, e) for at, e in evictions(events) if e.pool_size > 2][which]
    others = [s for s in pool_before(events, evict.seq) if s != evict.storage]
    named = [Victim(at, other, True) for other in {others[which % len(others)], others[-1]}]
    named += [Victim(at, evict.storage, True), Victim(at, evict.storage, False)]
    named += [Victim(at, None, False), Victim(at, others[0], False)]
    for victim in named:
        changed = record_run(small_trace, **rules, interventions=Interventions(victims=(victim,)))
        new = next(evict for index, evict in evictions(changed) if index == at)
        assert (new.storage == victim.storage) == victim.forced
        passes(small_trace, changed)


@pytest.mark.parametrize("dealloc", DEALLOCS)
@pytest.mark.parametrize(("policy", "other"), list(zip(TELLING, TELLING[::-1], strict=True)))
def test_another_policy_from_some_decision_on(
    small_trace, record_run, base, policy, other, dealloc
):
    rules = {**base, "policy": policy, "dealloc": dealloc}
    for at in (0, evictions(record_run(small_trace, **rules))[2][0]):
        changes = Interventions(policies=((at, other), (at + 9, policy)))
        passes(small_trace, record_run(small_trace, **rules, interventions=changes))


@pytest.mark.parametrize("dealloc", DEALLOCS)
def test_other_budgets_pins_and_kept_storages(small_trace, record_run, base, dealloc):
    rules = {**base, "policy": "dtr", "dealloc": dealloc}
    events = record_run(small_trace, **rules)
    at, evict = evictions(events)[1]
    lower, higher = (base["budget_bytes"] * n // 8 for n in (7, 9))
    plain = events[-1].decisions_sha256
    for changes in (
        Interventions(budgets=((at, lower),)),
        Interventions(budgets=((0, higher), (at, lower), (at + 5, base["budget_bytes"]))),
        Interventions(pins=(evict.storage,)),
        Interventions(keeps=(evict.storage,)),
        Interventions(pins=(evict.storage,), keeps=(evict.storage,)),
    ):
        changed = record_run(small_trace, **rules, interventions=changes)
        assert changed[-1].decisions_sha256 != plain
        passes(small_trace, changed)


@pytest.mark.parametrize("dealloc", DEALLOCS)
@pytest.mark.parametrize(
    "changes",
    [
        Interventions(op_costs=((3, 50),)),
        Interventions(sizes=((1, 9), (4, 0))),
        Interventions(cost_noise=Noise(0.5, 3)),
        Interventions(size_noise=Noise(0.25, 4), sizes=((4, 20),)),
    ],
    ids=Interventions.text,
)
def test_other_costs_and_sizes(small_trace, record_run, base, dealloc, changes):
    rules = {**base, "policy": "dtr", "dealloc": dealloc}
    passes(small_trace, record_run(small_trace, **rules, interventions=changes))


@pytest.mark.parametrize("dealloc", DEALLOCS)
@pytest.mark.parametrize("policy", ["dtr", "dtr-eq"])
@pytest.mark.parametrize("name", ["chain-64", "residual-12", "recurrent-16", "tree-4"])
def test_bundled_traces_without_the_defects(record_run, name, policy, dealloc):
    trace = bundled(name)
    peak = baseline_peak_bytes(trace)
    rules = {"budget_bytes": int(peak * 0.6), "peak_bytes": peak, "ratio": 0.6}
    rules |= {"policy": policy, "dealloc": dealloc, "overhead_limit": 1.2}
    passes(trace, record_run(trace, **rules, semantics="repaired", engine="auto"), [True])


def test_losers_after_a_victim_that_scores_0(record_run):
    """The walk that finds the victim ends there, the one that finds the losers goes on."""
    builder = TraceBuilder("zeros")
    for name, cost in (("a", 0), ("b", 0), ("c", 2), ("d", 3), ("e", 1)):
        builder.call([name], "op", [], cost, [4], [-1])
    trace = builder.build("0" * 64)
    rules = {"policy": "local", "budget_bytes": 16, "dealloc": "ignore", "candidates": 9}
    for victim, losers in (
        (Victim(4, None, False), ((2, 2), (3, 3))),
        (Victim(4, 0, False), ((2, 2), (3, 3))),
        (Victim(4, 2, False), ((1, 0),)),
        (Victim(4, 2, True), ((0, 0),)),
    ):
        for engine in ("python", "auto"):
            changes = Interventions(victims=(victim,))
            events = record_run(trace, **rules, interventions=changes, engine=engine)
            assert evictions(events)[0][1].candidates == losers
            passes(trace, events)


@st.composite
def interventions(draw, decisions, evicted, storages, ops, budget):
    """Any set of interventions; where decisions move, a run may not be possible."""
    some = st.sampled_from(storages)
    places = st.integers(0, decisions - 1)
    at_evictions = st.sampled_from(evicted) if evicted else places
    victims = {
        at: draw(st.sampled_from([Victim(at, None, False), Victim(at, draw(some), draw(_BOOLS))]))
        for at in draw(st.sets(at_evictions, max_size=2))
    }
    budgets = st.integers(max(budget // 2, 1), budget * 2)
    rows = {
        "victims": tuple(victims[at] for at in sorted(victims)),
        "policies": _rows(draw, places, st.sampled_from(POLICIES), 2),
        "budgets": _rows(draw, places, budgets, 2),
        "pins": tuple(sorted(draw(st.sets(some, max_size=1)))),
        "keeps": tuple(sorted(draw(st.sets(some, max_size=2)))),
        "sizes": _rows(draw, some, st.integers(0, 20), 1),
        "op_costs": _rows(draw, st.sampled_from(ops), st.integers(0, 9), 1) if ops else (),
        "cost_noise": draw(st.sampled_from([None, None, Noise(0.3, 7)])),
        "size_noise": draw(st.sampled_from([None, None, Noise(0.1, 8)])),
        "tie_break": draw(st.sampled_from(TIE_BREAKS)),
        "repairs": tuple(name for name in REPAIRS if draw(_BOOLS)),
    }
    kept = draw(st.sets(st.sampled_from(sorted(rows)), max_size=3))
    return Interventions(**{field: value for field, value in rows.items() if field in kept})


_BOOLS = st.booleans()


def _rows(draw, keys, values, most):
    return tuple((key, draw(values)) for key in sorted(draw(st.sets(keys, max_size=most))))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data())
def test_random_interventions_in_random_traces(random_traces, record_run, data):
    trace = data.draw(random_traces)
    rules = {
        "dealloc": data.draw(st.sampled_from(DEALLOCS)),
        "policy": data.draw(st.sampled_from(POLICIES)),
        "semantics": data.draw(st.sampled_from(["simrd", "simrd", "repaired"])),
        "candidates": data.draw(st.sampled_from([0, 1, 9])),
        "overhead_limit": data.draw(st.sampled_from([None, 1.5, 10])),
    }
    try:
        most = record_run(trace, dealloc=rules["dealloc"])[-1].max_memory_bytes
        rules["budget_bytes"] = data.draw(st.integers(max(most // 2, 1), max(most, 1)))
        events = record_run(trace, **rules)
    except SimulationError:
        assume(False)
    storages = sorted(set(trace.tensor_storage.tolist()))
    ops = [op for op in range(trace.ops) if trace.op_name[op] != "constant"]
    evicted = [at for at, _ in evictions(events)]
    decisions = sum(e.kind in ("compute", "rematerialise", "evict") for e in events)
    given = interventions(decisions or 1, evicted, storages, ops, rules["budget_bytes"])
    changes = data.draw(given)
    try:
        engine = data.draw(st.sampled_from(["auto", "python"]))
        changed = record_run(trace, **rules, interventions=changes, engine=engine)
    except (SimulationError, UsageError):
        assume(False)
    passes(trace, changed)
