"""Does a summary say what the events add up to, with and without an `end` event?"""

# mypy: no-check-untyped-defs

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtrdiag.analyses import run_document, summarise, summary_document
from dtrdiag.events import records

RUN_KEYS = [
    "schema",
    "trace",
    "policy",
    "dealloc",
    "semantics",
    "interventions",
    "engine",
    "budget",
    "ratio",
    "peak",
    "baseline_cost",
    "outcome",
    "overhead",
    "remat_cost",
    "max_memory",
    "computes",
    "remats",
    "evictions",
    "distinct_evicted",
    "interval",
    "simulate_seconds",
    "decisions_sha256",
]


@given(budget_bytes=st.integers(0, 260), victim=st.integers(-1, 1))
def test_a_log_without_its_end_is_counted_to_the_same_figures(
    budget_bytes, victim, toy_log, block_ops
):
    events = toy_log(block_ops, budget_bytes, victim)
    stated, counted = summarise(events), summarise(iter(events[:-1]))
    assert counted.outcome == "incomplete"
    assert counted.decisions_sha256 is None
    assert stated == attrs.evolve(
        counted, outcome=stated.outcome, decisions_sha256=stated.decisions_sha256
    )


@pytest.mark.parametrize("dealloc", ["eager", "ignore", "banish"])
def test_the_simulators_own_counts_are_those_of_its_events(dealloc, public_run):
    policy = "dtr-full" if dealloc == "banish" else "dtr-eq"
    events = public_run("resnet32", policy, 0.3, dealloc=dealloc)
    stated, counted = summarise(events), summarise(events[:-1])
    assert stated.evictions.total > 0
    assert stated == attrs.evolve(counted, outcome="ok", decisions_sha256=stated.decisions_sha256)


def test_duplicates_count_towards_the_largest_memory(make_header):
    run = records.Compute(1, 0, 0, 0, 5, (0,), (0,), 30, 70, 6)
    assert summarise([make_header(), run]).max_memory_bytes == 100


def test_a_storage_evicted_for_two_causes_is_distinct_once(make_header):
    def evict(seq, storage, cause):
        return records.Evict(seq, 0, storage, 8, cause, None, None, None, (), 0, 1)

    events = [
        make_header(),
        evict(1, 7, "pressure"),
        evict(2, 7, "release"),
        evict(3, 7, "pressure"),
        evict(4, 8, "banish"),
    ]
    summary = summarise(events)
    assert attrs.astuple(summary.evictions) == (4, 2, 1, 1)
    assert attrs.astuple(summary.distinct_evicted) == (2, 1, 1, 1)
    assert summary.evictions_per_storage == 2.0


@pytest.mark.parametrize("baseline_ns", [None, 0])
def test_there_is_no_overhead_without_a_baseline(baseline_ns, make_header):
    summary = summarise([make_header(baseline_cost_ns=baseline_ns)])
    assert summary.overhead is None
    assert summary.evictions_per_storage is None
    assert summary_document(summary)["overhead"] is None


def test_the_document_of_a_run_holds_the_agreed_keys(toy_log, block_ops):
    events = toy_log(block_ops, 165, ratio=0.5, peak_bytes=330)
    document = run_document(events[0], events[-1], engine="python", simulate_seconds=0.25)
    assert list(document) == RUN_KEYS
    assert document["schema"] == "dtrdiag.run/1"
    assert document["trace"] == {"name": "by hand", "sha256": None, "ops": None, "tensors": None}
    assert (document["engine"], document["simulate_seconds"]) == ("python", 0.25)
    assert (document["budget"], document["ratio"], document["peak"]) == (165, 0.5, 330)
    assert document["evictions"].keys() == {"total", "pressure", "release", "banish"}
    assert document["overhead"] == (24 + document["remat_cost"]) / 24
    assert document["interval"] == [events[-1].interval_lo_bytes, events[-1].interval_hi_bytes]


def test_the_document_from_the_log_is_that_from_header_and_end(public_run):
    events = public_run("resnet32", "dtr", 0.102)
    assert summary_document(summarise(events)) == run_document(events[0], events[-1])
