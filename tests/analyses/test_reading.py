"""What is refused as the log of a run, or as two logs of one trace?"""

# mypy: no-check-untyped-defs

import pytest

from dtrdiag.analyses import (
    dependency_graph,
    diff_runs,
    eviction_sets,
    find_chains,
    first_divergence,
    pinned_frontier,
    summarise,
)
from dtrdiag.analyses.reading import require_same_trace
from dtrdiag.errors import AnalysisError, LogError
from dtrdiag.events.records import Banish

SINGLE = [summarise, pinned_frontier, dependency_graph]
PAIRED = [eviction_sets, first_divergence, diff_runs]


@pytest.mark.parametrize("analysis", SINGLE)
def test_an_empty_log_is_refused(analysis):
    with pytest.raises(AnalysisError, match="no events"):
        analysis([])


@pytest.mark.parametrize("analysis", SINGLE)
def test_a_log_without_a_header_is_refused(analysis):
    with pytest.raises(AnalysisError, match="begins with a `banish` event"):
        analysis(iter([Banish(0, 0, 1)]))


@pytest.mark.parametrize("analysis", PAIRED)
def test_runs_of_different_traces_are_refused_with_both_digests(analysis, make_header):
    a = make_header(trace_sha256="a" * 64, trace_name="one")
    b = make_header(trace_sha256="b" * 64, trace_name="two")
    with pytest.raises(AnalysisError) as refused:
        analysis([a], [b])
    assert f"one (sha256 {'a' * 64})" in str(refused.value)
    assert f"two (sha256 {'b' * 64})" in str(refused.value)


def test_without_digests_the_counts_decide_where_both_are_known(make_header):
    known = make_header(trace_ops=5, trace_tensors=7)
    require_same_trace(known, make_header())
    require_same_trace(known, make_header(trace_ops=5))
    with pytest.raises(AnalysisError, match="5 ops, 7 tensors"):
        require_same_trace(known, make_header(trace_ops=5, trace_tensors=8))


def test_equal_digests_decide_alone(make_header):
    require_same_trace(
        make_header(trace_sha256="a", trace_ops=5), make_header(trace_sha256="a", trace_ops=6)
    )


@pytest.mark.parametrize("digests", [("a", None), (None, "a"), (None, None)])
def test_different_names_are_refused_where_no_digests_settle_it(make_header, digests):
    a, b = (
        make_header(trace_sha256=digest, trace_name=name)
        for digest, name in zip(digests, ("one", "two"), strict=True)
    )
    with pytest.raises(AnalysisError, match=r"different names.*one.*two"):
        require_same_trace(a, b)


def test_equal_digests_settle_different_names(make_header):
    require_same_trace(
        make_header(trace_sha256="a", trace_name="one"),
        make_header(trace_sha256="a", trace_name="two"),
    )


@pytest.mark.parametrize("analysis", [pinned_frontier, dependency_graph, find_chains])
def test_interventions_that_are_not_known_are_a_fault_of_the_log(analysis, make_header):
    with pytest.raises(LogError, match="unknown intervention 'sleep 5'"):
        analysis([make_header(interventions="sleep 5")])


@pytest.mark.parametrize("analysis", [first_divergence, diff_runs])
def test_so_they_are_in_either_of_two_logs(analysis, make_header):
    known, unknown = make_header(interventions="budget 5=6"), make_header(interventions="budget 5")
    for pair in ([known], [unknown]), ([unknown], [known]):
        with pytest.raises(LogError, match="no such intervention: 'budget 5'"):
            analysis(*pair)
