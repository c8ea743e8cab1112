"""Rules for what the schedule asks, and for how a log begins and ends."""

from __future__ import annotations

import math
from collections.abc import Iterator

import attrs

from dtrdiag.errors import UsageError
from dtrdiag.events.records import (
    Banish,
    End,
    Evict,
    Materialise,
    OpDefined,
    OutOfMemory,
    OutputRequested,
    Pin,
    ReferenceChanged,
    RunHeader,
    Thrashed,
)
from dtrdiag.ids import StorageId
from dtrdiag.interventions import REPAIRS, parse_interventions
from dtrdiag.log.checking import Checking, Due
from dtrdiag.log.state import CAUSES

_MATERIALISE = (Materialise,)
_PIN = (Pin,)
_FREE = (Evict,)
_BANISH = (Banish,)
_STOP = (End,)

SEMANTICS = ("simrd", "repaired")
"""Semantics that are defined here to the last decision; other runtimes have some freedom."""


class ScheduleRules(Checking):
    """Checks of `run`, `op`, `reference`, `output`, `oom`, `thrashed` and `end`."""

    def run(self, event: RunHeader, due: Due | None) -> None:
        """The header."""
        if self.state.header is not None:
            self.report("header-first", event, "a second header")
            return
        limit = event.overhead_limit
        possible = (
            event.dealloc in ("eager", "ignore", "banish")
            and (event.budget_bytes is None or event.budget_bytes > 0)
            and (limit is None or limit >= 1)
            and event.candidates >= 0
            and all(figure is None or figure >= 0 for figure in _figures(event))
            and _budget_is_of_the_ratio(event)
        )
        if not possible:
            self.report(
                "header",
                event,
                f"impossible: dealloc {event.dealloc}, budget {event.budget_bytes}, "
                f"overhead limit {limit}, candidates {event.candidates}, seed {event.seed}, "
                "or one of its other figures",
            )
        try:
            changes = parse_interventions(event.interventions)
        except UsageError as error:
            self.report("header", event, f"interventions: {error}")
            event = attrs.evolve(event, interventions=None)
            changes = parse_interventions(None)
        self.banishing = event.dealloc == "banish"
        self.ours = event.semantics in SEMANTICS
        repaired = REPAIRS if event.semantics == "repaired" else changes.repairs
        self.repairs = frozenset(repaired if self.ours else ())
        self.live = self.ours and "live-iteration" not in self.repairs
        self.victims = {victim.at: victim for victim in changes.victims}
        if limit is not None and event.baseline_cost_ns is not None:
            self.limit_ns = event.baseline_cost_ns * (limit - 1)
        self.state.apply(event)

    def op(self, event: OpDefined, due: Due | None) -> None:
        """An op comes into being."""
        self.schedule(event)
        state = self.state
        self.expect("op-ids", event, "op", event.op, len(state.ops))
        first = len(state.storage_of)
        expected = tuple(range(first, first + len(event.outputs)))
        self.expect("op-ids", event, "outputs", event.outputs, expected)
        count = len(event.outputs)
        if not count or len(event.storages) != count or len(event.sizes_bytes) != count:
            self.report("op-ids", event, "outputs, storages and sizes differ in number")
            return
        unknown = [tensor for tensor in event.inputs if tensor not in state.storage_of]
        if unknown or event.op in state.ops:
            self.report("op-ids", event, f"inputs {unknown} come later, or the op was there")
            return
        self._outputs_possible(event)
        state.apply(event)
        if self.banishing:
            self._add_dependents(event)
        self.due = Due(_MATERIALISE, "pending", event.seq, event.outputs[0], "first")

    def _outputs_possible(self, event: OpDefined) -> None:
        state = self.state
        if event.cost_ns < 0:
            self.report("op-ids", event, f"negative cost {event.cost_ns}")
        inputs = {state.storage_of[tensor] for tensor in event.inputs}
        if self.banishing and any(storage in state.banished for storage in inputs):
            self.report("banish", event, "an input was freed for good")
        for tensor, storage, size in zip(
            event.outputs, event.storages, event.sizes_bytes, strict=True
        ):
            if storage in state.tensors_of or storage in inputs:
                if storage not in inputs or size:
                    self.report(
                        "op-ids",
                        event,
                        f"tensor {tensor} of {size} bytes cannot alias storage {storage}",
                    )
            elif int(storage) != int(tensor) or size < 0:
                self.report(
                    "op-ids", event, f"tensor {tensor} cannot have storage {storage} of {size}"
                )

    def _add_dependents(self, event: OpDefined) -> None:
        storage_of = self.state.storage_of
        for tensor, storage in zip(event.outputs, event.storages, strict=True):
            for needed in event.inputs:
                other = storage_of[needed]
                if other != storage:
                    self.dependents.setdefault(other, set()).add(tensor)

    def reference(self, event: ReferenceChanged, due: Due | None) -> None:
        """The model's references change."""
        self.schedule(event)
        state = self.state
        storage = state.storage_of[event.tensor]
        self.expect("references", event, "storage", event.storage, storage)
        before = state.references[event.storage]
        if event.delta not in (1, -1) or before < 1:
            self.report(
                "references", event, f"delta {event.delta} from {before} references is impossible"
            )
        self.expect("references", event, "references", event.references, before + event.delta)
        state.apply(event)
        self.trigger_seq = event.seq
        if not state.references[storage]:
            self._unreferenced(event)

    def _unreferenced(self, event: ReferenceChanged) -> None:
        state, storage = self.state, event.storage
        dealloc = state.header.dealloc if state.header else None
        if dealloc == "eager" and storage in state.resident and storage not in state.pins:
            self.due = Due(_FREE, "release", event.seq, storage, "release")
        elif self.banishing:
            self.try_banish(storage, event.seq)

    def try_banish(self, storage: StorageId, seq: int) -> None:
        """Under semantics of ours: require that a dead storage is freed for good."""
        state = self.state
        if not self.ours or self.dependents.get(storage) or storage in state.banished:
            return
        if not state.references[storage]:
            kinds = _FREE if storage in state.resident else _BANISH
            self.due = Due(kinds, "banish", seq, storage, "banish")

    def output_requested(self, event: OutputRequested, due: Due | None) -> None:
        """The schedule wants a tensor for good."""
        self.schedule(event)
        state = self.state
        storage = state.storage_of[event.tensor]
        self.expect("ids", event, "storage", event.storage, storage)
        if event.tensor not in state.defined:
            self.output = event
            self.due = Due(_MATERIALISE, "pending", event.seq, event.tensor, "remat")
        elif storage not in state.pins:
            self.due = Due(_PIN, "pin", event.seq, storage, "output")
        state.apply(event)

    def oom(self, event: OutOfMemory, due: Due | None) -> None:
        """The run stops for lack of memory."""
        self.settle(event)
        state = self.state
        if due is None or due.detail != "decide":
            self.report("oom", event, "no failed fit check comes before")
        else:
            self.expect("oom", event, "op", event.op, due.subject)
            self.expect_cause(event, due.cause_seq)
        if state.pool:
            self.report("oom", event, f"{len(state.pool)} storages are evictable")
        requested = state.requested_bytes[event.op]
        self.expect("oom", event, "requested_bytes", event.requested_bytes, requested)
        self.expect("memory", event, "memory_bytes", event.memory_bytes, state.memory_bytes)
        self.expect("oom", event, "budget_bytes", event.budget_bytes, state.budget_bytes)
        self.expect("oom", event, "depth", event.depth, len(self.plans))
        state.apply(event)
        self.due = Due(_STOP, "end", None)

    def thrashed(self, event: Thrashed, due: Due | None) -> None:
        """The run stops for the overhead limit."""
        self.settle(event)
        state, limit = self.state, self.limit_ns
        if due is not None and due.rule == "thrashed":
            self.expect_cause(event, due.cause_seq)
        elif limit is not None or state.header is None or state.header.overhead_limit is None:
            self.report("thrashed", event, f"remat cost has not just passed a limit ({limit})")
        remat_cost_ns = state.tally.remat_cost_ns
        self.expect("thrashed", event, "remat_cost_ns", event.remat_cost_ns, remat_cost_ns)
        # Another runtime may round a limit that is no integer otherwise.
        if limit is not None and abs(event.limit_ns - limit) > 1e-9 * abs(limit):
            self.expect("thrashed", event, "limit_ns", event.limit_ns, limit)
        state.apply(event)
        self.due = Due(_STOP, "end", None)

    def ended(self, event: End, due: Due | None) -> None:
        """The log finishes."""
        self.settle(event)
        state = self.state
        outcome = "ok" if state.stop is None else state.stop.kind
        self.expect("end", event, "outcome", event.outcome, outcome)
        if state.stop is None and self.plans:
            self.report("end", event, f"op {self.plans[-1].op} is still pending")
        self._counts(event)
        self.expect("memory", event, "memory_bytes", event.memory_bytes, state.memory_bytes)
        self.expect("clock", event, "clock_ns", event.clock_ns, state.clock_ns)
        self._totals(event, finished=outcome == "ok")
        for message in self._not_reached(outcome):
            self.report("intervention", event, message)
        state.apply(event)
        self.due = Due((), "end", None)

    def _counts(self, event: End) -> None:
        tally = self.state.tally
        expected = {
            "computes": tally.computes,
            "remats": tally.remats,
            "remat_cost_ns": tally.remat_cost_ns,
            "distinct_evicted": tally.distinct_evicted,
        }
        for cause in CAUSES:
            expected[f"evictions_{cause}"] = tally.evictions[cause]
            expected[f"distinct_{cause}"] = len(tally.evicted[cause])
        for field, value in expected.items():
            self.expect("counts", event, field, getattr(event, field), value)
        peak, found = tally.max_memory_bytes, event.max_memory_bytes
        self.expect("memory", event, "max_memory_bytes", found, peak)
        low, high = tally.interval_lo_bytes, tally.interval_hi_bytes
        self.expect("interval", event, "interval_lo_bytes", event.interval_lo_bytes, low)
        self.expect("interval", event, "interval_hi_bytes", event.interval_hi_bytes, high)
        digest = tally.decisions_sha256
        self.expect("digest", event, "decisions_sha256", event.decisions_sha256, digest)

    def _totals(self, event: End, *, finished: bool) -> None:
        state = self.state
        header = state.header
        if header is None:
            return
        totals = (
            ("trace_ops", header.trace_ops, len(state.ops)),
            ("trace_tensors", header.trace_tensors, len(state.storage_of)),
            (
                "baseline_cost_ns",
                header.baseline_cost_ns,
                sum(op.cost_ns for op in state.ops.values()),
            ),
        )
        for field, announced, found in totals:
            if announced is not None and (finished or found > announced):
                self.expect("totals", event, f"the header's {field}", announced, found)

    def _not_reached(self, outcome: str) -> Iterator[str]:
        """Interventions that changed nothing, because the run never came to it."""
        changes, count = self.state.interventions, self.state.tally.decisions
        # Right before an out-of-memory stop there was one more fit check.
        checked = count + (outcome == "oom")
        columns = (
            ("victim", count, [victim.at for victim in changes.victims]),
            ("policy", count, [at for at, _ in changes.policies]),
            ("budget", checked, [at for at, _ in changes.budgets]),
        )
        for what, end, places in columns:
            for at in places:
                if at >= end:
                    yield f"the {what} of decision {at} is not reached, there are {count}"
        if outcome == "ok":
            for storage in (*changes.pins, *changes.keeps):
                if storage not in self.state.size_bytes:
                    yield f"there is no storage {storage} to pin or keep"


def _budget_is_of_the_ratio(header: RunHeader) -> bool:
    if None in (header.ratio, header.peak_bytes, header.budget_bytes):
        return True
    # Double arithmetic, as wherever a ratio becomes a budget.
    product = float(header.peak_bytes or 0) * (header.ratio or 0)
    return math.isfinite(product) and header.budget_bytes == int(product)


def _figures(header: RunHeader) -> tuple[float | int | None, ...]:
    """What may be unknown but not negative."""
    return (
        header.seed,
        header.trace_ops,
        header.trace_tensors,
        header.baseline_cost_ns,
        header.peak_bytes,
        header.ratio,
    )
