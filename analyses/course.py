"""What did a run decide, step by step of its schedule? Kept in columns, for two runs to be aligned.

The *course* of a run is its decisions with the step of the schedule that each of them served, what
they cost, and which storages came and went. It is collected event by event or from the columns of a
Parquet log, with the same result, and is much smaller than either: some 40 bytes a decision.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from dtrdiag.events.columns import COLUMNS, KIND_CODES, EventColumns
from dtrdiag.events.records import (
    Compute,
    Event,
    Evict,
    OpDefined,
    OutputRequested,
    ReferenceChanged,
    Rematerialise,
)
from dtrdiag.ids import OpId, StorageId
from dtrdiag.log.state import CAUSES

Ints = npt.NDArray[np.int64]

COMPUTE, REMATERIALISE, EVICT = 0, 1, 2
"""Kinds of decisions, as `Course.kind` has them."""
NO_CAUSE = -1
PRESSURE = CAUSES.index("pressure")
NO_OP = -1

NAMES = frozenset(
    {"step", "op", "storage", "cause", "cost_ns", "resident", "name", "storages", "sizes_bytes"}
)
"""The columns of a log that a course is made from."""

_KINDS = np.full(len(KIND_CODES), -1, np.int8)
for _kind, _code in (("compute", COMPUTE), ("rematerialise", REMATERIALISE), ("evict", EVICT)):
    _KINDS[KIND_CODES[_kind]] = _code
_CAUSE_CODES = np.array([CAUSES.index(word) for word in COLUMNS["cause"].words or ()], np.int8)


@attrs.frozen(eq=False)
class Course:
    """The n decisions of a run in order, and the steps of the schedule that it began.

    Attributes:
        kind: int8[n], `COMPUTE`, `REMATERIALISE` or `EVICT`.
        subject: int64[n], the op executed or the storage evicted.
        step: int64[n], the step of the schedule that the decision served, ascending.
        cause: int8[n], of an eviction its cause as an index into `CAUSES`, else `NO_CAUSE`.
        cost_ns: int64[n], cost of an execution; 0 for an eviction.
        arrivals: int64[m], the storages that executions made resident, in order.
        arrived: int64[m], the index of the decision that made each of them resident, ascending.
        steps: int64[k], the steps that were begun, ascending, each once. A step that has no event
            is not among them.
        called: int64[k], the op called last when each step was begun; `NO_OP` before the first.
        names: names of the ops called.
        size_bytes: sizes of the storages.
        producer: the op that made each storage first.
    """

    kind: npt.NDArray[np.int8]
    subject: Ints
    step: Ints
    cause: npt.NDArray[np.int8]
    cost_ns: Ints
    arrivals: Ints
    arrived: Ints
    steps: Ints
    called: Ints
    names: dict[OpId, str]
    size_bytes: dict[StorageId, int]
    producer: dict[StorageId, OpId]

    def op_at(self, step: int) -> OpId | None:
        """The op that the schedule called last, at or before a step. O(log k)."""
        at = int(np.searchsorted(self.steps, step, "right")) - 1
        return None if at < 0 or self.called[at] == NO_OP else OpId(int(self.called[at]))

    def before(self, step: int) -> int:
        """How many decisions served the steps before one. O(log n)."""
        return int(np.searchsorted(self.step, step))


class CourseBuilder:
    """Collects the course of a run; linear in the number of events.

    A step that goes back, which the schema rules out, counts as the one before it.
    """

    def __init__(self) -> None:
        self.names: dict[OpId, str] = {}
        self._size_bytes: dict[StorageId, int] = {}
        self._producer: dict[StorageId, OpId] = {}
        self._step = 0
        self._live = _Rows()
        self._parts: list[_Part] = []

    def add(self, event: Event) -> None:
        """Take in one event; amortised O(size of the event)."""
        kind, rows = type(event), self._live
        if kind is Evict:
            rows.decide(EVICT, event.storage, self._step, CAUSES.index(event.cause), 0)  # type: ignore[union-attr]
        elif kind is Rematerialise or kind is Compute:
            self._execute(event)  # type: ignore[arg-type]
        elif kind is OpDefined:
            self._op(event)  # type: ignore[arg-type]
        elif kind is ReferenceChanged or kind is OutputRequested:
            self._begin(event.step, NO_OP)  # type: ignore[union-attr]

    def _execute(self, event: Compute | Rematerialise) -> None:
        rows = self._live
        code = COMPUTE if type(event) is Compute else REMATERIALISE
        rows.decide(code, event.op, self._step, NO_CAUSE, event.cost_ns)
        rows.lengths.append(len(event.resident))
        rows.arrivals.extend(event.resident)

    def _op(self, event: OpDefined) -> None:
        self._begin(event.step, event.op)
        self._introduce(event.op, event.name, event.storages, event.sizes_bytes)

    def _begin(self, step: int, op: int) -> None:
        self._step = max(self._step, step)
        self._live.steps.append(self._step)
        self._live.called.append(op)

    def _introduce(
        self, op: OpId, name: str, storages: Sequence[StorageId], sizes: Sequence[int]
    ) -> None:
        self.names[op] = name
        for storage, size in zip(storages, sizes, strict=False):
            self._size_bytes.setdefault(storage, size)
            self._producer.setdefault(storage, op)

    def add_columns(self, columns: EventColumns) -> None:
        """Take in a batch that has the columns `NAMES`."""
        begins = columns.rows("step")
        begun = np.maximum.accumulate(
            np.concatenate([_one(self._step), columns.column("step").values])
        )
        code = _KINDS[columns.kind]
        rows = np.flatnonzero(code >= 0)
        kind = code[rows]
        op = _spread(columns, "op")
        subject = np.where(kind == EVICT, _spread(columns, "storage")[rows], op[rows])
        cause = np.full(len(rows), NO_CAUSE, np.int8)
        cause[kind == EVICT] = _CAUSE_CODES[columns.column("cause").codes]
        cost_ns = np.where(kind == EVICT, 0, _spread(columns, "cost_ns")[rows])
        calls = columns.kind == KIND_CODES["op"]
        resident = columns.column("resident")
        self._parts.append(
            (
                kind,
                subject,
                begun[np.cumsum(begins)[rows]],
                cause,
                cost_ns,
                resident.flat(),
                resident.lengths(),
                begun[1:],
                np.where(calls, op, NO_OP)[begins],
            )
        )
        self._step = int(begun[-1])
        fields = ("op", "name", "storages", "sizes_bytes")
        lists = (columns.of("op", field).tolist() for field in fields)
        for called, name, storages, sizes in zip(*lists, strict=True):
            self._introduce(called, name, storages, sizes)

    def course(self) -> Course:
        """The course of the events taken in, which the builder keeps no longer; O(decisions)."""
        columns = list(zip(*self._parts, self._live.part(), strict=True))
        self._parts.clear()
        self._live = _Rows()
        joined = []
        while columns:
            # One after the other, so that what is joined is not in memory twice.
            joined.append(np.concatenate(columns.pop(0)))
        kind, subject, step, cause, cost_ns, arrivals, lengths, steps, called = joined
        if len(step) and (not len(steps) or step[0] < steps[0]):
            # Decisions before any step of the schedule: as if of a first step without a call.
            steps = np.concatenate([step[:1], steps])
            called = np.concatenate([_one(NO_OP), called])
        latest = np.maximum.accumulate(np.where(called == NO_OP, -1, np.arange(len(called))))
        called = np.where(latest < 0, NO_OP, called[latest])
        last = np.append(steps[1:] != steps[:-1], True)[: len(steps)]
        return Course(
            kind=kind,
            subject=subject,
            step=step,
            cause=cause,
            cost_ns=cost_ns,
            arrivals=arrivals,
            arrived=np.repeat(np.flatnonzero(kind != EVICT), lengths),
            steps=steps[last],
            called=called[last],
            names=self.names,
            size_bytes=self._size_bytes,
            producer=self._producer,
        )


_Part = tuple[Any, ...]


class _Rows:
    """What was added event by event."""

    def __init__(self) -> None:
        self.kind, self.cause = array("b"), array("b")
        self.subject, self.step, self.cost_ns = array("q"), array("q"), array("q")
        self.arrivals, self.lengths = array("q"), array("q")
        self.steps, self.called = array("q"), array("q")

    def decide(self, kind: int, subject: int, step: int, cause: int, cost_ns: int) -> None:
        self.kind.append(kind)
        self.subject.append(subject)
        self.step.append(step)
        self.cause.append(cause)
        self.cost_ns.append(cost_ns)

    def part(self) -> _Part:
        flat = (self.arrivals, self.lengths, self.steps, self.called)
        rows = (self.kind, self.subject, self.step, self.cause, self.cost_ns, *flat)
        return tuple(np.array(row, np.int8 if row.typecode == "b" else np.int64) for row in rows)


def _one(value: int) -> Ints:
    return np.array([value], np.int64)


def _spread(columns: EventColumns, name: str) -> Ints:
    """A column of integers with an entry per event; 0 where an event has none."""
    spread = np.zeros(len(columns), np.int64)
    spread[columns.rows(name)] = columns.column(name).values
    return spread
