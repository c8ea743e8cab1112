"""How much did each step of the schedule hold, and how much did it touch?

Serving one step may take a whole tree of rematerialisations. At each of its fit checks the pending
stack *holds* what is locked or pinned: with what is requested, that is the least memory that does.
All storages that it locks or computes, with those that are pinned, are what it *touches*: with less
memory than that, it evicts what it needed or may yet need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtrdiag.analyses.runtable import Bools, Exact, Ids, Ints, Storages, WorkingSets, summable
from dtrdiag.events.columns import COLUMNS, KIND_CODES, EventColumns
from dtrdiag.events.packed import add_exactly

WORKING_SET_NAMES = (
    "storage", "locks", "requested_bytes", "resident", "outputs", "storages", "sizes_bytes", "cause"
)  # fmt: skip
_LOCK, _UNLOCK, _PIN = (KIND_CODES[kind] for kind in ("lock", "unlock", "pin"))
_EVICT, _BANISH, _FIT = (KIND_CODES[kind] for kind in ("evict", "banish", "fit"))
_EXECUTES = [KIND_CODES["compute"], KIND_CODES["rematerialise"]]
_BEGINS = [KIND_CODES[kind] for kind in ("op", "output", "reference")]
_BANISHED = (COLUMNS["cause"].words or ()).index("banish")


class WorkingSetReader:
    """The state between two batches, and what the steps so far come to."""

    def __init__(self) -> None:
        self._steps = 0
        self._size: dict[int, int] = {}
        self._held: set[int] = set()
        self._held_bytes = 0
        self._pinned_since: dict[int, int] = {}
        self._pinned_until: dict[int, int] = {}
        # Steps and the most that each held; steps and the storages that each touched.
        self._most: list[tuple[Ints, Exact]] = []
        self._touched: list[tuple[Ints, Ints]] = []

    def pass_over(self, columns: EventColumns) -> None:
        """Take a batch that has the columns `WORKING_SET_NAMES`."""
        self._take_sizes(columns)
        # The step that is being served, for each event; -1 before the first.
        begins = np.isin(columns.kind, _BEGINS)
        step = self._steps - 1 + np.cumsum(begins)
        self._pass_held(columns, step)
        self._pass_touched(columns, step)
        self._steps += int(begins.sum())

    def _take_sizes(self, columns: EventColumns) -> None:
        storages = columns.of("op", "storages").flat()
        fresh = columns.of("op", "outputs").flat() == storages
        sizes = columns.of("op", "sizes_bytes").flat()
        for storage, size in zip(storages[fresh].tolist(), sizes[fresh].tolist(), strict=True):
            self._size.setdefault(storage, size)

    def _sizes(self, storages: Ints) -> Exact:
        """Sizes of storages, each of which is listed once."""
        sizes = [self._size.get(storage, 0) for storage in storages.tolist()]
        return summable(np.array(sizes, np.int64))

    def _pass_held(self, columns: EventColumns, step: Ints) -> None:
        """Bytes held change where a storage's locks become more than 0, or 0 again."""
        kind = columns.kind
        locks = np.isin(kind, (_LOCK, _UNLOCK, _PIN))
        drops = kind == _BANISH
        drops[np.flatnonzero(kind == _EVICT)[columns.column("cause").codes == _BANISHED]] = True
        self._take_pins(columns, step, drops)
        rows = np.flatnonzero(locks | drops)
        storage = _spread(columns, "storage")[rows]
        after = (_spread(columns, "locks")[rows] > 0) & locks[rows]
        change = self._changes(storage, after)
        exact = change.dtype == object or self._held_bytes >= 1 << 62
        held = np.cumsum(np.append(np.array([self._held_bytes], object if exact else None), change))
        self._held_bytes = int(held[-1])
        fits = np.flatnonzero(kind == _FIT)
        if len(fits):
            asked = columns.of("fit", "requested_bytes").values
            needed = _add(held[np.searchsorted(rows, fits)], asked)
            self._most.append(_by_step(step[fits], needed, np.maximum.reduceat))

    def _changes(self, storage: Ints, after: Bools) -> Exact:
        """By how many bytes each event changes what is held."""
        unique, place = np.unique(storage, return_inverse=True)
        order = np.argsort(place, kind="stable")
        place, now = place[order], after[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = place[1:] != place[:-1]
        before = np.append(False, now[:-1])[: len(now)]
        before[first] = [one in self._held for one in unique.tolist()]
        last = np.append(first[1:], True)[: len(first)]
        for one, stays in zip(unique.tolist(), now[last].tolist(), strict=True):
            if stays:
                self._held.add(one)
            else:
                self._held.discard(one)
        change = np.zeros(len(order), np.int64)
        change[order] = now.astype(np.int64) - before.astype(np.int64)
        if not len(unique):
            return change
        places = np.empty(len(order), np.int64)
        places[order] = place
        changed: Exact = change * self._sizes(unique)[places]
        return changed if changed.dtype == object else summable(changed)

    def _take_pins(self, columns: EventColumns, step: Ints, drops: Bools) -> None:
        storage = _spread(columns, "storage")
        for row in np.flatnonzero((columns.kind == _PIN) | drops).tolist():
            if columns.kind[row] == _PIN:
                self._pinned_since.setdefault(int(storage[row]), int(step[row]))
            else:
                self._pinned_until[int(storage[row])] = int(step[row])

    def _pass_touched(self, columns: EventColumns, step: Ints) -> None:
        executes = np.flatnonzero(np.isin(columns.kind, _EXECUTES))
        resident = columns.column("resident")
        locks = np.flatnonzero(columns.kind == _LOCK)
        storages = np.concatenate([resident.flat(), columns.of("lock", "storage").values])
        steps = np.concatenate([np.repeat(step[executes], resident.lengths()), step[locks]])
        if not len(steps):
            return
        unique, place = np.unique(storages, return_inverse=True)
        base = int(steps.min())
        pairs = np.unique((steps - base) * len(unique) + place)
        self._touched.append((base + pairs // len(unique), unique[pairs % len(unique)]))

    def finish(self, index: Ids, storages: Storages, steps: int) -> WorkingSets:
        """What each of the steps held at most, and touched."""
        held: Exact = np.zeros(steps, np.int64)
        if any(most.dtype == object for _, most in self._most):
            held = held.astype(object)
        for step, most in self._most:
            inside = step >= 0
            held[step[inside]] = np.maximum(held[step[inside]], most[inside])
        return WorkingSets(held, self._touched_bytes(index, storages, steps))

    def _touched_bytes(self, index: Ids, storages: Storages, steps: int) -> Exact:
        """Pinned storages count in every step from their pin on, others where they are touched."""
        never = np.iinfo(np.int64).max
        since = np.full(len(index), never)
        until = np.full(len(index), never)
        for times, found in ((since, self._pinned_since), (until, self._pinned_until)):
            if found:
                times[index.of(np.array(list(found), np.int64))] = list(found.values())
        size = storages.size_bytes
        pinned = np.flatnonzero(since < never)
        change: Exact = np.zeros(steps + 1, size.dtype)
        np.add.at(change, since[pinned], size[pinned])
        gone = pinned[(until[pinned] < never) & (until[pinned] >= since[pinned])]
        np.subtract.at(change, until[gone] + 1, size[gone])
        touched: Exact = np.cumsum(change)[:steps]
        if self._touched:
            step = np.concatenate([part for part, _ in self._touched])
            storage = index.of(np.concatenate([part for _, part in self._touched]))
            pairs = np.unique(step * len(index) + storage)
            step, storage = pairs // len(index), pairs % len(index)
            counted = (since[storage] <= step) & (
                (step <= until[storage]) | (until[storage] < since[storage])
            )
            new = ~counted & (step >= 0)
            np.add.at(touched, step[new], size[storage[new]])
        return touched


def _spread(columns: EventColumns, name: str) -> Ints:
    """A column of integers with an entry for every event, 0 for those that lack the field."""
    spread = np.zeros(len(columns), np.int64)
    spread[columns.rows(name)] = columns.column(name).values
    return spread


def _add(held: Exact, asked: Ints) -> Exact:
    if held.dtype != object:
        return add_exactly(held, asked)
    needed: Exact = held + asked.astype(object)
    return needed


def _by_step(step: Ints, values: Exact, reduce_at: Callable[[Any, Any], Any]) -> tuple[Ints, Exact]:
    """Values of consecutive events of a step, made one."""
    starts = np.flatnonzero(np.diff(step, prepend=step[0] - 1))
    return step[starts], reduce_at(values, starts)
