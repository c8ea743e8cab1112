"""Which storages neighbour which: the dependency graph that policies look at.

An edge goes from the storage of an input to the storage of each output of an op, unless they are
the same. Edges appear when the op is called, before it is executed (simrd: Q-uncomputed-neighbour),
and vanish when a storage is banished.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

ABSENT, RESIDENT, PINNED = 0, 1, 2
"""What the machine notes of each storage: not in memory, in memory, in memory for good. The last
is used where a pin is final, that is, except under the deallocation `banish`."""


class StorageGraph:
    """Adjacency by storage id; `residency` is the machine's own table, read only here."""

    def __init__(self, tensors: int, residency: bytearray, compute_ns: list[int]) -> None:
        self.residency = residency
        self.compute_ns = compute_ns
        # Dicts serve as ordered sets: iteration order is the order of insertion.
        self.children: list[dict[int, None]] = []
        self.parents: list[dict[int, None]] = []
        self.grow(tensors)

    def grow(self, tensors: int) -> None:
        """Make place for so many more tensors."""
        self.children += [{} for _ in range(tensors)]
        self.parents += [{} for _ in range(tensors)]

    def connect(self, inputs: Iterable[int], outputs: Iterable[int]) -> None:
        """Add the edges of one op, given the storages of its inputs and outputs."""
        parents = dict.fromkeys(inputs)
        for output in dict.fromkeys(outputs):
            for parent in parents:
                if parent != output:
                    self.children[parent][output] = None
                    self.parents[output][parent] = None

    def detach(self, storage: int) -> None:
        """Make other storages forget a banished one.

        It keeps its own edges, which count if it comes back (Q-banished-sibling).
        """
        for parent in self.parents[storage]:
            self.children[parent].pop(storage, None)
        for child in self.children[storage]:
            self.parents[child].pop(storage, None)

    def observers_of(self, storage: int) -> Iterator[int]:
        """Storages that have this one as a parent or child; one that has both comes twice."""
        for parent in self.parents[storage]:
            if storage in self.children[parent]:
                yield parent
        for child in self.children[storage]:
            if storage in self.parents[child]:
                yield child

    def walk(self, base: int, edges: list[dict[int, None]]) -> tuple[set[int], set[int]]:
        """The evicted neighbourhood of a storage in one direction.

        Args:
            base: a storage.
            edges: `children` for forward, `parents` for backward.

        Returns:
            The interior, non-resident storages reached through non-resident ones only, and the
            frontier, resident storages at its edge, `base` excluded. Storages pinned for good are
            left out of the frontier: they are never scored or evicted, so nobody asks.
        """
        residency = self.residency
        interior: set[int] = set()
        frontier: set[int] = set()
        stack = [base]
        while stack:
            for storage in edges[stack.pop()]:
                state = residency[storage]
                if state == RESIDENT:
                    frontier.add(storage)
                elif state == ABSENT and storage not in interior:
                    interior.add(storage)
                    stack.append(storage)
        frontier.discard(base)
        return interior, frontier
