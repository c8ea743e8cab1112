"""The rules of a run, on traces small enough to follow by hand."""

import pytest

from dtrdiag.errors import SimulationError, SubscriberError, UsageError
from dtrdiag.hooks import Hooks
from dtrdiag.simulator import (
    RunConfig,
    baseline_peak_bytes,
    budget_from_ratio,
    simulate,
)


def of_kind(events, kind):
    return [event for event in events if event.kind == kind]


def test_room_is_made_one_eviction_at_a_time_and_each_check_is_logged(chain_of, run, decisions):
    result, events = run(chain_of(3), policy="lru", budget_bytes=30)
    assert decisions(events) == "C0 C1 C2 E1 C3 E2 R1 E3 R2"
    checks = [(e.op, e.memory_bytes, e.requested_bytes, e.fits) for e in of_kind(events, "fit")]
    assert checks[:5] == [
        (0, 0, 10, True),
        (1, 10, 10, True),
        (2, 20, 10, True),
        (3, 30, 10, False),
        (3, 20, 10, True),
    ]
    assert result.end.max_memory_bytes == 30


def test_outputs_are_made_defined_and_pinned_in_order_of_their_names(chain_of, run, decisions):
    result, events = run(chain_of(2), policy="lru", budget_bytes=30)
    assert decisions(events) == "C0 C1 C2"
    assert [(e.storage, e.reason) for e in of_kind(events, "pin")] == [
        (0, "constant"),
        (1, "output"),
        (2, "output"),
    ]
    assert result.end.outcome == "ok"


def test_everything_pinned_and_locked_is_an_out_of_memory_stop(chain_of, run, decisions):
    # x1 is wanted at the end; x2 and x3 are pinned by then or needed.
    result, events = run(chain_of(3), policy="lru", budget_bytes=30)
    assert result.end.outcome == "oom"
    oom = of_kind(events, "oom")[0]
    assert oom.memory_bytes + oom.requested_bytes > oom.budget_bytes == 30
    assert events[-1].kind == "end"
    assert result.stop.evictable == ()
    held = {storage for op in result.stop.pending for storage in op.locks}
    assert oom.memory_bytes == 10 * len(held | set(result.stop.pinned))


def test_an_alias_stays_undefined_when_its_storage_comes_back(trace_of, run, decisions):
    trace = trace_of(
        ("constant", "c", 1),
        ("call", ["x"], "f", ["c"], 5, [10], [-1]),
        ("call", ["v"], "view", ["x"], 0, [99], [0]),
        ("call", ["y"], "g", ["c"], 5, [10], [-1]),
        ("call", ["z"], "h", ["x"], 5, [1], [-1]),
        ("call", ["w"], "h", ["v"], 5, [1], [-1]),
        ("release", "y"),
        ("release", "x"),
        ("release", "v"),
    )
    _, events = run(trace, policy="lru", budget_bytes=12)
    # y displaces x with its alias v; z brings x back; only w brings v back, at no cost.
    assert decisions(events).startswith("C0 C1 C2 E1 C3 E3 R1 C4")
    back = of_kind(events, "rematerialise")
    assert [(e.op, e.defined, e.resident) for e in back][:1] == [(1, (1,), (1,))]
    assert (2, (2,), ()) in [(e.op, e.defined, e.resident) for e in back]


def test_compute_of_a_storage_counts_each_op_once_and_grows_with_aliases(trace_of, run):
    trace = trace_of(
        ("constant", "c", 0),
        ("call", ["x"], "f", ["c"], 5, [10], [-1]),
        ("call", ["v1", "v2"], "chunk", ["x"], 7, [0, 0], [0, 0]),
        ("call", ["y"], "g", ["c"], 1, [10], [-1]),
    )
    _, events = run(trace, policy="local", budget_bytes=10)
    assert next((e.storage, e.score) for e in of_kind(events, "evict")) == (1, 12)


