"""What is the state of a run at its out-of-memory stop? Found from columns, without replaying.

A replay applies one event after the other. For a log of millions of events, what the state at the
stop is made of can be had from whole columns: the pending stack is the last `materialise` at each
depth, a storage is resident if its last event says so, and of the locks those remain that no
unlock gave back. This holds where executions, locks and unlocks belong to the op on top of the
stack, which is checked on the way; a log that is not so regular, or has an intervention's budget in
between, is left to `Replay`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from dtrdiag.errors import LogError, UsageError
from dtrdiag.events.columns import COLUMNS, KIND_CODES, KINDS, EventColumns, column_name
from dtrdiag.events.conversion import events_of
from dtrdiag.events.fields import FIELDS
from dtrdiag.events.packed import add_exactly
from dtrdiag.events.records import OpDefined, OutOfMemory
from dtrdiag.ids import OpId, StorageId
from dtrdiag.interventions import parse_interventions
from dtrdiag.log.held import HeldLocks, Irregular, sorted_by
from dtrdiag.log.replay import Replay
from dtrdiag.log.state import Frame

_Rows = npt.NDArray[np.intp]

_STACKED = ("op", "tensor", "reason", "for_op", "storage", "cause", "resident")
_CALLED = ("name", "outputs", "storages", "sizes_bytes")
_CHECKED = ("memory_bytes", "requested_bytes", "fits")
_STOPS = {column_name(kind, field.name) for kind in ("oom", "end") for field in FIELDS[kind]}
NAMES = frozenset({*_STACKED, *_CALLED, *_CHECKED, *_STOPS, "interventions"})
"""The columns that are needed."""

_M, _L, _U, _F = (KIND_CODES[kind] for kind in ("materialise", "lock", "unlock", "fit"))
_E, _P, _B = (KIND_CODES[kind] for kind in ("evict", "pin", "banish"))
_X = [KIND_CODES["compute"], KIND_CODES["rematerialise"]]
_OOM, _OP, _REFERENCE = (KIND_CODES[kind] for kind in ("oom", "op", "reference"))
_CAUSES = COLUMNS["cause"].words or ()
_REASONS = COLUMNS["reason"].words or ()


def state_at_oom(batches: Iterable[EventColumns]) -> tuple[Replay, OutOfMemory | None]:
    """The state right before the first `oom` event, and that event; None if there is none.

    Of the state there is what a frontier needs: ops, sizes and producers, residency, locks, pins,
    the pending stack, the interval of budgets, `end` and `seq`. Memory is proportional to a batch
    and to the graph; time O(n log n) in the events of a batch.

    Raises:
        Irregular: only a replay can tell.
    """
    forward = _Forward()
    for columns in batches:
        stops = np.flatnonzero(columns.kind == _OOM)
        if len(stops):
            at = int(stops[0])
            forward.pass_over(columns.slice(0, at))
            (event,) = events_of(columns.slice(at, at + 1))
            if isinstance(event, OutOfMemory):
                return forward.state(), event
        forward.pass_over(columns)
        if len(columns) and KINDS[columns.kind[-1]] == "end":
            (end,) = events_of(columns.slice(len(columns) - 1, len(columns)))
            forward.replay.apply(end)
    return forward.state(), None


class _Forward:
    """The state between two batches."""

    def __init__(self) -> None:
        self.replay = Replay()
        self._held = HeldLocks()
        self._resident: dict[int, int] = {}
        self._stack: list[Frame] = []
        # The op of the last execution, as long as nothing has settled it.
        self._executed: int | None = None
        self._introduced: dict[int, int] = {}
        self._called: dict[int, int] = {}

    def state(self) -> Replay:
        """As a `Replay`."""
        replay = self.replay
        replay.resident = {StorageId(s): seq for s, seq in self._resident.items()}
        frames = {frame.seq: frame for frame in self._stack}
        for storage, op, seq in self._held.entries():
            replay.locks.setdefault(StorageId(storage), []).append(OpId(op))
            if seq in frames:
                frames[seq].locked.append(StorageId(storage))
        replay.pending = self._stack
        return replay

    def pass_over(self, columns: EventColumns) -> None:
        """Move past a batch without an `oom` event.

        Raises:
            Irregular: see the module.
        """
        if not len(columns):
            return
        batch = _Batch(columns)
        _require_one_budget(columns)
        if (np.diff(batch.seq, prepend=self.replay.seq) <= 0).any():
            raise Irregular
        self._call(batch)
        self._require_known(batch)
        owner_seq = self._walk(batch)
        self._settle(batch)
        self._held.pass_over(batch.lock_events(owner_seq))
        self._pin(batch)
        self._move(batch)
        self._check_fits(columns)
        self.replay.seq = int(batch.seq[-1])

    def _call(self, batch: _Batch) -> None:
        """The `op` events, one by one: their number does not grow with the length of a thrash."""
        self._introduced, self._called = {}, {}
        rows = batch.rows(_OP)
        if not len(rows):
            return
        lists = [batch.columns.of("op", name).tolist() for name in _CALLED]
        replay = self.replay
        for row, name, outputs, storages, sizes in zip(rows.tolist(), *lists, strict=True):
            op = OpId(int(batch.op[row]))
            self._called.setdefault(op, -1 if op in replay.ops else row)
            for storage in storages:
                known = storage in replay.tensors_of
                self._introduced.setdefault(storage, -1 if known else row)
            seq = int(batch.seq[row])
            try:
                replay.apply(OpDefined(seq, None, 0, op, name, 0, (), outputs, storages, sizes))
            except LogError:
                raise Irregular from None

    def _require_known(self, batch: _Batch) -> None:
        """Whatever a replay looks up must have been introduced before."""
        rows = batch.rows(_E, _B, _REFERENCE)
        _require(batch.storage[rows], rows, self.replay.tensors_of, self._introduced)
        rows = batch.rows(*_X)
        _require(batch.op[rows], rows, self.replay.ops, self._called)

    def _walk(self, batch: _Batch) -> npt.NDArray[np.int64]:
        """Move the stack; returns the `seq` of the frame that takes a lock, for each lock."""
        push, pop = batch.kind == _M, batch.executes
        after = len(self._stack) + np.cumsum(push.astype(np.int64) - pop)
        rows = np.flatnonzero(push | pop | (batch.kind == _L))
        # The depth of the frame that an event is about: pushed, executed, or taking a lock.
        level = after[rows] + pop[rows]
        carried = len(self._stack)
        levels = np.concatenate([np.arange(1, carried + 1), level])
        if len(levels) and levels.min() < 1:
            raise Irregular
        pushes = np.concatenate([np.ones(carried, np.bool_), push[rows]])
        ops = np.concatenate([_array(frame.op for frame in self._stack), batch.op[rows]])
        seqs = np.concatenate([_array(frame.seq for frame in self._stack), batch.seq[rows]])
        order = np.argsort(levels, kind="stable")
        starts = np.flatnonzero(np.diff(levels[order], prepend=0))
        if not pushes[order][starts].all():
            raise Irregular
        top = np.maximum.accumulate(np.where(pushes[order], np.arange(len(order)), 0))
        if (ops[order] != ops[order][top]).any():
            raise Irregular
        owner = np.empty(len(order), np.int64)
        owner[order] = seqs[order][top]
        owner_seq = np.full(len(batch.kind), -1, np.int64)
        owner_seq[rows] = owner[carried:]
        # At each depth that is left, the frame pushed last.
        ends = top[np.append(starts[1:], len(order)) - 1] if len(order) else top
        self._stack = [
            self._stack[i] if i < carried else batch.frame(int(rows[i - carried]))
            for i in order[ends][: int(after[-1])].tolist()
        ]
        return owner_seq

    def _settle(self, batch: _Batch) -> None:
        """Unlocks come right after an execution of their op, and executions are apart."""
        positions = np.arange(len(batch.kind))
        carried = self._executed is not None
        executed = np.where(batch.executes, positions, -1 if carried else -2)
        last = np.maximum.accumulate(executed)
        settled = np.maximum.accumulate(np.where(batch.settles, positions, -2 if carried else -1))
        before = np.append(-1 if carried else -2, last[:-1])
        if (before[batch.executes] >= settled[batch.executes]).any():
            raise Irregular
        rows = batch.rows(_U)
        since = last[rows]
        carried_op = -1 if self._executed is None else self._executed
        ops = np.where(since >= 0, batch.op[since], carried_op)
        if (since <= settled[rows]).any() or (ops != batch.op[rows]).any():
            raise Irregular
        if last[-1] <= settled[-1]:
            self._executed = None
        elif last[-1] >= 0:
            self._executed = int(batch.op[last[-1]])

    def _pin(self, batch: _Batch) -> None:
        """Pins and what drops them; both are rare."""
        pins = self.replay.pins
        rows = np.flatnonzero((batch.kind == _P) | batch.drops)
        for row in rows.tolist():
            storage = StorageId(int(batch.storage[row]))
            if batch.kind[row] == _P:
                pins[storage] = _REASONS[batch.reason[row]]
            else:
                pins.pop(storage, None)

    def _move(self, batch: _Batch) -> None:
        """Residency: per storage, evictions and executions in turn, and the last one decides."""
        executions = np.flatnonzero(batch.executes)
        arrived = batch.resident()
        evictions = batch.rows(_E)
        storages = np.concatenate([arrived.flat(), batch.storage[evictions]])
        at = np.concatenate([np.repeat(executions, arrived.lengths()), evictions])
        is_in = np.arange(len(at)) < len(at) - len(evictions)
        order = sorted_by(storages, at)
        storages, at, is_in = storages[order], at[order], is_in[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = storages[1:] != storages[:-1]
        was_in = np.append(False, is_in[:-1])
        if (~is_in & ~first & ~was_in).any():
            raise Irregular
        for storage in storages[first & ~is_in].tolist():
            if storage not in self._resident:
                raise Irregular
        last = np.append(first[1:], True)[: len(first)]
        seqs = batch.seq[at[last]]
        for storage, stays, seq in zip(
            storages[last].tolist(), is_in[last].tolist(), seqs.tolist(), strict=True
        ):
            if stays:
                self._resident[storage] = seq
            else:
                self._resident.pop(storage, None)

    def _check_fits(self, columns: EventColumns) -> None:
        asked = columns.of("fit", "requested_bytes").values
        needed = add_exactly(columns.of("fit", "memory_bytes").values, asked)
        fits = columns.column("fits").values
        tally = self.replay.tally
        if fits.any():
            tally.fit(int(needed[fits].max()), True)
        if not fits.all():
            tally.fit(int(needed[~fits].min()), False)


class _Batch:
    """The columns of a batch, an entry per event."""

    def __init__(self, columns: EventColumns) -> None:
        self.columns = columns
        self.kind = columns.kind
        self.seq: npt.NDArray[np.int64] = columns.column("seq").values
        self.op = self._spread("op", columns.column("op").values)
        self.storage = self._spread("storage", columns.column("storage").values)
        self.reason = self._spread("reason", columns.column("reason").codes)
        cause = self._spread("cause", columns.column("cause").codes)
        banishes = (self.kind == _E) & (cause == _CAUSES.index("banish"))
        self.drops = (self.kind == _B) | banishes
        """Events that take all locks and pins off a storage."""
        self.executes = np.isin(self.kind, _X)
        for_now = np.isin(self.kind, [_U, _B, KIND_CODES["run"]]) | self.executes | banishes
        output = self.reason == _REASONS.index("output")
        self.settles = ~for_now & ~((self.kind == _P) & ~output)
        """Events that take an executed op off the stack."""
        self._where: dict[str, Any] = {}

    def _spread(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        spread = np.full(len(self.kind), -1, np.int64)
        spread[self.columns.rows(name)] = values
        return spread

    def rows(self, *codes: int) -> _Rows:
        """The positions of the events of some kinds."""
        return np.flatnonzero(np.isin(self.kind, codes))

    def frame(self, row: int) -> Frame:
        """The frame that a `materialise` event pushes."""
        if not self._where:
            fields = ("tensor", "reason", "for_op")
            self._where = {f: self.columns.of("materialise", f).tolist() for f in fields}
            self._where["rows"] = self.rows(_M)
        at = int(np.searchsorted(self._where["rows"], row))
        tensor, reason, for_op = (self._where[f][at] for f in ("tensor", "reason", "for_op"))
        return Frame(OpId(int(self.op[row])), tensor, reason, for_op, int(self.seq[row]))

    def resident(self) -> Any:
        """The storages that each execution made resident."""
        return self.columns.column("resident")

    def lock_events(self, owner_seq: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Rows of (storage, op, `seq` of the frame, change); a change of 0 drops all locks."""
        rows = np.flatnonzero((self.kind == _L) | (self.kind == _U) | self.drops)
        change = (self.kind[rows] == _L).astype(np.int64) - (self.kind[rows] == _U)
        return np.stack([self.storage[rows], self.op[rows], owner_seq[rows], change])


def _require_one_budget(columns: EventColumns) -> None:
    """Else some fit checks do not count for the interval."""
    for text in columns.of("run", "interventions").tolist():
        try:
            if parse_interventions(text).budgets:
                raise Irregular
        except UsageError:
            raise Irregular from None


def _array(values: Iterable[int]) -> npt.NDArray[np.int64]:
    return np.array(list(values), np.int64)


def _require(
    ids: npt.NDArray[np.int64], rows: _Rows, known: Any, introduced: dict[int, int]
) -> None:
    unique, first = np.unique(ids, return_index=True)
    for one, row in zip(unique.tolist(), rows[first].tolist(), strict=True):
        if one not in known or introduced.get(one, -1) > row:
            raise Irregular
