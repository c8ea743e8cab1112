"""A live run decides and logs as a simulation of the same program, and what it does is real."""

from itertools import cycle

import attrs
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from dtrdiag.errors import PolicyError, SubscriberError, UsageError
from dtrdiag.hooks import Hooks
from dtrdiag.interventions import Interventions, Victim
from dtrdiag.simulator import (
    LiveRun,
    Pick,
    RunConfig,
    RunOverError,
    RunStoppedError,
    find_policy,
    policies,
    simulate,
    unregister,
)
from dtrdiag.simulator import policy as register
from dtrdiag.trace.catalog import resolve

from .liveworld import live

BUNDLED = ("chain-64", "residual-12", "recurrent-16", "tree-4")
POLICIES = tuple(entry.name for entry in policies())

fixed = settings(
    max_examples=150, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)


def logged(run, trace, config, **options):
    events = []
    hooks = Hooks()
    hooks.subscribe(events.append)
    result = run(trace, config, hooks=hooks, **options)
    assert events[0] == result.header
    assert events[-1] == result.end
    return result, events


def compare(trace, config):
    """The outcome of a run that is the same both ways."""
    expected, simulated = logged(simulate, trace, config)
    result, events = logged(live, trace, config)
    assert events[1:] == simulated[1:]
    assert result.stop == expected.stop
    quiet = live(trace, config)
    assert attrs.evolve(quiet.end, seq=result.end.seq) == result.end == expected.end
    return result.end.outcome


TIGHT_OR_ROOMY = (
    ("eager", 0.13, 2),
    ("ignore", 0.5, 10),
    ("eager", 2, None),
    ("ignore", 0.15, 2),
    ("eager", 0.3, 1.5),
)


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_traces_run_live_as_they_are_simulated(name):
    """Every policy on every other trace; five sets of rules take turns."""
    trace = resolve(name)
    total_bytes = int(trace.tensor_size_bytes.sum())
    outcomes = set()
    chosen = POLICIES[BUNDLED.index(name) % 2 :: 2]
    for policy, (dealloc, share, limit) in zip(chosen, cycle(TIGHT_OR_ROOMY), strict=False):
        budget = int(total_bytes * share)
        config = RunConfig(policy, budget, dealloc=dealloc, overhead_limit=limit)
        outcomes.add(compare(trace, config))
    assert outcomes >= {"ok", "thrashed"}


def test_random_programs_run_live_as_they_are_simulated(longer_random_traces):
    outcomes = set()

    @seed(0)
    @fixed
    @given(data=st.data())
    def check(data):
        trace = data.draw(longer_random_traces)
        share = data.draw(st.sampled_from([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8]))
        config = RunConfig(
            data.draw(st.sampled_from(POLICIES)),
            max(1, int(int(trace.tensor_size_bytes.sum()) * share)),
            dealloc=data.draw(st.sampled_from(["eager", "ignore"])),
            overhead_limit=data.draw(st.sampled_from([None, 1, 1.5, 10])),
            seed=data.draw(st.integers(0, 3)),
            candidates=data.draw(st.sampled_from([0, 0, 3])),
            semantics=data.draw(st.sampled_from(["simrd", "simrd", "repaired"])),
        )
        outcomes.add(compare(trace, config))

    check()
    assert outcomes == {"ok", "oom", "thrashed"}


def started(config=None, *, execute=None, evict=None, hooks=None, **facts):
    """A live run of which nothing is computed."""
    return LiveRun(
        config or RunConfig("dtr", 40, overhead_limit=None),
        execute=execute or (lambda op, defined: None),
        evict=evict or (lambda storage: None),
        hooks=hooks,
        **facts,
    )


def grown(run, length):
    """A chain: t0 a constant, each next one computed from the one before."""
    tensor = run.constant(10)
    for _ in range(length):
        (tensor,) = run.call("f", [tensor], 1, [10], [-1])
    return tensor


def listening():
    events, hooks = [], Hooks()
    hooks.subscribe(events.append)
    return events, hooks


