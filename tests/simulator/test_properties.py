"""What holds for every trace, policy and budget."""

import math
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtrdiag.errors import SimulationError
from dtrdiag.hooks import Hooks
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.simulator.eqclasses import EquivalenceClasses
from dtrdiag.simulator.graph import ABSENT, RESIDENT, StorageGraph
from dtrdiag.simulator.regions import Regions

POLICIES = ["dtr", "dtr-eq", "dtr-local", "dtr-full", "msps", "lru", "size", "random", "eq"]
DEALLOCS = ["eager", "ignore", "banish"]
relaxed = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
rules = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(POLICIES),
        "dealloc": st.sampled_from(DEALLOCS),
        "overhead_limit": st.sampled_from([None, 1.5, 10]),
    }
)


def run_at(trace, rules, budget):
    return simulate(trace, RunConfig(budget_bytes=budget, **rules)).end


def behaviour(end):
    return end.outcome, end.decisions_sha256, end.memory_bytes, end.clock_ns


@relaxed
@given(data=st.data(), rules=rules, share=st.floats(0.05, 1.0))
def test_a_run_is_the_same_on_its_whole_interval_and_nowhere_beyond(
    random_traces, data, rules, share
):
    trace = data.draw(random_traces)
    budget = max(1, int(trace.tensor_size_bytes.sum() * share))
    try:
        end = run_at(trace, rules, budget)
    except SimulationError:
        return
    lo, hi = end.interval_lo_bytes, end.interval_hi_bytes
    assert lo <= budget
    assert hi is None or budget < hi
    assert end.max_memory_bytes <= budget
    inside = [max(lo, 1), lo + (budget - lo) // 2 or 1]
    inside.append(hi - 1 if hi is not None else budget * 4 + 1)
    for other in inside:
        assert behaviour(run_at(trace, rules, other)) == behaviour(end)
    for outside in ([lo - 1] if lo > 1 else []) + ([hi] if hi is not None else []):
        assert behaviour(run_at(trace, rules, outside)) != behaviour(end)


@relaxed
@given(data=st.data(), rules=rules, share=st.floats(0.05, 1.0), candidates=st.integers(0, 5))
def test_listening_changes_nothing_and_counts_agree_with_the_events(
    random_traces, data, rules, share, candidates
):
    trace = data.draw(random_traces)
    config = {**rules, "budget_bytes": max(1, int(trace.tensor_size_bytes.sum() * share))}
    try:
        silent = simulate(trace, RunConfig(**config))
    except SimulationError:
        return
    hooks, events = Hooks(), []
    hooks.subscribe(events.append)
    heard = simulate(trace, RunConfig(**config, candidates=candidates), hooks)
    assert behaviour(heard.end) == behaviour(silent.end)
    assert heard.stop == silent.stop
    kinds = [event.kind for event in events]
    assert [event.seq for event in events] == list(range(len(events)))
    assert (kinds[0], kinds[-1]) == ("run", "end")
    assert events[0] == heard.header
    assert events[-1] == heard.end
    assert kinds.count("compute") == heard.end.computes
    assert kinds.count("rematerialise") == heard.end.remats
    by_cause = [event.cause for event in events if event.kind == "evict"]
    assert by_cause.count("pressure") == heard.end.evictions_pressure
    assert by_cause.count("release") == heard.end.evictions_release
    assert by_cause.count("banish") == heard.end.evictions_banish


@relaxed
@given(data=st.data())
def test_without_a_budget_nothing_is_evicted_for_room(random_traces, data):
    trace = data.draw(random_traces)
    end = simulate(trace, RunConfig("dtr", None)).end
    assert (end.outcome, end.evictions_pressure, end.interval_hi_bytes) == ("ok", 0, None)
    assert end.clock_ns == 1 + trace.baseline_cost_ns + end.remat_cost_ns


class NaiveClasses:
    """Equivalence classes as explicit sets, each with a value, searched through every time."""

    def __init__(self):
        self.classes = []

    def of(self, storage):
        return next((entry for entry in self.classes if storage in entry["members"]), None)

    def add(self, storage, value):
        self.classes.append({"members": {storage}, "value": value})

    def merge(self, one, other):
        if one is not other:
            one["members"] |= other["members"]
            one["value"] += other["value"]
            self.classes = [entry for entry in self.classes if entry is not other]

    def leave(self, storage, value):
        entry = self.of(storage)
        entry["value"] -= value
        entry["members"].discard(storage)


@pytest.fixture(scope="module")
def histories():
    """Graphs over 8 storages, and which of them come and go, in order."""
    edges = st.lists(st.sampled_from(list(combinations(range(8), 2))), max_size=16)
    return st.tuples(edges, st.lists(st.integers(0, 7), max_size=40))


def replayed(history, observer_type):
    """The graph, the observer, and a step that flips the residency of a storage."""
    edges, _ = history
    residency = bytearray([RESIDENT] * 8)
    graph = StorageGraph(8, residency, [3**i for i in range(8)])
    observer = observer_type(graph)
    for parent, child in edges:
        graph.connect([parent], [child])
        observer.called([parent], [child], [])

    def flip(storage):
        if residency[storage]:
            residency[storage] = ABSENT
            observer.evicted(storage)
        else:
            residency[storage] = RESIDENT
            observer.became_resident([storage])

    return graph, observer, flip


@relaxed
@given(data=st.data())
def test_equivalence_classes_equal_a_naive_bookkeeping(histories, data):
    history = data.draw(histories)
    graph, classes, flip = replayed(history, EquivalenceClasses)
    naive = NaiveClasses()
    for storage in history[1]:
        around = {*graph.parents[storage], *graph.children[storage]}
        absent = [other for other in around if not graph.residency[other]]
        leaving = bool(graph.residency[storage])
        flip(storage)
        if leaving:
            naive.add(storage, graph.compute_ns[storage])
            for other in absent:
                naive.merge(naive.of(storage), naive.of(other))
        else:
            naive.leave(storage, graph.compute_ns[storage])
        for other in range(8):
            near = {*graph.parents[other], *graph.children[other]}
            distinct = {
                id(naive.of(n)): naive.of(n)["value"] for n in near if not graph.residency[n]
            }
            expected = graph.compute_ns[other] + sum(distinct.values())
            assert classes.sums_ns([other]) == [expected]


@relaxed
@given(data=st.data())
def test_regions_of_a_fixed_graph_equal_a_fresh_walk(histories, data):
    """Without new tensors nothing can go stale, so the cache must be exact."""
    history = data.draw(histories)
    graph, regions, flip = replayed(history, Regions)
    for storage in range(8):
        regions.became_resident([storage])
    for storage in history[1]:
        flip(storage)
        for direction in (regions.forward, regions.backward):
            for base in range(8):
                if graph.residency[base]:
                    interior, frontier = graph.walk(base, direction.edges)
                    assert direction.frontier[base] == frontier
                    assert direction.sum_ns[base] == sum(graph.compute_ns[s] for s in interior)


def test_an_overhead_is_the_share_of_the_baseline(chain_of):
    trace = chain_of(6, cost=10)
    result = simulate(trace, RunConfig("none", 60, dealloc="ignore"))
    expected = (60 + result.end.remat_cost_ns) / 60
    assert math.isclose(result.overhead, expected)
