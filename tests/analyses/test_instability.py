"""Measures of a map, beside sums over every single budget of its range."""

# mypy: no-check-untyped-defs

import math
from itertools import pairwise, product

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtrdiag.analyses import (
    BudgetMap,
    instability_document,
    map_document,
    measure_instability,
    summarise_map,
)
from dtrdiag.analyses.instability import common_bytes, inverted_stretches
from dtrdiag.errors import AnalysisError

from .test_budget_map import BASELINE_NS, HEADER, by_budget, map_of
from .test_budget_map import run as end_of

FIGURES = st.sampled_from([0, 5, 30, 60, 300, 900, 1100])


@st.composite
def maps(draw, most_width=60):
    """Maps over some hundreds of budgets whose ends reach out of the range, some with gaps."""
    at, ends = draw(st.integers(1, 40)), []
    gapless = draw(st.booleans())
    for _ in range(draw(st.integers(1, 10))):
        at += 0 if gapless else draw(st.sampled_from([0, 0, 1, 7]))
        width = draw(st.integers(1, most_width))
        outcome = draw(st.sampled_from(["ok", "ok", "oom", "thrashed"]))
        ends.append((at, at + width, outcome, draw(FIGURES)))
        at += width
    outside = 0 if gapless else 3
    low = draw(st.integers(max(1, ends[0][0] - outside), ends[0][1] - 1))
    high = draw(st.integers(max(low, ends[-1][0]), at - 1 + outside))
    if draw(st.booleans()):
        ends[-1] = (ends[-1][0], None, *ends[-1][2:])
    return map_of(*ends, low=low, high=high)


def overheads(budget_map, *outcomes):
    """(budget, cost, whether the run finished) of each budget with one of the outcomes."""
    return [
        (budget, BASELINE_NS + end.remat_cost_ns, end.outcome == "ok")
        for budget, end in by_budget(budget_map).items()
        if end is not None and end.outcome in outcomes
    ]


def outcome_by_budget(budget_map):
    return {b: end and end.outcome for b, end in by_budget(budget_map).items()}


def inverted_budgets(outcomes):
    feasible = [budget for budget, outcome in outcomes.items() if outcome == "ok"]
    return [
        budget
        for budget, outcome in outcomes.items()
        if outcome == "oom" and any(lower < budget for lower in feasible)
    ]


def stretches(budgets):
    return sum(budget - 1 not in budgets for budget in budgets)


@given(maps())
def test_budgets_are_counted_within_the_range(budget_map):
    outcomes = outcome_by_budget(budget_map)
    found = measure_instability(budget_map, 1)
    assert found.range_bytes == len(outcomes)
    assert found.known_bytes == sum(outcome is not None for outcome in outcomes.values())
    assert found.complete == budget_map.complete
    for name in ("ok", "oom", "thrashed"):
        budgets = sum(outcome == name for outcome in outcomes.values())
        assert found.outcome_bytes[name] == budgets
        assert found.share(found.outcome_bytes[name]) == budgets / found.known_bytes
    assert found.outcome_changes == sum(
        None not in pair and pair[0] != pair[1] for pair in pairwise(outcomes.values())
    )


@given(maps())
def test_entropy_is_that_of_a_budget_drawn_uniformly(budget_map):
    known = [outcome for outcome in outcome_by_budget(budget_map).values() if outcome]
    surprise = sum(-math.log2(known.count(outcome) / len(known)) for outcome in known)
    found = measure_instability(budget_map, 1).entropy_bits
    assert found == pytest.approx(surprise / len(known), abs=1e-12)
    assert 0 <= found <= math.log2(3) + 1e-12


