"""Memory over the history of a snapshot is that of a naive count, however late it begins."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dtrdiag.analyses.allocations import memory_history
from dtrdiag.log.snapshots import AllocatorEvent, Block, CallFrame, DeviceHistory, Segment

HERE = CallFrame("/home/model.py", 7, "forward")
TORCH = CallFrame("/lib/site-packages/torch/nn/functional.py", 3, "linear")
NATIVE = CallFrame("Linear.cpp", 0, "at::linear")


def event(action, address=None, size=0, frames=(), free=None):
    return AllocatorEvent(action, address, size, tuple(frames), None, free)


def alloc(address, size, *frames):
    return event("alloc", address, size, frames)


def free(address, size):
    return [event("free_requested", address, size), event("free_completed", address, size)]


def history(*events, held=(), reserved=1 << 20):
    blocks = tuple(Block(a, size, size, "active_allocated", (HERE,)) for a, size in held or ())
    segments = (Segment(0, reserved, blocks),) if held is not None else ()
    return DeviceHistory(0, tuple(events), segments)


def test_memory_rises_and_falls_and_the_peak_is_told():
    found = memory_history(
        history(
            event("segment_alloc", 0, 1000),
            alloc(0, 100, HERE),
            alloc(100, 300, TORCH, HERE),
            *free(0, 100),
            alloc(0, 50),
            held=[(0, 50), (100, 300)],
            reserved=1000,
        )
    )
    assert found.allocated_bytes.tolist() == [0, 0, 100, 400, 300, 300, 350]
    assert found.active_bytes.tolist() == [0, 0, 100, 400, 400, 300, 350]
    assert found.reserved_bytes.tolist() == [0, 1000, 1000, 1000, 1000, 1000, 1000]
    assert (found.peak_at, found.peak_bytes, found.before_bytes) == (3, 400, 0)
    assert [(each.size_bytes, each.since) for each in found.at_peak] == [(300, 3), (100, 2)]
    assert found.problems == ()


def test_what_was_there_before_is_known_by_what_is_freed_and_by_what_is_held():
    found = memory_history(
        history(*free(0, 100), alloc(0, 10), held=[(0, 10), (500, 70)], reserved=600)
    )
    assert found.before_bytes == 170
    assert found.allocated_bytes.tolist() == [170, 70, 70, 80]
    assert found.reserved_bytes.tolist() == [600] * 4
    assert found.at_peak[0].since is None
    assert {each.frames for each in found.at_peak} == {(), (HERE,)}


def test_a_free_that_was_asked_for_before_the_history_is_no_more_than_waiting():
    found = memory_history(
        history(event("free_completed", 0, 100), alloc(0, 5), *free(0, 5), held=[])
    )
    assert found.allocated_bytes.tolist() == [0, 0, 5, 0, 0]
    assert found.active_bytes.tolist() == [100, 0, 5, 5, 0]


@pytest.mark.parametrize("kind", ["free_requested", "free_completed"])
def test_a_recording_with_one_kind_of_free(kind):
    found = memory_history(history(alloc(0, 8), event(kind, 0, 8), alloc(0, 9), held=[(0, 9)]))
    assert found.allocated_bytes.tolist() == [0, 8, 0, 9]
    assert found.active_bytes.tolist() == [0, 8, 0, 9]
    assert found.problems == ()


def test_without_a_history_the_snapshot_is_all_there_is():
    found = memory_history(history(held=[(0, 10), (64, 20)], reserved=100))
    assert (found.events, found.peak_at, found.peak_bytes) == (0, 0, 30)
    assert [each.size_bytes for each in found.at_peak] == [20, 10]


def test_failed_allocations_tell_what_there_was():
    found = memory_history(
        history(
            alloc(0, 100), event("oom", None, 900, [HERE], free=7), held=[(0, 100)], reserved=512
        )
    )
    (failed,) = found.out_of_memory
    assert (failed.at, failed.requested_bytes, failed.allocated_bytes) == (1, 900, 100)
    assert (failed.reserved_bytes, failed.device_free_bytes) == (512, 7)


def test_places_are_lines_of_python_that_are_not_pytorchs():
    found = memory_history(
        history(
            alloc(0, 10, NATIVE, TORCH, HERE),
            alloc(10, 20, TORCH, HERE),
            alloc(30, 5, NATIVE),
            alloc(40, 1),
            held=None,
        )
    )
    totals = [(each.place, each.size_bytes, each.allocations) for each in found.by_place()]
    assert totals == [(HERE, 30, 2), (NATIVE, 5, 1), (None, 1, 1)]


PROBLEMS = {
    "made where another is": (
        [alloc(0, 10), alloc(0, 20)],
        [(0, 20)],
        "1 allocations were made wh",
    ),
    "not held in the end": ([alloc(0, 10)], [], "1 allocations were not seen to be freed"),
    "no allocations": (free(0, 10), [], "the recording left out allocations"),
    "freed by another size": (
        [alloc(0, 100), *free(0, 70), alloc(0, 100), event("free_completed", 0, 70)],
        [],
        "frees of another size than their allocation, whose size is taken: 2",
    ),
    "freed twice": (
        [alloc(0, 10), event("free_requested", 0, 10), *free(0, 10)],
        [],
        "frees that were asked for a second time, and are left out: 1",
    ),
    "later kinds": ([event("defragment")], [], "events of unknown kinds are left out: defragment"),
    "reserved": (
        [event("segment_alloc", 0, 1 << 30)],
        [],
        "the snapshot holds less reserved memory than its history",
    ),
}


@pytest.mark.parametrize(("events", "held", "words"), PROBLEMS.values(), ids=[*PROBLEMS])
def test_what_does_not_fit_together_is_told(events, held, words):
    found = memory_history(history(*events, held=held))
    assert len(found.problems) == 1
    assert found.problems[0].startswith(words)
    assert (found.reserved_bytes >= 0).all()


def test_segments_that_share_memory_are_told():
    segments = [Segment(at, 100, ()) for at in (0, 100, 150, 400)]
    found = memory_history(DeviceHistory(0, (), tuple(segments)))
    assert found.problems == (
        "segments that begin within another, whose bytes are counted twice: 1",
    )


def test_a_second_request_to_free_changes_no_memory():
    found = memory_history(history(alloc(0, 10), event("free_requested", 0, 10), *free(0, 10)))
    assert found.allocated_bytes.tolist() == [0, 10, 0, 0, 0]
    assert found.active_bytes.tolist() == [0, 10, 10, 10, 0]


@st.composite
def lives(draw):
    """A history of allocations, at addresses that are used again, and what is held at its end."""
    events, live = [], {}
    for _ in range(draw(st.integers(0, 40))):
        if live and (len(live) == 32 or draw(st.booleans())):
            address = draw(st.sampled_from(sorted(live)))
            size = live.pop(address)
            events += free(address, size)
        else:
            address = draw(st.sampled_from([a for a in range(0, 2048, 64) if a not in live]))
            live[address] = draw(st.integers(0, 1000))
            events.append(alloc(address, live[address]))
    return events, live


def naive(events):
    """Bytes in use after each event, by going through them with a dict."""
    live, totals = {}, [0]
    for each in events:
        if each.action == "alloc":
            live[each.address] = each.size_bytes
        elif each.action == "free_requested":
            del live[each.address]
        totals.append(sum(live.values()))
    return totals


@given(made=lives(), data=st.data())
def test_the_history_is_that_of_a_naive_count_however_late_it_begins(made, data):
    events, live = made
    whole = naive(events)
    skipped = data.draw(st.integers(0, len(events)))
    kinds = {each.action for each in events[skipped:]}
    # One kind of free alone could be what the recording left out.
    assume(("free_completed" in kinds) == ("free_requested" in kinds))
    found = memory_history(history(*events[skipped:], held=live.items()))
    assert found.allocated_bytes.tolist() == whole[skipped:]
    assert found.peak_bytes == max(whole[skipped:])
    assert sum(each.size_bytes for each in found.at_peak) == found.peak_bytes
    assert np.all(found.active_bytes >= found.allocated_bytes)
    assert all(words.startswith("the recording left out") for words in found.problems)
