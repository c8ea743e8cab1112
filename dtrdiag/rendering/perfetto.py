"""What does a run look like over time, in the timeline viewer of the field?

`write_timeline` makes a trace of track events for https://ui.perfetto.dev out of a log alone. Time
is the run's clock, which advances by the costs of executions and by nothing else. So an op that
waits for its inputs spans the rematerialisations that it asked for, and one of these spans its own.
docs/exports.md has the tracks and their arguments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

import attrs

from dtrdiag.analyses.reading import introduced, split_header
from dtrdiag.events.records import (
    Banish,
    Compute,
    Event,
    Evict,
    Lock,
    Materialise,
    OutOfMemory,
    Pin,
    Rematerialise,
    RunHeader,
    Thrashed,
    Unlock,
)
from dtrdiag.ids import OpId, StorageId
from dtrdiag.log.replay import Replay
from dtrdiag.rendering.trackevents import Argument, TrackEventWriter
from dtrdiag.units import changes_words

MODEL, REMAT, EVICTIONS, STOP = "model ops", "rematerialisation", "evictions", "run"
"""The tracks of slices and instants."""
MEMORY, BUDGET = "memory in use", "budget"
LEVELS = 200
"""So many slices lie in one another on a track; those further in have a track of their own. The
trace processor drops what is nested deeper than 512 levels, or 255 in older versions, and DTR may
ask for thousands."""
STATES = ("pinned", "locked", "evictable")
"""Of resident storages; each has a counter."""
OUT_OF_MEMORY, LIMIT = "out of memory", "overhead limit"

_DESCRIPTIONS = {
    MODEL: "First executions, as the schedule calls them; one spans what it waits for.",
    REMAT: "Repeated executions; one that another one asked for lies inside it.",
    EVICTIONS: "Storages that leave memory, named after the cause.",
    STOP: "What was run, and why it stopped early if it did.",
    MEMORY: "Bytes in use, outputs of the op that is executing included.",
    BUDGET: "The memory that the run may use.",
    "pinned": "Bytes of storages that stay for good.",
    "locked": "Bytes of storages that pending ops hold.",
    "evictable": "Bytes of storages that may be evicted.",
}


@attrs.define
class Timeline:
    """What a timeline holds, and so what a reader of the file must find in it.

    Attributes:
        computes: slices of finished first executions.
        remats: slices of finished rematerialisations.
        unfinished: slices of ops that had not run when the log ended.
        flows: arrows, from a rematerialisation to the op that asked for it.
        evictions: instants by cause.
        stops: instants of an out-of-memory or thrashed stop; 0 or 1.
        peak_bytes: the largest value of the memory counter.
        clock_ns: the last time.
        packets: packets of the file.
    """

    computes: int = 0
    remats: int = 0
    unfinished: int = 0
    flows: int = 0
    evictions: Counter[str] = attrs.field(factory=Counter)
    stops: int = 0
    peak_bytes: int = 0
    clock_ns: int = 0
    packets: int = 0


def write_timeline(events: Iterable[Event], stream: BinaryIO) -> Timeline:
    """Write a run as a trace of Perfetto.

    One pass; packets go to the stream as they are made, so memory is in proportion to the storages
    of the run and not to its events. The same log gives the same bytes.

    Args:
        events: events of a run, header first; where they end early, so does the timeline.
        stream: takes the file's bytes; it is not closed.

    Raises:
        UsageError: the package `perfetto` is not installed.
        AnalysisError: the events do not begin with a header.
        LogError: an event names something that the log did not introduce.
        OutputError: a number does not fit into the 64 bits that the format has.
    """
    header, rest = split_header(events)
    drawn = _Drawing(header, stream)
    with introduced():
        for event in rest:
            drawn.add(event)
        return drawn.finish()


@attrs.define
class _Slice:
    """A slice that is open: of which op, where, since when, and the arrows that will end in it."""

    op: OpId
    track: int
    since_ns: int
    first: bool
    flows: list[int] = attrs.field(factory=list)


class _Drawing:
    """The state between two events."""

    def __init__(self, header: RunHeader, stream: BinaryIO) -> None:
        self._replay = Replay()
        self._replay.apply(header)
        self._out = TrackEventWriter(stream)
        self._made = Timeline()
        self._open: list[_Slice] = []
        self._deep = 0
        self._held = _Held(self._replay)
        self._shown: dict[str, int] = {}
        self._tracks = self._make_tracks(header)
        self._draw: dict[type[Any], Callable[[Any], None]] = {
            Materialise: self._begin,
            Evict: self._evict,
            OutOfMemory: self._out_of_memory,
            Thrashed: self._thrashed,
        }
        self._out.instant(self._tracks[STOP], self._now, "run", "run", _about(header))
        self._show_memory(0)

    @property
    def _now(self) -> int:
        return self._replay.clock_ns

    def _make_tracks(self, header: RunHeader) -> dict[str, int]:
        changes = changes_words(header.semantics, header.interventions)
        budget = "no budget" if header.budget_bytes is None else f"{header.budget_bytes:,} B"
        name = f"{header.trace_name}, {header.policy}{changes}, {budget}"
        group = self._group = self._out.group(name, "A run under Dynamic Tensor Rematerialization.")
        tracks = {}
        for name in (STOP, MODEL, REMAT, EVICTIONS, MEMORY, BUDGET, *STATES):
            if name == BUDGET and self._replay.budget_bytes is None:
                continue
            sizes = name in (MEMORY, BUDGET, *STATES)
            tracks[name] = self._out.track(name, group, _DESCRIPTIONS[name], sizes=sizes)
        return tracks

    def add(self, event: Event) -> None:
        """Draw one event; amortised O(its size)."""
        draw = self._draw.get(type(event))
        if draw is not None:
            draw(event)
        self._replay.apply(event)
        if isinstance(event, Compute | Rematerialise):
            self._execute(event)
        elif isinstance(event, _MOVES):
            self._held.move(event.storage)

    def finish(self) -> Timeline:
        """End what is open, and say what there is."""
        while self._open:
            self._made.unfinished += 1
            self._close(self._open.pop(), {"executed": False})
        self._show_memory(self._replay.memory_bytes)
        if BUDGET in self._tracks:
            # Once more, so that its line reaches to the end.
            self._out.counter(self._tracks[BUDGET], self._now, self._shown[BUDGET])
        self._out.flush()
        self._made.clock_ns, self._made.packets = self._now, self._out.packets
        return self._made

    def _begin(self, event: Materialise) -> None:
        first = event.reason == "first"
        arguments: dict[str, Argument | None] = {
            "op": event.op,
            "step": self._replay.ops[event.op].step,
            "output_bytes": self._replay.requested_bytes[event.op],
            "tensor": event.tensor,
            "depth": event.depth,
            "seq": event.seq,
        }
        flow = None
        if not first:
            arguments["asked_by"] = self._name(event.for_op)
            arguments["for_op"] = event.for_op
            if self._open and self._open[-1].op == event.for_op:
                flow = event.seq
                self._open[-1].flows.append(flow)
                self._made.flows += 1
        self._open_slice(event.op, first, self._now, arguments, flow)

    def _open_slice(
        self,
        op: OpId,
        first: bool,
        since_ns: int,
        arguments: dict[str, Argument | None],
        flow: int | None = None,
    ) -> None:
        track = self._tracks[MODEL] if first else self._level()
        name, category = self._replay.ops[op].name, "first" if first else "remat"
        self._out.begin(track, since_ns, name, category, arguments, flow)
        self._open.append(_Slice(op, track, since_ns, first))
        self._deep += not first

    def _level(self) -> int:
        """The track for a rematerialisation inside those that are open."""
        outside = self._deep // LEVELS * LEVELS
        if not outside:
            return self._tracks[REMAT]
        name = f"{REMAT}, more than {outside} levels in"
        if name not in self._tracks:
            said = f"What lies inside {outside} others on the tracks before."
            place = self._tracks[REMAT]
            self._tracks[name] = self._out.track(name, self._group, said, place=place)
        return self._tracks[name]

    def _execute(self, event: Compute | Rematerialise) -> None:
        started_ns = self._now - event.cost_ns
        self._show_memory(event.memory_bytes + event.freed_bytes, started_ns)
        if not self._open or self._open[-1].op != event.op:
            # A runtime that does not say when an op begins to wait: it begins as it executes.
            arguments: dict[str, Argument | None] = {"op": event.op, "seq": event.seq}
            self._open_slice(event.op, type(event) is Compute, started_ns, arguments)
        if type(event) is Compute:
            self._made.computes += 1
        else:
            self._made.remats += 1
        ended = self._open.pop()
        waited_ns = self._now - ended.since_ns - event.cost_ns
        self._close(ended, {"cost_ns": event.cost_ns, "waited_ns": waited_ns, "executed": True})
        for storage in event.resident:
            self._held.move(storage)

    def _close(self, ended: _Slice, arguments: dict[str, Argument | None]) -> None:
        self._deep -= not ended.first
        self._out.end(ended.track, self._now, arguments, ended.flows)

    def _evict(self, event: Evict) -> None:
        self._made.evictions[event.cause] += 1
        root = self._replay.tensors_of[event.storage][0]
        arguments: dict[str, Argument | None] = {
            "storage": event.storage,
            "computed_by": self._name(self._replay.producer[root]),
            "bytes": event.size_bytes,
            "cause": event.cause,
            "for": self._name(event.op),
            "for_op": event.op,
            "score": event.score,
            "pool_size": event.pool_size,
            "seq": event.seq,
        }
        name = f"evict ({event.cause})"
        self._out.instant(self._tracks[EVICTIONS], self._now, name, event.cause, arguments)

    def _out_of_memory(self, event: OutOfMemory) -> None:
        arguments: dict[str, Argument | None] = {
            "op": event.op,
            "name": self._name(event.op),
            "requested_bytes": event.requested_bytes,
            "memory_bytes": event.memory_bytes,
            "budget_bytes": event.budget_bytes,
            "shortfall_bytes": event.memory_bytes + event.requested_bytes - event.budget_bytes,
            "depth": event.depth,
            "seq": event.seq,
        }
        self._stop(OUT_OF_MEMORY, arguments)

    def _thrashed(self, event: Thrashed) -> None:
        limit = event.limit_ns
        self._stop(LIMIT, {"remat_cost_ns": event.remat_cost_ns, "limit_ns": limit})

    def _stop(self, name: str, arguments: dict[str, Argument | None]) -> None:
        self._made.stops += 1
        self._out.instant(self._tracks[STOP], self._now, name, "stop", arguments)

    def _name(self, op: OpId | None) -> str | None:
        return None if op is None else self._replay.ops[op].name

    def _show_memory(self, memory_bytes: int, time_ns: int | None = None) -> None:
        """The counters, where they have changed; while an op executes, as it begins to."""
        values = {MEMORY: memory_bytes, **self._held.bytes}
        if BUDGET in self._tracks and self._replay.budget_bytes is not None:
            values[BUDGET] = self._replay.budget_bytes
        self._made.peak_bytes = max(self._made.peak_bytes, memory_bytes)
        time_ns = self._now if time_ns is None else time_ns
        for name, value in values.items():
            if self._shown.get(name) != value:
                self._shown[name] = value
                self._out.counter(self._tracks[name], time_ns, value)


_MOVES = (Lock, Unlock, Evict, Pin, Banish)
# What changes the state of a storage, besides executions.


class _Held:
    """How many bytes of resident storages are pinned, locked and evictable. O(1) a change."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._states: dict[StorageId, str] = {}
        self.bytes = dict.fromkeys(STATES, 0)

    def move(self, storage: StorageId) -> None:
        """Take in that a storage may be in another state than before."""
        replay = self._replay
        now = None
        if storage in replay.resident:
            locked = "locked" if storage in replay.locks else "evictable"
            now = "pinned" if storage in replay.pins else locked
        before = self._states.get(storage)
        if now == before:
            return
        size_bytes = replay.size_bytes[storage]
        if before is not None:
            self.bytes[before] -= size_bytes
        if now is None:
            del self._states[storage]
        else:
            self._states[storage] = now
            self.bytes[now] += size_bytes


def _about(header: RunHeader) -> dict[str, Argument | None]:
    return {
        "trace": header.trace_name,
        "trace_sha256": header.trace_sha256,
        "policy": header.policy,
        "dealloc": header.dealloc,
        "semantics": header.semantics,
        "interventions": header.interventions,
        "budget_bytes": header.budget_bytes,
        "ratio": header.ratio,
        "peak_bytes": header.peak_bytes,
        "baseline_cost_ns": header.baseline_cost_ns,
        "overhead_limit": header.overhead_limit,
        "runtime": f"{header.runtime} {header.runtime_version}",
    }
