"""What a run does that frees dead storages for good (simrd: RuntimeV1).

A storage is dead once it has no external reference and no evicted dependents: no tensor of another
storage that is undefined and has an input in it. Freeing it cuts it out of the graph, so what was
computed from it can never be computed again and is pinned.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dtrdiag.errors import SimulationError
from dtrdiag.events import records
from dtrdiag.simulator.frames import Frame
from dtrdiag.simulator.machine import NO_DETAILS, Machine


class BanishingMachine(Machine):
    """One run of a trace under the deallocation `banish`; see `Machine`."""

    pins_are_final = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        tensors = len(self.ops.op_of)
        self._inputs_left: list[list[int]] = [[] for _ in range(tensors)]
        """Inputs of each tensor that are not banished."""
        self._children: list[list[int]] = [[] for _ in range(tensors)]
        """Tensors computed from each tensor, once per use and output."""
        self._dependents: list[set[int]] = [set() for _ in range(tensors)]
        """Evicted dependents of each storage."""
        self._banished = bytearray(tensors)
        self._frees_siblings = "banished-sibling" in self.repairs
        self._walks_live = "live-iteration" not in self.repairs

    def _created(self, op: int) -> None:
        for tensor in self._outputs[op]:
            self._inputs_left[tensor] = list(self._inputs[op])
            self._add_dependent(tensor)
        for needed in self._inputs[op]:
            self._children[needed].extend(self._outputs[op])

    def _add_dependent(self, tensor: int) -> None:
        """Note an undefined tensor with the storages of its inputs."""
        for needed in self._inputs_left[tensor]:
            storage = self._storage[needed]
            if storage != self._storage[tensor]:
                self._dependents[storage].add(tensor)

    def _inputs_of(self, tensor: int) -> list[int]:
        inputs = self._inputs_left[tensor]
        for needed in (tensor, *inputs):
            if self._banished[self._storage[needed]]:
                name = self.ops.tensor_name[needed]
                raise SimulationError(
                    f"{name!r} is needed after its storage was banished: the trace uses a tensor "
                    "after its last release, which dealloc banish does not allow",
                    path=self.ops.path,
                )
        return inputs

    def _touch(self, inputs: Iterable[int]) -> None:
        references, storages = self.references, self._storage
        super()._touch(needed for needed in inputs if references[storages[needed]])

    def _finish(self, frame: Frame, cause: int) -> None:
        # A banished input leaves `inputs` while this loop walks that very list by index, so the
        # input after it is skipped: it stays locked for good (Q-live-iteration).
        inputs = frame.inputs if self._walks_live else tuple(frame.inputs)
        position = 0
        while position < len(inputs):
            storage = self._storage[inputs[position]]
            position += 1
            if self._banished[storage] and not self._walks_live:
                continue
            unlocked = self._unlock(storage, frame.op, cause)
            for tensor in frame.defined:
                if self._storage[tensor] != storage:
                    self._dependents[storage].discard(tensor)
            self._try_banish(storage, unlocked)

    def _gains(self, op: int, wanted: int) -> tuple[list[int], list[int], int]:
        defined, resident, freed = super()._gains(op, wanted)
        # Otherwise what was freed for good comes back with its sibling (Q-banished-sibling).
        if self._frees_siblings:
            gone = [t for t in self._outputs[op] if self._banished[self._storage[t]]]
            freed += sum(self._tensor_bytes[tensor] for tensor in gone)
            defined = [tensor for tensor in defined if tensor not in gone]
            resident = [storage for storage in resident if not self._banished[storage]]
        return defined, resident, freed

    def _unreferenced(self, storage: int, cause: int) -> None:
        self._try_banish(storage, cause)

    def _evict(
        self, storage: int, why: str, cause: int, details: tuple[object, ...] = NO_DETAILS
    ) -> None:
        for tensor in self._members[storage]:
            self._add_dependent(tensor)
        super()._evict(storage, why, cause, details)

    def _try_banish(self, storage: int, cause: int) -> None:
        if self.references[storage] or self._dependents[storage] or self._banished[storage]:
            return
        if self.residency[storage]:
            self._locks[storage] = 0
            self._pinned[storage] = 0
            self._evict(storage, "banish", cause)
        self._banished[storage] = 1
        if self.emit:
            cause = self.emit(records.Banish, cause, storage)
        for tensor in self._members[storage]:
            self._detach(tensor, storage, cause)
        self.chooser.detached(storage)

    def _detach(self, tensor: int, storage: int, cause: int) -> None:
        """Cut a banished tensor's edges; pin what was computed from it."""
        for needed in self._inputs_left[tensor]:
            other = self._storage[needed]
            if other != storage:
                self._dependents[other].discard(tensor)
                self._children[needed].remove(tensor)
        for child in self._children[tensor]:
            other = self._storage[child]
            if other != storage:
                self._inputs_left[child].remove(tensor)
                self._pin(other, "banish", cause)
