"""How interventions change a run: a chooser and a machine that count decisions and meddle.

docs/interventions.md says what each does. Runs without interventions use neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any

from dtrdiag.events.records import Candidate
from dtrdiag.ids import StorageId
from dtrdiag.interventions import Interventions, Victim
from dtrdiag.simulator.asrun import no_pressure, not_in_pool, nothing_else
from dtrdiag.simulator.banish import BanishingMachine
from dtrdiag.simulator.chooser import PolicyChooser
from dtrdiag.simulator.config import RunConfig
from dtrdiag.simulator.frames import Frame
from dtrdiag.simulator.machine import NO_DETAILS, Machine
from dtrdiag.simulator.policies import draw, find_policy
from dtrdiag.simulator.pool import StorageTable
from dtrdiag.simulator.scoring import Choice, Number, Pick, choose
from dtrdiag.trace.model import Step, Trace


class IntervenedChooser(PolicyChooser):
    """Chooses by a policy, except where an intervention says otherwise.

    Args:
        config: the rules of the run, with its interventions.
        table: per-storage facts, shared with the machine.

    Raises:
        PolicyError: unknown policy.
        SimulationError: as soon as an intervention cannot take place.
    """

    def __init__(self, config: RunConfig, table: StorageTable) -> None:
        changes = config.interventions
        self._switches = [(at, find_policy(name)) for at, name in changes.policies]
        super().__init__(
            find_policy(config.policy),
            table,
            config.seed,
            config.candidates,
            repairs=config.repairs,
            tie_break=changes.tie_break,
            uses=frozenset().union(*(policy.uses for _, policy in self._switches)),
            lazy=config.dealloc != "banish",
        )
        self._victims = {victim.at: victim for victim in changes.victims}
        self._made = 0
        self._switch()

    def became_resident(self, storages: Sequence[int]) -> None:
        """Update what is tracked, and count an execution."""
        super().became_resident(storages)
        self._decided()

    def evicted(self, storage: int) -> None:
        """Update what is tracked, and count an eviction."""
        super().evicted(storage)
        self._decided()

    def choose(self, pool: Iterable[int], clock_ns: int) -> Choice:
        """The storage to evict, by an intervention or by the policy of the moment."""
        victim = self._victims.pop(self._made, None)
        if victim is None:
            return super().choose(pool, clock_ns)
        storages = list(pool)
        if victim.storage is not None and victim.storage not in storages:
            raise not_in_pool(victim)
        if victim.forced and victim.storage is not None:
            return self._forced(storages, storages.index(victim.storage), clock_ns)
        passed = victim.storage
        if passed is None:
            passed = super().choose(storages, clock_ns).storage
        others = [storage for storage in storages if storage != passed]
        if not others:
            raise nothing_else(victim, passed)
        answer = self._answer(others, clock_ns)
        if isinstance(answer, Pick):
            return Choice(StorageId(others[answer.position]), None, ())
        best = choose(others, answer, walk=self._walk)
        return self._given(others, answer, others.index(best.storage))

    def _forced(self, storages: list[int], position: int, clock_ns: int) -> Choice:
        answer = None if self._policy.score is draw else self._answer(storages, clock_ns)
        if answer is None or isinstance(answer, Pick):
            return Choice(StorageId(storages[position]), None, ())
        return self._given(storages, answer, position)

    def _given(self, storages: list[int], scores: list[Number], position: int) -> Choice:
        """The choice of a storage; the losers are those of a walk over the others."""
        losers: tuple[Candidate, ...] = ()
        others = storages[:position] + storages[position + 1 :]
        if self._candidates and others:
            rest = scores[:position] + scores[position + 1 :]
            best = choose(others, rest, self._candidates - 1, self._walk)
            losers = ((best.storage, best.score), *best.candidates)
        return Choice(StorageId(storages[position]), scores[position], losers)

    def _decided(self) -> None:
        passed: Victim | None = self._victims.get(self._made)
        if passed is not None:
            raise no_pressure(passed)
        self._made += 1
        self._switch()

    def _switch(self) -> None:
        if self._switches and self._switches[0][0] == self._made:
            _, self._policy = self._switches.pop(0)


class _PoolWithout(dict[int, None]):
    """The evictable storages, some of which never get in."""

    def __init__(self, kept: Set[int]) -> None:
        super().__init__()
        self._kept = kept

    def __setitem__(self, storage: int, none: None) -> None:
        if storage not in self._kept:
            super().__setitem__(storage, none)

    def __delitem__(self, storage: int) -> None:
        if storage not in self._kept:
            super().__delitem__(storage)


class IntervenedMachine(Machine):
    """A machine with other budgets, pins and storages kept out of the pool.

    Args:
        trace: what is run.
        interventions: those of the run; others than budgets, pins and keeps are not its business.
        args, options: those of `Machine`.
    """

    def __init__(
        self, trace: Trace, *args: Any, interventions: Interventions, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        constants = trace.step_operand[trace.step_kind == Step.CONSTANT]
        # A constant is pinned anyway, after the call.
        self._pins = frozenset(interventions.pins) - set(trace.output_start[constants].tolist())
        self._budgets = list(interventions.budgets)
        self.pool = _PoolWithout(frozenset(interventions.keeps))
        self._switch_budget()

    def call(self, step: int, op: int) -> int:
        """The same; a storage to be pinned is, once it is computed."""
        executed = super().call(step, op)
        for storage in self._outputs[op]:
            if storage in self._pins:
                self._pin(storage, "intervention", executed)
        return executed

    def _execute(self, frame: Frame) -> int:
        executed = super()._execute(frame)
        self._switch_budget()
        return executed

    def _evict(
        self, storage: int, why: str, cause: int, details: tuple[object, ...] = NO_DETAILS
    ) -> None:
        super()._evict(storage, why, cause, details)
        self._switch_budget()

    def _switch_budget(self) -> None:
        if self._budgets and self._budgets[0][0] == self.tally.decisions:
            _, self.budget_bytes = self._budgets.pop(0)
            self.tally.checks_count = False


class IntervenedBanishingMachine(IntervenedMachine, BanishingMachine):
    """The same under the deallocation `banish`."""
