"""What state does a log lead to?"""

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtrdiag.errors import LogError, UsageError
from dtrdiag.hooks import Hooks
from dtrdiag.log import Replay
from dtrdiag.simulator import RunConfig, simulate


def replayed(events):
    replay = Replay()
    for event in events:
        replay.apply(event)
    return replay


def state_at(events, seq):
    return Replay.at(events, seq)


def test_before_any_event_memory_is_empty_and_the_clock_shows_1():
    replay = Replay()
    assert (replay.seq, replay.memory_bytes, replay.clock_ns) == (-1, 0, 1)
    assert not replay.ops
    assert not replay.pool


def test_a_called_op_has_outputs_that_are_referenced_but_not_defined(eager_log):
    replay = state_at(eager_log, 6)
    assert replay.ops[1].name == "f"
    assert replay.references == {0: 1, 1: 1}
    assert replay.defined == {0}
    assert list(replay.resident) == [0]
    assert replay.requested_bytes[1] == 10
    assert replay.size_bytes[1] == 10
    assert replay.producer[1] == 1


def test_a_pending_op_is_on_the_stack_with_its_locks(eager_log):
    replay = state_at(eager_log, 8)
    (frame,) = replay.pending
    assert (frame.op, frame.tensor, frame.reason, frame.seq) == (1, 1, "first", 7)
    assert frame.locked == [0]
    assert frame.executed_seq is None
    assert replay.locks == {0: [1]}
    assert replay.locks_on(0) == 2  # the pin and the lock


def test_an_executed_op_stays_on_the_stack_until_the_schedule_goes_on(eager_log):
    executed = state_at(eager_log, 10)
    assert executed.pending[-1].executed_seq == 10
    assert (executed.memory_bytes, executed.clock_ns) == (16, 6)
    assert list(executed.pool) == [1]
    unlocked = state_at(eager_log, 11)
    assert unlocked.pending[-1].locked == []
    assert state_at(eager_log, 12).pending == []


def test_a_pinned_storage_never_returns_to_the_pool(eager_log):
    replay = state_at(eager_log, 11)
    assert replay.pins == {0: "constant"}
    assert 0 not in replay.pool
    assert 0 not in replay.locks


def test_an_eviction_undefines_the_tensors_and_frees_the_bytes(eager_log):
    replay = state_at(eager_log, 16)
    assert 1 not in replay.resident
    assert 1 not in replay.defined
    assert (replay.memory_bytes, list(replay.pool)) == (6, [])


def test_counts_digest_and_interval_agree_with_the_end_event(eager_log):
    end = eager_log[-1]
    tally = replayed(eager_log).tally
    assert (tally.computes, tally.remats, tally.remat_cost_ns) == (3, 1, 5)
    assert tally.evictions == {"pressure": 1, "release": 1, "banish": 0}
    assert tally.evicted["pressure"] == {1}
    assert tally.distinct_evicted == 2
    assert tally.max_memory_bytes == 16
    assert (tally.interval_lo_bytes, tally.interval_hi_bytes) == (16, 24)
    assert tally.decisions_sha256 == end.decisions_sha256


def test_the_digest_can_be_read_at_any_time_without_changing_it(eager_log):
    replay = Replay()
    for event in eager_log:
        replay.apply(event)
        assert replay.tally.decisions_sha256 == replay.tally.decisions_sha256
    assert replay.tally.decisions_sha256 == eager_log[-1].decisions_sha256


def test_banishing_drops_locks_and_cuts_the_storage_out_of_the_graph(banish_log):
    before, after = state_at(banish_log, 29), state_at(banish_log, 31)
    assert before.inputs[1] == (0, 1)
    assert after.inputs[1] == (1,)
    assert after.banished == {3: 22, 0: 31}
    assert after.consumers(0) == ()
    assert after.consumers(1) == (1,)
    assert 0 not in after.resident


def test_a_lock_that_is_never_given_back_stays_with_its_holder(banish_log):
    replay = replayed(banish_log)
    assert replay.pending == []
    assert replay.locks == {1: [1]}
    assert replay.locks_on(1) == 2


