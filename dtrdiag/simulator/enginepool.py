"""What a policy in Python sees of the pool while the compiled engine runs."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from dtrdiag.simulator.policies import Policy
from dtrdiag.simulator.pool import Ints, Pool, SplitMix64, not_registered


class EnginePool(Pool):
    """The evictable storages at one decision, their columns filled by the engine when read.

    Args:
        steps: the run, which waits for a victim.
        policy: who looks at the pool; it may read what it registered for.
        rng: the run's seeded generator.
    """

    def __init__(self, steps: Any, policy: Policy, rng: SplitMix64) -> None:
        self.storages = steps.column("storages").tolist()
        self.clock_ns = steps.clock_ns
        self.rng = rng
        self._steps = steps
        self._uses = policy.uses

    @cached_property
    def size_bytes(self) -> Ints:
        """Size of each storage."""
        return self._filled("size_bytes")

    @cached_property
    def compute_ns(self) -> Ints:
        """Cost of the distinct ops among each storage's tensors."""
        return self._filled("compute_ns")

    @cached_property
    def last_access_ns(self) -> Ints:
        """Clock at each storage's last access."""
        return self._filled("last_access_ns")

    @cached_property
    def forward_ns(self) -> Ints:
        """Cost of the cached forward region (needs "regions")."""
        return self._filled("forward_ns", "regions")

    @cached_property
    def backward_ns(self) -> Ints:
        """Cost of the cached backward region (needs "regions")."""
        return self._filled("backward_ns", "regions")

    @cached_property
    def eq_ns(self) -> Ints:
        """Compute plus the distinct equivalence classes nearby (needs "eqclasses")."""
        return self._filled("eq_ns", "eqclasses")

    @cached_property
    def _neighbourhood(self) -> tuple[Ints, Ints]:
        costs = self._filled("neighbourhood_ns", *self._graph_use)
        return costs, self._filled("neighbourhood_access_ns")

    @property
    def _graph_use(self) -> tuple[str, ...]:
        # Whoever registered for any of the costly state has the graph too.
        return () if self._uses else ("neighbourhood",)

    def _filled(self, name: str, use: str | None = None) -> Ints:
        if use is not None and use not in self._uses:
            raise not_registered(use)
        filled: Ints = self._steps.column(name)
        return filled
