"""Is the pinned frontier what the events say, step by step and byte by byte?"""

# mypy: no-check-untyped-defs

from collections import Counter

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtrdiag.analyses import frontier_document, pinned_frontier
from dtrdiag.errors import AnalysisError
from dtrdiag.events import records


def by_brute_force(events):
    """The facts of a frontier by scanning all events once per question."""
    oom = next(event for event in events if event.kind == "oom")
    before = events[: oom.seq]
    ran = ("compute", "rematerialise")
    size = {
        storage: size_bytes
        for e in before
        if e.kind == "op"
        for tensor, storage, size_bytes in zip(e.outputs, e.storages, e.sizes_bytes, strict=True)
        if tensor == storage
    }

    def is_resident(storage):
        came = [e.seq for e in before if e.kind in ran and storage in e.resident]
        went = [e.seq for e in before if e.kind == "evict" and e.storage == storage]
        return max(came, default=-1) > max(went, default=-1)

    held = Counter((e.op, e.storage) for e in before if e.kind == "lock")
    held.subtract((e.op, e.storage) for e in before if e.kind == "unlock")
    pinned = {e.storage for e in before if e.kind == "pin"}
    locked = {storage for (_, storage), locks in held.items() if locks} - pinned
    resident = [storage for storage in size if is_resident(storage)]
    pending = [
        e.op
        for e in before
        if e.kind == "materialise"
        and not any(later.kind in ran and later.cause_seq == e.seq for later in before)
    ]
    return {
        "stack": pending,
        "locks": [{s for (op, s), locks in held.items() if locks and op == at} for at in pending],
        "resident": sum(size[storage] for storage in resident),
        "pinned": sum(size[storage] for storage in resident if storage in pinned),
        "locked": sum(size[storage] for storage in resident if storage in locked),
    }


def check_against_brute_force(events):
    frontier, expected = pinned_frontier(events), by_brute_force(events)
    assert [step.op for step in frontier.stack] == expected["stack"]
    assert [set(step.locks) for step in frontier.stack] == expected["locks"]
    assert frontier.resident_bytes == expected["resident"]
    assert frontier.pinned_bytes == expected["pinned"]
    assert frontier.locked_bytes == expected["locked"]
    assert frontier.depth == len(frontier.stack)
    assert sum(step.added_bytes for step in frontier.stack) == frontier.locked_bytes
    assert sum(storage.bytes for storage in frontier.storages) == frontier.resident_bytes
    assert (frontier.evictable_bytes, frontier.unaccounted_bytes) == (0, 0)
    return frontier


@st.composite
def programs(draw):
    ops = [("constant", 0, (), -draw(st.integers(1, 8)))]
    for op in range(1, draw(st.integers(2, 12))):
        inputs = draw(st.lists(st.integers(max(0, op - 4), op - 1), min_size=1, max_size=3))
        ops.append((f"op{op}", draw(st.integers(0, 9)), tuple(inputs), draw(st.integers(0, 30))))
    return ops


@given(ops=programs(), budget_bytes=st.integers(1, 120), victim=st.integers(-1, 2))
def test_any_frontier_is_the_one_found_by_brute_force(ops, budget_bytes, victim, toy_log):
    events = toy_log(ops, budget_bytes, victim)
    if events[-1].outcome != "oom":
        with pytest.raises(AnalysisError, match="outcome is ok"):
            pinned_frontier(events)
        return
    frontier = check_against_brute_force(events)
    assert frontier.shortfall_bytes > 0
    # At the last budget that stops here and just above it, as the interval promises.
    same = toy_log(ops, frontier.interval_hi_bytes - 1, victim)
    assert [e.kind for e in same] == [e.kind for e in events]
    other = toy_log(ops, frontier.interval_hi_bytes, victim)
    assert [(e.kind, getattr(e, "fits", 0)) for e in other] != [
        (e.kind, getattr(e, "fits", 0)) for e in events
    ]


def test_a_chain_of_pending_ops_is_told_outermost_first(toy_log):
    # By hand: e locks d and asks for b, which was evicted for d; b asks for a, released long ago.
    # Then constant, d and a are in memory, 85 bytes, and b's 40 do not fit into 100.
    ops = [
        ("constant", 0, (), -5),
        ("a", 1, (0,), 40),
        ("b", 1, (1,), 40),
        ("c", 1, (2,), 40),
        ("d", 1, (3,), 40),
        ("e", 1, (4, 2), 40),
    ]
    frontier = pinned_frontier(toy_log(ops, 100))
    assert [(step.name, step.kind, step.locks, step.added_bytes) for step in frontier.stack] == [
        ("e", "first", (4,), 40),
        ("b", "remat", (1,), 40),
    ]
    assert [(s.id, s.name, s.state, s.bytes, s.held_by) for s in frontier.storages] == [
        (0, "constant", "pinned", 5, ()),
        (1, "a", "locked", 40, (2,)),
        (4, "d", "locked", 40, (5,)),
    ]
    assert (frontier.op_name, frontier.requested_bytes, frontier.resident_bytes) == ("b", 40, 85)
    assert (frontier.shortfall_bytes, frontier.passes_at_bytes) == (25, 125)


