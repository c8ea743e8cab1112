"""A live run decides and logs as a simulation of the same program, and what it does is real."""

from hashlib import blake2b
from itertools import cycle

import attrs
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from dtrdiag.hooks import Hooks
from dtrdiag.simulator import (
    LiveRun,
    RunConfig,
    RunStoppedError,
    policies,
    simulate,
)
from dtrdiag.trace import Step
from dtrdiag.trace.catalog import resolve

BUNDLED = ("chain-64", "residual-12", "recurrent-16", "tree-4")
POLICIES = tuple(entry.name for entry in policies())

fixed = settings(
    max_examples=300, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)


class World:
    """Holds a value for every tensor in memory, and none besides; computes by hashing.

    An output's value depends on the op, its index and the values of all inputs.
    """

    def __init__(self, trace):
        self.sizes = trace.tensor_size_bytes.tolist()
        self.storages = trace.tensor_storage.tolist()
        self.run = None
        self.budget_bytes = None
        self.held = {}
        """Values by tensor, by storage."""
        self.bytes = 0
        self.most_bytes = 0
        self.computed = []

    def value(self, tensor):
        return self.held[self.storages[tensor]][tensor]

    def execute(self, op, defined):
        inputs = [self.value(tensor) for tensor in self.run.inputs_of(op)]
        outputs = self.run.outputs_of(op)
        for tensor in defined:
            self.keep(tensor, computed(op, tensor - outputs[0], inputs))
        # Duplicates are there beside what they duplicate until they are dropped.
        twice = [tensor for tensor in outputs if tensor not in defined]
        assert all(self.value(tensor) for tensor in twice)
        most = self.bytes + sum(self.sizes[tensor] for tensor in twice)
        self.most_bytes = max(self.most_bytes, most)
        assert self.budget_bytes is None or most <= self.budget_bytes
        self.computed.append((op, tuple(defined)))

    def keep(self, tensor, value):
        storage = self.storages[tensor]
        if storage not in self.held:
            self.held[storage] = {}
            self.bytes += self.sizes[storage]
        assert tensor not in self.held[storage]
        self.held[storage][tensor] = value

    def evict(self, storage):
        del self.held[storage]
        self.bytes -= self.sizes[storage]

    def given(self, tensor):
        self.keep(tensor, computed(self.run.op_of(tensor), 0, []))


def computed(op, index, inputs):
    return blake2b(repr((op, index, inputs)).encode(), digest_size=8).hexdigest()


def plainly(trace):
    """All values as they are without any eviction."""
    values = []
    for op in range(trace.ops):
        inputs = [values[tensor] for tensor in trace.inputs_of(op)]
        values += [computed(op, index, inputs) for index in range(len(trace.outputs_of(op)))]
    return values


def live(trace, config, world=None, hooks=None, **facts):
    """Feed a trace to a live run step by step, as a program would."""
    world = world or World(trace)
    facts = {"baseline_cost_ns": trace.baseline_cost_ns, **facts}
    run = LiveRun(config, execute=world.execute, evict=world.evict, hooks=hooks, **facts)
    world.run, world.budget_bytes = run, config.budget_bytes
    outputs = []
    try:
        for kind, operand in zip(
            trace.step_kind.tolist(), trace.step_operand.tolist(), strict=True
        ):
            if kind == Step.CONSTANT:
                size = int(trace.tensor_size_bytes[trace.outputs_of(operand)[0]])
                world.given(run.constant(size))
            elif kind == Step.CALL:
                made = trace.outputs_of(operand)
                tensors = slice(made[0], made[-1] + 1)
                got = run.call(
                    trace.op_name[operand],
                    trace.inputs_of(operand).tolist(),
                    int(trace.op_cost_ns[operand]),
                    trace.tensor_memory_bytes[tensors].tolist(),
                    trace.tensor_alias[tensors].tolist(),
                )
                assert got == made
            elif kind == Step.RETAIN:
                run.retain(operand)
            elif kind == Step.RELEASE:
                run.release(operand)
            else:
                outputs.append(operand)
        result = run.finish(outputs)
    except RunStoppedError as stopped:
        return stopped.result
    values = plainly(trace)
    assert [world.value(tensor) for tensor in outputs] == [values[tensor] for tensor in outputs]
    assert world.bytes == run.memory_bytes == result.end.memory_bytes
    assert world.most_bytes <= result.end.max_memory_bytes
    return result


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
    """Under every policy; five sets of rules take turns."""
    trace = resolve(name)
    total_bytes = int(trace.tensor_size_bytes.sum())
    outcomes = set()
    for policy, (dealloc, share, limit) in zip(POLICIES, cycle(TIGHT_OR_ROOMY), strict=False):
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
