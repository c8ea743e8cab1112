"""How a program that nobody knows in advance runs under DTR: call by call, on real tensors.

`LiveRun` is asked for one op after another, as a program comes to them. The machine and choosers
are those of `simulate`, so the log is the one that a simulation of the recorded program would have.
Two functions of the caller's do what is real: `execute` computes an op, `evict` gives up a storage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter

import attrs

from dtrdiag.errors import UsageError
from dtrdiag.events import records
from dtrdiag.hooks import Emitter, Hooks
from dtrdiag.simulator.config import RunConfig, RunResult
from dtrdiag.simulator.frames import Stopped
from dtrdiag.simulator.liverules import RunOverError, RunStoppedError, checked_rules
from dtrdiag.simulator.machine import Machine
from dtrdiag.simulator.optable import OpTable
from dtrdiag.simulator.pool import StorageTable
from dtrdiag.simulator.run import end_of, event_fields, header_of, policy_chooser
from dtrdiag.trace.builder import MAX_BYTES, MAX_COST_NS, MAX_TOTAL
from dtrdiag.trace.model import CONSTANT_NAME

RUNTIME = "dtrdiag-live"
_NO_OP = -1
_BLOCK = 128
"""By how many tensors tables grow at least."""


class LiveRun:
    """One run of a program that tells what it does while it does it.

    Args:
        config: the rules. Of `dealloc`, `banish` cannot be; of interventions, repairs and a
            tie-break can.
        execute: `execute(op, defined)` computes an op, for the first time or again, and keeps the
            tensors of `defined`, the wanted one first; its other outputs are there already, so the
            new ones are dropped. All inputs are defined and locked, and there is room for all
            outputs; nothing is counted before it returns. Not called for constants.
        evict: `evict(storage)` gives up a storage and all its tensors, before that is counted.
        hooks: who is told about events; subscriptions that come later are not told.
        trace_name: name of the program, for the log.
        trace_sha256: of the program as a trace, if there is one.
        trace_ops: likewise.
        trace_tensors: likewise.
        baseline_cost_ns: cost of executing every op once; an overhead limit counts in it.

    Raises:
        PolicyError: unknown policy.
        SubscriberError: a subscriber raised; so do all methods that emit events.
        UsageError: rules that a live run cannot follow.

    An exception out of `execute`, `evict`, a policy or a subscriber comes out of the method that
    was called, and ends the run: the op at hand is not counted, and the log stays without an end.
    """

    def __init__(
        self,
        config: RunConfig,
        *,
        execute: Callable[[int, Sequence[int]], object],
        evict: Callable[[int], object],
        hooks: Hooks | None = None,
        trace_name: str = "live",
        trace_sha256: str | None = None,
        trace_ops: int | None = None,
        trace_tensors: int | None = None,
        baseline_cost_ns: int | None = None,
    ) -> None:
        remat_limit_ns = checked_rules(config, baseline_cost_ns)
        self._ops = OpTable()
        self._table = StorageTable(0)
        self._chooser = policy_chooser(config, self._table)
        self._emit = Emitter(hooks) if hooks else None
        self._world = _TimedWorld(execute, evict)
        self._machine = Machine(
            self._ops,
            self._table,
            self._chooser,
            budget_bytes=config.budget_bytes,
            eager=config.dealloc == "eager",
            remat_limit_ns=remat_limit_ns,
            emit=self._emit,
            repairs=config.repairs,
            world=self._world,
        )
        self._room = 0  # how many tensors the tables have place for
        self._steps = self._total_bytes = self._total_cost_ns = 0
        self._seconds = 0.0
        self._busy = False
        self._over: str | None = None
        """Why nothing can be asked any more."""
        self._releases: deque[int] = deque()
        """Tensors released in the middle of an op."""
        self._header = header_of(
            config,
            runtime=RUNTIME,
            trace_name=trace_name,
            trace_sha256=trace_sha256,
            trace_ops=trace_ops,
            trace_tensors=trace_tensors,
            baseline_cost_ns=baseline_cost_ns,
        )
        if self._emit:
            self._emit(records.RunHeader, *event_fields(self._header))

    # --- what the program does ------------------------------------------------------------------

    def constant(self, size_bytes: int) -> int:
        """Something that is in memory for good, such as a parameter. Returns its tensor's id.

        Raises:
            RunOverError: the run has ended.
            RunStoppedError: there is no room for it.
            UsageError: an impossible size.
        """
        self._enter()
        op = self._add(CONSTANT_NAME, (), 0, (size_bytes,), (-1,))
        self._world.given = op
        self._do(self._machine.constant, op)
        return self._ops.outputs[op][0]

    def call(
        self,
        name: str,
        inputs: Sequence[int],
        cost_ns: int,
        sizes_bytes: Sequence[int],
        aliases: Sequence[int],
    ) -> range:
        """The first execution of an op. Returns the ids of its output tensors, one reference each.

        Args:
            name: operator name.
            inputs: [inputs] tensor ids, repeated where an input repeats.
            cost_ns: cost of one execution.
            sizes_bytes: [outputs] sizes, at least one; not counted for aliases.
            aliases: [outputs] -1 for a fresh storage, or the index of the input it is an alias of.

        Raises:
            RunOverError: the run has ended, or is in the middle of an op.
            RunStoppedError: out of memory, or thrashed.
            UsageError: impossible arguments; nothing is done.
        """
        self._enter()
        if name == CONSTANT_NAME and not inputs:
            raise UsageError("an op without inputs must not be named 'constant': use constant()")
        op = self._add(name, inputs, cost_ns, sizes_bytes, aliases)
        self._do(self._machine.call, op)
        return self._ops.outputs[op]

    def retain(self, tensor: int) -> None:
        """One more reference of the program to the tensor's storage; errors are those of `call`."""
        self._enter()
        self._check_tensor(tensor)
        if not self._machine.references[self._ops.storage[tensor]]:
            raise UsageError(f"tensor {tensor} is retained after its last reference was released")
        self._do(self._machine.retain, tensor)

    def release(self, tensor: int) -> None:
        """One reference less; errors are those of `call`.

        Owners may die at any moment, also within `execute`: in the middle of an op a release waits
        until the op is done.
        """
        if self._over is not None:
            self._enter()
        if self._busy:
            self._check_tensor(tensor)
            self._releases.append(tensor)
            return
        self._check_release(tensor)
        self._do(self._machine.release, tensor)

    def finish(self, outputs: Sequence[int]) -> RunResult:
        """The end of the program: make its outputs defined and keep them. Returns what it came to.

        Raises:
            RunOverError: the run has ended, or is in the middle of an op.
            RunStoppedError: out of memory, or thrashed.
            UsageError: an unknown tensor; nothing is done.
        """
        self._enter()
        for tensor in outputs:
            self._check_tensor(tensor)
        for tensor in outputs:
            self._do(self._machine.output, tensor)
        return self._end("ok")

    # --- what can be known ----------------------------------------------------------------------

    @property
    def memory_bytes(self) -> int:
        """Bytes in memory now."""
        return self._machine.memory_bytes

    @property
    def clock_ns(self) -> int:
        """Cost of all executions so far, from 1."""
        return self._machine.clock_ns

    @property
    def over(self) -> str | None:
        """Why the run has ended; None: it has not."""
        return self._over

    def is_defined(self, tensor: int) -> bool:
        """Whether a tensor can be read without computing anything."""
        return bool(self._machine.defined[tensor])

    def is_resident(self, storage: int) -> bool:
        """Whether a storage is in memory."""
        return bool(self._machine.residency[storage])

    def storage_of(self, tensor: int) -> int:
        """The storage of a tensor: the id of its root tensor."""
        return self._ops.storage[tensor]

    def op_of(self, tensor: int) -> int:
        """The op that computes a tensor."""
        return self._ops.op_of[tensor]

    def inputs_of(self, op: int) -> Sequence[int]:
        """Input tensors of an op in order; not to be changed."""
        return self._ops.inputs[op]

    def outputs_of(self, op: int) -> range:
        """Output tensors of an op by index."""
        return self._ops.outputs[op]

    def name_of(self, op: int) -> str:
        """The operator name of an op."""
        return self._ops.name[op]

    def size_of(self, storage: int) -> int:
        """Size of a storage in bytes."""
        return self._ops.tensor_bytes[storage]

    # --- steps ----------------------------------------------------------------------------------

    def _enter(self) -> None:
        if self._over is not None:
            raise RunOverError(f"the live run is over: {self._over}")
        if self._busy:
            raise RunOverError("the live run is in the middle of an op: only releases can wait")

    def _add(
        self,
        name: str,
        inputs: Sequence[int],
        cost_ns: int,
        sizes_bytes: Sequence[int],
        aliases: Sequence[int],
    ) -> int:
        """Check an op and make place for it, in all tables."""
        if inputs and not 0 <= min(inputs) <= max(inputs) < len(self._ops.op_of):
            raise UsageError(f"op {name!r} has an input that is not there: {list(inputs)}")
        if not sizes_bytes or len(sizes_bytes) != len(aliases):
            raise UsageError(
                f"op {name!r} has {len(sizes_bytes)} sizes and {len(aliases)} aliases; it needs "
                "one of each for every output, and an output"
            )
        if not (type(cost_ns) is int and 0 <= cost_ns <= MAX_COST_NS):
            raise UsageError(f"op {name!r} has an impossible cost: {cost_ns!r}")
        for size, alias in zip(sizes_bytes, aliases, strict=True):
            if not (type(size) is int and 0 <= size <= MAX_BYTES):
                raise UsageError(f"op {name!r} has an output of an impossible size: {size!r}")
            if not -1 <= alias < len(inputs):
                raise UsageError(f"op {name!r} has an alias of an input that is not there: {alias}")
        op = self._ops.add(name, inputs, cost_ns, sizes_bytes, aliases)
        self._total_bytes += self._ops.op_bytes[op]
        self._total_cost_ns += cost_ns
        if self._total_bytes > MAX_TOTAL or self._total_cost_ns > MAX_TOTAL:
            self._over = "the sizes or the costs add up to more than 2**62"
            raise UsageError(self._over)
        if len(self._ops.op_of) > self._room:
            self._make_room(len(self._ops.op_of))
        return op

    def _make_room(self, tensors: int) -> None:
        """Have all tables hold so many tensors, and some more."""
        more = max(tensors - self._room, _BLOCK)
        self._room += more
        self._table.grow(more)
        self._chooser.grow(more)
        self._machine.grow(more)

    def _check_tensor(self, tensor: int) -> None:
        if not 0 <= tensor < len(self._ops.op_of):
            raise UsageError(f"there is no tensor {tensor}")

    def _check_release(self, tensor: int) -> None:
        self._check_tensor(tensor)
        if not self._machine.references[self._ops.storage[tensor]]:
            raise UsageError(f"tensor {tensor} is released more often than it is referenced")

    def _do(self, action: Callable[[int, int], object], operand: int) -> None:
        """One step of the schedule, and then the releases that waited for it."""
        self._busy = True
        started = perf_counter()
        try:
            action(self._steps, operand)
            self._steps += 1
            while self._releases:
                tensor = self._releases.popleft()
                self._check_release(tensor)
                self._machine.release(self._steps, tensor)
                self._steps += 1
        except Stopped as stopped:
            result = self._end(stopped.outcome)
            raise RunStoppedError(result) from None
        except BaseException as error:
            self._over = f"it failed with {type(error).__name__}"
            raise
        finally:
            self._seconds += perf_counter() - started
            self._busy = False

    def _end(self, outcome: str) -> RunResult:
        self._over = {"oom": "it ran out of memory", "ok": "it is finished"}.get(outcome, outcome)
        end = end_of(self._machine, outcome)
        if self._emit:
            end = attrs.evolve(end, seq=self._emit(records.End, *event_fields(end)))
        seconds = self._seconds - self._world.seconds
        return RunResult(self._header, end, self._machine.stop, "python", seconds)


class _TimedWorld:
    """The caller's two functions, and the time that they take."""

    def __init__(
        self, execute: Callable[[int, Sequence[int]], object], evict: Callable[[int], object]
    ) -> None:
        self._execute = execute
        self._evict = evict
        self.given = _NO_OP
        """The constant that is being added; it is there already."""
        self.seconds = 0.0

    def execute(self, op: int, defined: Sequence[int]) -> None:
        """Have an op computed."""
        if op == self.given:
            return
        started = perf_counter()
        self._execute(op, defined)
        self.seconds += perf_counter() - started

    def evict(self, storage: int) -> None:
        """Have a storage given up."""
        started = perf_counter()
        self._evict(storage)
        self.seconds += perf_counter() - started
