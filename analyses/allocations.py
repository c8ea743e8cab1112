"""How much memory was allocated over a memory snapshot's history, and what was alive at the peak?

The history of a device may begin late: what was there before is known by what is freed later, and
by what the snapshot holds at its end. A size is what was asked for, without the rounding of the
allocator; reserved memory is what the allocator had from the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import attrs
import numpy as np
import numpy.typing as npt

from dtrdiag.log.snapshots import (
    ACTIONS,
    ACTIVE,
    ALLOC,
    FREE_COMPLETED,
    FREE_REQUESTED,
    OOM,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
    AllocatorEvent,
    CallFrame,
    DeviceHistory,
)

Ints = npt.NDArray[np.int64]
_RESERVING = {SEGMENT_ALLOC: 1, SEGMENT_MAP: 1, SEGMENT_FREE: -1, SEGMENT_UNMAP: -1}
_INSIDE = ("/torch/", "\\torch\\")
"""In paths of PyTorch's own files."""


@attrs.frozen(slots=True)
class Allocation:
    """One allocation that was alive at the peak.

    Attributes:
        address: where.
        size_bytes: as asked for.
        since: number of the event that made it, from 1; None: it was there before the history.
        frames: where from, innermost first; empty where that is not known.
    """

    address: int
    size_bytes: int
    since: int | None
    frames: tuple[CallFrame, ...]

    @property
    def place(self) -> CallFrame | None:
        """The innermost line that is Python, and not PyTorch's own; else the innermost of all."""
        for frame in self.frames:
            if frame.file.endswith(".py") and not any(part in frame.file for part in _INSIDE):
                return frame
        return self.frames[0] if self.frames else None


@attrs.frozen(slots=True)
class PlaceTotal:
    """What one line of code had allocated at the peak."""

    place: CallFrame | None
    size_bytes: int
    allocations: int


@attrs.frozen(slots=True)
class OutOfMemory:
    """An allocation that failed, after `at` events; `device_free_bytes`: left on the device."""

    at: int
    requested_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    device_free_bytes: int
    frames: tuple[CallFrame, ...]


@attrs.frozen(slots=True, eq=False)
class Allocations:
    """The memory of one device over its history of n events.

    Attributes:
        device: its number.
        events: n.
        allocated_bytes: [n + 1] in use by tensors: before the first event, and after each.
        active_bytes: [n + 1] the same with what is freed, but waits for another stream.
        reserved_bytes: [n + 1] what the allocator had from the device.
        peak_at: index of the first largest of `allocated_bytes`.
        at_peak: what was alive then, the largest first.
        out_of_memory: allocations that failed, in order.
        before_bytes: what was there before the history.
        problems: what in the snapshot does not fit together, in words.
    """

    device: int
    events: int
    allocated_bytes: Ints = attrs.field(repr=False)
    active_bytes: Ints = attrs.field(repr=False)
    reserved_bytes: Ints = attrs.field(repr=False)
    peak_at: int
    at_peak: tuple[Allocation, ...] = attrs.field(repr=False)
    out_of_memory: tuple[OutOfMemory, ...]
    before_bytes: int
    problems: tuple[str, ...]

    @property
    def peak_bytes(self) -> int:
        """Most that was allocated."""
        return int(self.allocated_bytes[self.peak_at])

    @property
    def peak_reserved_bytes(self) -> int:
        """Most that the allocator had from the device."""
        return int(self.reserved_bytes.max())

    def by_place(self) -> list[PlaceTotal]:
        """What was alive at the peak by the line of code that it is from, the largest first."""
        totals: dict[CallFrame | None, list[int]] = {}
        for allocation in self.at_peak:
            total = totals.setdefault(allocation.place, [0, 0])
            total[0] += allocation.size_bytes
            total[1] += 1
        found = [PlaceTotal(place, *total) for place, total in totals.items()]
        return sorted(found, key=lambda each: -each.size_bytes)


def memory_history(history: DeviceHistory) -> Allocations:
    """The memory of one device over its history; time and space are linear in its events."""
    lives = _Lives(history)
    peak_at = int(lives.allocated.argmax())
    alive = (life for life in lives.all if life.begin <= peak_at < life.end)
    ordered = sorted(alive, key=lambda life: (-life.size_bytes, life.begin, life.address))
    reserved, problems = _reserved(history)
    return Allocations(
        history.device,
        len(history.events),
        lives.allocated,
        lives.active,
        reserved,
        peak_at,
        tuple(
            Allocation(life.address, life.size_bytes, life.begin or None, life.frames)
            for life in ordered
        ),
        tuple(_out_of_memory(history.events, lives.allocated, reserved)),
        int(lives.allocated[0]),
        (*lives.problems, *problems, *_overlaps(history)),
    )


@attrs.define(slots=True, eq=False)
class _Life:
    """An allocation: alive after events `begin` - 1 to `end` - 1, active to `completed` - 1."""

    address: int
    size_bytes: int
    begin: int
    frames: tuple[CallFrame, ...]
    end: int
    completed: int


