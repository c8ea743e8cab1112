"""What the state of a run was after any of its events, rebuilt from the log alone.

`Replay` believes the log: it applies what events say and checks no rules (`verify` does). All that
it needs from an event is there as data, so it works for the log of any runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dtrdiag.errors import LogError, UsageError
from dtrdiag.events.records import (
    Banish,
    Compute,
    End,
    Event,
    Evict,
    FitCheck,
    Lock,
    Materialise,
    OpDefined,
    OutOfMemory,
    OutputRequested,
    Pin,
    ReferenceChanged,
    Rematerialise,
    RunHeader,
    Thrashed,
    Unlock,
)
from dtrdiag.ids import OpId, StorageId, TensorId
from dtrdiag.interventions import Interventions, parse_interventions
from dtrdiag.log.state import Frame, Tally


class Replay:
    """The state of a run, moved forward one event at a time.

    After an out-of-memory or thrashed stop the state stays as it was at the stop: the pending
    stack with the locks of each op, the pool, memory. Containers are the live state, to be read
    and not changed.
    """

    header: RunHeader | None
    """The log's first event, once applied."""
    interventions: Interventions
    """What the header says was changed on purpose."""
    budget_bytes: int | None
    """The budget of the next fit check; None: unlimited."""
    stop: OutOfMemory | Thrashed | None
    """Why the run stopped early, if it did."""
    end: End | None
    """The log's last event, once applied."""
    seq: int
    """`seq` of the last event applied; -1 before the first."""

    ops: dict[OpId, OpDefined]
    """Ops called so far: name, cost, inputs, outputs, storages, sizes."""
    requested_bytes: dict[OpId, int]
    """Sum of each op's output sizes."""
    inputs: dict[OpId, tuple[TensorId, ...]]
    """Each op's inputs without those of banished storages."""
    producer: dict[TensorId, OpId]
    """The op that computes each tensor."""
    storage_of: dict[TensorId, StorageId]
    tensors_of: dict[StorageId, list[TensorId]]
    """The root tensor and its aliases, in order of creation."""
    size_bytes: dict[StorageId, int]

    defined: set[TensorId]
    resident: dict[StorageId, int]
    """Storages in memory, with the `seq` of the execution that brought them there."""
    pool: dict[StorageId, int]
    """Evictable storages in order, with a number that grows with each entry to the pool."""
    locks: dict[StorageId, list[OpId]]
    """Holders of the locks on each locked storage, in order, once per lock; pins apart."""
    pins: dict[StorageId, str]
    """Pinned storages with the reason of the pin."""
    references: dict[StorageId, int]
    """External references; 0 once the model has dropped the last."""
    banished: dict[StorageId, int]
    """Storages freed for good, with the `seq` of the `banish` event."""
    pending: list[Frame]
    """Ops being materialised, outermost first; see `Frame` for when one leaves."""
    memory_bytes: int
    clock_ns: int
    tally: Tally

    def __init__(self) -> None:
        self.header = None
        self.interventions = Interventions()
        self.budget_bytes = None
        self.stop = None
        self.end = None
        self.seq = -1
        self.ops = {}
        self.requested_bytes = {}
        self.inputs = {}
        self.producer = {}
        self.storage_of = {}
        self.tensors_of = {}
        self.size_bytes = {}
        self.defined = set()
        self.resident = {}
        self.pool = {}
        self.locks = {}
        self.pins = {}
        self.references = {}
        self.banished = {}
        self.pending = []
        self.memory_bytes = 0
        self.clock_ns = 1
        self.tally = Tally()
        self._entries = 0
        self._kept: frozenset[int] = frozenset()
        self._switches: list[tuple[int, int]] = []
        self._switched = False
        self._consumers: dict[TensorId, dict[OpId, None]] = {}
        self._apply: dict[type[Any], Callable[[Any], None]] = {
            RunHeader: self._run,
            OpDefined: self._op,
            OutputRequested: self._schedule,
            ReferenceChanged: self._reference,
            Materialise: self._materialise,
            Lock: self._lock,
            Unlock: self._unlock,
            FitCheck: self._fit,
            Evict: self._evict,
            Compute: self._execute,
            Rematerialise: self._execute,
            Pin: self._pin,
            Banish: self._banish,
            OutOfMemory: self._stopped,
            Thrashed: self._stopped,
            End: self._ended,
        }

    @classmethod
    def at(cls, events: Iterable[Event], seq: int) -> Replay:
        """The state right after event `seq`. O(events up to it).

        Raises:
            UsageError: the log has no event `seq`.
            LogError: an event names something that the log did not introduce.
        """
        replay = cls()
        if seq >= 0:
            for event in events:
                replay.apply(event)
                if event.seq >= seq:
                    break
        if replay.seq != seq or seq < 0:
            raise UsageError(f"the log has no event {seq}, its last is {replay.seq}")
        return replay

    def apply(self, event: Event) -> None:
        """Move the state past `event`. O(size of the event), amortised; `banish`: its dependents.

        Raises:
            LogError: the event names something that the log did not introduce, or interventions
                that are not known; the state is then undefined.
        """
        try:
            self._apply[type(event)](event)
        except (KeyError, IndexError, ValueError) as error:
            raise LogError(
                f"event {event.seq} ({event.kind}) names something that no earlier event "
                f"introduced: {error}"
            ) from error
        except UsageError as error:
            raise LogError(f"event {event.seq} ({event.kind}): {error}") from error
        self.seq = event.seq

    @property
    def budget_is_switched(self) -> bool:
        """Whether `budget_bytes` is an intervention's, so that the interval leaves checks out."""
        return self._switched

    def locks_on(self, storage: StorageId) -> int:
        """Number of locks on a storage, a pin counting as one."""
        return len(self.locks.get(storage, ())) + (storage in self.pins)

    def undefined_inputs(self, op: OpId) -> list[TensorId]:
        """The op's inputs that are not defined now, in order, repeated where used twice."""
        return [tensor for tensor in self.inputs[op] if tensor not in self.defined]

    def consumers(self, tensor: TensorId) -> tuple[OpId, ...]:
        """Distinct ops with the tensor among their inputs, in order of definition.

        Banished storages have left the graph: ops that only compute into one are not listed.
        """
        return tuple(self._consumers.get(tensor, ()))

    def is_kept(self, storage: StorageId) -> bool:
        """Whether an intervention keeps the storage out of the pool."""
        return storage in self._kept

    def _run(self, event: RunHeader) -> None:
        self.header = event
        self.interventions = parse_interventions(event.interventions)
        self.budget_bytes = event.budget_bytes
        self._kept = frozenset(self.interventions.keeps)
        self._switches = list(reversed(self.interventions.budgets))
        self._switch_budget()

    def _switch_budget(self) -> None:
        """From some decisions on, an intervention sets the budget."""
        while self._switches and self._switches[-1][0] <= self.tally.decisions:
            _, self.budget_bytes = self._switches.pop()
            self._switched = True

    def _schedule(self, event: Event) -> None:
        self._settle()

    def _settle(self) -> None:
        # The aftermath of an execution is over: any other event takes its op off the stack.
        pending = self.pending
        while pending and pending[-1].executed_seq is not None:
            pending.pop()

    def _op(self, event: OpDefined) -> None:
        self._settle()
        op = event.op
        self.ops[op] = event
        self.requested_bytes[op] = sum(event.sizes_bytes)
        self.inputs[op] = event.inputs
        for tensor in event.inputs:
            self._consumers.setdefault(tensor, {})[op] = None
        for tensor, storage, size in zip(
            event.outputs, event.storages, event.sizes_bytes, strict=True
        ):
            self.producer[tensor] = op
            self.storage_of[tensor] = storage
            if storage not in self.tensors_of:
                self.tensors_of[storage] = [tensor]
                self.size_bytes[storage] = size
                self.references[storage] = 1
            else:
                self.tensors_of[storage].append(tensor)
                self.references[storage] += 1

    def _reference(self, event: ReferenceChanged) -> None:
        self._settle()
        self.references[event.storage] += event.delta

    def _materialise(self, event: Materialise) -> None:
        self._settle()
        self.pending.append(Frame(event.op, event.tensor, event.reason, event.for_op, event.seq))

    def _lock(self, event: Lock) -> None:
        self._settle()
        storage, op = event.storage, event.op
        holders = self.locks.get(storage)
        if holders is None:
            self.locks[storage] = [op]
            self.pool.pop(storage, None)
        else:
            holders.append(op)
        if self.pending and self.pending[-1].op == op:
            self.pending[-1].locked.append(storage)

    def _unlock(self, event: Unlock) -> None:
        storage, op = event.storage, event.op
        holders = self.locks[storage]
        holders.remove(op)
        if not holders:
            del self.locks[storage]
            if storage not in self.pins:
                self._enter_pool(storage)
        if self.pending and self.pending[-1].op == op:
            self.pending[-1].locked.remove(storage)

    def _enter_pool(self, storage: StorageId) -> None:
        if storage not in self._kept:
            self._entries += 1
            self.pool[storage] = self._entries

    def _fit(self, event: FitCheck) -> None:
        self._settle()
        if not self._switched:
            self.tally.fit(event.memory_bytes + event.requested_bytes, event.fits)

    def _evict(self, event: Evict) -> None:
        storage = event.storage
        if event.cause == "banish":
            self._drop_locks(storage)
        else:
            self._settle()
        del self.resident[storage]
        self.pool.pop(storage, None)
        self.defined.difference_update(self.tensors_of[storage])
        self.memory_bytes -= self.size_bytes[storage]
        self.tally.evict(storage, event.cause)
        self._switch_budget()

    def _drop_locks(self, storage: StorageId) -> None:
        self.pins.pop(storage, None)
        holders = self.locks.pop(storage, ())
        for frame in self.pending:
            if frame.op in holders:
                frame.locked = [held for held in frame.locked if held != storage]

    def _execute(self, event: Compute | Rematerialise) -> None:
        op, seq = event.op, event.seq
        self.clock_ns += event.cost_ns
        self.memory_bytes += self.requested_bytes[op] - event.freed_bytes
        self.defined.update(event.defined)
        for storage in event.resident:
            self.resident[storage] = seq
            if storage not in self.pins and storage not in self.locks:
                self._enter_pool(storage)
        if self.pending and self.pending[-1].op == op:
            self.pending[-1].executed_seq = seq
        tally = self.tally
        if self.memory_bytes + event.freed_bytes > tally.max_memory_bytes:
            tally.max_memory_bytes = self.memory_bytes + event.freed_bytes
        if type(event) is Compute:
            tally.computes += 1
            tally.decide(f"C {op}")
        else:
            tally.remats += 1
            tally.remat_cost_ns += event.cost_ns
            tally.decide(f"R {op}")
        self._switch_budget()

    def _pin(self, event: Pin) -> None:
        if event.reason == "output":
            self._settle()
        self.pins[event.storage] = event.reason
        self.pool.pop(event.storage, None)

    def _banish(self, event: Banish) -> None:
        storage = event.storage
        self._drop_locks(storage)
        self.banished[storage] = event.seq
        for tensor in self.tensors_of[storage]:
            for op in self._consumers.pop(tensor, ()):
                # An op that computes only into the banished storage dies with it and keeps its
                # inputs; that it does matters to nothing.
                if any(other != storage for other in self.ops[op].storages):
                    self.inputs[op] = tuple(t for t in self.inputs[op] if t != tensor)
        for op in dict.fromkeys(self.producer[tensor] for tensor in self.tensors_of[storage]):
            if all(other in self.banished for other in self.ops[op].storages):
                for tensor in self.inputs[op]:
                    self._consumers.get(tensor, {}).pop(op, None)

    def _stopped(self, event: OutOfMemory | Thrashed) -> None:
        self._settle()
        self.stop = event

    def _ended(self, event: End) -> None:
        self._settle()
        self.end = event
