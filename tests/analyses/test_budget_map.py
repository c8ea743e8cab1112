"""What a map comes to, beside versions of each question that try everything."""

# mypy: no-check-untyped-defs

from fractions import Fraction
from itertools import combinations, pairwise

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtrdiag.analyses import (
    BudgetMap,
    map_document,
    map_segments,
    run_of_interval,
    summarise_map,
    worst_cliff,
)
from dtrdiag.errors import AnalysisError, LogError
from dtrdiag.events.records import SCHEMA, End, RunHeader

BASELINE_NS = 100
HEADER = RunHeader(
    seq=0,
    schema=SCHEMA,
    runtime="toy",
    runtime_version="1",
    trace_name="by hand",
    trace_sha256=None,
    trace_ops=None,
    trace_tensors=None,
    policy="lru",
    dealloc="eager",
    semantics="toy",
    budget_bytes=None,
    overhead_limit=10,
    seed=0,
    candidates=0,
    baseline_cost_ns=BASELINE_NS,
    peak_bytes=1000,
)


def run(low, high, outcome="ok", remat_cost_ns=0):
    return End(
        seq=0,
        outcome=outcome,
        computes=3,
        remats=remat_cost_ns // 10,
        remat_cost_ns=remat_cost_ns,
        evictions_pressure=5,
        evictions_release=6,
        evictions_banish=0,
        distinct_evicted=7,
        distinct_pressure=4,
        distinct_release=5,
        distinct_banish=0,
        max_memory_bytes=low,
        memory_bytes=low // 2,
        clock_ns=1 + BASELINE_NS + remat_cost_ns,
        interval_lo_bytes=low,
        interval_hi_bytes=high,
        decisions_sha256=f"{low:064x}",
    )


def map_of(*runs, low=None, high=None, **header):
    """A map of (lo, hi, outcome, remat cost), with what is left out as in `run`."""
    ends = tuple(run(*each) for each in runs)
    top = ends[-1].interval_hi_bytes
    return BudgetMap(
        attrs.evolve(HEADER, **header),
        ends,
        ends[0].interval_lo_bytes if low is None else low,
        high or (top or ends[-1].interval_lo_bytes + 1) - 1,
    )


@st.composite
def maps(draw):
    """Maps with gaps, of few bytes, so that everything about them can be tried."""
    at, ends = draw(st.integers(1, 5)), []
    for _ in range(draw(st.integers(1, 12))):
        at += draw(st.sampled_from([0, 0, 0, 1, 3]))
        width = draw(st.integers(1, 4))
        outcome = draw(st.sampled_from(["ok", "ok", "oom", "thrashed"]))
        ends.append((at, at + width, outcome, draw(st.sampled_from([0, 5, 30, 60, 300, 900]))))
        at += width
    if draw(st.booleans()):
        ends[-1] = (ends[-1][0], None, *ends[-1][2:])
    low = max(1, ends[0][0] - draw(st.integers(0, 2)))
    return map_of(*ends, low=low, high=at - 1 + draw(st.integers(0, 2)))


def by_budget(budget_map):
    """What is known at each budget of the range; None where nothing is."""
    budgets = dict.fromkeys(range(budget_map.from_bytes, budget_map.to_bytes + 1))
    for end in budget_map.runs:
        for budget in budgets:
            high = end.interval_hi_bytes
            if end.interval_lo_bytes <= budget and (high is None or budget < high):
                budgets[budget] = end
    return budgets


@given(maps())
def test_gaps_are_the_budgets_of_which_nothing_is_known(budget_map):
    unknown = [budget for budget, end in by_budget(budget_map).items() if end is None]
    told = [budget for low, high in budget_map.gaps for budget in range(low, high)]
    assert told == unknown
    assert budget_map.complete == (not unknown)


@given(maps())
def test_segments_are_maximal_and_leave_nothing_out(budget_map):
    segments = map_segments(budget_map)
    for one, other in pairwise(segments):
        assert one.hi_bytes == other.lo_bytes
        assert one.outcome != other.outcome
    for budget, end in by_budget(budget_map).items():
        (segment,) = (
            s
            for s in segments
            if s.lo_bytes <= budget and (s.hi_bytes is None or budget < s.hi_bytes)
        )
        assert segment.outcome == ("unknown" if end is None else end.outcome)
        if end is not None and end.outcome != "oom":
            assert segment.least_overhead <= budget_map.overhead(end) <= segment.most_overhead
    assert sum(segment.intervals for segment in segments) == len(budget_map.runs)


@given(maps())
def test_feasible_budgets_are_those_that_trying_each_one_finds(budget_map):
    summary = summarise_map(budget_map, 1)
    known = {
        budget: end.outcome for budget, end in by_budget(budget_map).items() if end is not None
    }
    feasible = [budget for budget in known if known[budget] == "ok"]
    smallest = summary.smallest_feasible_bytes
    assert (smallest is None) == (not feasible)
    if feasible:
        assert max(smallest, budget_map.from_bytes) == feasible[0]
    upward = [b for b in known if all(known[c] == "ok" for c in known if c >= b)]
    assert (summary.feasible_from_bytes is None) == (not upward)
    if upward:
        assert max(summary.feasible_from_bytes, budget_map.from_bytes) == upward[0]
    for segments, outcome in ((summary.inversions, "oom"), (summary.stopped_above, "thrashed")):
        inverted = {b for b in known if known[b] == outcome and any(f < b for f in feasible)}
        told = {b for b in known for s in segments if s.lo_bytes <= b < (s.hi_bytes or b + 1)}
        assert told == inverted


