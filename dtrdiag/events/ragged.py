"""The packed columns whose entries are lists; see `dtrdiag.events.packed` for the others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import attrs
import numpy as np

from dtrdiag.events.packed import Index, Int64s, Numbers, wrong_array
from dtrdiag.ids import StorageId


@attrs.frozen(eq=False)
class Lists:
    """Lists of integers: entry i is `values[offsets[i]:offsets[i + 1]]`.

    Attributes:
        offsets: int64[m + 1], ascending; need not begin with 0.
        values: int64[k].
    """

    offsets: Int64s
    values: Int64s

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def empty(cls) -> Lists:
        """See `Column`."""
        return cls(np.zeros(1, np.int64), np.empty(0, np.int64))

    @classmethod
    def concat(cls, columns: Sequence[Lists]) -> Lists:
        """See `Column`."""
        parts = [column.flat() for column in columns]
        return cls(_join_offsets(columns), np.concatenate(parts))

    def flat(self) -> Int64s:
        """The values of all entries one after the other."""
        return self.values[self.offsets[0] : self.offsets[-1]]

    def lengths(self) -> Int64s:
        """int64[m]: the length of each entry."""
        return np.diff(self.offsets)

    def slice(self, start: int, stop: int) -> Lists:
        """See `Column`."""
        return Lists(self.offsets[start : stop + 1], self.values)

    def take(self, index: Index) -> Lists:
        """See `Column`."""
        offsets, at = _pick(self.offsets, index)
        return Lists(offsets, self.values[at])

    def nulls(self) -> None:
        """See `Column`."""

    def fault(self) -> str | None:
        """See `Column`."""
        return wrong_array(self.values, np.int64) or _wrong_offsets(self.offsets, len(self.values))

    def tolist(self) -> list[Any]:
        """See `Column`."""
        return _cut(self.offsets, self.flat().tolist())


@attrs.frozen(eq=False)
class Candidates:
    """Lists of (storage, score): entry i is `offsets[i]` to `offsets[i + 1]` of both columns.

    Attributes:
        offsets: as in `Lists`.
        storages: int64[k].
        scores: k numbers.
    """

    offsets: Int64s
    storages: Int64s
    scores: Numbers

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def empty(cls) -> Candidates:
        """See `Column`."""
        return cls(np.zeros(1, np.int64), np.empty(0, np.int64), Numbers.empty())

    @classmethod
    def none(cls, entries: int) -> Candidates:
        """Empty lists, as many as asked for."""
        return attrs.evolve(cls.empty(), offsets=np.zeros(entries + 1, np.int64))

    @classmethod
    def concat(cls, columns: Sequence[Candidates]) -> Candidates:
        """See `Column`."""
        parts = [column.flat() for column in columns]
        storages = np.concatenate([storages for storages, _ in parts])
        return cls(
            _join_offsets(columns), storages, Numbers.concat([scores for _, scores in parts])
        )

    def flat(self) -> tuple[Int64s, Numbers]:
        """Storages and scores of all entries one after the other."""
        first, last = int(self.offsets[0]), int(self.offsets[-1])
        return self.storages[first:last], self.scores.slice(first, last)

    def slice(self, start: int, stop: int) -> Candidates:
        """See `Column`."""
        return Candidates(self.offsets[start : stop + 1], self.storages, self.scores)

    def take(self, index: Index) -> Candidates:
        """See `Column`."""
        offsets, at = _pick(self.offsets, index)
        return Candidates(offsets, self.storages[at], self.scores.take(at))

    def nulls(self) -> None:
        """See `Column`."""

    def fault(self) -> str | None:
        """See `Column`."""
        fault = wrong_array(self.storages, np.int64) or self.scores.fault()
        if fault is None and len(self.scores) != len(self.storages):
            fault = "has arrays of different lengths"
        return fault or _wrong_offsets(self.offsets, len(self.storages))

    def tolist(self) -> list[Any]:
        """See `Column`."""
        storages, scores = self.flat()
        ids = map(StorageId, storages.tolist())
        return _cut(self.offsets, list(zip(ids, scores.tolist(), strict=True)))


def _join_offsets(columns: Sequence[Lists] | Sequence[Candidates]) -> Int64s:
    lengths = [np.zeros(1, np.int64), *(np.diff(column.offsets) for column in columns)]
    return np.cumsum(np.concatenate(lengths))


def _pick(offsets: Int64s, index: Index) -> tuple[Int64s, Index]:
    """Offsets of some entries put side by side, and where their values are now."""
    lengths = np.diff(offsets)[index]
    new = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return new, np.repeat(offsets[index] - new[:-1], lengths) + np.arange(new[-1])


def _cut(offsets: Int64s, values: list[Any]) -> list[Any]:
    """Tuples of consecutive values."""
    if not values:
        return [()] * (len(offsets) - 1)
    ends = (offsets - offsets[0]).tolist()
    return [tuple(values[a:b]) for a, b in pairwise(ends)]


def _wrong_offsets(offsets: Int64s, values: int) -> str | None:
    fault = wrong_array(offsets, np.int64)
    if fault is None and not (
        len(offsets)
        and 0 <= offsets[0] <= offsets[-1] <= values
        and bool((offsets[1:] >= offsets[:-1]).all())
    ):
        fault = "has offsets that do not ascend within its values"
    return fault
