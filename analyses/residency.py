"""How many bytes were resident after each event of a run, and how many of them pinned or locked?

A storage counts as the frontier has it: *pinned* if it is locked for good, whether or not an op
locks it too; *locked* if a pending op holds it and it is not pinned; *evictable* otherwise. The
three add up to the bytes of all resident storages. Found from columns, a batch at a time.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from dtrdiag.analyses.runtable import Bools, Exact, Ints
from dtrdiag.errors import LogError
from dtrdiag.events.columns import COLUMNS, KIND_CODES, EventColumns
from dtrdiag.events.packed import add_exactly

RESIDENCY_NAMES = (
    "storage", "locks", "resident", "outputs", "storages", "sizes_bytes", "cause", "memory_bytes",
    "freed_bytes", "depth",
)  # fmt: skip
"""The columns that are needed."""

_LOCK, _UNLOCK, _PIN = (KIND_CODES[kind] for kind in ("lock", "unlock", "pin"))
_EVICT, _BANISH, _PUSH = (KIND_CODES[kind] for kind in ("evict", "banish", "materialise"))
_EXECUTES = [KIND_CODES["compute"], KIND_CODES["rematerialise"]]
_BANISHED = (COLUMNS["cause"].words or ()).index("banish")
_RESIDENT, _LOCKED, _PINNED = 0, 1, 2
# What an event says of a storage's state, as one of these; -1: nothing.
_NO, _YES, _SILENT = 0, 1, -1
_SUMMABLE = 1 << 62


@attrs.frozen(eq=False)
class Residency:
    """The state right after each of n events; arrays of length n.

    Attributes:
        resident_bytes: of all resident storages.
        pinned_bytes: of those that are pinned.
        locked_bytes: of those that are locked and not pinned.
        in_use_bytes: memory in use as the log states it; right after an execution with the outputs
            that were there twice for a moment. What it has beyond `resident_bytes` is in no
            storage that the log names.
        depth: size of the pending stack; an op that is executed counts until its own event.
    """

    resident_bytes: Exact
    pinned_bytes: Exact
    locked_bytes: Exact
    in_use_bytes: Exact
    depth: Ints


class ResidencyReader:
    """The state between two batches; memory is proportional to the number of storages."""

    def __init__(self) -> None:
        self._size: dict[int, int] = {}
        self._all_bytes = 0
        self._state: dict[int, tuple[int, int, int]] = {}
        self._sums = (0, 0, 0)
        self._in_use_bytes = 0
        self._depth = 0

    def pass_over(self, columns: EventColumns) -> Residency:
        """The states of a batch that has the columns `RESIDENCY_NAMES`. O(n log n).

        Raises:
            LogError: a storage is named that no `op` event introduced.
        """
        self._take_sizes(columns)
        resident, pinned, locked = self._pass_states(columns)
        in_use = self._pass_memory(columns)
        return Residency(resident, pinned, locked, in_use, self._pass_depth(columns))

    def size_bytes(self, storages: Ints) -> Exact:
        """The sizes of storages.

        Raises:
            LogError: one of them was not introduced.
        """
        unique, inverse = np.unique(storages, return_inverse=True)
        return self._sizes(unique)[inverse]

    def _take_sizes(self, columns: EventColumns) -> None:
        storages = columns.of("op", "storages").flat().tolist()
        sizes = columns.of("op", "sizes_bytes").flat().tolist()
        for storage, size in zip(storages, sizes, strict=False):
            # The first tensor of a storage is its root, and the only one with a size.
            if storage not in self._size:
                self._size[storage] = size
                self._all_bytes += abs(size)

    def _sizes(self, storages: Ints) -> Exact:
        try:
            sizes = [self._size[storage] for storage in storages.tolist()]
        except KeyError as error:
            what = f"the log names storage {error.args[0]}, which no op event introduced"
            raise LogError(what) from None
        return np.array(sizes, np.int64 if self._all_bytes < _SUMMABLE else object)

    def _pass_states(self, columns: EventColumns) -> list[Exact]:
        storages, at, says = _statements(columns)
        unique, inverse = np.unique(storages, return_inverse=True)
        sizes = self._sizes(unique)
        # What was known before stands in front of what the batch says, storage by storage.
        known = np.array(
            [self._state.get(storage, (_NO, _NO, _NO)) for storage in unique.tolist()], np.int8
        ).reshape(-1, 3)
        group = np.concatenate([np.arange(len(unique)), inverse])
        at = np.concatenate([np.full(len(unique), -1), at])
        says = np.concatenate([known, says])
        order = np.argsort(group * (len(columns) + 1) + at + 1, kind="stable")
        group, at = group[order], at[order]
        state = [_filled(says[order, part]) for part in (_RESIDENT, _LOCKED, _PINNED)]
        last = np.append(group[1:] != group[:-1], True)[: len(group)]
        ends = np.stack([part[last] for part in state], axis=1).tolist()
        self._state.update(zip(unique.tolist(), map(tuple, ends), strict=True))
        return self._sum(state, group, at, sizes, len(columns))

    def _sum(
        self, state: list[Bools], group: Ints, at: Ints, sizes: Exact, count: int
    ) -> list[Exact]:
        resident, locked, pinned = state
        found = []
        first = np.append(True, group[1:] != group[:-1])[: len(group)]
        parts = (resident, resident & pinned, resident & locked & ~pinned)
        for counts, carried in zip(parts, self._sums, strict=True):
            change = counts.astype(np.int64)
            change[1:] -= counts[:-1]
            change[first] = 0
            rows = np.flatnonzero(change)
            moves = np.zeros(count, sizes.dtype)
            np.add.at(moves, at[rows], change[rows] * sizes[group[rows]])
            found.append(np.cumsum(moves) + carried)
        if count:
            self._sums = (int(found[0][-1]), int(found[1][-1]), int(found[2][-1]))
        return found

    def _pass_memory(self, columns: EventColumns) -> Exact:
        states = columns.rows("memory_bytes")
        stated = np.concatenate([[self._in_use_bytes], columns.column("memory_bytes").values])
        in_use: Exact = stated[np.cumsum(states)]
        freed = np.zeros(len(columns), np.int64)
        freed[np.isin(columns.kind, _EXECUTES)] = columns.column("freed_bytes").values
        self._in_use_bytes = int(stated[-1])
        return add_exactly(in_use, freed)

    def _pass_depth(self, columns: EventColumns) -> Ints:
        """Each push states the depth, each execution takes one off; never below 0."""
        pushes = columns.kind == _PUSH
        pops = np.isin(columns.kind, _EXECUTES)
        stated = np.concatenate([[self._depth], columns.of("materialise", "depth").values])
        popped = np.append(0, np.cumsum(pops))
        since = np.append(0, popped[1:][pushes])
        last = np.cumsum(pushes)
        depth = np.maximum(stated[last] - (popped[1:] - since[last]), 0)
        if len(depth):
            self._depth = int(depth[-1])
        # At its own event the op is still there.
        before = np.maximum(stated[last] - (popped[:-1] - since[last]), 0)
        found: Ints = np.where(pops, before, depth)
        return found


def _statements(columns: EventColumns) -> tuple[Ints, Ints, Any]:
    """Storage, row, and what the row's event says: resident, locked, pinned."""
    kind = columns.kind
    storage = np.zeros(len(columns), np.int64)
    storage[columns.rows("storage")] = columns.column("storage").values
    drops = kind == _BANISH
    drops[np.flatnonzero(kind == _EVICT)[columns.column("cause").codes == _BANISHED]] = True
    locks = np.zeros(len(columns), np.int64)
    locks[columns.rows("locks")] = columns.column("locks").values
    says = np.full((len(columns), 3), _SILENT, np.int8)
    says[kind == _EVICT, _RESIDENT] = _NO
    # While a storage is pinned its locks count one more, but then it is not counted as locked.
    held = (kind == _LOCK) | (kind == _UNLOCK)
    says[held, _LOCKED] = locks[held] > 0
    says[kind == _PIN, _PINNED] = _YES
    says[drops, _LOCKED] = says[drops, _PINNED] = _NO
    rows = np.flatnonzero((says != _SILENT).any(axis=1))
    executes = np.flatnonzero(np.isin(kind, _EXECUTES))
    arrived = columns.column("resident")
    came = np.repeat(executes, arrived.lengths())
    arrives = np.full((len(came), 3), _SILENT, np.int8)
    arrives[:, _RESIDENT] = _YES
    return (
        np.concatenate([storage[rows], arrived.flat()]),
        np.concatenate([rows, came]),
        np.concatenate([says[rows], arrives]),
    )


def _filled(says: Any) -> Bools:
    """Each entry, or the last one before it that says something; the first of each group does."""
    last = np.maximum.accumulate(np.where(says != _SILENT, np.arange(len(says)), 0))
    found: Bools = says[last] == _YES
    return found
