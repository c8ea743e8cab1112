"""Rules for how one op is executed: asked for, locked, fitted, run, unlocked."""

from __future__ import annotations

from collections.abc import Iterator

from dtrdiag.events.records import (
    Compute,
    Evict,
    FitCheck,
    Lock,
    Materialise,
    OutOfMemory,
    Pin,
    Rematerialise,
    Thrashed,
    Unlock,
)
from dtrdiag.ids import OpId, StorageId, TensorId
from dtrdiag.log.checking import Due, Plan
from dtrdiag.log.schedule_rules import ScheduleRules

_EXECUTE = (Compute, Rematerialise)
_DECIDE = (Evict, OutOfMemory)
_PIN = (Pin,)
_THRASHED = (Thrashed,)

CONSTANT = "constant"
"""Name of the ops whose outputs are pinned when computed: model inputs and parameters."""


class ExecutionRules(ScheduleRules):
    """Checks of `materialise`, `lock`, `fit`, `compute`, `rematerialise` and `unlock`."""

    def materialise(self, event: Materialise, due: Due | None) -> None:
        """An op joins the pending stack."""
        self.settle(event)
        state, plans, tensor = self.state, self.plans, event.tensor
        self.expect("pending", event, "op", event.op, state.producer[tensor])
        if tensor in state.defined:
            self.report("defined-twice", event, f"tensor {tensor} is defined")
        if state.storage_of[tensor] in state.banished:
            self.report("banish", event, f"storage {state.storage_of[tensor]} was freed for good")
        asked: tuple[int | None, str, OpId | None, int | None]
        if due is not None:
            asked = (due.subject, due.detail, None, due.cause_seq)
        elif plans:
            top = plans[-1]
            asked = (top.waits_for(), "remat", top.op, top.seq)
        else:
            self.report("pending", event, "nothing asks for it")
            asked = (tensor, event.reason, event.for_op, event.cause_seq)
        self.expect("pending", event, "tensor", tensor, asked[0])
        self.expect("pending", event, "reason", event.reason, asked[1])
        self.expect("pending", event, "for_op", event.for_op, asked[2])
        self.expect_cause(event, asked[3])
        self.expect("pending", event, "depth", event.depth, len(plans) + 1)
        inputs, defined, storage_of = state.inputs[event.op], state.defined, state.storage_of
        locks = [storage_of[needed] for needed in inputs if needed in defined]
        missing = [needed for needed in inputs if needed not in defined]
        plans.append(Plan(event.op, tensor, event.reason, event.seq, locks, missing))
        state.apply(event)

    def lock(self, event: Lock, due: Due | None) -> None:
        """A pending op locks an input."""
        self.settle(event)
        state, storage = self.state, event.storage
        if not self.plans:
            self.report("lock", event, "no op is pending")
        else:
            plan = self.plans[-1]
            self.expect("lock", event, "op", event.op, plan.op)
            self.expect_cause(event, plan.seq)
            self.expect("lock", event, "storage", storage, self._next_lock(event, plan))
            plan.position += 1
        if storage not in state.resident:
            self.report("lock", event, f"storage {storage} is not in memory")
        if storage in state.banished:
            self.report("banish", event, f"storage {storage} was freed for good")
        self.expect("lock", event, "locks", event.locks, state.locks_on(storage) + 1)
        state.apply(event)

    def _next_lock(self, event: Lock, plan: Plan) -> StorageId | None:
        if plan.position < len(plan.locks):
            return plan.locks[plan.position]
        tensor = plan.waits_for()
        if tensor is None:
            return None
        if tensor not in self.state.defined:
            self.report("lock", event, f"input {tensor} is not defined")
        return self.state.storage_of[tensor]

    def fit(self, event: FitCheck, due: Due | None) -> None:
        """A pending op asks for room."""
        self.settle(event)
        state = self.state
        if not self.plans:
            self.report("fit", event, "no op is pending")
        else:
            plan = self.plans[-1]
            self.expect("fit", event, "op", event.op, plan.op)
            self.expect_cause(event, plan.seq)
            count = len(plan.locks) + len(plan.missing)
            self.expect("fit", event, "locks taken before it", plan.position, count)
        requested = state.requested_bytes[event.op]
        self.expect("memory", event, "memory_bytes", event.memory_bytes, state.memory_bytes)
        self.expect("fit", event, "requested_bytes", event.requested_bytes, requested)
        budget, needed = state.budget_bytes, state.memory_bytes + requested
        fits = budget is None or needed <= budget
        if event.fits != fits:
            self.report("fit", event, f"fits is {event.fits} at {needed} of {budget} bytes")
        state.apply(event)
        # Go on as the log does: what it decided next is what the next event should be.
        if event.fits:
            self.due = Due(_EXECUTE, "fit", None, event.op, "execute")
        else:
            self.due = Due(_DECIDE, "fit", event.seq, event.op, "decide")

    def execute(self, event: Compute | Rematerialise, due: Due | None) -> None:
        """An op is executed."""
        self.settle(event)
        state, op = self.state, event.op
        if due is None or due.detail != "execute":
            self.report("execute", event, "no check that it fits comes right before")
        plan = self.plans[-1] if self.plans else None
        if plan is None or plan.op != op or plan.tensor != event.tensor:
            self.report(
                "execute", event, f"op {op} for tensor {event.tensor} is not pending on top"
            )
        if plan is not None:
            kind = Compute if plan.reason == "first" else Rematerialise
            if type(event) is not kind:
                self.report("execute", event, f"the op was pushed as {plan.reason}")
            self.expect_cause(event, plan.seq)
            plan.executed_seq = event.seq
            plan.defined = event.defined
            plan.walk = state.inputs[op]
        self.expect("execute", event, "cost_ns", event.cost_ns, state.ops[op].cost_ns)
        undefined = state.undefined_inputs(op)
        if undefined:
            self.report("inputs-defined", event, f"inputs {undefined} are not defined")
        self._outputs(event)
        before, clock_ns = state.memory_bytes, state.clock_ns + state.ops[op].cost_ns
        requested, budget = state.requested_bytes[op], state.budget_bytes
        if budget is not None and before + requested > budget:
            self.report("budget", event, f"{before} + {requested} bytes exceed {budget}")
        after = before + requested - event.freed_bytes
        self.expect("memory", event, "memory_bytes", event.memory_bytes, after)
        self.expect("clock", event, "clock_ns", event.clock_ns, clock_ns)
        self.decides(event, None)
        state.apply(event)
        self.advance()

    def _outputs(self, event: Compute | Rematerialise) -> None:
        state, wanted = self.state, event.tensor
        op = state.ops[event.op]
        defined, resident, freed = [wanted], [], 0
        own: StorageId | None = None
        stays_banished = "banished-sibling" in self.repairs
        for tensor, storage, size in zip(op.outputs, op.storages, op.sizes_bytes, strict=True):
            if stays_banished and tensor != wanted and storage in state.banished:
                freed += size
                continue
            arrives = storage not in state.resident
            if arrives and not _is_root(tensor, storage):
                self.report("outputs", event, f"storage {storage} of alias {tensor} is not there")
            if tensor == wanted:
                own = storage if arrives else None
                continue
            if tensor in state.defined:
                freed += size
            else:
                defined.append(tensor)
            if arrives:
                resident.append(storage)
        if own is not None:
            resident.append(own)
        self.expect("outputs", event, "defined", event.defined, tuple(defined))
        self.expect("outputs", event, "resident", event.resident, tuple(resident))
        self.expect("outputs", event, "freed_bytes", event.freed_bytes, freed)

    def unlock(self, event: Unlock, due: Due | None) -> None:
        """An executed op gives a lock back."""
        state, storage, op = self.state, event.storage, event.op
        plan = self.plans[-1] if self.plans else None
        if plan is None or plan.executed_seq is None:
            self.report("unlock", event, "no op has just been executed")
        else:
            self.expect("unlock", event, "op", op, plan.op)
            self.expect_cause(event, plan.executed_seq)
            tensor = self.next_unlock(plan)
            expected = None if tensor is None else state.storage_of[tensor]
            self.expect("unlock", event, "storage", storage, expected)
            plan.unlocked += 1
        if op not in state.locks.get(storage, ()):
            self.report("unlock", event, f"op {op} holds no lock on storage {storage}")
            self.advance()
            return
        self.expect("unlock", event, "locks", event.locks, state.locks_on(storage) - 1)
        state.apply(event)
        self.trigger_seq = event.seq
        if self.banishing:
            if plan is not None and self.ours:
                self._no_longer_dependents(storage, plan.defined)
            self.try_banish(storage, event.seq)
        self.advance()

    def _no_longer_dependents(self, storage: StorageId, defined: tuple[TensorId, ...]) -> None:
        dependents = self.dependents.get(storage)
        if dependents:
            storage_of = self.state.storage_of
            for tensor in defined:
                if storage_of[tensor] != storage:
                    dependents.discard(tensor)

    def advance(self) -> None:
        """If the op on top is executed and done with its locks: what has to come next."""
        if self.due is not None or not self.plans:
            return
        plan = self.plans[-1]
        if plan.executed_seq is None or plan.finished or self.next_unlock(plan) is not None:
            return
        plan.finished = True
        state, limit = self.state, self.limit_ns
        if limit is not None and state.tally.remat_cost_ns > limit:
            self.due = Due(_THRASHED, "thrashed", plan.executed_seq)
        elif len(self.plans) == 1:
            self._schedule_goes_on(plan, plan.executed_seq)

    def _schedule_goes_on(self, plan: Plan, executed_seq: int) -> None:
        state = self.state
        if plan.reason == "first":
            self.call_pins = list(self._pins_after(plan))
            self.next_call_pin(executed_seq)
            return
        storage = state.storage_of[plan.tensor]
        if storage in state.pins:
            self.output = None
        elif self.output is not None:
            self.due = Due(_PIN, "pin", self.output.seq, storage, "output")

    def _pins_after(self, plan: Plan) -> Iterator[tuple[StorageId, str]]:
        """What is pinned once a call is over: a constant, then what interventions name."""
        op = self.state.ops[plan.op]
        if op.name == CONSTANT and not op.inputs:
            yield self.state.storage_of[plan.tensor], "constant"
        for tensor, storage in zip(op.outputs, op.storages, strict=True):
            if _is_root(tensor, storage) and storage in self.state.interventions.pins:
                yield storage, "intervention"

    def next_call_pin(self, executed_seq: int) -> None:
        """Require the next of these pins."""
        while self.call_pins:
            storage, reason = self.call_pins.pop(0)
            if storage not in self.state.pins:
                self.due = Due(_PIN, "pin", executed_seq, storage, reason)
                return


def _is_root(tensor: TensorId, storage: StorageId) -> bool:
    return int(tensor) == int(storage)
