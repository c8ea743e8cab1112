"""Does a diff put summaries, divergence, sets and costs side by side as each alone would?"""

# mypy: no-check-untyped-defs

from collections import defaultdict

import attrs
import pytest

from dtrdiag.analyses import (
    diff_document,
    diff_runs,
    eviction_sets,
    first_divergence,
    summarise,
    summary_document,
)


def remats_by_name(events):
    names, costs = {}, defaultdict(lambda: [0, 0])
    for event in events:
        if event.kind == "op":
            names[event.op] = event.name
        elif event.kind == "rematerialise":
            costs[names[event.op]][0] += 1
            costs[names[event.op]][1] += event.cost_ns
    return costs


@pytest.fixture(scope="module")
def pair(public_run):
    return public_run("resnet32", "dtr", 0.101), public_run("resnet32", "dtr", 0.102)


def test_each_part_is_what_its_own_analysis_finds(pair):
    # Generators, so that a second pass over a log would find nothing.
    diff = diff_runs(*(iter(events) for events in pair))
    a, b = pair
    assert (diff.a, diff.b) == (summarise(a), summarise(b))
    assert diff.divergence == first_divergence(a, b)
    assert diff.common_prefix == diff.divergence.index
    assert diff.sets == eviction_sets(a, b)


def test_costs_by_operator_are_complete_and_the_largest_difference_comes_first(pair):
    diff = diff_runs(*pair)
    in_a, in_b = (remats_by_name(events) for events in pair)
    assert {cost.name for cost in diff.operators} == set(in_a) | set(in_b)
    for cost in diff.operators:
        assert [cost.remats_a, cost.cost_a_ns] == in_a[cost.name]
        assert [cost.remats_b, cost.cost_b_ns] == in_b[cost.name]
    extra = [abs(cost.extra_ns) for cost in diff.operators]
    assert extra == sorted(extra, reverse=True)
    assert sum(cost.extra_ns for cost in diff.operators) == (
        diff.b.remat_cost_ns - diff.a.remat_cost_ns
    )


def test_equal_runs_have_no_divergence_and_a_factor_of_one(public_run):
    events = public_run("resnet32", "dtr", 0.107)
    diff = diff_runs(events, events)
    assert diff.divergence is None
    assert diff.common_prefix == diff.a.computes + diff.a.remats + diff.a.evictions.total
    assert (diff.overhead_factor, diff.overhead_factor_is, diff.censored) == (1.0, "exact", False)
    assert all(cost.extra_ns == 0 for cost in diff.operators)
    assert diff_document(diff)["first_divergence"] is None


@pytest.mark.parametrize(
    ("ratios", "limits", "says"),
    [
        ((0.107, 0.3), (100, 100), "exact"),
        ((0.1, 0.3), (2, 100), "lower_bound"),
        ((0.102, 0.107), (100, 100), "unknown"),
    ],
)
def test_the_factor_of_a_stopped_run_is_marked(ratios, limits, says, public_run):
    a, b = (
        public_run("resnet32", "dtr", ratio, limit=limit)
        for ratio, limit in zip(ratios, limits, strict=True)
    )
    for diff in (diff_runs(a, b), diff_runs(b, a)):
        overheads = [diff.a.overhead, diff.b.overhead]
        assert diff.overhead_factor == max(overheads) / min(overheads)
        assert diff.overhead_factor_is == says
        assert diff.censored == (says != "exact")


@pytest.mark.parametrize(
    ("cheap", "dear", "says"),
    [
        ("ok", "ok", "exact"),
        ("ok", "thrashed", "lower_bound"),
        ("ok", "oom", "lower_bound"),
        ("thrashed", "ok", "unknown"),
        ("oom", "thrashed", "unknown"),
    ],
)
def test_which_of_the_runs_was_stopped_decides_what_the_factor_says(
    cheap, dear, says, toy_log, block_ops
):
    events = toy_log(block_ops, 130)

    def ended(outcome, remat_cost_ns):
        end = attrs.evolve(events[-1], outcome=outcome, remat_cost_ns=remat_cost_ns)
        return [*events[:-1], end]

    a, b = ended(cheap, 0), ended(dear, 48)
    assert diff_runs(a, b).overhead_factor == diff_runs(b, a).overhead_factor == 3.0
    assert diff_runs(a, b).overhead_factor_is == diff_runs(b, a).overhead_factor_is == says


def test_without_a_baseline_there_is_no_factor(toy_log, block_ops, make_header):
    events = toy_log(block_ops, 130)
    foreign = [make_header(), *events[1:]]
    diff = diff_runs(events, foreign)
    assert (diff.overhead_factor, diff.overhead_factor_is) == (None, None)


def test_the_document_holds_the_agreed_keys(pair):
    diff = diff_runs(*pair)
    document = diff_document(diff, top=3)
    assert document["schema"] == "dtrdiag.diff/1"
    assert document["a"] == summary_document(diff.a)
    assert set(document["sets"]) == {"all", "pressure", "release"}
    assert document["sets"]["all"].keys() == {"a", "b", "intersection", "union", "jaccard"}
    evictions = [sum(e.kind == "evict" for e in events) for events in pair]
    distinct = [len({e.storage for e in events if e.kind == "evict"}) for events in pair]
    assert document["evictions_per_storage"] == {
        "a": evictions[0] / distinct[0],
        "b": evictions[1] / distinct[1],
    }
    assert len(document["remat_by_operator"]) == 3
