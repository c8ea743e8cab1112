"""A world in which live runs take place: values are hashes, and held only while they may be."""

from hashlib import blake2b

from dtrdiag.simulator import (
    LiveRun,
    RunStoppedError,
)
from dtrdiag.trace import Step


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
