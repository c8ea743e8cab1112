"""What can be known of the evictable storages at a decision, and what it costs to know it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dtrdiag.errors import PolicyError
from dtrdiag.simulator.eqclasses import EquivalenceClasses
from dtrdiag.simulator.graph import StorageGraph
from dtrdiag.simulator.lazyregions import LazyRegions
from dtrdiag.simulator.regions import FreshRegions, Regions

Ints = npt.NDArray[np.int64]
_T = TypeVar("_T")

USES = ("regions", "eqclasses", "neighbourhood")
"""Costly state that a policy may ask the simulator to keep: cached regions for `estar_ns`,
`forward_ns` and `backward_ns`; equivalence classes for `eq_ns`; the graph alone for
`neighbourhood_ns` and `neighbourhood_staleness_ns`."""

_MASK = (1 << 64) - 1


class SplitMix64:
    """A small seeded generator, the same in every language (Steele et al., OOPSLA 2014)."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def below(self, bound: int) -> int:
        """An integer in [0, bound): the high half of a 64-bit draw times `bound`."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & _MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((z ^ (z >> 31)) * bound) >> 64


class StorageTable:
    """Per-storage facts that scores are made of, indexed by storage id. The machine writes them."""

    def __init__(self, tensors: int) -> None:
        self.residency = bytearray()
        """`ABSENT`, `RESIDENT`, or `PINNED` where a pin is final."""
        self.size_bytes: list[int] = []
        self.compute_ns: list[int] = []
        """Sum of the costs of the distinct ops among the storage's tensors."""
        self.last_access_ns: list[int] = []
        """Clock at the last access; -1 before the first."""
        self.grow(tensors)

    def grow(self, tensors: int) -> None:
        """Make place for so many more tensors."""
        self.residency += bytes(tensors)
        self.size_bytes += [0] * tensors
        self.compute_ns += [0] * tensors
        self.last_access_ns += [-1] * tensors


class Tracked:
    """The costly state of one run, as far as its policies use it.

    Args:
        table: per-storage facts.
        uses: out of `USES`.
        repairs: defects of simrd that are repaired.
        lazy: walk regions when they are asked for, where that gives the same sums.
    """

    def __init__(
        self,
        table: StorageTable,
        uses: Iterable[str],
        repairs: Set[str] = frozenset(),
        *,
        lazy: bool = False,
    ) -> None:
        uses = frozenset(uses)
        self._graph: StorageGraph | None = None
        self._regions: Regions | LazyRegions | FreshRegions | None = None
        self._classes: EquivalenceClasses | None = None
        if uses:
            self._graph = StorageGraph(len(table.size_bytes), table.residency, table.compute_ns)
            if "regions" in uses:
                if "stale-region" in repairs:
                    self._regions = FreshRegions(self._graph)
                elif lazy and "uncomputed-neighbour" not in repairs:
                    self._regions = LazyRegions(self._graph)
                else:
                    self._regions = Regions(self._graph)
            if "eqclasses" in uses:
                self._classes = EquivalenceClasses(self._graph, repairs)

        kinds = (Regions, LazyRegions, EquivalenceClasses)
        states = (self._regions, self._classes)
        self.observers = tuple(state for state in states if isinstance(state, kinds))
        """Whatever must hear of calls, executions and evictions."""

    def grow(self, tensors: int) -> None:
        """Make place for so many more tensors."""
        if self._graph is not None:
            self._graph.grow(tensors)
        for observer in self.observers:
            observer.grow(tensors)

    @property
    def graph(self) -> StorageGraph:
        """The dependency graph of storages."""
        return _tracked(self._graph, "neighbourhood")

    @property
    def regions(self) -> Regions | LazyRegions | FreshRegions:
        """The cached regions, or where that is repaired, fresh ones."""
        if self._regions is None:
            raise not_registered("regions")
        return self._regions

    @property
    def lazy(self) -> LazyRegions | None:
        """The regions, if they are walked when they are asked for."""
        return self._regions if isinstance(self._regions, LazyRegions) else None

    @property
    def classes(self) -> EquivalenceClasses:
        """The equivalence classes."""
        return _tracked(self._classes, "eqclasses")


