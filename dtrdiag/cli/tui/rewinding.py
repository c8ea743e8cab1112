"""How does the state of a run go back to where it was? By checkpoints, small ones.

A checkpoint holds what changes back and forth (what is in memory, locks, the stack, counts). What
only ever grows (ops, storages, what was ever evicted) is in no checkpoint: it is taken back one
entry at a time, or fetched from a state that has come further.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, cast

import attrs
import numpy as np

from dtrdiag.events.records import (
    Banish,
    Compute,
    Evict,
    Materialise,
    OpDefined,
    OutOfMemory,
    Rematerialise,
    RunHeader,
    Thrashed,
)
from dtrdiag.ids import OpId, StorageId, TensorId
from dtrdiag.log import Frame, Replay

Numbers = bytes | tuple[int, ...]
_NAMES = ("computes", "decisions", "remats", "remat_cost_ns", "max_memory_bytes")
_BOUNDS = ("interval_lo_bytes", "interval_hi_bytes")


@attrs.frozen
class Checkpoint:
    """A state right after an event, as `RewindableReplay.checkpoint` makes it.

    Attributes:
        seq: `seq` of that event.
        grown: how many entries of the state's `growth` had come by then.
        evicted: the same, of `first_evicted`.
        packed: lists of numbers.
        plain: what is small enough to be kept as it is.
    """

    seq: int
    grown: int
    evicted: int
    packed: tuple[Numbers, ...]
    plain: dict[str, Any]

    @property
    def size_bytes(self) -> int:
        """About the memory that it takes."""
        return 1000 + sum(
            len(part) if isinstance(part, bytes) else 40 * len(part) for part in self.packed
        )


@attrs.frozen
class _CutEdges:
    """What a banishment took out of the graph."""

    consumers: dict[TensorId, dict[OpId, None]]
    inputs: dict[OpId, tuple[TensorId, ...]]


class RewindableReplay(Replay):
    """A `Replay` that can go back to checkpoints of its own log.

    Attributes:
        growth: the `op` and `banish` events so far, with what undoes the latter.
        first_evicted: each storage with each cause of eviction, in the order of the first time.
        last_used_ns: the clock when an op last asked for a storage, or first computed it: what
            staleness is counted from.
        regular: whether the log introduces every op and tensor once; else there is no going back.
    """

    def __init__(self) -> None:
        super().__init__()
        self.growth: list[tuple[OpDefined | Banish, _CutEdges | None]] = []
        self.first_evicted: list[tuple[str, StorageId]] = []
        self.last_used_ns: dict[StorageId, int] = {}
        self.regular = True

    def _op(self, event: OpDefined) -> None:
        if event.op in self.ops or any(tensor in self.producer for tensor in event.outputs):
            self.regular = False
        super()._op(event)
        self.growth.append((event, None))
        for storage in event.storages:
            self.last_used_ns.setdefault(storage, self.clock_ns)

    def _banish(self, event: Banish) -> None:
        cut = _CutEdges({}, {})
        for tensor in self.tensors_of[event.storage]:
            consumers = self._consumers.get(tensor)
            if consumers is not None:
                cut.consumers[tensor] = dict(consumers)
            for op in consumers or ():
                cut.inputs.setdefault(op, self.inputs[op])
            for before in self.inputs[self.producer[tensor]]:
                if before in self._consumers:
                    cut.consumers.setdefault(before, dict(self._consumers[before]))
        super()._banish(event)
        self.growth.append((event, cut))

    def _materialise(self, event: Materialise) -> None:
        super()._materialise(event)
        banishes = self.header is not None and self.header.dealloc == "banish"
        for tensor in self.inputs.get(event.op, ()):
            storage = self.storage_of.get(tensor)
            if storage is not None and not (banishes and not self.references.get(storage)):
                self.last_used_ns[storage] = self.clock_ns

    def _execute(self, event: Compute | Rematerialise) -> None:
        super()._execute(event)
        if type(event) is Compute:
            for storage in self.ops[event.op].storages:
                self.last_used_ns[storage] = self.clock_ns

    def _evict(self, event: Evict) -> None:
        if event.storage not in self.tally.evicted[event.cause]:
            self.first_evicted.append((event.cause, event.storage))
        super()._evict(event)

    def _run(self, event: RunHeader) -> None:
        super()._run(event)
        # A header in mid-log starts interventions anew, which nothing here would take back.
        self.regular = self.regular and self.seq < 0

    def checkpoint(self) -> Checkpoint:
        """The state now. O(storages and tensors in memory)."""
        tally = self.tally
        _ = tally.decisions_sha256  # so that no line waits for the digest
        return Checkpoint(
            self.seq,
            len(self.growth),
            len(self.first_evicted),
            (
                _pack(self.defined),
                _pack(self.resident),
                _pack(self.resident.values()),
                _pack(self.pool),
                _pack(self.pool.values()),
                _pack(self.references.values()),
                _pack(self.last_used_ns.values()),
                _pack(self.locks),
                *_pack_rows(self.locks.values()),
                *_pack_rows(_frame_numbers(frame) for frame in self.pending),
            ),
            {
                "pins": dict(self.pins),
                "scalars": (self.memory_bytes, self.clock_ns, self._entries),
                "counts": [getattr(tally, name) for name in _NAMES + _BOUNDS],
                "evictions": dict(tally.evictions),
                "digest": tally._digest.copy(),
                "budget": (self.budget_bytes, self._switched, list(self._switches)),
                "ends": (self.stop, self.end),
            },
        )

    def restore(self, checkpoint: Checkpoint, further: RewindableReplay) -> None:
        """Become the state at a checkpoint.

        O(what changes back and forth, and what grew between here and there).

        Args:
            checkpoint: of this log.
            further: a state of the log that has come at least as far as the checkpoint.
        """
        while len(self.growth) > checkpoint.grown:
            self._shrink()
        for event, _ in further.growth[len(self.growth) : checkpoint.grown]:
            (self._op if isinstance(event, OpDefined) else self._banish)(event)  # type: ignore[arg-type]
        while len(self.first_evicted) > checkpoint.evicted:
            cause, storage = self.first_evicted.pop()
            self.tally.evicted[cause].discard(storage)
        for cause, storage in further.first_evicted[len(self.first_evicted) : checkpoint.evicted]:
            self.first_evicted.append((cause, storage))
            self.tally.evicted[cause].add(storage)
        self._unpack(checkpoint)
        self.seq = checkpoint.seq

    def _unpack(self, checkpoint: Checkpoint) -> None:
        parts = [_unpack(part) for part in checkpoint.packed]
        self.defined = cast("set[TensorId]", set(parts[0]))
        self.resident = _dict(parts[1], parts[2])
        self.pool = _dict(parts[3], parts[4])
        self.references = _dict(self.size_bytes, parts[5])
        self.last_used_ns = _dict(self.size_bytes, parts[6])
        holders = _rows(parts[8], parts[9])
        self.locks = {
            StorageId(storage): [OpId(op) for op in row]
            for storage, row in zip(parts[7], holders, strict=True)
        }
        self.pending = [_frame(row) for row in _rows(parts[10], parts[11])]
        plain, tally = checkpoint.plain, self.tally
        self.pins = dict(plain["pins"])
        self.memory_bytes, self.clock_ns, self._entries = plain["scalars"]
        for name, value in zip(_NAMES + _BOUNDS, plain["counts"], strict=True):
            setattr(tally, name, value)
        tally.evictions = dict(plain["evictions"])
        tally._digest, tally._lines = plain["digest"].copy(), []
        self.budget_bytes, self._switched, switches = plain["budget"]
        self._switches = list(switches)
        stop: OutOfMemory | Thrashed | None
        stop, self.end = plain["ends"]
        self.stop = stop

    def _shrink(self) -> None:
        """Take the last op or banishment back."""
        event, cut = self.growth.pop()
        if isinstance(event, Banish):
            del self.banished[event.storage]
            if cut is not None:
                self._consumers.update(cut.consumers)
                self.inputs.update(cut.inputs)
            return
        op = event.op
        del self.ops[op], self.requested_bytes[op], self.inputs[op]
        for tensor in event.inputs:
            self._consumers.get(tensor, {}).pop(op, None)
        for tensor in reversed(event.outputs):
            del self.producer[tensor]
            storage = self.storage_of.pop(tensor)
            aliases = self.tensors_of[storage]
            aliases.pop()
            if not aliases:
                del self.tensors_of[storage], self.size_bytes[storage]


def _pack(numbers: Iterable[int]) -> Numbers:
    listed = list(numbers)
    try:
        return zlib.compress(np.array(listed, np.int64).tobytes(), 1)
    except OverflowError:  # of a log with numbers beyond 64 bits
        return tuple(listed)


def _unpack(packed: Numbers) -> list[int]:
    if isinstance(packed, tuple):
        return list(packed)
    numbers: list[int] = np.frombuffer(zlib.decompress(packed), np.int64).tolist()
    return numbers


def _pack_rows(rows: Iterable[Iterable[int]]) -> tuple[Numbers, Numbers]:
    listed = [list(row) for row in rows]
    return _pack(len(row) for row in listed), _pack(number for row in listed for number in row)


def _rows(lengths: list[int], flat: list[int]) -> list[list[int]]:
    rows, start = [], 0
    for length in lengths:
        rows.append(flat[start : start + length])
        start += length
    return rows


def _dict(keys: Iterable[int], values: Iterable[int]) -> dict[StorageId, int]:
    # Not one StorageId(...) after the other: that alone would take longer than all else.
    return cast("dict[StorageId, int]", dict(zip(keys, values, strict=True)))


def _frame_numbers(frame: Frame) -> list[int]:
    """A frame as numbers; what may be None comes as a flag and a number."""
    maybe = (frame.for_op, frame.executed_seq)
    flags = [number for value in maybe for number in (value is not None, value or 0)]
    return [frame.op, frame.tensor, frame.reason == "remat", frame.seq, *flags, *frame.locked]


def _frame(numbers: list[int]) -> Frame:
    op, tensor, remat, seq, asked, for_op, done, executed_seq, *locked = numbers
    return Frame(
        OpId(op),
        TensorId(tensor),
        "remat" if remat else "first",
        OpId(for_op) if asked else None,
        seq,
        [StorageId(storage) for storage in locked],
        executed_seq if done else None,
    )
