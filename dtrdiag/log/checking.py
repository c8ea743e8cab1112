"""What checking a log keeps in mind between two events, beyond the state itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import attrs

from dtrdiag.events.records import Event, OpDefined, OutputRequested, RunHeader
from dtrdiag.ids import OpId, StorageId, TensorId
from dtrdiag.interventions import Victim
from dtrdiag.log.replay import Replay
from dtrdiag.log.rules import Problem


class Due(NamedTuple):
    """An event that must come next."""

    kinds: tuple[type[Any], ...]
    """What may come."""
    rule: str
    """The rule that is broken if something else comes."""
    cause_seq: int | None
    """What it has to name as its cause."""
    subject: int | None = None
    """The op, tensor or storage that it has to be about."""
    detail: str = ""
    """Reason or cause that it has to give."""


@attrs.define(eq=False)
class Plan:
    """What an op on the pending stack still has to do."""

    op: OpId
    tensor: TensorId
    reason: str
    seq: int
    locks: list[StorageId]
    """Storages of the inputs that were defined when the op was pushed."""
    missing: list[TensorId]
    """Inputs that were not."""
    position: int = 0
    """Locks taken, first of `locks`, then of `missing`."""
    executed_seq: int | None = None
    defined: tuple[TensorId, ...] = ()
    """What the execution defined."""
    walk: tuple[TensorId, ...] = ()
    """Inputs at the execution."""
    unlocked: int = 0
    """How far the unlocks have walked along the inputs."""
    finished: bool = False
    """All locks are given back that will be."""

    def waits_for(self) -> TensorId | None:
        """The missing input whose turn it is, if it is one's turn."""
        index = self.position - len(self.locks)
        return self.missing[index] if 0 <= index < len(self.missing) else None


@attrs.define(eq=False)
class Checking:
    """The state of a check. The rules are in the classes that derive from this one."""

    state: Replay = attrs.field(factory=Replay)
    problems: list[Problem] = attrs.field(factory=list)
    due: Due | None = attrs.field(factory=lambda: Due((RunHeader,), "header-first", None))
    plans: list[Plan] = attrs.field(factory=list)
    output: OutputRequested | None = None
    """The output step that is not done yet."""
    next_step: int = 0
    limit_ns: float | int | None = None
    """Remat cost above which the run has to stop."""
    banishing: bool = False
    ours: bool = False
    """The semantics is one of dtrdiag's, so nothing is left to the runtime."""
    repairs: frozenset[str] = frozenset()
    """Defects of simrd that are repaired in this run."""
    live: bool = False
    """The unlocking loop walks a list that shrinks under it (a defect of simrd)."""
    victims: dict[int, Victim] = attrs.field(factory=dict)
    """Evictions that interventions are about, by decision."""
    dependents: dict[StorageId, set[TensorId]] = attrs.field(factory=dict)
    """Evicted dependents per storage, when banishing."""
    trigger_seq: int = -1
    """Last event after which a storage may be found dead: a `reference` or an `unlock`."""
    pins_due: list[StorageId] = attrs.field(factory=list)
    """Dependents of the storage just banished that are not pinned yet."""
    call_pins: list[tuple[StorageId, str]] = attrs.field(factory=list)
    """What is to be pinned, and why, now that a call is over."""

    def report(self, rule: str, event: Event, message: str) -> None:
        """Note a broken rule."""
        self.problems.append(Problem(event.seq, rule, f"{event.kind}: {message}"))

    def expect(self, rule: str, event: Event, what: str, found: object, expected: object) -> None:
        """Note a broken rule unless a figure is as expected."""
        if found != expected:
            self.report(rule, event, f"{what} is {_text(found)}, expected {_text(expected)}")

    def expect_cause(self, event: Any, expected: int | None) -> None:
        """Note a wrong `cause_seq`."""
        if event.cause_seq != expected:
            self.expect("cause", event, "cause_seq", event.cause_seq, expected)

    def settle(self, event: Event) -> None:
        """The aftermath of an execution is over, so its locks must be given back."""
        plans = self.plans
        while plans and plans[-1].executed_seq is not None:
            plan = plans.pop()
            if not plan.finished:
                self.report("unlock", event, f"op {plan.op} has not given all its locks back")

    def schedule(self, event: Any) -> None:
        """An event that the schedule asks for: everything before it must be done."""
        self.settle(event)
        if self.plans:
            self.report("pending", event, f"op {self.plans[-1].op} is still pending")
            self.plans.clear()
        self.output = None
        self.call_pins.clear()
        self.expect_cause(event, None)
        self.expect("step-order", event, "step", event.step, self.next_step)
        self.next_step = event.step + 1

    def decides(self, event: Event, victim: StorageId | None) -> None:
        """A decision is made; check it against the intervention at its index, if there is one.

        Args:
            event: the decision.
            victim: whom it evicts under pressure; None: it is another decision.
        """
        at = self.state.tally.decisions
        named = self.victims.get(at)
        if named is None:
            return
        if victim is None:
            message = f"decision {at} is no eviction under pressure, but has an intervention"
        elif named.forced and victim != named.storage:
            message = f"the forced victim of decision {at} is {named.storage}, not {victim}"
        elif not named.forced and victim == named.storage:
            message = f"storage {victim} is forbidden at decision {at}"
        elif named.storage is not None and named.storage not in self.state.pool:
            message = f"storage {named.storage} of decision {at} is not in the pool"
        elif not named.forced and len(self.state.pool) == 1:
            message = f"one storage is forbidden at decision {at}, and there is no other"
        else:
            return
        self.report("intervention", event, message)

    def next_unlock(self, plan: Plan) -> TensorId | None:
        """The input whose lock the executed op gives back next."""
        inputs = self.state.inputs[plan.op] if self.live else plan.walk
        if self.banishing and not self.live:
            banished, storage_of = self.state.banished, self.state.storage_of
            while plan.unlocked < len(inputs) and storage_of[inputs[plan.unlocked]] in banished:
                plan.unlocked += 1
        return inputs[plan.unlocked] if plan.unlocked < len(inputs) else None

    def undefined_dependents(self, storage: StorageId) -> set[TensorId]:
        """Undefined tensors of other storages with an input in this one."""
        state = self.state
        return {
            tensor
            for member in state.tensors_of[storage]
            for op in state.consumers(member)
            for tensor in self._elsewhere(state.ops[op], storage)
            if tensor not in state.defined
        }

    def dependent_storages(self, storage: StorageId) -> list[StorageId]:
        """Storages computed from this one that are neither pinned nor banished, in order."""
        state = self.state
        found = {
            state.storage_of[tensor]: None
            for member in state.tensors_of[storage]
            for op in state.consumers(member)
            for tensor in self._elsewhere(state.ops[op], storage)
        }
        return [s for s in found if s not in state.pins and s not in state.banished]

    def _elsewhere(self, op: OpDefined, storage: StorageId) -> Iterable[TensorId]:
        banished = self.state.banished
        for tensor, own in zip(op.outputs, op.storages, strict=True):
            if own != storage and own not in banished:
                yield tensor


def _text(value: object) -> str:
    return "null" if value is None else str(value)