def test_a_header_says_what_is_known_of_the_program():
    config = RunConfig("lru", 40, overhead_limit=None)
    header = started(config).finish([]).header
    assert (header.runtime, header.trace_name) == ("dtrdiag-live", "live")
    known = (header.trace_sha256, header.trace_ops, header.trace_tensors, header.baseline_cost_ns)
    assert known == (None, None, None, None)
    facts = {"trace_sha256": "a" * 64, "trace_ops": 0, "trace_tensors": 0, "baseline_cost_ns": 0}
    header = started(config, trace_name="mine", **facts).finish([]).header
    assert header.trace_name == "mine"
    assert {name: getattr(header, name) for name in facts} == facts


def test_what_is_known_of_tensors_while_it_runs():
    run = started()
    weights = run.constant(10)
    outputs = run.call("split", [weights, weights], 3, [10, 99], [-1, 1])
    assert list(outputs) == [1, 2]
    assert [run.storage_of(tensor) for tensor in (0, 1, 2)] == [0, 1, 0]
    assert run.op_of(2) == 1
    assert list(run.inputs_of(1)) == [0, 0]
    assert run.outputs_of(1) == outputs
    assert (run.memory_bytes, run.clock_ns) == (20, 4)
    run.release(1)
    assert (run.is_defined(1), run.is_resident(1), run.memory_bytes) == (False, False, 10)
    assert run.is_defined(2)


def test_constants_are_not_executed_but_what_needs_room_is_evicted_for_them():
    executed, evicted = [], []
    run = started(execute=lambda op, defined: executed.append(op), evict=evicted.append)
    grown(run, 3)
    run.constant(10)
    assert (executed, evicted) == ([1, 2, 3], [1])


def test_out_of_memory_is_an_error_that_carries_the_frontier():
    events, hooks = listening()
    run = started(hooks=hooks)
    run.constant(30)
    with pytest.raises(
        RunStoppedError, match=r"^out of memory: op 1 needs 20 bytes, 30 of 40"
    ) as e:
        run.call("f", [0], 1, [20], [-1])
    result = e.value.result
    assert e.value.outcome == result.end.outcome == "oom"
    assert (result.stop.op, result.stop.requested_bytes, result.stop.pinned) == (1, 20, (0,))
    assert [event.kind for event in events[-2:]] == ["oom", "end"]
    assert events[-1] == result.end
    with pytest.raises(RunOverError, match="the live run is over: it ran out of memory"):
        run.constant(1)


def test_thrash_is_an_error_too():
    events, hooks = listening()
    config = RunConfig("dtr", 40, overhead_limit=1)
    run = started(config, hooks=hooks, baseline_cost_ns=6)
    grown(run, 6)
    with pytest.raises(RunStoppedError, match=r"^thrashed: ") as error:
        run.call("back", [1], 1, [10], [-1])
    assert error.value.outcome == "thrashed"
    assert [event.kind for event in events[-2:]] == ["thrashed", "end"]
    assert run.over == "thrashed"


@pytest.mark.parametrize("ask", ["constant", "call", "retain", "release", "finish"])
def test_nothing_can_be_asked_of_a_finished_run(ask):
    run = started()
    grown(run, 1)
    assert run.over is None
    run.finish([1])
    arguments = {"constant": (1,), "call": ("f", [0], 1, [1], [-1]), "finish": ([],)}
    with pytest.raises(RunOverError, match="the live run is over: it is finished"):
        getattr(run, ask)(*arguments.get(ask, (0,)))


def test_a_kernel_that_fails_is_not_counted_and_ends_the_run():
    events, hooks = listening()

    def execute(op, defined):
        if op == 4:
            raise ZeroDivisionError("of the kernel")

    run = started(execute=execute, hooks=hooks)
    last = grown(run, 3)
    memory_bytes, clock_ns = run.memory_bytes, run.clock_ns
    with pytest.raises(ZeroDivisionError, match="of the kernel"):
        run.call("f", [last], 5, [10], [-1])
    assert not run.is_defined(4)
    assert (run.memory_bytes, run.clock_ns) == (memory_bytes - 10, clock_ns)
    kinds = [event.kind for event in events]
    assert kinds.count("compute") == 4
    assert kinds.count("evict") == 1
    assert "end" not in kinds
    with pytest.raises(RunOverError, match="it failed with ZeroDivisionError"):
        run.finish([])