def naive_cliff(budget_map, within, exact):
    """The largest factor of all pairs of budgets, and the pairs that have it."""
    known = [(b, end) for b, end in by_budget(budget_map).items() if end is not None]
    best, pairs = Fraction(1), {}
    for (low, one), (high, other) in combinations(known, 2):
        if high - low > within or "oom" in (one.outcome, other.outcome):
            continue
        over, under = sorted((one, other), key=lambda end: -end.remat_cost_ns)
        if under.outcome == "thrashed" or (exact and over.outcome == "thrashed"):
            continue
        factor = Fraction(BASELINE_NS + over.remat_cost_ns, BASELINE_NS + under.remat_cost_ns)
        if factor > best:
            best, pairs = factor, {}
        if factor == best:
            pairs[low, high] = over.outcome == "thrashed"
    return best, pairs


@given(maps(), st.integers(1, 12), st.booleans())
def test_the_worst_cliff_is_that_of_all_pairs_of_budgets(budget_map, within, exact):
    best, pairs = naive_cliff(budget_map, within, exact)
    cliff = worst_cliff(budget_map, within, exact)
    if best == 1:
        assert cliff is None
        return
    assert cliff.factor == float(best)
    assert pairs[cliff.low_bytes, cliff.high_bytes] == cliff.censored
    less, more = sorted((cliff.low_overhead, cliff.high_overhead))
    assert cliff.factor == pytest.approx(more / less)


def test_a_stopped_run_bounds_a_cliff_from_below():
    budget_map = map_of((10, 20, "thrashed", 900), (20, 30, "ok", 100))
    cliff = worst_cliff(budget_map, 1)
    assert (cliff.low_bytes, cliff.high_bytes) == (19, 20)
    assert (cliff.factor, cliff.censored) == (5.0, True)
    assert summarise_map(budget_map, 1).worst_exact_cliff is None


def test_a_stopped_run_is_never_the_smaller_of_a_cliff():
    """Its true overhead may be the larger one."""
    assert worst_cliff(map_of((10, 20, "thrashed", 50), (20, 30, "ok", 100)), 9) is None


def test_runs_out_of_memory_are_no_cliff_but_do_not_hide_one():
    budget_map = map_of((10, 20, "ok", 0), (20, 25, "oom", 9000), (25, 30, "ok", 300))
    assert worst_cliff(budget_map, 5) is None
    assert worst_cliff(budget_map, 6).factor == 4.0


def test_without_a_baseline_there_is_no_overhead():
    budget_map = map_of((10, 20, "ok", 0), (20, 30, "ok", 9), baseline_cost_ns=None)
    assert worst_cliff(budget_map, 5) is None
    assert map_segments(budget_map)[0].most_overhead is None


def test_factors_that_are_the_same_double_are_told_apart():
    large = 10**17
    budget_map = map_of(
        (10, 20, "ok", large), (20, 30, "ok", 0), (30, 40, "ok", large + 1), baseline_cost_ns=1
    )
    assert worst_cliff(budget_map, 1).high_bytes == 30


@pytest.mark.parametrize(
    ("runs", "low", "high"),
    [
        ([(10, 10)], 10, 20),
        ([(10, 20), (19, 30)], 10, 30),
        ([(20, 30), (10, 20)], 10, 30),
        ([(10, None), (20, 30)], 10, 30),
        ([(10, 20)], 20, 30),
        ([(31, 40)], 20, 30),
        ([(10, 20)], 0, 30),
        ([(10, 20)], 15, 14),
    ],
)
def test_what_is_no_map_is_refused(runs, low, high):
    with pytest.raises(AnalysisError):
        map_of(*runs, low=low, high=high)


def test_a_cliff_needs_a_distance():
    with pytest.raises(AnalysisError):
        summarise_map(map_of((10, 20)), 0)


@given(maps())
def test_a_document_tells_each_run_in_full(budget_map):
    document = map_document(budget_map, summarise_map(budget_map, 1))
    assert tuple(map(run_of_interval, document["intervals"])) == budget_map.runs
    assert document["complete"] == budget_map.complete
    assert document["summary"]["censored"] == sum(e.outcome == "thrashed" for e in budget_map.runs)


@pytest.mark.parametrize(
    "change",
    [{"lo": "10"}, {"outcome": "fine"}, {"remats": None}, {"evictions": 3}, {"evictions": {}}],
)
def test_an_interval_of_something_else_is_refused(change):
    document = map_document(map_of((10, 20)), summarise_map(map_of((10, 20)), 1))
    with pytest.raises(LogError):
        run_of_interval(document["intervals"][0] | change)