def test_outputs_computed_twice_are_freed_at_once(trace_of, run):
    trace = trace_of(
        ("constant", "c", 1),
        ("call", ["a", "b"], "split", ["c"], 1, [10, 20], [-1, -1]),
        ("release", "a"),
        ("call", ["d"], "f", ["a", "b"], 1, [1], [-1]),
    )
    result, events = run(trace, policy="lru", budget_bytes=100)
    (back,) = of_kind(events, "rematerialise")
    assert (back.defined, back.resident, back.freed_bytes) == ((1,), (1,), 20)
    assert back.memory_bytes == 31
    assert result.end.max_memory_bytes == 51


def test_resident_storages_join_the_pool_siblings_first(trace_of, run):
    trace = trace_of(
        ("constant", "c", 0),
        ("call", ["a", "b", "d"], "split", ["c"], 1, [1, 1, 1], [-1, -1, -1]),
    )
    _, events = run(trace, policy="lru", budget_bytes=100)
    assert of_kind(events, "compute")[1].resident == (2, 3, 1)
    assert of_kind(events, "compute")[1].defined == (1, 2, 3)


@pytest.mark.parametrize(
    ("dealloc", "causes"), [("eager", ["release"]), ("ignore", []), ("banish", ["banish"])]
)
def test_what_the_last_release_does(trace_of, run, dealloc, causes):
    trace = trace_of(
        ("constant", "c", 1),
        ("call", ["a"], "f", ["c"], 1, [10], [-1]),
        ("copy", "b", "a"),
        ("release", "a"),
        ("call", ["d"], "g", ["b"], 1, [1], [-1]),
        ("release", "b"),
    )
    result, events = run(trace, policy="lru", dealloc=dealloc)
    evictions = of_kind(events, "evict")
    assert [event.cause for event in evictions] == causes
    assert [event.storage for event in evictions] == [1] * len(causes)
    assert result.end.memory_bytes == 12 - 10 * len(causes)


def test_banishing_pins_what_was_computed_from_the_dead_storage(trace_of, run):
    trace = trace_of(
        ("constant", "c", 1),
        ("call", ["a"], "f", ["c"], 1, [10], [-1]),
        ("call", ["d"], "g", ["a"], 1, [1], [-1]),
        ("release", "a"),
    )
    _, events = run(trace, policy="lru", dealloc="banish")
    (banish,) = of_kind(events, "banish")
    pins = [(e.storage, e.reason, e.cause_seq) for e in of_kind(events, "pin")]
    assert pins[1] == (2, "banish", banish.seq)


def test_a_banished_input_hides_the_next_one_from_the_unlocks(trace_of, run, decisions):
    """Q-live-iteration: once e is back, b is dead; c, the input after it, stays locked."""
    trace = trace_of(
        ("constant", "x", 1),
        ("call", ["b"], "f", ["x"], 1, [5], [-1]),
        ("call", ["c"], "f", ["x"], 1, [5], [-1]),
        ("call", ["e"], "e", ["b", "c"], 1, [20], [-1]),
        ("call", ["h"], "h", ["x"], 1, [25], [-1]),
        ("release", "h"),
        ("release", "b"),
        ("call", ["d"], "g", ["e"], 1, [1], [-1]),
    )
    _, events = run(trace, policy="size", dealloc="banish", budget_bytes=36)
    assert decisions(events) == "C0 C1 C2 C3 E3 C4 E4 R3 E1 C5"
    of_op_e = [
        (e.kind, e.storage, e.locks)
        for e in events
        if getattr(e, "op", None) == 3 and e.kind in ("lock", "unlock")
    ]
    assert of_op_e[-3:] == [("lock", 1, 1), ("lock", 2, 1), ("unlock", 1, 0)]
    assert [event.storage for event in of_kind(events, "banish")] == [4, 1]


def test_a_tensor_used_after_its_last_release_comes_back_unless_it_was_banished(trace_of, run):
    trace = trace_of(
        ("constant", "c", 1),
        ("call", ["a"], "f", ["c"], 1, [10], [-1]),
        ("release", "a"),
        ("call", ["d"], "g", ["a"], 1, [1], [-1]),
    )
    result, _ = run(trace, policy="lru")
    assert result.end.remats == 1
    with pytest.raises(SimulationError, match="'a' is needed after its storage was banished"):
        run(trace, policy="lru", dealloc="banish")
    with pytest.raises(SimulationError):
        baseline_peak_bytes(trace)


