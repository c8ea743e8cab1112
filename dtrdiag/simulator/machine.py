"""What happens in a run, decision for decision: the definition of the semantics.

`Machine` executes the steps of a schedule under a memory budget. It knows the mechanics (pending
stack, locks, pool, memory, clock, deallocation) and asks a *chooser* the one thing it does not
know: which storage to evict. `docs/semantics.md` explains every rule and names the defects of simrd
that are reproduced here; names in comments (`Q-...`) are found there. Source: Kirisame et al.,
Dynamic Tensor Rematerialization, ICLR 2021, and its simulator simrd.

All tables are indexed by op id, tensor id or storage id; a storage's id is its root tensor's.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from dtrdiag.events import records
from dtrdiag.hooks import Emitter
from dtrdiag.simulator.chooser import Chooser
from dtrdiag.simulator.config import Stop
from dtrdiag.simulator.frames import Frame, Stopped, stop_at
from dtrdiag.simulator.graph import ABSENT, PINNED, RESIDENT
from dtrdiag.simulator.optable import OpTable, World
from dtrdiag.simulator.pool import StorageTable
from dtrdiag.simulator.tally import Tally

NO_DETAILS: tuple[object, ...] = (None, None, None, ())
"""Op, score, pool size and candidates of an eviction that made no room for anyone."""


class Machine:
    """One run under the deallocations `eager` and `ignore`.

    `banish.BanishingMachine` overrides the methods of the last section, `intervened` some others.

    Args:
        ops: what can be computed; it may grow, see `grow`.
        table: per-storage facts, shared with the chooser.
        chooser: decides which storage to evict.
        budget_bytes: None for unlimited.
        eager: evict a storage when its last external reference goes.
        remat_limit_ns: stop once remat cost exceeds it; None for never.
        emit: takes the events; None when nobody listens, which costs one branch an event.
        repairs: defects of simrd that are repaired, see docs/interventions.md.
        world: told of every execution and eviction before it is counted; None: nothing is real.
    """

    pins_are_final = True

    def __init__(
        self,
        ops: OpTable,
        table: StorageTable,
        chooser: Chooser,
        *,
        budget_bytes: int | None,
        eager: bool,
        remat_limit_ns: float | int | None,
        emit: Emitter | None,
        repairs: Set[str] = frozenset(),
        world: World | None = None,
    ) -> None:
        self.ops = ops
        self.table = table
        self.chooser = chooser
        self.budget_bytes = budget_bytes
        self.eager = eager
        self.remat_limit_ns = remat_limit_ns
        self.emit = emit
        self.repairs = repairs
        self.world = world
        self.tally = Tally()
        self.clock_ns = 1
        self.memory_bytes = 0
        self.pool: dict[int, None] = {}
        """Evictable storages = resident, unlocked, unpinned; a dict keeps their order."""
        self.pending: list[Frame] = []
        self.stop: Stop | None = None

        # The same lists as in `ops`, which may grow.
        self._cost_ns, self._inputs, self._outputs = ops.cost_ns, ops.inputs, ops.outputs
        self._op_bytes, self._tensor_bytes = ops.op_bytes, ops.tensor_bytes
        self._storage, self._op_of = ops.storage, ops.op_of
        self._connects_late = "uncomputed-neighbour" in repairs

        self.residency = table.residency
        self.defined = bytearray()
        self.references: list[int] = []
        """External references of each storage."""
        self._members: list[list[int]] = []
        self._locks: list[int] = []
        self._pinned = bytearray()
        self.grow(len(ops.op_of))

    def grow(self, tensors: int) -> None:
        """Make place for so many more tensors; those who share its tables must grow likewise."""
        self.defined += bytes(tensors)
        self.references += [0] * tensors
        self._members += [[] for _ in range(tensors)]
        self._locks += [0] * tensors
        self._pinned += bytes(tensors)

    # --- the schedule ---------------------------------------------------------------------------

    def constant(self, step: int, op: int) -> None:
        """Execution of an op without inputs, whose only output is kept for good."""
        executed = self.call(step, op)
        self._pin(self._storage[self._outputs[op][0]], "constant", executed)

    def call(self, step: int, op: int) -> int:
        """First execution of an op. Returns the `seq` of its `compute` event."""
        self._create_outputs(op)
        cause = self.emit(records.OpDefined, *self._definition(step, op)) if self.emit else 0
        outputs = self._outputs[op]
        executed = self._materialise(outputs[0], first=True, cause=cause)
        for tensor in outputs:
            self.table.last_access_ns[self._storage[tensor]] = self.clock_ns
        return executed

    def _create_outputs(self, op: int) -> None:
        storages, compute_ns = self._storage, self.table.compute_ns
        for tensor in self._outputs[op]:
            storage = storages[tensor]
            members = self._members[storage]
            if storage == tensor:
                self.table.size_bytes[storage] = self._tensor_bytes[tensor]
            # Outputs of one op in one storage are neighbours in `members`: count its cost once.
            if not members or self._op_of[members[-1]] != op:
                compute_ns[storage] += self._cost_ns[op]
            members.append(tensor)
            self.references[storage] += 1
        if not self._connects_late:
            # From here on new storages count as non-resident neighbours (Q-uncomputed-neighbour).
            self._connect(op)
        self._created(op)

    def _connect(self, op: int) -> None:
        """The edges of an op, and the classes of its new storages, come into being."""
        storages, outputs = self._storage, self._outputs[op]
        self.chooser.called(
            [storages[tensor] for tensor in self._inputs[op]],
            [storages[tensor] for tensor in outputs],
            [tensor for tensor in outputs if storages[tensor] == tensor],
        )

    def output(self, step: int, tensor: int) -> None:
        """The model wants a tensor at the end: make it defined, and keep it."""
        storage = self._storage[tensor]
        cause = self.emit(records.OutputRequested, None, step, tensor, storage) if self.emit else 0
        if not self.defined[tensor]:
            self._materialise(tensor, first=False, cause=cause)
        self._pin(storage, "output", cause)

    def retain(self, step: int, tensor: int) -> None:
        """The model takes one more reference to the tensor's storage."""
        self._refer(step, tensor, +1)

    def release(self, step: int, tensor: int) -> None:
        """The model drops a reference to the tensor's storage."""
        cause = self._refer(step, tensor, -1)
        storage = self._storage[tensor]
        if not self.references[storage]:
            self._unreferenced(storage, cause)

    def _refer(self, step: int, tensor: int, delta: int) -> int:
        storage = self._storage[tensor]
        self.references[storage] += delta
        if not self.emit:
            return 0
        references = self.references[storage]
        return self.emit(records.ReferenceChanged, None, step, tensor, storage, delta, references)

    # --- materialising --------------------------------------------------------------------------

    def _materialise(self, tensor: int, *, first: bool, cause: int) -> int:
        """Make an undefined tensor defined, rematerialising what it needs. Explicit stack.

        Returns:
            The `seq` of the execution event of its op.
        """
        self._push(tensor, first, None, cause)
        executed = 0
        while self.pending:
            frame = self.pending[-1]
            missing = self._next_missing(frame) if frame.missing else None
            if missing is not None:
                self._push(missing, False, frame.op, frame.seq)
                continue
            self._make_room(frame)
            executed = self._execute(frame)
            self._finish(frame, executed)
            limit = self.remat_limit_ns
            if limit is not None and self.tally.remat_cost_ns > limit:
                self._stop_thrashed(frame, executed, limit)
            self.pending.pop()
        return executed

    def _push(self, tensor: int, first: bool, for_op: int | None, cause: int) -> None:
        op = self._op_of[tensor]
        inputs = self._inputs_of(tensor)
        seq = 0
        if self.emit:
            reason = "first" if first else "remat"
            depth = len(self.pending) + 1
            seq = self.emit(records.Materialise, cause, op, tensor, reason, for_op, depth)
        storages, defined = self._storage, self.defined
        self._touch(inputs)
        missing = [needed for needed in inputs if not defined[needed]]
        frame = Frame(op, tensor, first, inputs, missing, seq)
        self.pending.append(frame)
        for needed in inputs:
            if defined[needed]:
                self._lock(storages[needed], frame)

    def _next_missing(self, frame: Frame) -> int | None:
        """Lock inputs that came back in the meantime; return the next one still undefined."""
        missing = frame.missing
        while frame.found < len(missing):
            needed = missing[frame.found]
            if not self.defined[needed]:
                return needed
            self._lock(self._storage[needed], frame)
            frame.found += 1
        return None

    def _make_room(self, frame: Frame) -> None:
        """Evict until the op's outputs fit. The only place where the budget is read."""
        requested = self._op_bytes[frame.op]
        while True:
            total = self.memory_bytes + requested
            fits = self.budget_bytes is None or total <= self.budget_bytes
            self.tally.checked(total, fits)
            cause = 0
            if self.emit:
                check = (frame.op, self.memory_bytes, requested, fits)
                cause = self.emit(records.FitCheck, frame.seq, *check)
            if fits:
                return
            if not self.pool:
                self._stop_oom(frame, requested, cause)
            choice = self.chooser.choose(self.pool, self.clock_ns)
            details = (frame.op, choice.score, len(self.pool), choice.candidates)
            self._evict(choice.storage, "pressure", cause, details)

    def _execute(self, frame: Frame) -> int:
        """Run the op; returns the `seq` of the execution event."""
        op, wanted, cost_ns = frame.op, frame.tensor, self._cost_ns[frame.op]
        residency = self.residency
        defined, resident, freed = self._gains(op, wanted)
        if self.world is not None:
            self.world.execute(op, defined)
        self.clock_ns += cost_ns
        self.memory_bytes += self._op_bytes[op]
        self.tally.executed(op, cost_ns, frame.first, self.memory_bytes)
        self.memory_bytes -= freed
        for tensor in defined:
            self.defined[tensor] = 1
        if frame.first and self._connects_late:
            self._connect(op)
        for storage in resident:
            residency[storage] = RESIDENT
            self.pool[storage] = None
        frame.defined = defined
        self.chooser.became_resident(resident)
        if not self.emit:
            return 0
        record = records.Compute if frame.first else records.Rematerialise
        gained = (tuple(defined), tuple(resident))
        after = (freed, self.memory_bytes, self.clock_ns)
        return self.emit(record, frame.seq, op, wanted, cost_ns, *gained, *after)

    def _gains(self, op: int, wanted: int) -> tuple[list[int], list[int], int]:
        """What executing an op defines and makes resident, and the bytes that are freed at once."""
        storages, residency = self._storage, self.residency
        defined, resident, freed = [wanted], [], 0
        for tensor in self._outputs[op]:
            if tensor != wanted:
                if self.defined[tensor]:
                    # Computed a second time although it is there: freed at once.
                    freed += self._tensor_bytes[tensor]
                else:
                    defined.append(tensor)
                if not residency[storages[tensor]]:
                    resident.append(storages[tensor])
        if not residency[storages[wanted]]:
            resident.append(storages[wanted])
        return defined, resident, freed

    # --- locks, pins, evictions -----------------------------------------------------------------

    def _lock(self, storage: int, frame: Frame) -> None:
        if not self._locks[storage]:
            del self.pool[storage]
        self._locks[storage] += 1
        frame.held.append(storage)
        if self.emit:
            self.emit(records.Lock, frame.seq, storage, frame.op, self._locks[storage])

    def _unlock(self, storage: int, op: int, cause: int) -> int:
        locks = self._locks[storage] = self._locks[storage] - 1
        if not locks:
            self.pool[storage] = None
        return self.emit(records.Unlock, cause, storage, op, locks) if self.emit else 0

    def _pin(self, storage: int, reason: str, cause: int) -> None:
        """Lock for good: a pin is one more lock that nobody gives back."""
        if self._pinned[storage]:
            return
        if not self._locks[storage]:
            del self.pool[storage]
        self._locks[storage] += 1
        self._pinned[storage] = 1
        if self.pins_are_final:
            self.residency[storage] = PINNED
        if self.emit:
            self.emit(records.Pin, cause, storage, reason, self._locks[storage])

    def _evict(
        self, storage: int, why: str, cause: int, details: tuple[object, ...] = NO_DETAILS
    ) -> None:
        if self.world is not None:
            self.world.evict(storage)
        size = self.table.size_bytes[storage]
        self.residency[storage] = ABSENT
        self.memory_bytes -= size
        self.pool.pop(storage, None)
        for tensor in self._members[storage]:
            self.defined[tensor] = 0
        self.tally.evicted(storage, why)
        self.chooser.evicted(storage)
        if self.emit:
            after = (self.memory_bytes, self.clock_ns)
            self.emit(records.Evict, cause, storage, size, why, *details, *after)

    # --- stops ----------------------------------------------------------------------------------

    def _stop_oom(self, frame: Frame, requested: int, cause: int) -> None:
        self._copy_stop(frame, requested)
        if self.emit:
            sizes = (requested, self.memory_bytes, self.budget_bytes)
            self.emit(records.OutOfMemory, cause, frame.op, *sizes, len(self.pending))
        raise Stopped("oom")

    def _stop_thrashed(self, frame: Frame, cause: int, limit_ns: float | int) -> None:
        self._copy_stop(frame, 0)
        if self.emit:
            self.emit(records.Thrashed, cause, self.tally.remat_cost_ns, limit_ns)
        raise Stopped("thrashed")

    def _copy_stop(self, frame: Frame, requested: int) -> None:
        pinned = [s for s, pin in enumerate(self._pinned) if pin and self.residency[s]]
        memory = (requested, self.memory_bytes)
        self.stop = stop_at(frame, *memory, self.pending, pinned, self.pool)

    def _definition(self, step: int, op: int) -> tuple[object, ...]:
        """Fields of the `op` event."""
        outputs = self._outputs[op]
        created = (
            tuple(outputs),
            tuple(self._storage[tensor] for tensor in outputs),
            tuple(self._tensor_bytes[tensor] for tensor in outputs),
        )
        name, inputs = self.ops.name[op], tuple(self._inputs[op])
        return (None, step, op, name, self._cost_ns[op], inputs, *created)

    # --- what deallocation decides --------------------------------------------------------------

    def _created(self, op: int) -> None:
        """The outputs of an op came into being."""

    def _inputs_of(self, tensor: int) -> list[int]:
        """What must be defined to compute a tensor, in argument order."""
        return self._inputs[self._op_of[tensor]]

    def _touch(self, inputs: Iterable[int]) -> None:
        """Tensors are inputs of an op that is being materialised."""
        storages, last_access_ns, clock_ns = self._storage, self.table.last_access_ns, self.clock_ns
        for needed in inputs:
            last_access_ns[storages[needed]] = clock_ns

    def _finish(self, frame: Frame, cause: int) -> None:
        """An op was executed: give its locks back, in argument order."""
        if self.emit:
            for tensor in frame.inputs:
                self._unlock(self._storage[tensor], frame.op, cause)
            return
        storages, locks, pool = self._storage, self._locks, self.pool
        for tensor in frame.inputs:
            storage = storages[tensor]
            locks[storage] -= 1
            if not locks[storage]:
                pool[storage] = None

    def _unreferenced(self, storage: int, cause: int) -> None:
        """The last external reference to a storage went."""
        if self.eager and self.residency[storage] and not self._pinned[storage]:
            self._evict(storage, "release", cause)
