"""What neighbours cost by equivalence classes: union-find with one value per class.

A cheap stand-in for e*: evicted storages that touch share a class whose value is their summed cost.
Splitting is not supported, as in simrd: a storage that comes back takes its cost out of the class
but leaves the class in one piece. A first execution takes its cost out of a class that never
contained it (Q-phantom-credit), so values can become negative, unless that is repaired.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from dtrdiag.simulator.graph import StorageGraph

_NONE = -1


class EquivalenceClasses:
    """Classes of non-resident storages, kept up to date by the events of the machine."""

    def __init__(self, graph: StorageGraph, repairs: Set[str] = frozenset()) -> None:
        self.graph = graph
        self._takes_what_it_brought = "phantom-credit" in repairs
        self.class_of: list[int] = []
        """[tensors] node of each non-resident storage."""
        self.near: list[set[int]] = []
        """[tensors] non-resident neighbours of each storage, while it is in the graph."""
        self._left: set[int] = set()
        """Storages that left the graph: nobody tells them of their neighbours any more."""
        self._brought_ns: list[int] = []
        """Compute of each storage at its last eviction; 0 before the first."""
        self.parent: list[int] = []
        self.value_ns: list[int] = []
        """Value of each class, valid at its root node."""
        self.grow(len(graph.children))

    def grow(self, tensors: int) -> None:
        """Make place for so many more tensors."""
        self.class_of += [_NONE] * tensors
        self.near += [set() for _ in range(tensors)]
        self._brought_ns += [0] * tensors

    def called(self, inputs: Sequence[int], outputs: Sequence[int], fresh: Sequence[int]) -> None:
        """Give each new storage a class of its own, of value 0, and note the new neighbours."""
        residency = self.graph.residency
        for storage in fresh:
            self.class_of[storage] = self._node(0)
        for output in outputs:
            for parent in inputs:
                if parent != output:
                    if not residency[output]:
                        self.near[parent].add(output)
                    if not residency[parent]:
                        self.near[output].add(parent)

    def became_resident(self, storages: Iterable[int]) -> None:
        """Take each storage's cost, as it is now, out of its class, and the storage with it.

        With phantom credit repaired, what it brought at its eviction, if there was one.
        """
        taken_ns = self._brought_ns if self._takes_what_it_brought else self.graph.compute_ns
        for storage in storages:
            root = self._root(self.class_of[storage])
            self.value_ns[root] -= taken_ns[storage]
            self.class_of[storage] = _NONE
            self._leave(storage)

    def evicted(self, storage: int) -> None:
        """Merge a new class for the storage with those of its non-resident neighbours."""
        brought_ns = self._brought_ns[storage] = self.graph.compute_ns[storage]
        own = self._node(brought_ns)
        self.class_of[storage] = own
        for neighbour in self._neighbours(storage):
            root = self._root(self.class_of[neighbour])
            if root != own:
                self.parent[root] = own
                self.value_ns[own] += self.value_ns[root]
        for neighbour in self.graph.observers_of(storage):
            self.near[neighbour].add(storage)

    def detached(self, storage: int) -> None:
        """A storage leaves the graph; its cost stays in its class."""
        self._leave(storage)
        self._left.add(storage)

    def sums_ns(self, storages: Iterable[int]) -> list[int]:
        """[storages] compute plus the values of the distinct classes next to each storage."""
        compute_ns, class_of, value_ns = self.graph.compute_ns, self.class_of, self.value_ns
        parent, near_of, none_left = self.parent, self.near, not self._left
        sums = []
        for storage in storages:
            total = compute_ns[storage]
            near = near_of[storage] if none_left else self._neighbours(storage)
            if near:
                roots = set()
                for neighbour in near:
                    node = class_of[neighbour]
                    if parent[node] != node:
                        # Kept, so that the next one to ask need not climb.
                        node = class_of[neighbour] = self._root(node)
                    roots.add(node)
                for root in roots:
                    total += value_ns[root]
            sums.append(total)
        return sums

    def _neighbours(self, storage: int) -> set[int]:
        """Non-resident neighbours, through the storage's own edges if it left the graph."""
        if storage not in self._left:
            return self.near[storage]
        graph = self.graph
        edges = (*graph.children[storage], *graph.parents[storage])
        return {neighbour for neighbour in edges if not graph.residency[neighbour]}

    def _leave(self, storage: int) -> None:
        for neighbour in self.graph.observers_of(storage):
            self.near[neighbour].discard(storage)

    def _node(self, value_ns: int) -> int:
        node = len(self.parent)
        self.parent.append(node)
        self.value_ns.append(value_ns)
        return node

    def _root(self, node: int) -> int:
        parent = self.parent
        above = parent[node]
        while above != node:
            parent[node] = parent[above]
            node = parent[node]
            above = parent[node]
        return node