class _Lives:
    """All allocations of a history, and what they add up to."""

    def __init__(self, history: DeviceHistory) -> None:
        self._stop = len(history.events) + 1
        self.all: list[_Life] = []
        self._allocated: dict[int, _Life] = {}
        self._active: dict[int, _Life] = {}
        self._lost = self._missing = self._differing = self._again = 0
        actions = {event.action for event in history.events}
        # A recording may leave out either kind of free; the other then stands for both.
        self._requests = FREE_REQUESTED in actions
        self._completes = FREE_COMPLETED in actions
        for at, event in enumerate(history.events, 1):
            self._apply(at, event)
        if history.segments:
            self._end(history)
        self.allocated = self._sum("end")
        self.active = self._sum("completed")
        self.problems = tuple(self._words(actions))

    def _apply(self, at: int, event: AllocatorEvent) -> None:
        address = event.address
        if address is None:
            return
        if event.action == ALLOC:
            if address in self._active:
                self._lost += 1
                self._complete(at, address, event)
            life = _Life(address, event.size_bytes, at, event.frames, self._stop, self._stop)
            self.all.append(life)
            self._allocated[address] = self._active[address] = life
        elif event.action == FREE_REQUESTED:
            if address not in self._allocated:
                if self._completes and address in self._active:
                    self._again += 1
                    return
                self._was_there(address, event.size_bytes, ())
            self._differing += self._allocated[address].size_bytes != event.size_bytes
            self._allocated.pop(address).end = at
            if not self._completes:
                self._active.pop(address).completed = at
        elif event.action == FREE_COMPLETED:
            self._complete(at, address, event)

    def _complete(self, at: int, address: int, event: AllocatorEvent) -> None:
        if address not in self._active:
            life = self._was_there(address, event.size_bytes, ())
            if self._requests:  # the request came before the history
                life.end = 0
        life = self._active.pop(address)
        if event.action == FREE_COMPLETED and address in self._allocated:
            self._differing += life.size_bytes != event.size_bytes
        life.completed = at
        life.end = min(life.end, at)
        self._allocated.pop(address, None)

    def _was_there(self, address: int, size_bytes: int, frames: tuple[CallFrame, ...]) -> _Life:
        life = _Life(address, size_bytes, 0, frames, self._stop, self._stop)
        self.all.append(life)
        self._allocated[address] = self._active[address] = life
        return life

    def _end(self, history: DeviceHistory) -> None:
        """Add what the snapshot holds and no event has made."""
        held = set()
        for segment in history.segments:
            for block in segment.blocks:
                if block.state != ACTIVE:
                    continue
                held.add(block.address)
                if block.address not in self._allocated:
                    self._was_there(block.address, block.requested_bytes, block.frames)
        self._missing = len(self._allocated.keys() - held)

    def _sum(self, end: str) -> Ints:
        changes = np.zeros(self._stop + 1, dtype=np.int64)
        for life in self.all:
            changes[life.begin] += life.size_bytes
            changes[getattr(life, end)] -= life.size_bytes
        return np.cumsum(changes)[: self._stop]

    def _words(self, actions: set[str]) -> Iterable[str]:
        if ALLOC not in actions and (self._requests or self._completes):
            yield "the recording left out allocations; what was freed is taken to be there before"
        if self._lost:
            yield (
                f"{self._lost:,} allocations were made where another was, which was not seen to be "
                "freed; it is taken to be freed then"
            )
        if self._missing:
            yield (
                f"{self._missing:,} allocations were not seen to be freed, and the snapshot does "
                "not hold them"
            )
        if self._differing:
            yield (
                "frees of another size than their allocation, whose size is taken: "
                f"{self._differing:,}"
            )
        if self._again:
            yield f"frees that were asked for a second time, and are left out: {self._again:,}"
        unknown = sorted(actions.difference(ACTIONS))
        if unknown:
            yield f"events of unknown kinds are left out: {', '.join(unknown)[:100]}"


def _reserved(history: DeviceHistory) -> tuple[Ints, list[str]]:
    """What the allocator had from the device: what it has in the end, and back from there."""
    changes = [_RESERVING.get(e.action, 0) * e.size_bytes for e in history.events]
    total = np.cumsum(np.array([0, *changes], dtype=np.int64))
    if history.segments:
        held = sum(segment.size_bytes for segment in history.segments)
        total += held - total[-1]
    below = int(total.min())
    if below >= 0:
        return total, []
    words = (
        "the snapshot holds less reserved memory than its history"
        if history.segments
        else ("more reserved memory is given back than was seen to be got")
    )
    return total - below, [f"{words}; what was there before is taken to be the least that fits"]


def _overlaps(history: DeviceHistory) -> Iterable[str]:
    """Segments that share memory, which the device does not give twice."""
    ranges = sorted((each.address, each.address + each.size_bytes) for each in history.segments)
    count = sum(begin < end for (_, end), (begin, _) in pairwise(ranges))
    if count:
        yield f"segments that begin within another, whose bytes are counted twice: {count:,}"


def _out_of_memory(
    events: Sequence[AllocatorEvent], allocated: Ints, reserved: Ints
) -> Iterable[OutOfMemory]:
    for at, event in enumerate(events):
        if event.action == OOM:
            yield OutOfMemory(
                at,
                event.size_bytes,
                int(allocated[at]),
                int(reserved[at]),
                event.device_free_bytes or 0,
                event.frames,
            )
