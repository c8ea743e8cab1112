"""Regions that are walked when asked for give the decisions that regions kept as sets give."""

from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from dtrdiag.interventions import TIE_BREAKS, Interventions
from dtrdiag.simulator import RunConfig, policies, pool, simulate
from dtrdiag.simulator.graph import RESIDENT
from dtrdiag.simulator.lazyregions import LazyRegions
from dtrdiag.simulator.regions import Regions
from dtrdiag.trace import TraceBuilder
from dtrdiag.trace.catalog import resolve

WITH_REGIONS = tuple(entry.name for entry in policies() if "regions" in entry.uses)
fixed = settings(
    max_examples=60, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)


def both_ways(trace, **rules):
    """Ends of the run without candidates, which is lazy, and with one, which is not."""
    ends = []
    for candidates in (0, 1):
        interventions = Interventions(tie_break=rules.pop("tie_break", "last"))
        config = RunConfig(
            candidates=candidates, interventions=interventions, engine="python", **rules
        )
        rules["tie_break"] = interventions.tie_break
        ends.append(simulate(trace, config).end)
    return ends


class Shadowed(LazyRegions):
    """Compares all sums and bounds with those of regions kept as sets, after whatever happens."""

    noticed: ClassVar[set[str]] = set()

    def __init__(self, graph):
        self.kept = None
        super().__init__(graph)
        self.kept = Regions(graph)

    def grow(self, tensors):
        super().grow(tensors)
        if self.kept is not None:
            self.kept.grow(tensors)

    def called(self, inputs, outputs, fresh):
        super().called(inputs, outputs, fresh)
        self.compare()

    def became_resident(self, storages):
        self.kept.became_resident(storages)
        super().became_resident(storages)
        self.compare()

    def evicted(self, storage):
        self.kept.evicted(storage)
        super().evicted(storage)
        self.compare()

    def compare(self):
        everyone = [s for s, state in enumerate(self.graph.residency) if state == RESIDENT]
        for side, name in enumerate(("forward", "backward")):
            kept_ns = [getattr(self.kept, name).sum_ns[storage] for storage in everyone]
            if self.cached is None:
                bounds = self.least_ns(side, everyone)
                assert all(bound <= ns for bound, ns in zip(bounds, kept_ns, strict=True))
            sums = getattr(self, name).sum_ns
            assert [sums[storage] for storage in everyone] == kept_ns
        self.noticed.update(["old edges"] if self.cached else [])
        self.noticed.update(["cost not seen"] if any(self._unseen_ns) else [])
        self.noticed.update(["new outputs seen"] if self._sees_new else [])


@pytest.fixture
def shadowed(monkeypatch):
    monkeypatch.setattr(pool, "LazyRegions", Shadowed)
    Shadowed.noticed.clear()
    return Shadowed.noticed


@st.composite
def programs(draw):
    """Chains with branches, and views that cost something of tensors that may be gone by then."""
    builder = TraceBuilder("views")
    builder.constant("t0", 1)
    made = 1
    pick = st.integers(0, 9)
    for _ in range(draw(st.integers(10, 30))):
        args = [f"t{max(0, made - 1 - draw(pick))}" for _ in range(draw(st.integers(1, 3)))]
        kind = draw(st.sampled_from(["op"] * 6 + ["view"] * 5 + ["old edge"]))
        cost, size = draw(st.integers(1, 9)), draw(st.integers(1, 4))
        if kind == "view":
            args = args[:1]
        alias = -1 if kind == "op" else 0
        outputs = 1 + (draw(pick) == 0)
        names = [f"t{made + index}" for index in range(outputs)]
        builder.call(names, kind, args, cost, [size] * outputs, [alias] * outputs)
        made += outputs
        if draw(pick) < 2:
            builder.release(f"t{made - 1}")
    return builder.build("0" * 64)


@pytest.mark.parametrize("dealloc", ["eager", "ignore"])
def test_sums_are_those_of_kept_regions_at_any_time(shadowed, dealloc):
    @seed(7)
    @fixed
    @given(data=st.data())
    def check(data):
        trace = data.draw(programs())
        share = data.draw(st.sampled_from([0.15, 0.2, 0.3, 0.4, 0.5]))
        budget = max(1, int(int(trace.tensor_size_bytes.sum()) * share))
        policy = data.draw(st.sampled_from(WITH_REGIONS))
        rules = {"dealloc": dealloc, "overhead_limit": 4, "engine": "python"}
        simulate(trace, RunConfig(policy, budget, **rules))

    check()
    assert shadowed == {"old edges", "cost not seen", "new outputs seen"}


@pytest.mark.parametrize("dealloc", ["eager", "ignore"])
def test_random_runs_are_the_same(longer_random_traces, dealloc):
    @seed(7)
    @fixed
    @given(data=st.data())
    def check(data):
        trace = data.draw(longer_random_traces)
        share = data.draw(st.sampled_from([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8]))
        lazy, kept = both_ways(
            trace,
            policy=data.draw(st.sampled_from(WITH_REGIONS)),
            budget_bytes=max(1, int(int(trace.tensor_size_bytes.sum()) * share)),
            dealloc=dealloc,
            overhead_limit=data.draw(st.sampled_from([None, 2])),
            tie_break=data.draw(st.sampled_from(["last", *TIE_BREAKS])),
        )
        assert lazy == kept

    check()


@pytest.mark.parametrize("policy", ["dtr", "msps", "estar", "estar+size", "estar+stale"])
@pytest.mark.parametrize("name", ["residual-12", "tree-4"])
def test_runs_of_bundled_traces_are_the_same(name, policy):
    trace = resolve(name)
    budget = int(int(trace.tensor_size_bytes.sum()) * 0.2)
    lazy, kept = both_ways(trace, policy=policy, budget_bytes=budget, overhead_limit=3)
    assert lazy.evictions_pressure
    assert lazy == kept
