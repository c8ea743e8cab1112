"""How does a log become a `RunTable`: batch by batch, then joined?

Time is O(n log n) in the events; memory is some hundred bytes for each execution, eviction and
materialisation, and for other events that of one batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from dtrdiag.analyses.reading import split_header
from dtrdiag.analyses.runtable import (
    NONE,
    OP,
    OUTPUT,
    REFERENCE,
    Arrivals,
    Asks,
    Bools,
    Evictions,
    Ids,
    Ints,
    Ops,
    Runs,
    RunTable,
    Steps,
    Storages,
    Tensors,
    summable,
    totals_by,
)
from dtrdiag.analyses.workingsets import WORKING_SET_NAMES, WorkingSetReader
from dtrdiag.errors import LogError
from dtrdiag.events.columns import COLUMNS, KIND_CODES, EventColumns, column_name
from dtrdiag.events.conversion import columns_of
from dtrdiag.events.records import Event, RunHeader
from dtrdiag.log.parquet import ParquetReader
from dtrdiag.log.state import CAUSES

_STATED = (
    "outcome", "computes", "remats", "remat_cost_ns", "evictions_pressure", "evictions_release",
    "evictions_banish", "distinct_pressure", "distinct_release", "distinct_banish",
)  # fmt: skip
_EVENTS = (
    "step", "op", "name", "outputs", "storages", "sizes_bytes", "storage", "cause_seq", "tensor",
    "reason", "for_op", "depth", "cause", "size_bytes", "clock_ns", "cost_ns", "resident",
    "freed_bytes",
)  # fmt: skip
NAMES = frozenset({*_EVENTS, *WORKING_SET_NAMES, *(column_name("end", name) for name in _STATED)})
"""The columns that are needed."""
_CHUNK = 1 << 14
_EXECUTES = [KIND_CODES["compute"], KIND_CODES["rematerialise"]]
_STEPS = {KIND_CODES["op"]: OP, KIND_CODES["output"]: OUTPUT, KIND_CODES["reference"]: REFERENCE}
# Codes of causes in a log's columns to their places in CAUSES.
_CAUSES = np.array([CAUSES.index(word) for word in COLUMNS["cause"].words or ()], np.int64)
_FIRST = (COLUMNS["reason"].words or ()).index("first")


def run_table(events: Iterable[Event]) -> RunTable:
    """The table of a run, in one pass; a Parquet log is read in columns.

    Raises:
        AnalysisError: the events do not begin with a header.
        LogError: an event names what no `op` event introduced, `seq` does not ascend, or something
            happens outside any step of the schedule.
    """
    if isinstance(events, ParquetReader):
        reader = _Reader(events.header)
        for columns in events.batches(NAMES):
            reader.pass_over(columns)
        return reader.table()
    header, rest = split_header(events)
    reader = _Reader(header)
    for columns in _in_columns(rest):
        reader.pass_over(columns)
    return reader.table()


def _in_columns(events: Iterator[Event]) -> Iterator[EventColumns]:
    while chunk := list(islice(events, _CHUNK)):
        yield columns_of(chunk)


class _Reader:
    """Batches so far, as parts of the arrays to come."""

    def __init__(self, header: RunHeader) -> None:
        self.header = header
        self.events = 0
        self.stated: dict[str, Any] | None = None
        self._last_seq = -1
        self._names: list[str] = []
        self._parts: dict[str, list[Any]] = {}
        self._working_sets = WorkingSetReader()

    def pass_over(self, columns: EventColumns) -> None:
        """Take what is needed of a batch."""
        seq = columns.column("seq").values
        if len(seq) and (np.diff(seq, prepend=self._last_seq) <= 0).any():
            raise LogError("the events are not in order: their seq does not ascend")
        at = self.events + np.arange(len(columns))
        self._pass_steps(columns, at)
        self._pass_asks(columns, at, seq)
        self._pass_runs(columns, at)
        self._pass_evictions(columns, at)
        self._working_sets.pass_over(columns)
        self.events += len(columns)
        if len(seq):
            self._last_seq = int(seq[-1])
        if (columns.kind == KIND_CODES["end"]).any():
            self.stated = {name: columns.of("end", name).tolist()[0] for name in _STATED}

    def _add(self, table: str, **parts: Any) -> None:
        for name, part in parts.items():
            self._parts.setdefault(f"{table}.{name}", []).append(part)

    def _joined(self, table: str, *names: str) -> list[Any]:
        return [_join(self._parts.pop(f"{table}.{name}", [])) for name in names]

    def _pass_steps(self, columns: EventColumns, at: Ints) -> None:
        kind = np.full(256, NONE)
        kind[list(_STEPS)] = list(_STEPS.values())
        kinds = kind[columns.kind]
        rows = np.flatnonzero(kinds >= 0)
        ops = np.full(len(columns), NONE)
        calls = columns.kind == KIND_CODES["op"]
        ops[calls] = columns.of("op", "op").values
        number = columns.column("step").values
        self._add("steps", at=at[rows], number=number, kind=kinds[rows], op=ops[rows])
        outputs, storages = columns.of("op", "outputs"), columns.of("op", "storages")
        sizes = columns.of("op", "sizes_bytes")
        lengths = outputs.lengths()
        if (lengths != storages.lengths()).any() or (lengths != sizes.lengths()).any():
            raise LogError("an op event has outputs, storages and sizes of different numbers")
        self._add("ops", id=ops[calls])
        self._names += columns.of("op", "name").tolist()
        of_op = np.repeat(ops[calls], lengths)
        self._add(
            "tensors", id=outputs.flat(), op=of_op, storage=storages.flat(), size=sizes.flat()
        )

    def _pass_asks(self, columns: EventColumns, at: Ints, seq: Ints) -> None:
        rows = columns.kind == KIND_CODES["materialise"]
        model = columns.of("materialise", "for_op").nulls()
        self._add(
            "asks",
            at=at[rows],
            seq=seq[rows],
            op=columns.of("materialise", "op").values,
            tensor=columns.of("materialise", "tensor").values,
            first=columns.of("materialise", "reason").codes == _FIRST,
            model=np.zeros(int(rows.sum()), np.bool_) if model is None else model,
            cause=columns.of("materialise", "cause_seq").values,
            depth=columns.of("materialise", "depth").values,
        )

    def _pass_runs(self, columns: EventColumns, at: Ints) -> None:
        rows = np.isin(columns.kind, _EXECUTES)
        names = ("op", "tensor", "cost_ns", "clock_ns", "freed_bytes", "cause_seq")
        parts = {name: _of(columns, name, rows).values for name in names}
        remat = columns.kind[rows] == KIND_CODES["rematerialise"]
        self._add("runs", at=at[rows], remat=remat, **parts)
        resident = _of(columns, "resident", rows)
        self._add("arrivals", at=np.repeat(at[rows], resident.lengths()), storage=resident.flat())

    def _pass_evictions(self, columns: EventColumns, at: Ints) -> None:
        op = columns.of("evict", "op")
        nulls = op.nulls()
        self._add(
            "evictions",
            at=at[columns.kind == KIND_CODES["evict"]],
            storage=columns.of("evict", "storage").values,
            size=columns.of("evict", "size_bytes").values,
            cause=_CAUSES[columns.of("evict", "cause").codes],
            clock_ns=columns.of("evict", "clock_ns").values,
            op=op.values,
            by=np.ones(len(op), np.bool_) if nulls is None else ~nulls,
        )

    def table(self) -> RunTable:
        """Everything so far, joined."""
        ops, op_index = self._ops()
        tensors, tensor_index = self._tensors(op_index)
        storages, storage_index = self._storages(tensors)
        tensors = Tensors(
            tensors.ids, tensors.op, storage_index.of(tensors.storage), tensors.size_bytes
        )
        made = totals_by(tensors.op, summable(tensors.size_bytes), len(op_index))
        steps = self._steps(op_index)
        asks, ask_seq = self._asks(op_index, tensor_index)
        executed, evicted = (self._parts.get(f"{table}.at", []) for table in ("runs", "evictions"))
        moments = (_join(executed), _join(evicted), steps.at)
        runs = self._runs(op_index, tensor_index, tensors, ask_seq, moments)
        at, storage = self._joined("arrivals", "at", "storage")
        return RunTable(
            header=self.header,
            events=self.events,
            ops=Ops(ops.ids, ops.names, made),
            tensors=tensors,
            storages=storages,
            steps=steps,
            asks=asks,
            runs=runs,
            arrivals=Arrivals(np.searchsorted(runs.at, at), storage_index.of(storage)),
            evictions=self._evictions(op_index, storage_index, asks, moments),
            working_sets=self._working_sets.finish(storage_index, storages, len(steps)),
            stated=self.stated,
        )

    def _ops(self) -> tuple[Ops, Ids]:
        (ids,) = self._joined("ops", "id")
        index = Ids("op", ids)
        _, first = np.unique(ids, return_index=True)
        names = tuple(self._names[row] for row in first.tolist())
        return Ops(index.values, names, np.zeros(len(index), np.int64)), index

    def _tensors(self, op_index: Ids) -> tuple[Tensors, Ids]:
        """Their storages still by id."""
        ids, op, storage, size = self._joined("tensors", "id", "op", "storage", "size")
        index = Ids("tensor", ids)
        _, first = np.unique(ids, return_index=True)
        found = Tensors(index.values, op_index.of(op[first]), storage[first], size[first])
        return found, index

    def _storages(self, tensors: Tensors) -> tuple[Storages, Ids]:
        roots = np.flatnonzero(tensors.ids == tensors.storage)
        index = Ids("storage", tensors.ids[roots])
        sizes = summable(tensors.size_bytes[roots])
        return Storages(index.values, sizes, tensors.op[roots]), index

    def _steps(self, op_index: Ids) -> Steps:
        at, number, kind, op = self._joined("steps", "at", "number", "kind", "op")
        if len(number) and (number[0] < 0 or (np.diff(number) < 0).any()):
            raise LogError("the steps of the schedule do not ascend")
        calls = kind == OP
        op[calls] = op_index.of(op[calls])
        return Steps(at, number, kind, op)

    def _asks(self, op_index: Ids, tensor_index: Ids) -> tuple[Asks, Ints]:
        names = ("at", "seq", "op", "tensor", "first", "model", "cause", "depth")
        at, seq, op, tensor, first, model, cause, depth = self._joined("asks", *names)
        asks = Asks(
            at=at,
            op=op_index.of(op),
            tensor=tensor_index.of(tensor),
            first=first.astype(np.bool_),
            model=model.astype(np.bool_),
            parent=_position(seq, cause),
            depth=depth,
        )
        return asks, seq

    def _runs(
        self,
        op_index: Ids,
        tensor_index: Ids,
        tensors: Tensors,
        ask_seq: Ints,
        moments: tuple[Ints, Ints, Ints],
    ) -> Runs:
        names = ("at", "remat", "op", "tensor", "cost_ns", "clock_ns", "freed_bytes", "cause_seq")
        at, remat, op, tensor, cost, clock, freed, cause = self._joined("runs", *names)
        tensor = tensor_index.of(tensor)
        return Runs(
            at=at,
            op=op_index.of(op),
            tensor=tensor,
            storage=tensors.storage[tensor],
            remat=remat.astype(np.bool_),
            cost_ns=summable(cost),
            clock_ns=clock,
            freed_bytes=summable(freed),
            ask=_position(ask_seq, cause),
            decision=_decisions(at, moments),
            step=_step_of(at, moments),
        )

    def _evictions(
        self, op_index: Ids, storage_index: Ids, asks: Asks, moments: tuple[Ints, Ints, Ints]
    ) -> Evictions:
        names = ("at", "storage", "size", "cause", "clock_ns", "op", "by")
        at, storage, size, cause, clock, op, by = self._joined("evictions", *names)
        by = by.astype(np.bool_) & (cause == CAUSES.index("pressure"))
        ask = np.full(len(at), NONE)
        ask[by] = _pending(asks, op_index.of(op[by]), at[by], self.events)
        return Evictions(
            at=at,
            storage=storage_index.of(storage),
            size_bytes=summable(size),
            cause=cause,
            clock_ns=clock,
            ask=ask,
            decision=_decisions(at, moments),
            step=_step_of(at, moments),
        )


def _of(columns: EventColumns, name: str, rows: Bools) -> Any:
    """A column's entries for some of the events that have it."""
    return columns.column(name).take(np.flatnonzero(rows[columns.rows(name)]))


