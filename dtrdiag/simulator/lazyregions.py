"""What e* costs, walked when it is asked for: the sums of `regions`, without keeping the sets.

A cached region is a fresh walk, but for what came with the call at hand and no refresh has seen yet
(docs/decisions/0006-fresh-walks.md): outputs that are not computed, which a forward region has only
if it was refreshed since; and the cost that an alias adds to a storage that is not resident. Both
are noted here until that call is done.

Sums that were walked once are kept as lower bounds. An eviction only adds to regions, so bounds
stay bounds. A storage that comes back has all its parents in memory; so only its parents have it in
their forward regions, and it takes nothing with it out of the backward regions that it was in.

Where an op adds an edge between storages that were there before, none of this holds: from there on
cached regions serve, and until then they are the same sets as fresh walks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtrdiag.simulator.graph import RESIDENT, StorageGraph
from dtrdiag.simulator.regions import Regions

ENDLESS = 1 << 200
"""More than any region costs."""


class LazyRegions:
    """Both regions of every storage under the deallocations `eager` and `ignore`.

    It must hear of a call before the graph has the call's edges.
    """

    def __init__(self, graph: StorageGraph) -> None:
        self.graph = graph
        self.cached: Regions | None = None
        """What serves since an edge between old storages, if there was one."""
        self.forward = _Direction(self, 0)
        self.backward = _Direction(self, 1)
        self._known_ns: list[int] = []
        """[tensors] compute as of the last call."""
        self._least_ns: tuple[list[int], list[int]] = ([], [])
        """[tensors] lower bounds of the sums on each side."""
        self._new: set[int] = set()
        """New storages of the call at hand, not computed yet."""
        self._new_ns = 0
        self._sees_new: set[int] = set()
        """Storages whose forward region has been refreshed, and has `_new`."""
        self._leads: set[int] | None = None
        """Non-resident storages that lead to `_new`, these included; None: not looked for yet."""
        self._unseen_ns: tuple[dict[int, int], dict[int, int]] = ({}, {})
        """Cost that aliases of the call at hand added and regions have not seen."""
        self.grow(len(graph.children))

    def grow(self, tensors: int) -> None:
        """Make place for so many more tensors."""
        self._known_ns += [0] * tensors
        for least_ns in self._least_ns:
            least_ns += [0] * tensors
        if self.cached is not None:
            self.cached.grow(tensors)

    # --- what happens ---------------------------------------------------------------------------

    def called(self, inputs: Sequence[int], outputs: Sequence[int], fresh: Sequence[int]) -> None:
        """Note what comes into being; regions have not seen it."""
        if self.cached is not None:
            return
        if len(fresh) < len(outputs) and self._adds_old_edges(inputs, outputs, fresh):
            self.cached = self._as_cached()
            return
        known_ns, compute_ns = self._known_ns, self.graph.compute_ns
        self._new = set(fresh)
        self._new_ns = sum(map(compute_ns.__getitem__, fresh))
        self._sees_new.clear()
        self._leads = None
        for storage in outputs:
            gained_ns = compute_ns[storage] - known_ns[storage]
            known_ns[storage] = compute_ns[storage]
            if gained_ns and storage not in self._new and not self.graph.residency[storage]:
                self._note_unseen(storage, gained_ns)

    def became_resident(self, storages: Sequence[int]) -> None:
        """Regions that had these storages have them no more."""
        if self.cached is not None:
            self.cached.became_resident(storages)
            return
        if not storages:
            return
        forward_ns, backward_ns = self._least_ns
        for storage in storages:
            forward_ns[storage] = backward_ns[storage] = 0
        if storages[0] in self._new:
            # The call's own end. Of all regions only those of its inputs can have its outputs.
            for storage in self._sees_new:
                forward_ns[storage] = 0
            self._sees_new.clear()
            self._new, self._leads = set(), None
            return
        if self._leads is not None:
            self._leads.difference_update(storages)
        elif self._new:
            self._leads = set()
            self._lead(self._leads, self._new)
        for storage in storages:
            self._refreshed(storage)
            for parent in self.graph.parents[storage]:
                self._refreshed(parent)
            cost_ns = self.graph.compute_ns[storage]
            for holder in self._edge_of(storage, 0):
                backward_ns[holder] = max(0, backward_ns[holder] - cost_ns)
                self._unseen_ns[1].pop(holder, None)

    def evicted(self, storage: int) -> None:
        """Regions that have the storage at their edge take in it and its own."""
        if self.cached is not None:
            self.cached.evicted(storage)
            return
        if storage in self._sees_new:
            self._sees_new.discard(storage)
            self._sees_new |= self._edge_of(storage, 1)
        if self._leads is not None and not self._leads.isdisjoint(self.graph.children[storage]):
            self._lead(self._leads, {storage})
        for unseen_ns in self._unseen_ns:
            unseen_ns.pop(storage, None)

    def detached(self, storage: int) -> None:
        """Cannot be: nothing is banished under these deallocations."""

    def _note_unseen(self, storage: int, gained_ns: int) -> None:
        # Whoever has it in a region stands at the edge of its region on the other side.
        for side in (0, 1):
            unseen_ns = self._unseen_ns[side]
            for holder in self._edge_of(storage, 1 - side):
                unseen_ns[holder] = unseen_ns.get(holder, 0) + gained_ns

    def _refreshed(self, storage: int) -> None:
        """The forward region of a storage is as a walk finds it."""
        self._least_ns[0][storage] = 0
        self._unseen_ns[0].pop(storage, None)
        if self._leads is not None:
            if self._leads.isdisjoint(self.graph.children[storage]):
                self._sees_new.discard(storage)
            else:
                self._sees_new.add(storage)

    def _lead(self, leads: set[int], storages: set[int]) -> None:
        """Add these to what leads to the outputs of the call at hand, and what leads to them."""
        residency, parents = self.graph.residency, self.graph.parents
        stack = list(storages)
        leads |= storages
        while stack:
            for parent in parents[stack.pop()]:
                if not residency[parent] and parent not in leads:
                    leads.add(parent)
                    stack.append(parent)

    def _edge_of(self, storage: int, side: int) -> set[int]:
        graph = self.graph
        return graph.walk(storage, graph.parents if side else graph.children)[1]

    def _adds_old_edges(
        self, inputs: Sequence[int], outputs: Sequence[int], fresh: Sequence[int]
    ) -> bool:
        children = self.graph.children
        return any(
            parent != output and output not in children[parent]
            for output in set(outputs).difference(fresh)
            for parent in inputs
        )

    def _as_cached(self) -> Regions:
        """The cached regions as they are between two calls."""
        cached = Regions(self.graph)
        for storage, state in enumerate(self.graph.residency):
            if state == RESIDENT:
                for direction in (cached.forward, cached.backward):
                    direction.rebuild(storage)
                    # What the call at hand adds to costs has not been seen.
                    interior = direction.interior[storage]
                    direction.sum_ns[storage] = sum(map(self._known_ns.__getitem__, interior))
        return cached

    # --- what is asked --------------------------------------------------------------------------

    def sum_ns(self, side: int, storage: int, most_ns: int = ENDLESS) -> int:
        """Cost of a region, or a lower bound above `most_ns` of a region that costs more.

        Args:
            side: 0 for the forward region, 1 for the backward one.
            storage: a storage in memory.
            most_ns: the walk ends once its sum exceeds this.
        """
        graph = self.graph
        edges = graph.parents if side else graph.children
        residency, compute_ns = graph.residency, graph.compute_ns
        total_ns = -self._unseen_ns[side].get(storage, 0)
        if not side and storage in self._sees_new:
            total_ns += self._new_ns
        inside = set(self._new)
        stack = [storage]
        while stack:
            for other in edges[stack.pop()]:
                if not residency[other] and other not in inside:
                    inside.add(other)
                    total_ns += compute_ns[other]
                    stack.append(other)
            if total_ns > most_ns:
                break
        self._least_ns[side][storage] = total_ns
        return total_ns

    def least_ns(self, side: int, storages: Sequence[int]) -> list[int]:
        """[storages] what the regions cost at least."""
        least_ns = self._least_ns[side]
        return [least_ns[storage] for storage in storages]


class _Sums(Sequence[int]):
    """[tensors] cost of each storage's region on one side, walked when it is read."""

    def __init__(self, regions: LazyRegions, side: int) -> None:
        self._regions = regions
        self._side = side

    def __len__(self) -> int:
        return len(self._regions.graph.children)

    def __getitem__(self, storage: Any) -> Any:
        cached = self._regions.cached
        if cached is None:
            return self._regions.sum_ns(self._side, storage)
        return (cached.backward if self._side else cached.forward).sum_ns[storage]


class _Direction:
    def __init__(self, regions: LazyRegions, side: int) -> None:
        self.sum_ns = _Sums(regions, side)
