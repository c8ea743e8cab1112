"""Are sets of evicted storages counted as a plain loop would?"""

# mypy: no-check-untyped-defs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtrdiag.analyses import eviction_sets, sets_document
from dtrdiag.events.records import Evict

evictions = st.lists(
    st.tuples(st.integers(0, 8), st.sampled_from(["pressure", "release", "banish"])), max_size=30
)


def log_of(evicted, header):
    events = [header]
    for storage, cause in evicted:
        events.append(
            Evict(len(events), 0, storage, 8, cause, None, None, None, (), 0, len(events))
        )
    return events


def by_plain_loop(a, b, cause):
    in_a = {storage for storage, why in a if cause in ("all", why)}
    in_b = {storage for storage, why in b if cause in ("all", why)}
    both = [storage for storage in in_a if storage in in_b]
    either = in_a | in_b
    return {
        "a": len(in_a),
        "b": len(in_b),
        "intersection": len(both),
        "union": len(either),
        "jaccard": len(both) / len(either) if either else 1.0,
    }


@given(a=evictions, b=evictions)
def test_every_cause_is_counted_apart_and_together(a, b, make_header):
    sets = eviction_sets(log_of(a, make_header()), log_of(b, make_header()))
    document = sets_document(sets)
    for cause, counts in document.items():
        assert counts == by_plain_loop(a, b, cause)
    expected = ["all", "pressure", "release"]
    if any(cause == "banish" for _, cause in a + b):
        expected.append("banish")
    assert list(document) == expected


def test_nothing_evicted_twice_is_equal_and_has_no_mean(make_header):
    sets = eviction_sets([make_header()], [make_header()])
    assert sets.by_cause["all"].jaccard == 1.0
    assert sets.per_storage_a is None


def test_evictions_per_storage_count_repeated_evictions(make_header):
    a = log_of([(1, "pressure"), (1, "pressure"), (1, "release"), (2, "release")], make_header())
    sets = eviction_sets(a, log_of([(1, "release")], make_header()))
    assert (sets.per_storage_a, sets.per_storage_b) == (2.0, 1.0)


@pytest.mark.parametrize("cause", ["all", "pressure", "release"])
def test_the_sets_of_a_public_pair_are_those_of_a_plain_loop(cause, public_run):
    runs = [public_run("resnet32", "dtr", ratio) for ratio in (0.101, 0.102)]
    a, b = ([(e.storage, e.cause) for e in run if e.kind == "evict"] for run in runs)
    assert sets_document(eviction_sets(*runs))[cause] == by_plain_loop(a, b, cause)