def test_a_storage_that_cannot_be_given_up_is_not_counted_as_gone():
    def evict(storage):
        raise OSError("not now")

    run = started(evict=evict)
    grown(run, 3)
    with pytest.raises(OSError, match="not now"):
        run.constant(10)
    assert run.memory_bytes == 40
    assert run.is_resident(1)


def test_a_release_in_the_middle_of_an_op_waits_and_nothing_else_may():
    events, hooks = listening()
    refused = []

    def execute(op, defined):
        run.release(0)
        with pytest.raises(RunOverError, match="in the middle of an op"):
            run.constant(1)
        refused.append(op)

    run = started(execute=execute, hooks=hooks)
    grown(run, 1)
    assert refused == [1]
    steps = [(event.kind, event.step) for event in events if hasattr(event, "step")]
    assert steps == [("op", 0), ("op", 1), ("reference", 2)]


def test_releases_that_are_too_many_are_refused_and_the_run_goes_on():
    run = started()
    grown(run, 1)
    run.release(1)
    with pytest.raises(UsageError, match="tensor 1 is released more often than it is referenced"):
        run.release(1)
    with pytest.raises(UsageError, match="tensor 1 is retained after its last reference"):
        run.retain(1)
    assert run.finish([0]).end.outcome == "ok"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("f", [7], 1, [1], [-1]), "has an input that is not there"),
        (("f", [-1], 1, [1], [-1]), "has an input that is not there"),
        (("f", [0], 1, [], []), "has 0 sizes and 0 aliases"),
        (("f", [0], 1, [1], []), "has 1 sizes and 0 aliases"),
        (("f", [0], -1, [1], [-1]), "impossible cost: -1"),
        (("f", [0], 0.5, [1], [-1]), "impossible cost: 0.5"),
        (("f", [0], 1, [-1], [-1]), "impossible size: -1"),
        (("f", [0], 1, [1 << 51], [-1]), "impossible size"),
        (("f", [0], 1, [1], [1]), "alias of an input that is not there: 1"),
        (("constant", [], 0, [1], [-1]), "must not be named 'constant'"),
    ],
)
def test_impossible_calls_are_refused_and_leave_no_trace(arguments, message):
    run = started()
    run.constant(10)
    with pytest.raises(UsageError, match=message):
        run.call(*arguments)
    assert list(run.call("f", [0], 1, [10], [-1])) == [1]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"dealloc": "banish"}, "'banish'"),
        ({"engine": "native"}, "the Python engine"),
        ({"overhead_limit": 10}, "needs baseline_cost_ns"),
        ({"interventions": Interventions(pins=(1,))}, "no interventions but .*: pin 1"),
        ({"interventions": Interventions(victims=(Victim(0, 1, True),))}, "no interventions but"),
    ],
)
def test_rules_that_cannot_be_followed_live_are_refused(rules, message):
    with pytest.raises(UsageError, match=message):
        started(RunConfig("dtr", 40, **{"overhead_limit": None, **rules}))


def test_a_policy_in_python_decides_live():
    @register("live-test-first", doc="the first of the pool")
    def first(pool):
        return Pick(0)

    try:
        compare(resolve("tree-4"), RunConfig("live-test-first", 40_000_000, overhead_limit=3))
        assert find_policy("live-test-first").score is first
    finally:
        unregister("live-test-first")
    with pytest.raises(PolicyError, match="live-test-first"):
        started(RunConfig("live-test-first", 40, overhead_limit=None))


def test_a_subscriber_that_fails_ends_the_run():
    hooks = Hooks()
    hooks.subscribe(lambda event: 1 / 0, ["compute"])
    run = started(hooks=hooks)
    with pytest.raises(SubscriberError):
        run.constant(1)
    with pytest.raises(RunOverError, match="it failed with SubscriberError"):
        run.constant(1)
