"""Which storage would a policy evict? Computed from the definitions, for `dtrdiag.checker` alone.

Every score is worked out at every choice, neighbours are walked, classes are relabelled one storage
at a time. What simrd caches, the regions of `estar`, is cached, since decisions depend on how old
it is, unless that is repaired. The one shortcut: storages pinned for good have no regions, because
nobody would read them.
"""

from __future__ import annotations

import math
from typing import Any

from dtrdiag.errors import UsageError
from dtrdiag.events.records import Evict, RunHeader
from dtrdiag.interventions import Victim

Score = int | float | None
Choice = tuple[int, Score, tuple[tuple[int, Score], ...]]
"""The storage to evict, the score of the log's victim, the best losers."""

CHECKED_POLICIES: dict[str, tuple[str, bool, bool]] = {
    f"{cost}{size}{stale}": (cost, bool(size), bool(stale))
    for cost in ("estar", "eq", "local", "none")
    for size in ("", "+size")
    for stale in ("", "+stale")
} | {
    "dtr": ("estar", True, True),
    "dtr-eq": ("eq", True, True),
    "dtr-local": ("local", True, True),
    "dtr-full": ("full", True, True),
    "msps": ("backward", True, False),
    "lru": ("last access", False, False),
    "size": ("none", True, False),
    "random": ("random", False, False),
}
"""Policies that are defined here: the cost, and whether size and staleness divide it."""
_MASK = (1 << 64) - 1


class _Region:
    """Non-resident storages reached from one through such, the resident ones at the edge, a sum."""

    def __init__(self) -> None:
        self.inside: set[int] = set()
        self.edge: set[int] = set()
        self.sum_ns = 0


