"""How are rows along an axis put together in a bounded number of buckets, no extreme lost?

Rows come in ascending order of place, in parts of any size, and the result does not depend on how
they are parted: places are put together if they are equal after division by a power of two, the
smallest that leaves few enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dtrdiag.analyses.runtable import Exact, Ints, summable

FIRST = frozenset({"clock_ns", "decision", "step"})
"""Columns of which a bucket has the first row's value."""
LOWEST = frozenset({"low_bytes"})
HIGHEST = frozenset({"high_bytes", "in_use_bytes", "depth"})
AT_HIGH = frozenset({"high_seq", "pinned_bytes", "locked_bytes"})
"""Those with the value of the first row that has the bucket's `high_bytes`; all others add up."""


class Buckets:
    """At most `most` buckets of the rows so far.

    Time is linear in the rows, plus O(most) for each part; memory O(most).
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._shift = 0
        self._x: Ints = np.empty(0, np.int64)
        self._last = 0
        self._columns: dict[str, Exact] = {}

    def add(self, x: Ints, columns: Mapping[str, Exact]) -> None:
        """Take in rows, each at a place that is not below any before it."""
        if not len(x):
            return
        self._last = int(x[-1])
        # The rows alone first: then what is joined to what was there is short.
        parts = _together(x, columns, self._shift)
        if len(self._x):
            x = np.concatenate([self._x, parts[0]])
            joined = {
                name: np.concatenate([column, parts[1][name]])
                for name, column in self._columns.items()
            }
            parts = _together(x, joined, self._shift)
        shift = self._shift
        while _count(parts[0], shift) > self._most:
            shift += 1
        if shift > self._shift:
            parts = _together(*parts, shift)
        self._shift = shift
        self._x, self._columns = parts

    def gathered(self) -> tuple[Ints, Ints, int, dict[str, Any]]:
        """Where each bucket begins, where it ends (exclusive), their width, and their columns."""
        x2 = np.append(self._x[1:], self._last + 1)[: len(self._x)]
        return self._x, x2, 1 << self._shift, dict(self._columns)


def _count(x: Ints, shift: int) -> int:
    keys = x >> shift
    return int(np.count_nonzero(keys[1:] != keys[:-1])) + 1


def _together(x: Ints, columns: Mapping[str, Exact], shift: int) -> tuple[Ints, dict[str, Exact]]:
    """Rows put together where their places are equal after division."""
    keys = x >> shift
    starts = np.append(0, np.flatnonzero(keys[1:] != keys[:-1]) + 1)
    highs = columns["high_bytes"]
    lengths = np.diff(np.append(starts, len(x)))
    at_high = np.flatnonzero(highs == np.repeat(np.maximum.reduceat(highs, starts), lengths))
    at_high = at_high[np.searchsorted(at_high, starts)]
    found: dict[str, Exact] = {}
    for name, column in columns.items():
        if name in FIRST:
            found[name] = column[starts]
        elif name in AT_HIGH:
            found[name] = column[at_high]
        elif name in LOWEST:
            found[name] = np.minimum.reduceat(column, starts)
        elif name in HIGHEST:
            found[name] = np.maximum.reduceat(column, starts)
        else:
            found[name] = np.add.reduceat(summable(column), starts)
    return x[starts], found