@given(maps())
def test_inversions_are_the_budgets_out_of_memory_above_one_that_finishes(budget_map):
    outcomes = outcome_by_budget(budget_map)
    inverted = inverted_budgets(outcomes)
    found = measure_instability(budget_map, 1)
    assert (found.inversions, found.inversion_bytes) == (stretches(inverted), len(inverted))
    assert [b for low, high in inverted_stretches(budget_map) for b in range(low, high)] == inverted
    feasible = [budget for budget, outcome in outcomes.items() if outcome == "ok"]
    stopped = [b for b, o in outcomes.items() if o == "thrashed" and feasible and b > feasible[0]]
    assert found.stopped_above_bytes == len(stopped)
    assert found.stopped_above == stretches(stopped)


@given(maps(most_width=4))
@settings(max_examples=60)
def test_stopped_runs_leave_inversions_between_two_bounds(budget_map):
    """Every way in which the stopped runs may end is tried."""
    found = measure_instability(budget_map, 1)
    stopped = [run for run in budget_map.runs if run.outcome == "thrashed"][:6]
    sizes = []
    for ends in product(("ok", "oom"), repeat=len(stopped)):
        replaced = dict(zip((r.interval_lo_bytes for r in stopped), ends, strict=True))
        runs = tuple(
            attrs.evolve(run, outcome=replaced.get(run.interval_lo_bytes, run.outcome))
            for run in budget_map.runs
        )
        resolved = attrs.evolve(budget_map, runs=runs)
        sizes.append(len(inverted_budgets(outcome_by_budget(resolved))))
    if len(stopped) == found.intervals["thrashed"]:
        assert max(sizes) == found.inversion_bytes_at_most
        assert min(sizes) >= found.inversion_bytes


@given(maps())
def test_variation_of_finished_runs_is_summed_over_their_budgets(budget_map):
    logs = [math.log(cost) for _, cost, _ in overheads(budget_map, "ok")]
    steps = [upper - lower for lower, upper in pairwise(logs)]
    variation = measure_instability(budget_map, 1).variation
    assert variation.finished_up == pytest.approx(sum(s for s in steps if s > 0), abs=1e-9)
    assert variation.finished_down == pytest.approx(-sum(s for s in steps if s < 0), abs=1e-9)


def least_variation(points, up, down):
    """The least weighted sum of steps, where a stopped run may end at any figure from its stop on.

    A budget at a time: the least sum for each figure that the last one may have.
    """
    figures = sorted({cost for _, cost, _ in points})
    least = None
    for _, cost, finished in points:
        allowed = [cost] if finished else [figure for figure in figures if figure >= cost]
        if least is None:
            least = dict.fromkeys(allowed, 0.0)
            continue
        least = {
            figure: min(
                total
                + max(0.0, math.log(figure / before)) * up
                + max(0.0, math.log(before / figure)) * down
                for before, total in least.items()
            )
            for figure in allowed
        }
    return 0.0 if least is None else min(least.values())


@given(maps())
def test_variation_is_the_least_that_stopped_runs_allow(budget_map):
    points = overheads(budget_map, "ok", "thrashed")
    variation = measure_instability(budget_map, 1).variation
    assert variation.up == pytest.approx(least_variation(points, 1, 0), abs=1e-9)
    total = variation.up + variation.down
    assert total == pytest.approx(least_variation(points, 1, 1), abs=1e-9)


