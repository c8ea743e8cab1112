"""What neighbours cost by equivalence classes: union-find with one value per class.

A cheap stand-in for e*: evicted storages that touch share a class whose value is their summed cost.
Splitting is not supported, as in simrd: a storage that comes back takes its cost out of the class
but leaves the class in one piece. A first execution takes its cost out of a class that never
contained it (Q-phantom-credit), so values can become negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dtrdiag.simulator.graph import StorageGraph

_NONE = -1


class EquivalenceClasses:
    """Classes of non-resident storages, kept up to date by the events of the machine."""

    def __init__(self, graph: StorageGraph) -> None:
        self.graph = graph
        self.class_of: list[int] = [_NONE] * len(graph.children)
        """[tensors] node of each non-resident storage."""
        self.parent: list[int] = []
        self.value_ns: list[int] = []
        """Value of each class, valid at its root node."""

    def called(self, storages: Iterable[int]) -> None:
        """Give each new storage a class of its own, of value 0."""
        for storage in storages:
            self.class_of[storage] = self._node(0)

    def became_resident(self, storages: Iterable[int]) -> None:
        """Take each storage's cost, as it is now, out of its class, and the storage with it."""
        for storage in storages:
            root = self._root(self.class_of[storage])
            self.value_ns[root] -= self.graph.compute_ns[storage]
            self.class_of[storage] = _NONE

    def evicted(self, storage: int) -> None:
        """Merge a new class for the storage with those of its non-resident neighbours."""
        own = self._node(self.graph.compute_ns[storage])
        self.class_of[storage] = own
        for neighbour in self.graph.evicted_neighbours(storage):
            root = self._root(self.class_of[neighbour])
            if root != own:
                self.parent[root] = own
                self.value_ns[own] += self.value_ns[root]

    def sums_ns(self, storages: Sequence[int]) -> list[int]:
        """[storages] compute plus the values of the distinct classes next to each storage."""
        class_of, value_ns, root_of = self.class_of, self.value_ns, self._root
        compute_ns, neighbours = self.graph.compute_ns, self.graph.evicted_neighbours
        return [
            compute_ns[storage]
            + sum(value_ns[root] for root in {root_of(class_of[n]) for n in neighbours(storage)})
            for storage in storages
        ]

    def _node(self, value_ns: int) -> int:
        node = len(self.parent)
        self.parent.append(node)
        self.value_ns.append(value_ns)
        return node

    def _root(self, node: int) -> int:
        parent = self.parent
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node