def test_locks_dropped_by_banishing_leave_the_frame_as_well(banish_log):
    # A second lock on x, as for an op that uses x twice.
    lock = attrs.evolve(banish_log[25], locks=2)
    replay = replayed([*banish_log[:26], lock, *banish_log[26:30]])
    assert replay.pending[-1].locked == [0, 1]
    replay.apply(banish_log[30])
    assert replay.pending[-1].locked == [1]
    assert 0 not in replay.locks


@pytest.mark.parametrize("seq", [-1, 30, 10**9])
def test_a_seq_that_the_log_does_not_have_is_refused(eager_log, seq):
    with pytest.raises(UsageError, match=f"no event {seq}"):
        state_at(eager_log, seq)


def test_reading_stops_at_the_event_asked_for(eager_log):
    events = iter(eager_log)
    state_at(events, 5)
    assert next(events).seq == 6


@pytest.mark.parametrize(
    ("seq", "changes"),
    [
        (11, {"storage": 7}),
        (11, {"op": 2}),
        (16, {"storage": 2}),
        (10, {"op": 9}),
        (20, {"storage": 9}),
        (12, {"sizes_bytes": ()}),
    ],
    ids=["storage", "holder", "not resident", "op", "reference", "sizes"],
)
def test_an_event_about_something_unknown_is_a_log_error(eager_log, seq, changes):
    replay = state_at(eager_log, seq - 1)
    with pytest.raises(LogError, match=f"event {seq} "):
        replay.apply(attrs.evolve(eager_log[seq], **changes))


@settings(max_examples=40, deadline=None)
@given(
    dealloc=st.sampled_from(["eager", "ignore", "banish"]),
    policy=st.sampled_from(["dtr", "lru", "size", "random"]),
    budget=st.integers(60, 340),
)
def test_the_state_is_consistent_after_every_event(busy_trace, dealloc, policy, budget):
    replay = Replay()

    def check(event):
        replay.apply(event)
        evictable = [
            storage
            for storage in replay.resident
            if storage not in replay.locks and storage not in replay.pins
        ]
        assert set(replay.pool) == set(evictable)
        assert list(replay.pool.values()) == sorted(replay.pool.values())
        assert replay.memory_bytes == sum(replay.size_bytes[s] for s in replay.resident)
        assert {replay.storage_of[t] for t in replay.defined} == set(replay.resident)

    hooks = Hooks()
    hooks.subscribe(check)
    config = RunConfig(policy, budget, dealloc=dealloc)
    result = simulate(busy_trace, config, hooks)
    assert replay.end == result.end
    if result.stop is not None and result.end.outcome == "oom":
        assert_same_stop(replay, result.stop)


def assert_same_stop(replay, stop):
    frames = [
        (frame.op, frame.tensor, frame.reason == "first", tuple(frame.locked))
        for frame in replay.pending
    ]
    assert frames == [(p.op, p.tensor, p.first, p.locks) for p in stop.pending]
    assert {s for s in replay.pins if s in replay.resident} == set(stop.pinned)
    assert tuple(replay.pool) == stop.evictable == ()
    assert replay.memory_bytes == stop.memory_bytes


def test_the_frontier_is_readable_after_an_out_of_memory_stop(busy_trace, record_run):
    events = record_run(busy_trace, policy="lru", budget_bytes=150)
    replay = replayed(events)
    assert replay.stop == events[-2]
    assert replay.stop.kind == "oom"
    assert len(replay.pending) == replay.stop.depth > 1
    assert replay.pending[-1].op == replay.stop.op
    waiting = {storage for frame in replay.pending for storage in frame.locked}
    assert set(replay.resident) == waiting | set(replay.pins)


def test_constants_count_towards_memory_from_the_first_event_on(busy_trace, record_run):
    events = record_run(busy_trace)
    pins = [event.seq for event in events if event.kind == "pin"][:2]
    assert state_at(events, pins[1]).memory_bytes == 12