def _join(parts: list[Any]) -> Any:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _position(ascending: Ints, values: Ints) -> Ints:
    """Where each value stands among ascending ones; NONE where it does not."""
    if not len(ascending):
        return np.full(len(values), NONE)
    at = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    found: Ints = np.where(ascending[at] == values, at, NONE)
    return found


def _decisions(at: Ints, moments: tuple[Ints, Ints, Ints]) -> Ints:
    """The number of executions and evictions before each of some positions."""
    runs, evictions, _ = moments
    found: Ints = np.searchsorted(runs, at) + np.searchsorted(evictions, at)
    return found


def _step_of(at: Ints, moments: tuple[Ints, Ints, Ints]) -> Ints:
    found: Ints = np.searchsorted(moments[2], at, side="right") - 1
    if len(found) and found[0] < 0:
        raise LogError("something is executed or evicted before any step of the schedule")
    return found


def _pending(asks: Asks, op: Ints, at: Ints, events: int) -> Ints:
    """The last ask for each op before a position, which is the pending one; NONE: there is none."""
    if not len(asks.at):
        return np.full(len(op), NONE)
    order = np.lexsort((asks.at, asks.op))
    keys = asks.op[order] * (events + 1) + asks.at[order]
    found = np.searchsorted(keys, op * (events + 1) + at) - 1
    asked = order[np.maximum(found, 0)]
    pending: Ints = np.where((found >= 0) & (asks.op[asked] == op), asked, NONE)
    return pending