@given(maps())
def test_median_and_maximum_are_those_of_the_budgets_that_finish(budget_map):
    costs = sorted(cost for _, cost, _ in overheads(budget_map, "ok"))
    found = measure_instability(budget_map, 1)
    if not costs:
        assert (found.median_overhead, found.most_overhead) == (None, None)
        return
    assert found.median_overhead == costs[(len(costs) - 1) // 2] / BASELINE_NS
    assert found.most_overhead == costs[-1] / BASELINE_NS


@given(maps(), st.integers(1, 40))
@settings(max_examples=50)
def test_the_worst_cliff_lies_between_budgets_of_the_range(budget_map, within):
    points = overheads(budget_map, "ok", "thrashed")
    factors = [
        over / under
        for b, over, _ in points
        for c, under, finished in points
        if abs(b - c) <= within and finished
    ]
    document = instability_document(measure_instability(budget_map, within))
    cliff = document["worst_cliff"]
    if max(factors, default=1.0) <= 1:
        assert set(cliff.values()) == {None}
        return
    assert cliff["factor"] == max(factors)
    assert budget_map.from_bytes <= cliff["low_budget"] < cliff["high_budget"]
    assert cliff["high_budget"] <= budget_map.to_bytes
    assert cliff["high_budget"] - cliff["low_budget"] <= within


def test_budgets_without_memory_do_not_hide_that_overhead_rises():
    found = measure_instability(
        map_of((10, 20, "ok", 100), (20, 30, "oom", 50), (30, 40, "ok", 300)), 1
    )
    assert found.variation.up == pytest.approx(math.log(2))
    assert (found.variation.down, found.inversions) == (0.0, 1)


def test_a_stopped_run_counts_with_its_stop():
    found = measure_instability(
        map_of((10, 20, "ok", 0), (20, 30, "thrashed", 900), (30, 40, "ok", 100)), 1
    )
    assert found.variation.up == pytest.approx(math.log(10))
    assert found.variation.down == pytest.approx(math.log(5))
    assert found.variation.finished_up == pytest.approx(math.log(2))
    assert instability_document(found)["log_overhead"]["variation_is"] == "lower_bound"


def test_where_nothing_finishes_there_is_no_variation_and_no_inversion():
    found = measure_instability(map_of((10, 20, "thrashed", 900), (20, 30, "oom", 0)), 1)
    assert (found.variation.up, found.variation.down) == (0, 0)
    assert (found.inversions, found.inversion_bytes_at_most) == (0, 10)


def test_a_map_that_is_not_complete_bounds_variation_from_below():
    runs = [(10, 20, "ok", 0), (30, 40, "ok", 100)]
    assert (
        instability_document(measure_instability(map_of(*runs), 1))["log_overhead"]["variation_is"]
        == "lower_bound"
    )


def test_figures_without_a_baseline_or_a_peak_are_none():
    runs = [(10, 20, "ok", 0), (20, 30, "ok", 100)]
    found = measure_instability(map_of(*runs, baseline_cost_ns=None, peak_bytes=None), 1)
    document = instability_document(found)
    assert set(document["log_overhead"].values()) == {None}
    assert document["overhead"] == {"median": None, "max": None}
    assert document["intervals"]["per_percent_of_peak"] is None
    assert document["entropy_bits"] == 0


def test_intervals_are_counted_by_percent_of_the_peak():
    found = measure_instability(map_of((100, 110), (110, 120), peak_bytes=1000), 1)
    assert found.intervals_per_percent == pytest.approx(1.0)


def test_a_map_of_which_nothing_is_known_has_no_shares():
    found = measure_instability(BudgetMap(HEADER, (), 10, 20), 1)
    document = instability_document(found)
    assert (document["known_bytes"], document["budgets"]["ok_share"]) == (0, 0.0)
    assert found.intervals_per_percent is None


def test_two_budgets_differ():
    with pytest.raises(AnalysisError):
        measure_instability(map_of((10, 20)), 0)


@given(maps(), maps())
@settings(max_examples=50)
def test_common_bytes_are_the_budgets_in_both(one, other):
    def budgets(budget_map):
        return set(inverted_budgets(outcome_by_budget(budget_map)))

    both = common_bytes(inverted_stretches(one), inverted_stretches(other))
    assert both == len(budgets(one) & budgets(other))


@given(maps())
@settings(max_examples=30)
def test_the_document_of_a_map_has_its_measures(budget_map):
    document = map_document(budget_map, summarise_map(budget_map, 3))
    assert document["instability"] == instability_document(measure_instability(budget_map, 3))


def test_a_range_inside_one_interval_has_one_outcome():
    budget_map = BudgetMap(HEADER, (end_of(5, 100, "oom"),), 10, 19)
    found = measure_instability(budget_map, 1)
    assert found.outcome_bytes == {"ok": 0, "oom": 10, "thrashed": 0}
    assert (found.entropy_bits, found.outcome_changes) == (0, 0)