class Scores:
    """What one run's policies look at; `run` is the checker's, which keeps it up to date.

    Raises:
        UsageError: a policy is not defined here.
    """

    def __init__(self, run: Any, header: RunHeader) -> None:
        self._policies = [(0, header.policy), *run.changes.policies]
        for _, policy in self._policies:
            if policy not in CHECKED_POLICIES:
                raise UsageError(
                    f"the scores of policy {policy!r} cannot be checked: it is not one of those "
                    "that dtrdiag defines"
                )
        costs = {CHECKED_POLICIES[policy][0] for _, policy in self._policies}
        self._fresh = "stale-region" in run.repairs
        self._caches_regions = not self._fresh and not costs.isdisjoint(("estar", "backward"))
        self._zero_stops = "zero-stops" not in run.repairs
        self._run, self._random = run, header.seed
        self._policy = CHECKED_POLICIES[header.policy]
        """Of the choice at hand."""
        ids = range(len(run.storage))
        self._up: list[set[int]] = [set() for _ in ids]
        self._down: list[set[int]] = [set() for _ in ids]
        # Ways to walk: forward through what was computed from a storage, backward through inputs.
        self._edges = (self._down, self._up)
        self._regions = tuple([_Region() for _ in ids] for _ in self._edges)
        self._class: dict[int, int] = {}
        """Class of each non-resident storage."""
        self._values: list[int] = []
        self._brought: dict[int, int] | None = {} if "phantom-credit" in run.repairs else None
        """What non-resident storages brought to their classes, where it matters."""

    def called(self, op: int) -> None:
        """The outputs of an op came into being."""
        of = self._run.storage
        for tensor in self._run.outputs[op]:
            if of[tensor] == tensor:
                self._class[tensor] = self._new_class(0)
            for needed in self._run.inputs[tensor]:
                if of[needed] != of[tensor]:
                    self._down[of[needed]].add(of[tensor])
                    self._up[of[tensor]].add(of[needed])

    def returned(self, storages: list[int]) -> None:
        """An execution made these storages resident."""
        for storage in storages:
            taken = self._run.compute[storage]
            if self._brought is not None:
                taken = self._brought.pop(storage, 0)
            self._values[self._class.pop(storage)] -= taken
        if self._caches_regions:
            forward, backward = self._regions
            for storage in storages:
                self._rebuild(0, storage)
                self._rebuild(1, storage)
            for seen in set().union(*(backward[storage].edge for storage in storages)):
                self._rebuild(0, seen)
            for seen in set().union(*(forward[storage].edge for storage in storages)):
                self._rebuild(1, seen)

    def evicted(self, storage: int) -> None:
        """A storage became non-resident."""
        near = {self._class[neighbour] for neighbour in self._near(storage)}
        merged = self._new_class(self._run.compute[storage])
        self._values[merged] += sum(self._values[label] for label in near)
        if near:
            self._class.update({s: merged for s, label in self._class.items() if label in near})
        self._class[storage] = merged
        if self._brought is not None:
            self._brought[storage] = self._run.compute[storage]
        if self._caches_regions:
            for way in (0, 1):
                for neighbour in self._regions[1 - way][storage].edge:
                    if self._is_read(neighbour):
                        self._absorb(self._regions[way][neighbour], storage, way)
            for regions in self._regions:
                regions[storage] = _Region()

    def banished(self, storage: int) -> None:
        """A storage was freed for good: others forget it, it keeps its own neighbours."""
        for parent in self._up[storage]:
            self._down[parent].discard(storage)
        for child in self._down[storage]:
            self._up[child].discard(storage)

    def choice(self, event: Evict, named: Victim | None) -> Choice:
        """Whom the policy chooses now, and what it has to say about the victim of the event.

        Args:
            event: the eviction of the log.
            named: what an intervention says of the victim.
        """
        pool = list(self._run.pool)
        switches = [policy for at, policy in self._policies if at <= self._run.decisions]
        self._policy = CHECKED_POLICIES[switches[-1]]
        if named and not named.forced:
            passed_over = named.storage
            if passed_over is None:
                passed_over = self._walk_pool(pool)[0][0]
            pool = [storage for storage in pool if storage != passed_over] or pool
        ranked = [] if named and named.forced else self._walk_pool(pool)
        victim = ranked[0][0] if ranked else event.storage
        score = None if self._policy[0] == "random" else self._score(event.storage)
        if victim != event.storage:
            return victim, score, event.candidates
        if named and score is not None:
            ranked = [(victim, score), *self._walk_pool([s for s in pool if s != victim])]
        return victim, score, tuple(ranked[1 : self._run.losers + 1])

    def _walk_pool(self, pool: list[int]) -> list[tuple[int, Score]]:
        """What a walk over the pool comes to see, best first; what is drawn, alone."""
        if self._policy[0] == "random":
            return [(pool[self._below(len(pool))], None)]
        walked: list[tuple[int | float, int, int]] = []
        for place, storage in enumerate(pool):
            ties = {"first": place, "last": -place, "lowest-id": storage, "highest-id": -storage}
            score = self._score(storage)
            walked.append((score, ties[self._run.changes.tie_break], storage))
            if score == 0 and self._zero_stops:
                break
        return [(storage, score) for score, _, storage in sorted(walked)]

    def _score(self, storage: int) -> int | float:
        kind, by_size, by_staleness = self._policy
        run, latest = self._run, self._run.accessed[storage]
        cost = 1 if kind == "none" else run.compute[storage]
        if kind == "last access":
            return int(latest)
        if kind == "eq":
            near = {self._class[neighbour] for neighbour in self._near(storage)}
            cost += sum(self._values[label] for label in near)
        elif kind == "backward":
            cost += self._region_sum(1, storage)
        elif kind == "estar":
            cost += self._region_sum(0, storage) + self._region_sum(1, storage)
        elif kind == "full":
            around = self._walk(0, storage)[0] | self._walk(1, storage)[0]
            cost += sum(run.compute[other] for other in around)
            latest = max([latest, *(run.accessed[other] for other in around)])
        if not (by_size or by_staleness):
            return int(cost)
        below = run.size[storage] if by_size else 1
        below *= run.clock - latest if by_staleness else 1
        return cost / below if below else math.inf

    def _region_sum(self, way: int, storage: int) -> int:
        if not self._fresh:
            return self._regions[way][storage].sum_ns
        return int(sum(self._run.compute[other] for other in self._walk(way, storage)[0]))

    def _near(self, storage: int) -> set[int]:
        around = self._up[storage] | self._down[storage]
        return {other for other in around if other not in self._run.resident}

    def _new_class(self, value: int) -> int:
        self._values.append(value)
        return len(self._values) - 1

    def _walk(self, way: int, base: int) -> tuple[set[int], set[int]]:
        edges, resident = self._edges[way], self._run.resident
        inside: set[int] = set()
        edge: set[int] = set()
        stack = [base]
        while stack:
            for storage in edges[stack.pop()]:
                if storage in resident:
                    edge.add(storage)
                elif storage not in inside:
                    inside.add(storage)
                    stack.append(storage)
        return inside, edge - {base}

    def _is_read(self, storage: int) -> bool:
        return self._run.dealloc == "banish" or storage not in self._run.pinned

    def _rebuild(self, way: int, storage: int) -> None:
        if self._is_read(storage):
            region = self._regions[way][storage]
            region.inside, region.edge = self._walk(way, storage)
            region.sum_ns = sum(map(self._run.compute.__getitem__, region.inside))

    def _absorb(self, region: _Region, storage: int, way: int) -> None:
        own = self._regions[way][storage]
        region.edge.discard(storage)
        region.edge |= own.edge
        gained = (own.inside - region.inside) | {storage}
        region.inside |= gained
        region.sum_ns += sum(self._run.compute[other] for other in gained)

    def _below(self, bound: int) -> int:
        """SplitMix64: the high half of a 64-bit draw times the bound."""
        self._random = (self._random + 0x9E3779B97F4A7C15) & _MASK
        z = self._random
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((z ^ (z >> 31)) * bound) >> 64
