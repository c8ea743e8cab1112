"""What a policy sees: the evictable storages, in pool order, as arrays.

Columns are computed when first asked for, so a policy pays only for what it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dtrdiag.errors import PolicyError
from dtrdiag.simulator.eqclasses import EquivalenceClasses
from dtrdiag.simulator.graph import StorageGraph
from dtrdiag.simulator.regions import Regions

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
        self.resident = bytearray(tensors)
        self.size_bytes: list[int] = [0] * tensors
        self.compute_ns: list[int] = [0] * tensors
        """Sum of the costs of the distinct ops among the storage's tensors."""
        # The same again as arrays, so that a pool's columns are one indexing operation.
        self.size_column: Ints = np.zeros(tensors, dtype=np.int64)
        self.compute_column: Ints = np.zeros(tensors, dtype=np.int64)
        self.last_access_column: Ints = np.zeros(tensors, dtype=np.int64)


class Tracked:
    """The costly state of one run, as far as its policy uses it."""

    def __init__(self, table: StorageTable, uses: Iterable[str]) -> None:
        uses = frozenset(uses)
        tensors = len(table.size_bytes)
        self.graph = StorageGraph(tensors, table.resident, table.compute_ns) if uses else None
        self.regions = Regions(self.graph) if self.graph and "regions" in uses else None
        self.classes = EquivalenceClasses(self.graph) if self.graph and "eqclasses" in uses else None
        self.observers: tuple[Regions | EquivalenceClasses, ...] = tuple(
            observer for observer in (self.regions, self.classes) if observer is not None
        )


class Pool:
    """The evictable storages at one decision. All columns are [pool], in pool order.

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
        self._index = np.fromiter(storages, np.int64, len(storages))

    def __len__(self) -> int:
        return len(self.storages)

    @cached_property
    def size_bytes(self) -> Ints:
        """Size of each storage."""
        return self._table.size_column[self._index]

    @cached_property
    def compute_ns(self) -> Ints:
        """Cost of the distinct ops among each storage's tensors."""
        return self._table.compute_column[self._index]

    @cached_property
    def last_access_ns(self) -> Ints:
        """Clock at each storage's last access."""
        return self._table.last_access_column[self._index]

    @cached_property
    def staleness_ns(self) -> Ints:
        """Time since the last access, `clock - last_access`."""
        return self.clock_ns - self.last_access_ns

    @cached_property
    def forward_ns(self) -> Ints:
        """Cost of the cached forward region (needs "regions")."""
        return self._need(self._tracked.regions, "regions").forward.sum_ns[self._index]

    @cached_property
    def backward_ns(self) -> Ints:
        """Cost of the cached backward region (needs "regions")."""
        return self._need(self._tracked.regions, "regions").backward.sum_ns[self._index]

    @cached_property
    def estar_ns(self) -> Ints:
        """e*: compute plus both cached regions (needs "regions")."""
        return self.compute_ns + self.forward_ns + self.backward_ns

    @cached_property
    def eq_ns(self) -> Ints:
        """Compute plus the distinct equivalence classes nearby (needs "eqclasses")."""
        return self._need(self._tracked.classes, "eqclasses").sums_ns(self.storages)

    @property
    def neighbourhood_ns(self) -> Ints:
        """Compute plus the whole evicted neighbourhood, walked afresh (needs "neighbourhood")."""
        return self._neighbourhood[0]

    @property
    def neighbourhood_staleness_ns(self) -> Ints:
        """Time since the last access to the storage or its evicted neighbourhood."""
        return self._neighbourhood[1]

    @cached_property
    def _neighbourhood(self) -> tuple[Ints, Ints]:
        graph = self._need(self._tracked.graph, "neighbourhood")
        compute_ns = graph.compute_ns
        last_access = self._table.last_access_column
        cost, latest = [], []
        for storage in self.storages:
            around = graph.walk(storage, graph.children)[0] | graph.walk(storage, graph.parents)[0]
            cost.append(compute_ns[storage] + sum(map(compute_ns.__getitem__, around)))
            latest.append(max(map(last_access.item, (storage, *around))))
        return np.array(cost, dtype=np.int64), self.clock_ns - np.array(latest, dtype=np.int64)

    @staticmethod
    def _need(state: _T | None, use: str) -> _T:
        if state is None:
            raise PolicyError(f'a policy reads what it did not register for: add uses=("{use}",)')
        return state
