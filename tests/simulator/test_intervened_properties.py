"""On any trace: what changes nothing changes nothing; repaired scores are the naive ones."""

import attrs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dtrdiag.errors import SimulationError
from dtrdiag.hooks import Hooks
from dtrdiag.interventions import REPAIRS, parse_interventions
from dtrdiag.simulator import RunConfig, simulate

DECISIONS = ("compute", "rematerialise", "evict")
POLICIES = ["dtr", "dtr-eq", "dtr-full", "msps", "lru", "size", "random", "eq", "local", "estar"]
relaxed = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
rules = st.builds(
    RunConfig,
    policy=st.sampled_from(POLICIES),
    dealloc=st.sampled_from(["eager", "ignore", "banish"]),
    overhead_limit=st.sampled_from([1.5, 3]),
    engine=st.just("python"),
)


def heard(trace, config, text=None, **changes):
    hooks, events = Hooks(), []
    hooks.subscribe(events.append)
    interventions = parse_interventions(text)
    result = simulate(trace, attrs.evolve(config, interventions=interventions, **changes), hooks)
    return result, events


def told(trace, config, text=None, **changes):
    """A run but for its header, and for its interval."""
    result, events = heard(trace, config, text, **changes)
    free = {"interval_lo_bytes": 0, "interval_hi_bytes": None}
    return [*events[1:-1], attrs.evolve(result.end, **free)]


@relaxed
@given(data=st.data(), config=rules, share=st.floats(0.05, 1.0))
def test_an_intervention_that_changes_nothing_changes_nothing(random_traces, data, config, share):
    trace = data.draw(random_traces)
    budget = max(1, int(trace.tensor_size_bytes.sum() * share))
    config = attrs.evolve(config, budget_bytes=budget, candidates=data.draw(st.integers(0, 2)))
    try:
        base = told(trace, config)
    except SimulationError:
        assume(False)
    made = [event for event in base if event.kind in DECISIONS]
    assume(made)
    at = data.draw(st.integers(0, len(made) - 1))
    assert told(trace, config, f"budget {at}={budget}") == base
    assert told(trace, config, f"policy {at}={config.policy}") == base
    if at + 1 < len(made) and getattr(made[at], "cause", None) != "pressure":
        between = f"policy {at}=lru; policy {at + 1}={config.policy}"
        assert told(trace, config, between) == base
    pressed = [i for i, e in enumerate(made) if e.kind == "evict" and e.cause == "pressure"]
    if pressed and config.policy != "random":
        at = data.draw(st.sampled_from(pressed))
        text = f"force {at}={made[at].storage}"
        # Without lists of losers: a score of 0 ends the walk, unless it is passed over.
        silent = attrs.evolve(config, candidates=0)
        assert told(trace, silent, text) == told(trace, silent)
    assert told(trace, config, "pin 0; keep 0") == base or config.dealloc == "banish"


CANNOT_BITE = {
    "uncomputed-neighbour": lambda c: c.policy in ("lru", "size", "random", "local"),
    "stale-region": lambda c: c.policy not in ("dtr", "msps", "estar"),
    "phantom-credit": lambda c: c.policy not in ("dtr-eq", "eq"),
    "live-iteration": lambda c: c.dealloc != "banish",
    "banished-sibling": lambda c: c.dealloc != "banish",
}


@relaxed
@given(data=st.data(), config=rules, share=st.floats(0.05, 1.0))
def test_a_repair_changes_nothing_where_the_defect_cannot_bite(random_traces, data, config, share):
    trace = data.draw(random_traces)
    config = attrs.evolve(config, budget_bytes=max(1, int(trace.tensor_size_bytes.sum() * share)))
    try:
        base = heard(trace, config)[0].end
    except SimulationError:
        assume(False)
    names = [name for name, cannot in CANNOT_BITE.items() if cannot(config)]
    for name in names:
        assert heard(trace, config, f"repair {name}")[0].end == base
    text = "; ".join(f"repair {name}" for name in REPAIRS if name in names)
    assert heard(trace, config, text or None)[0].end == base


@relaxed
@given(data=st.data(), config=rules, share=st.floats(0.05, 1.0))
def test_repaired_is_all_repairs_and_has_an_interval(random_traces, data, config, share):
    trace = data.draw(random_traces)
    budget = max(1, int(trace.tensor_size_bytes.sum() * share))
    config = attrs.evolve(config, budget_bytes=budget)
    try:
        all_of_them = told(trace, config, "; ".join(f"repair {name}" for name in REPAIRS))
    except SimulationError:
        assume(False)
    assert told(trace, config, semantics="repaired") == all_of_them
    end = heard(trace, config, semantics="repaired")[0].end
    lo, hi = end.interval_lo_bytes, end.interval_hi_bytes
    for other in (max(lo, 1), budget * 4 if hi is None else hi - 1):
        there = heard(trace, config, semantics="repaired", budget_bytes=other)[0].end
        assert there.decisions_sha256 == end.decisions_sha256
    if hi is not None:
        there = heard(trace, config, semantics="repaired", budget_bytes=hi)[0].end
        assert (there.decisions_sha256, there.outcome) != (end.decisions_sha256, end.outcome)


def walked(start, edges, resident):
    """Evicted storages reached through evicted ones."""
    found, waiting = set(), [start]
    while waiting:
        for near in edges.get(waiting.pop(), ()):
            if near not in resident and near not in found:
                found.add(near)
                waiting.append(near)
    return found - {start}


def naive_scores_agree(events):
    """Every score of `estar` is compute + what walks over computed, evicted storages find."""
    ops, storage_of, costs, checked = {}, {}, {}, 0
    children, parents, resident = {}, {}, set()
    for event in events:
        if event.kind == "op":
            ops[event.op] = event
            storage_of.update(zip(event.outputs, event.storages, strict=True))
            for storage in set(event.storages):
                costs[storage] = costs.get(storage, 0) + event.cost_ns
        elif event.kind in ("compute", "rematerialise"):
            op = ops[event.op]
            for needed in op.inputs:
                for storage in op.storages:
                    if storage_of[needed] != storage:
                        children.setdefault(storage_of[needed], set()).add(storage)
                        parents.setdefault(storage, set()).add(storage_of[needed])
            resident |= set(event.resident)
        elif event.kind == "evict":
            if event.cause == "pressure":
                for storage, score in ((event.storage, event.score), *event.candidates):
                    around = [walked(storage, edges, resident) for edges in (children, parents)]
                    assert score == costs[storage] + sum(costs[s] for part in around for s in part)
                    checked += 1
            resident.discard(event.storage)
    return checked


@relaxed
@given(data=st.data(), dealloc=st.sampled_from(["eager", "ignore"]), share=st.floats(0.05, 0.7))
def test_without_stale_regions_and_uncomputed_neighbours_estar_is_a_walk(
    longer_random_traces, data, dealloc, share
):
    trace = data.draw(longer_random_traces)
    budget = max(1, int(trace.tensor_size_bytes.sum() * share))
    config = RunConfig("estar", budget, dealloc=dealloc, candidates=99)
    _, events = heard(trace, config, "repair uncomputed-neighbour; repair stale-region")
    naive_scores_agree(events)


def test_the_walk_is_checked_where_there_is_much_to_check(layered_trace):
    trace = layered_trace("walk", 6, {"w": 4, "x": 8})
    config = RunConfig("estar", 120, dealloc="ignore", candidates=99)
    _, events = heard(trace, config, "repair uncomputed-neighbour; repair stale-region")
    assert naive_scores_agree(events) > 100
    _, plain = heard(trace, config)
    with pytest.raises(AssertionError):
        naive_scores_agree(plain)
