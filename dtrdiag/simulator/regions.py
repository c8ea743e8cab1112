"""What e* costs: cached evicted regions, refreshed exactly when simrd refreshes them.

Every storage has a forward and a backward region: *interior* (non-resident storages reached
through non-resident ones), *frontier* (resident storages at the edge), and the interior's cost.
Caching makes e* affordable and also makes it stale: creating tensors and growing a storage's
compute refresh nothing, and decisions depend on it (Q-stale-region in docs/semantics.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dtrdiag.simulator.graph import StorageGraph


class _Direction:
    """The regions of all storages in one direction."""

    def __init__(self, graph: StorageGraph, edges: list[dict[int, None]]) -> None:
        self.graph = graph
        self.edges = edges
        self.interior: list[set[int]] = []
        self.frontier: list[set[int]] = []
        self.sum_ns: list[int] = []
        """[tensors] cost of the interior, as last refreshed."""
        self.grow(len(edges))

    def grow(self, tensors: int) -> None:
        self.interior += [set() for _ in range(tensors)]
        self.frontier += [set() for _ in range(tensors)]
        self.sum_ns += [0] * tensors

    def rebuild(self, storage: int) -> None:
        interior, self.frontier[storage] = self.graph.walk(storage, self.edges)
        self.interior[storage] = interior
        self.sum_ns[storage] = sum(map(self.graph.compute_ns.__getitem__, interior))

    def absorb(self, storage: int, evicted: int) -> None:
        """Move `evicted` from the frontier of `storage`'s region to its interior, with its own."""
        frontier = self.frontier[storage]
        # simrd aborts where a stale frontier lacks the evicted storage; here it is let pass.
        frontier.discard(evicted)
        frontier |= self.frontier[evicted]
        # simrd lets the storage itself in when a stale frontier holds it.
        gained = self.interior[evicted] - self.interior[storage]
        gained.add(evicted)
        self.interior[storage] |= gained
        self.sum_ns[storage] += sum(map(self.graph.compute_ns.__getitem__, gained))

    def clear(self, storage: int) -> None:
        self.interior[storage] = set()
        self.frontier[storage] = set()
        self.sum_ns[storage] = 0


class _FreshSums(Sequence[int]):
    """[tensors] cost of each storage's interior in one direction, walked when it is read."""

    def __init__(self, graph: StorageGraph, edges: list[dict[int, None]]) -> None:
        self._graph = graph
        self._edges = edges

    def __len__(self) -> int:
        return len(self._edges)

    def __getitem__(self, storage: Any) -> Any:
        interior, _ = self._graph.walk(storage, self._edges)
        return sum(map(self._graph.compute_ns.__getitem__, interior))


class _FreshDirection:
    def __init__(self, graph: StorageGraph, edges: list[dict[int, None]]) -> None:
        self.sum_ns = _FreshSums(graph, edges)


class FreshRegions:
    """Regions that are never out of date, because nothing is kept (Q-stale-region repaired)."""

    def __init__(self, graph: StorageGraph) -> None:
        self.forward = _FreshDirection(graph, graph.children)
        self.backward = _FreshDirection(graph, graph.parents)


class Regions:
    """Both regions of every storage, kept up to date by the events of the machine."""

    def __init__(self, graph: StorageGraph) -> None:
        self.forward = _Direction(graph, graph.children)
        self.backward = _Direction(graph, graph.parents)

    def grow(self, tensors: int) -> None:
        """Make place for so many more tensors."""
        self.forward.grow(tensors)
        self.backward.grow(tensors)

    def called(self, inputs: Sequence[int], outputs: Sequence[int], fresh: Sequence[int]) -> None:
        """New tensors refresh nothing (Q-stale-region)."""

    def detached(self, storage: int) -> None:
        """A storage that leaves the graph refreshes nothing either."""

    def became_resident(self, storages: Iterable[int]) -> None:
        """Rebuild the regions of these storages, then those that see them at their edge."""
        seen_forward: set[int] = set()
        seen_backward: set[int] = set()
        for storage in storages:
            self.forward.rebuild(storage)
            self.backward.rebuild(storage)
            seen_forward |= self.backward.frontier[storage]
            seen_backward |= self.forward.frontier[storage]
        for storage in seen_forward:
            self.forward.rebuild(storage)
        for storage in seen_backward:
            self.backward.rebuild(storage)

    def evicted(self, storage: int) -> None:
        """Merge the storage and its regions into the regions at whose edge it stood."""
        for parent in self.backward.frontier[storage]:
            self.forward.absorb(parent, storage)
        for child in self.forward.frontier[storage]:
            self.backward.absorb(child, storage)
        self.forward.clear(storage)
        self.backward.clear(storage)