def _tracked(state: _T | None, use: str) -> _T:
    if state is None:
        raise not_registered(use)
    return state


def not_registered(use: str) -> PolicyError:
    """The error of a policy that reads costly state without saying so."""
    return PolicyError(f'a policy reads what it did not register for: add uses=("{use}",)')


class Pool:
    """The evictable storages at one decision. All columns are [pool] arrays, in pool order.

    Attributes:
        storages: storage ids.
        clock_ns: the clock now.
        rng: the run's seeded generator.
    """

    def __init__(
        self,
        storages: Sequence[int],
        clock_ns: int,
        table: StorageTable,
        tracked: Tracked,
        rng: SplitMix64,
    ) -> None:
        self.storages = storages
        self.clock_ns = clock_ns
        self.rng = rng
        self._table = table
        self._tracked = tracked

    def __len__(self) -> int:
        return len(self.storages)

    @cached_property
    def size_bytes(self) -> Ints:
        """Size of each storage."""
        return self._column(self._table.size_bytes)

    @cached_property
    def compute_ns(self) -> Ints:
        """Cost of the distinct ops among each storage's tensors."""
        return self._column(self._table.compute_ns)

    @cached_property
    def last_access_ns(self) -> Ints:
        """Clock at each storage's last access."""
        return self._column(self._table.last_access_ns)

    @cached_property
    def staleness_ns(self) -> Ints:
        """Time since the last access, `clock - last_access`."""
        return self.clock_ns - self.last_access_ns

    @cached_property
    def forward_ns(self) -> Ints:
        """Cost of the cached forward region (needs "regions")."""
        return self._column(self._tracked.regions.forward.sum_ns)

    @cached_property
    def backward_ns(self) -> Ints:
        """Cost of the cached backward region (needs "regions")."""
        return self._column(self._tracked.regions.backward.sum_ns)

    @cached_property
    def estar_ns(self) -> Ints:
        """e*: compute plus both cached regions (needs "regions")."""
        return self.compute_ns + self.forward_ns + self.backward_ns

    @cached_property
    def eq_ns(self) -> Ints:
        """Compute plus the distinct equivalence classes nearby (needs "eqclasses")."""
        return np.array(self._tracked.classes.sums_ns(self.storages), dtype=np.int64)

    @property
    def neighbourhood_ns(self) -> Ints:
        """Compute plus the whole evicted neighbourhood, walked afresh (needs "neighbourhood")."""
        return self._neighbourhood[0]

    @property
    def neighbourhood_staleness_ns(self) -> Ints:
        """Time since the last access to the storage or its evicted neighbourhood."""
        return self.clock_ns - self._neighbourhood[1]

    @cached_property
    def _neighbourhood(self) -> tuple[Ints, Ints]:
        costs, latest = neighbourhoods(self.storages, self._tracked.graph, self._table)
        return np.array(costs, dtype=np.int64), np.array(latest, dtype=np.int64)

    def _column(self, facts: Sequence[int]) -> Ints:
        return np.array([facts[storage] for storage in self.storages], dtype=np.int64)


def neighbourhoods(
    storages: Iterable[int], graph: StorageGraph, table: StorageTable
) -> tuple[list[int], list[int]]:
    """Walk each storage's evicted neighbourhood afresh.

    Returns:
        [storages] cost of the storage and its neighbourhood, each member once, in ns; and the
        latest last access among them.
    """
    costs, latest = [], []
    compute_ns, last_access_ns = table.compute_ns, table.last_access_ns
    for storage in storages:
        around, _ = graph.walk(storage, graph.children)
        around |= graph.walk(storage, graph.parents)[0]
        around.add(storage)
        costs.append(sum(map(compute_ns.__getitem__, around)))
        latest.append(max(map(last_access_ns.__getitem__, around)))
    return costs, latest