def test_what_was_asked_back_first_is_known_with_its_eviction(toy_log):
    ops = [
        ("constant", 0, (), -5),
        ("a", 1, (0,), 40),
        ("b", 1, (1,), 40),
        ("c", 1, (2,), 40),
        ("d", 1, (3,), 40),
        ("e", 1, (4, 2), 40),
    ]
    events = toy_log(ops, 100)
    frontier = pinned_frontier(events)
    step = frontier.asked_back
    assert (step.name, step.storage) == ("b", 2)
    lost = [e for e in events if isinstance(e, records.Evict) and e.storage == 2][-1]
    assert (step.loss.seq, step.loss.cause, step.loss.op) == (lost.seq, lost.cause, lost.op)
    assert (step.loss.score, step.loss.pool_size) == (lost.score, lost.pool_size)
    called = [e.step for e in events[: lost.seq] if isinstance(e, records.OpDefined)]
    assert step.loss.step >= called[-1]
    document = frontier_document(frontier)["asked_back"]
    assert document["by"] == frontier.origin.op
    assert (document["op_name"], document["storage"], document["tensor"]) == ("b", 2, 2)
    assert document["evicted"]["seq"] == lost.seq
    assert document["evicted"]["op_name"] == "d"
    silent = pinned_frontier([e for e in events if e is not lost and e.kind != "evict"])
    assert silent.asked_back.loss is None
    assert frontier_document(silent)["asked_back"]["evicted"] is None


def test_the_document_holds_the_agreed_keys(toy_log, block_ops):
    frontier = pinned_frontier(toy_log(block_ops, 100))
    document = frontier_document(frontier)
    assert document["schema"] == "dtrdiag.oom/1"
    assert document["outcome"] == "oom"
    assert document["passes_at"] == document["resident_bytes"] + document["requested_bytes"]
    assert document["shortfall_bytes"] == document["passes_at"] - document["budget"] > 0
    for step in document["stack"]:
        assert {"op", "name", "kind", "locks"} <= step.keys()
    for storage in document["storages"]:
        assert {"id", "bytes", "state", "held_by"} <= storage.keys()
    named = {op for storage in document["storages"] for op in storage["held_by"]}
    assert named <= {step["op"] for step in document["stack"]}


def test_memory_that_no_storage_explains_is_accounted_for(toy_log, block_ops):
    events = toy_log(block_ops, 100)
    at = next(event.seq for event in events if event.kind == "oom")
    events[at] = attrs.evolve(events[at], memory_bytes=events[at].memory_bytes + 7)
    frontier = pinned_frontier(events)
    assert frontier.unaccounted_bytes == 7
    assert (
        frontier.pinned_bytes + frontier.locked_bytes + frontier.evictable_bytes + 7
        == frontier.resident_bytes
    )


def test_a_storage_locked_twice_counts_for_the_outer_step_alone(make_header):
    def op(seq, op, inputs, size):
        return records.OpDefined(seq, None, op, op, f"op{op}", 1, inputs, (op,), (op,), (size,))

    def materialise(seq, cause, op, reason, for_op, depth):
        return records.Materialise(seq, cause, op, op, reason, for_op, depth)

    events = [
        make_header(budget_bytes=50),
        op(1, 0, (), 30),
        materialise(2, 1, 0, "first", None, 1),
        records.Compute(3, 2, 0, 0, 1, (0,), (0,), 0, 30, 2),
        op(4, 1, (0,), 10),
        op(5, 2, (0, 1), 10),
        materialise(6, 5, 2, "first", None, 1),
        records.Lock(7, 6, 0, 2, 1),
        materialise(8, 6, 1, "remat", 2, 2),
        records.Lock(9, 8, 0, 1, 2),
        records.Lock(10, 8, 0, 1, 3),
        records.FitCheck(11, 8, 1, 30, 25, False),
        records.OutOfMemory(12, 11, 1, 25, 30, 50, 2),
    ]
    frontier = pinned_frontier(events)
    outer, inner = frontier.stack
    assert (outer.held_bytes, outer.added_bytes) == (30, 30)
    assert (inner.held_bytes, inner.added_bytes, inner.locks) == (30, 0, (0,))
    (storage,) = frontier.storages
    assert (storage.state, storage.held_by) == ("locked", (2, 1))
    assert frontier.origin == outer
    assert frontier.next_change_is_here
    assert (frontier.passes_at_bytes, frontier.shortfall_bytes) == (55, 5)


