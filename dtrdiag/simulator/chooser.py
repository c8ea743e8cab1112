"""Who decides which storage goes: the machine asks a chooser, and tells it what happened.

`PolicyChooser` scores the pool with a policy. Any other chooser, such as one that reads recorded
victims, runs on the same machine and so produces the same events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Protocol

from dtrdiag.ids import StorageId
from dtrdiag.simulator.lazychoice import lowest
from dtrdiag.simulator.policies import Factors, Policy
from dtrdiag.simulator.pool import Pool, SplitMix64, StorageTable, Tracked, neighbourhoods
from dtrdiag.simulator.scoring import Choice, Number, Pick, Walk, checked_answer, choose, quotients

WALKED = ("estar", "backward")
"""Costs that are sums over regions."""


class Chooser(Protocol):
    """What the machine needs to know of whoever decides."""

    def called(self, inputs: Sequence[int], outputs: Sequence[int], fresh: Sequence[int]) -> None:
        """An op came into being: storages of its inputs and outputs, and the new ones of these."""

    def became_resident(self, storages: Sequence[int]) -> None:
        """An op was executed and made these storages resident."""

    def evicted(self, storage: int) -> None:
        """A storage became non-resident."""

    def detached(self, storage: int) -> None:
        """A storage was banished and left the graph."""

    def choose(self, pool: Iterable[int], clock_ns: int) -> Choice:
        """The storage to evict, out of a pool that is not empty."""


class PolicyChooser:
    """Evicts the storage with the lowest score under a policy.

    Args:
        policy: gives the scores.
        table: per-storage facts, shared with the machine.
        seed: of policies that draw.
        candidates: how many losers each choice lists.
        repairs: defects of simrd that are repaired.
        tie_break: which of equals goes.
        uses: what else is tracked, besides what the policy uses.
        lazy: no storage is ever banished, so regions may be walked when they are asked for.
    """

    def __init__(
        self,
        policy: Policy,
        table: StorageTable,
        seed: int,
        candidates: int,
        *,
        repairs: Set[str] = frozenset(),
        tie_break: str = "last",
        uses: Set[str] = frozenset(),
        lazy: bool = False,
    ) -> None:
        self._policy = policy
        self._table = table
        uses = policy.uses | uses
        # Whoever reads all sums at each choice fares better with those that are kept.
        lazy = lazy and not candidates and isinstance(policy.score, Factors)
        self._tracked = Tracked(table, uses, repairs, lazy=lazy)
        self._lazy = self._tracked.lazy
        self._graph = self._tracked.graph if uses else None
        self._observers = self._tracked.observers
        self._rng = SplitMix64(seed)
        self._candidates = candidates
        self._walk = Walk(tie_break, "zero-stops" not in repairs)

    def grow(self, tensors: int) -> None:
        """Make place for so many more tensors."""
        self._tracked.grow(tensors)

    def called(self, inputs: Sequence[int], outputs: Sequence[int], fresh: Sequence[int]) -> None:
        """Add the op's edges to the graph; start tracking its new storages."""
        if self._graph is not None:
            for observer in self._observers:
                observer.called(inputs, outputs, fresh)
            self._graph.connect(inputs, outputs)

    def became_resident(self, storages: Sequence[int]) -> None:
        """Update what is tracked."""
        for observer in self._observers:
            observer.became_resident(storages)

    def evicted(self, storage: int) -> None:
        """Update what is tracked."""
        for observer in self._observers:
            observer.evicted(storage)

    def detached(self, storage: int) -> None:
        """Remove the storage from the graph."""
        if self._graph is not None:
            for observer in self._observers:
                observer.detached(storage)
            self._graph.detach(storage)

    def choose(self, pool: Iterable[int], clock_ns: int) -> Choice:
        """Score the pool and take the lowest."""
        storages = list(pool)
        score, lazy = self._policy.score, self._lazy
        factors = score if isinstance(score, Factors) else Factors("none")
        if factors.cost in WALKED and lazy is not None and lazy.cached is None:
            weights = self._weights(factors, storages, clock_ns, self._table.last_access_ns)
            both = factors.cost == "estar"
            return lowest(lazy, storages, weights, both=both, walk=self._walk)
        answer = self._answer(storages, clock_ns)
        if isinstance(answer, Pick):
            return Choice(StorageId(storages[answer.position]), None, ())
        return choose(storages, answer, self._candidates, self._walk)

    def _answer(self, storages: list[int], clock_ns: int) -> list[Number] | Pick:
        score = self._policy.score
        if isinstance(score, Factors):
            return self._scores(score, storages, clock_ns)
        view = Pool(storages, clock_ns, self._table, self._tracked, self._rng)
        return checked_answer(storages, score(view), self._policy.name)

    def _scores(self, factors: Factors, storages: list[int], clock_ns: int) -> list[Number]:
        latest: Sequence[int] | dict[int, int] = self._table.last_access_ns
        if factors.cost == "full":
            # Here staleness counts from the latest access in the whole neighbourhood.
            costs, access = neighbourhoods(storages, self._tracked.graph, self._table)
            latest = dict(zip(storages, access, strict=True))
        else:
            costs = self._costs(factors.cost, storages)
        weights = self._weights(factors, storages, clock_ns, latest)
        return [*costs] if weights is None else quotients(costs, weights)

    def _weights(
        self,
        factors: Factors,
        storages: list[int],
        clock_ns: int,
        latest: Sequence[int] | dict[int, int],
    ) -> list[int] | None:
        """[pool] what costs are divided by; None: nothing."""
        size_bytes = self._table.size_bytes
        if factors.size and factors.staleness:
            return [size_bytes[s] * (clock_ns - latest[s]) for s in storages]
        if factors.size:
            return [size_bytes[s] for s in storages]
        if factors.staleness:
            return [clock_ns - latest[s] for s in storages]
        return None

    def _costs(self, cost: str, storages: list[int]) -> list[int]:
        compute_ns = self._table.compute_ns
        if cost == "estar":
            forward = self._tracked.regions.forward.sum_ns
            backward = self._tracked.regions.backward.sum_ns
            return [compute_ns[s] + forward[s] + backward[s] for s in storages]
        if cost == "eq":
            return self._tracked.classes.sums_ns(storages)
        if cost == "local":
            return [compute_ns[s] for s in storages]
        if cost == "backward":
            backward = self._tracked.regions.backward.sum_ns
            return [compute_ns[s] + backward[s] for s in storages]
        if cost == "last_access":
            latest = self._table.last_access_ns
            return [latest[s] for s in storages]
        return [1] * len(storages)