def test_a_mutation_is_a_fresh_storage_and_a_release_of_the_old_one(trace_of, run, decisions):
    trace = trace_of(
        ("constant", "c", 1),
        ("call", ["a"], "f", ["c"], 1, [10], [-1]),
        ("mutate", "relu_", ["a", "c"], [0], 3),
        ("call", ["d"], "g", ["a"], 1, [1], [-1]),
    )
    _, events = run(trace, policy="lru")
    assert decisions(events) == "C0 C1 C2 E1 C3"
    assert of_kind(events, "op")[2].sizes_bytes == (10,)
    assert of_kind(events, "op")[3].inputs == (2,)


def test_a_run_stops_once_rematerialisation_exceeds_the_limit(chain_of, run):
    result, events = run(
        chain_of(6, cost=10), policy="none", budget_bytes=40, overhead_limit=1, dealloc="ignore"
    )
    assert result.end.outcome == "thrashed"
    thrashed = of_kind(events, "thrashed")[0]
    assert thrashed.remat_cost_ns == 10 > thrashed.limit_ns == 0
    assert [event.kind for event in events[-2:]] == ["thrashed", "end"]


def test_a_remat_leads_back_to_the_op_that_asked_for_it(chain_of, run):
    trace = chain_of(12, backward=True)
    _, events = run(trace, policy="lru", budget_bytes=60, overhead_limit=None)
    by_seq = {event.seq: event for event in events}
    assert [event.seq for event in events] == list(range(len(events)))
    remats = of_kind(events, "rematerialise")
    assert len(remats) > 3
    for event in remats:
        pending = by_seq[event.cause_seq]
        assert (pending.kind, pending.op) == ("materialise", event.op)
        while by_seq[pending.cause_seq].kind == "materialise":
            asker = by_seq[pending.cause_seq]
            assert pending.for_op == asker.op
            assert pending.depth == asker.depth + 1
            pending = asker
        assert pending.for_op is None
        assert by_seq[pending.cause_seq].kind in ("op", "output")


def test_a_chain_of_thousands_needs_no_recursion(chain_of):
    trace = chain_of(3000, size=1)
    result = simulate(trace, RunConfig("none", 2000, overhead_limit=None))
    assert result.end.computes == 3001


def test_a_subscriber_that_raises_stops_the_run_with_its_own_error(chain_of):
    hooks = Hooks()
    seen = []

    def subscriber(event):
        seen.append(event)
        if event.kind == "compute" and event.op == 2:
            raise ValueError("no more")

    hooks.subscribe(subscriber)
    with pytest.raises(SubscriberError, match="no more") as caught:
        simulate(chain_of(5), RunConfig("lru"), hooks)
    assert isinstance(caught.value.__cause__, ValueError)
    assert seen[-1].op == 2


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"budget_bytes": 0}, "at least 1 byte"),
        ({"budget_bytes": -5}, "at least 1 byte"),
        ({"dealloc": "lazy"}, 'no dealloc "lazy"'),
        ({"semantics": "other"}, "no semantics"),
        ({"overhead_limit": 0.5}, "overhead limit"),
        ({"overhead_limit": float("nan")}, "overhead limit"),
        ({"overhead_limit": float("inf")}, "overhead limit"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"budget_bytes": 2**63}, r"at most 2\*\*62"),
        ({"candidates": 2**70}, "candidates must be at most"),
        ({"candidates": -1}, "candidates"),
    ],
)
def test_rules_that_make_no_sense_are_refused(options, complaint):
    with pytest.raises(UsageError, match=complaint):
        RunConfig(**options)


@pytest.mark.parametrize("ratio", [float("nan"), float("inf"), 0, -0.1, 1e-9, 1e300])
def test_ratios_that_make_no_sense_are_refused(ratio):
    with pytest.raises(UsageError):
        budget_from_ratio(1000, ratio)


def test_a_ratio_is_taken_in_double_arithmetic():
    assert budget_from_ratio(10061179152, 0.102) == 1026240273