def test_a_lock_left_behind_by_a_finished_op_is_named_last(make_header):
    def op(seq, op, inputs, size):
        return records.OpDefined(seq, None, op, op, f"op{op}", 1, inputs, (op,), (op,), (size,))

    events = [
        make_header(budget_bytes=50),
        op(1, 0, (), 30),
        records.Materialise(2, 1, 0, 0, "first", None, 1),
        records.Compute(3, 2, 0, 0, 1, (0,), (0,), 0, 30, 2),
        op(4, 1, (0,), 0),
        records.Materialise(5, 4, 1, 1, "first", None, 1),
        records.Lock(6, 5, 0, 1, 1),
        records.Compute(7, 5, 1, 1, 1, (1,), (1,), 0, 30, 3),
        op(8, 2, (0,), 25),
        records.Materialise(9, 8, 2, 2, "first", None, 1),
        records.Lock(10, 9, 0, 2, 2),
        records.FitCheck(11, 9, 2, 30, 25, False),
        records.OutOfMemory(12, 11, 2, 25, 30, 50, 1),
    ]
    frontier = pinned_frontier(events)
    assert [step.op for step in frontier.stack] == [2]
    assert frontier.asked_back is None
    assert frontier_document(frontier)["asked_back"] is None
    assert [(s.id, s.held_by) for s in frontier.storages if s.state == "locked"] == [(0, (2, 1))]


def test_a_run_that_ended_otherwise_is_refused_with_its_outcome(toy_log, block_ops):
    events = toy_log(block_ops, 1000)
    with pytest.raises(AnalysisError, match="did not stop out of memory: its outcome is ok"):
        pinned_frontier(events)
    with pytest.raises(AnalysisError, match="the log is incomplete: it stops at event 20"):
        pinned_frontier(events[:21])


def test_a_log_cut_after_the_stop_still_answers(toy_log, block_ops):
    events = toy_log(block_ops, 100)
    assert pinned_frontier(events[:-1]) == pinned_frontier(events)


def test_resnet_32_stops_at_0_102_with_118_pending_and_nothing_evictable(public_run):
    events = public_run("resnet32", "dtr", 0.102)
    frontier = check_against_brute_force(events)
    assert frontier.requested_bytes == 179_830_912
    assert frontier.depth == 118
    assert frontier.passes_at_bytes > frontier.budget_bytes
    assert frontier.stack[0].kind == "first"
    assert {step.kind for step in frontier.stack[1:]} == {"remat"}
    assert frontier.stack[-1].op == frontier.op
    asked = frontier.asked_back
    assert (asked.storage, asked.op, asked.loss.seq, asked.loss.op) == (612, 464, 6772, 465)
    assert asked.loss.pool_size == 133
    assert (frontier.interval_lo_bytes, frontier.interval_hi_bytes) == (
        events[-1].interval_lo_bytes,
        events[-1].interval_hi_bytes,
    )


def test_under_banish_locks_left_behind_still_add_up(public_run):
    events = public_run("resnet32", "lru", 0.2, dealloc="banish", limit=10)
    assert events[-1].outcome == "oom"
    frontier = pinned_frontier(events)
    assert (
        frontier.pinned_bytes + frontier.locked_bytes + frontier.evictable_bytes
        == frontier.resident_bytes
    )
    assert (frontier.evictable_bytes, frontier.unaccounted_bytes) == (0, 0)


def test_under_an_interventions_budget_nothing_follows_for_the_headers(make_header):
    events = [
        make_header(budget_bytes=None, interventions="budget 1=50"),
        records.OpDefined(1, None, 0, 0, "op0", 1, (), (0,), (0,), (30,)),
        records.Materialise(2, 1, 0, 0, "first", None, 1),
        records.FitCheck(3, 2, 0, 0, 30, True),
        records.Compute(4, 2, 0, 0, 1, (0,), (0,), 0, 30, 2),
        records.OpDefined(5, None, 1, 1, "op1", 1, (0,), (1,), (1,), (25,)),
        records.Materialise(6, 5, 1, 1, "first", None, 1),
        records.Lock(7, 6, 0, 1, 1),
        records.FitCheck(8, 6, 1, 30, 25, False),
        records.OutOfMemory(9, 8, 1, 25, 30, 50, 1),
    ]
    frontier = pinned_frontier(events)
    assert frontier.budget_is_switched
    assert not frontier.next_change_is_here
    assert (frontier.budget_bytes, frontier.passes_at_bytes) == (50, 55)
    assert (frontier.interval_lo_bytes, frontier.interval_hi_bytes) == (30, None)
