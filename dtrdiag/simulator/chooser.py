"""Who decides which storage goes: the machine asks a chooser, and tells it what happened.

`PolicyChooser` scores the pool with a policy. Any other chooser, such as one that reads recorded
victims, runs on the same machine and so produces the same events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from dtrdiag.simulator.policies import Policy
from dtrdiag.simulator.pool import Pool, SplitMix64, StorageTable, Tracked
from dtrdiag.simulator.scoring import Choice, choose


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
    """Evicts the storage with the lowest score under a policy."""

    def __init__(self, policy: Policy, table: StorageTable, seed: int, candidates: int) -> None:
        self._scores = policy.scores
        self._table = table
        self._tracked = Tracked(table, policy.uses)
        self._rng = SplitMix64(seed)
        self._candidates = candidates

    def called(self, inputs: Sequence[int], outputs: Sequence[int], fresh: Sequence[int]) -> None:
        """Add the op's edges to the graph; start tracking its new storages."""
        if self._tracked.graph is not None:
            self._tracked.graph.connect(inputs, outputs)
            for observer in self._tracked.observers:
                observer.called(fresh)

    def became_resident(self, storages: Sequence[int]) -> None:
        """Update what is tracked."""
        for observer in self._tracked.observers:
            observer.became_resident(storages)

    def evicted(self, storage: int) -> None:
        """Update what is tracked."""
        for observer in self._tracked.observers:
            observer.evicted(storage)

    def detached(self, storage: int) -> None:
        """Remove the storage from the graph."""
        if self._tracked.graph is not None:
            self._tracked.graph.detach(storage)

    def choose(self, pool: Iterable[int], clock_ns: int) -> Choice:
        """Score the pool and take the lowest."""
        storages = list(pool)
        scores = self._scores(Pool(storages, clock_ns, self._table, self._tracked, self._rng))
        return choose(storages, scores, self._candidates)
