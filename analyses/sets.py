"""Which storages did two runs evict, and how alike are these sets?

Counted by cause, because the answer depends on it: under eager deallocation nearly every storage
is evicted when its last reference goes, in every run, and those evictions hide how different the
evictions under memory pressure are.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any

import attrs

from dtrdiag.analyses.reading import require_same_trace
from dtrdiag.analyses.summary import RunTally, count_run
from dtrdiag.events.records import Event
from dtrdiag.ids import StorageId
from dtrdiag.log.state import CAUSES

ALL_CAUSES = "all"


@attrs.frozen
class SetComparison:
    """Two sets of storages: their sizes, and those of what they share and span."""

    a: int
    b: int
    intersection: int
    union: int

    @property
    def jaccard(self) -> float:
        """Intersection over union, in [0, 1]; 1.0 for two empty sets, which are equal."""
        return self.intersection / self.union if self.union else 1.0


@attrs.frozen
class EvictionSets:
    """The storages that two runs evicted, compared by cause.

    Attributes:
        by_cause: `all`, then `pressure` and `release`, then `banish` if either run has any.
        evictions_a: evictions of run a, of all causes, repeated ones included.
        evictions_b: those of run b.
    """

    by_cause: dict[str, SetComparison]
    evictions_a: int
    evictions_b: int

    @property
    def per_storage_a(self) -> float | None:
        """Run a's evictions per distinct storage evicted (all causes); None without evictions."""
        return _quotient(self.evictions_a, self.by_cause[ALL_CAUSES].a)

    @property
    def per_storage_b(self) -> float | None:
        """Run b's evictions per distinct storage evicted (all causes); None without evictions."""
        return _quotient(self.evictions_b, self.by_cause[ALL_CAUSES].b)


def _quotient(evictions: int, storages: int) -> float | None:
    return evictions / storages if storages else None


def compare(a: Set[StorageId], b: Set[StorageId]) -> SetComparison:
    """The counts of two sets. O(smaller set).

    >>> compare({StorageId(1), StorageId(2)}, {StorageId(2), StorageId(3)}).jaccard
    0.3333333333333333
    >>> compare(set(), set()).jaccard
    1.0
    """
    shared = len(a & b)
    return SetComparison(len(a), len(b), shared, len(a) + len(b) - shared)


def eviction_sets(a: Iterable[Event], b: Iterable[Event]) -> EvictionSets:
    """Compare the sets of storages that two runs of one trace evicted.

    One pass over each log; memory in proportion to the storages evicted.

    Raises:
        AnalysisError: the events do not begin with a header, or the traces differ.
    """
    tally_a, tally_b = count_run(a), count_run(b)
    require_same_trace(tally_a.header, tally_b.header)
    return sets_of(tally_a, tally_b)


def sets_of(a: RunTally, b: RunTally) -> EvictionSets:
    """The same from two runs whose events have been counted already."""
    evicted_a, evicted_b = a.counts.evicted, b.counts.evicted
    by_cause = {ALL_CAUSES: compare(_union(evicted_a), _union(evicted_b))}
    for cause in CAUSES:
        compared = compare(evicted_a[cause], evicted_b[cause])
        if compared.union or cause != "banish":
            by_cause[cause] = compared
    return EvictionSets(
        by_cause, sum(a.counts.evictions.values()), sum(b.counts.evictions.values())
    )


def _union(evicted: dict[str, set[StorageId]]) -> set[StorageId]:
    return set().union(*evicted.values())


def sets_document(sets: EvictionSets) -> dict[str, Any]:
    """The comparison as the `sets` object of a `dtrdiag.diff/1` document."""
    return {
        cause: {**attrs.asdict(compared), "jaccard": compared.jaccard}
        for cause, compared in sets.by_cause.items()
    }
