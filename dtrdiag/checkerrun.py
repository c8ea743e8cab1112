"""What does a run of a trace have to do, event by event? For `dtrdiag.checker` alone.

The schedule is carried out by docs/semantics.md and docs/interventions.md, with victims that come
from elsewhere.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise
from typing import Any

import attrs

from dtrdiag.checkerscores import Choice, Scores
from dtrdiag.errors import UsageError
from dtrdiag.events import records
from dtrdiag.interventions import REPAIRS, Interventions, Victim
from dtrdiag.trace.changed import changed_trace
from dtrdiag.trace.model import Step, Trace

Due = tuple[type[Any], Any]  # a kind of event; its fields after `seq`, or a function of it
Flow = Generator[Any, None, Any]  # yields what is due, or another flow to be carried out first
SEMANTICS = ("simrd", "repaired")
"""Semantics that are defined here."""


def repairs_of(header: records.RunHeader, changes: Interventions) -> frozenset[str]:
    """The defects of simrd that are repaired in a run."""
    return frozenset(REPAIRS if header.semantics == "repaired" else changes.repairs)


def as_run(trace: Trace, changes: Interventions) -> Trace:
    """The trace with the costs and sizes of a run.

    Raises:
        UsageError: the trace does not have what the interventions name.
    """
    roots = trace.tensor_storage.tolist()
    for storage in (*changes.pins, *changes.keeps, *(v.storage for v in changes.victims)):
        if storage is not None and (storage >= trace.tensors or roots[storage] != storage):
            raise UsageError(f"the trace has no storage {storage}")
    if not changes.on_trace:
        return trace
    noise = (changes.cost_noise, changes.size_noise)
    costs, sizes = (None if n is None else (n.epsilon, n.seed) for n in noise)
    given = {"op_costs": changes.op_costs, "sizes": changes.sizes}
    return changed_trace(trace, **given, cost_noise=costs, size_noise=sizes)


def peak_bytes(trace: Trace, header: records.RunHeader) -> int | None:
    """The base of ratios: the peak of an unlimited run that frees dead storages."""
    limits: dict[str, Any] = {"budget_bytes": None, "overhead_limit": None}
    rules = attrs.evolve(header, dealloc="banish", semantics="simrd", **limits)
    run = Run(trace, rules, Interventions())
    try:
        return [run.peak for _ in run.due()][-1]
    except Departed:
        return None


class Departed(Exception):  # noqa: N818 - a way to end a check
    """The log leaves the path that can be followed; the arguments are rule and message."""


class Run:
    """What a run of a trace does, as the sequence of events that are due."""

    def __init__(self, trace: Trace, header: records.RunHeader, changes: Interventions) -> None:
        self.trace, self.dealloc, self.losers = trace, header.dealloc, header.candidates
        self.changes, self.repairs = changes, repairs_of(header, changes)
        self.victims = {victim.at: victim for victim in changes.victims}
        self.remarks: list[str] = []  # on the event that is due, as to interventions
        self.decisions = 0
        self.budgets, limit = [(0, header.budget_bytes), *changes.budgets], header.overhead_limit
        self.limit = None if limit is None else trace.baseline_cost_ns * (limit - 1)
        self.scores: Scores | None = None
        self.seq = 0  # of the last event; set by whoever compares
        self.executed = 0  # `seq` of the last execution
        ids = range(trace.tensors)
        columns = (trace.tensor_storage, trace.tensor_size_bytes, trace.op_cost_ns)
        self.storage, self.size, self.cost = (column.tolist() for column in columns)
        self.outputs = [range(a, b) for a, b in pairwise(trace.output_start.tolist())]
        self.op_of = [op for op, outputs in enumerate(self.outputs) for _ in outputs]
        # Inputs and children are of tensors, once per use, without what is banished.
        self.inputs: list[list[int]] = [trace.inputs_of(op).tolist() for op in self.op_of]
        self.children: list[list[int]] = [[] for _ in ids]
        self.members: list[list[int]] = [[] for _ in ids]
        self.dependents: list[set[int]] = [set() for _ in ids]
        counts = ([0 for _ in ids] for _ in range(4))
        self.references, self.locks, self.compute, self.accessed = counts
        sets: list[set[int]] = [set() for _ in range(4)]
        self.pinned, self.banished, self.resident, self.defined = sets
        self.pool: dict[int, None] = {}
        self.memory, self.peak, self.clock, self.outcome = 0, 0, 1, "ok"
        self.bounds: dict[bool, int | None] = {True: 0, False: None}  # of the budget: lo, hi
        self.runs, self.remat_cost, self.digest = {True: 0, False: 0}, 0, hashlib.sha256()
        self.evicted = {why: Counter[int]() for why in ("pressure", "release", "banish")}

    def due(self) -> Iterator[Due]:
        """Every event after the header, in order."""
        stack: list[Flow] = [self._end(), self._schedule()]
        while stack:
            item = next(stack[-1], None)
            if item is None:
                stack.pop()
            elif type(item) is tuple:
                yield item
                if self.outcome != "ok":
                    del stack[1:]
            else:
                stack.append(item)

    def _end(self) -> Flow:
        evicted = list(self.evicted.values())
        counts = (*self.runs.values(), self.remat_cost, *(sum(e.values()) for e in evicted))
        self.remarks += self._not_reached()
        distinct = (len(set().union(*evicted)), *map(len, evicted), self.peak)
        ends = (self.memory, self.clock, *self.bounds.values(), self.digest.hexdigest())
        yield records.End, (self.outcome, *counts, *distinct, *ends)

    def _not_reached(self) -> Iterator[str]:
        places = [v.at for v in self.changes.victims] + [at for at, _ in self.changes.policies]
        places += [at for at, _ in self.changes.budgets if self.outcome != "oom"]
        yield from (f"decision {at} is not reached" for at in places if at >= self.decisions)
        if self.outcome == "oom":  # there was one more fit check
            places = [at for at, _ in self.changes.budgets if at > self.decisions]
            yield from (f"the budget of decision {at} is not reached" for at in places)

    def _schedule(self) -> Flow:
        steps = zip(self.trace.step_kind.tolist(), self.trace.step_operand.tolist(), strict=True)
        for step, (kind, operand) in enumerate(steps):
            if kind in (Step.CALL, Step.CONSTANT):
                yield from self._call(step, operand, kind == Step.CONSTANT)
            elif kind == Step.OUTPUT:
                yield records.OutputRequested, (None, step, operand, self.storage[operand])
                asked = self.seq
                if operand not in self.defined:
                    yield self._materialise(operand, "remat", asked, None, 1)
                yield from self._pin(self.storage[operand], "output", asked)
            else:
                yield from self._refer(step, operand, 1 if kind == Step.RETAIN else -1)

    def _call(self, step: int, op: int, constant: bool) -> Flow:
        outputs, inputs = self.outputs[op], tuple(self.trace.inputs_of(op).tolist())
        for tensor in outputs:
            storage = self.storage[tensor]
            if all(self.op_of[other] != op for other in self.members[storage]):
                self.compute[storage] += self.cost[op]
            self.members[storage].append(tensor)
            self.references[storage] += 1
            self._depend(tensor)
        for needed in inputs:
            self.children[needed].extend(outputs)
        if self.scores and "uncomputed-neighbour" not in self.repairs:
            self.scores.called(op)
        created = zip(*((t, self.storage[t], self.size[t]) for t in outputs), strict=True)
        definition = (None, step, op, self.trace.op_name[op], self.cost[op], inputs, *created)
        yield records.OpDefined, definition
        yield self._materialise(outputs[0], "first", self.seq, None, 1)
        for tensor in outputs:
            self.accessed[self.storage[tensor]] = self.clock
        if constant:
            yield from self._pin(self.storage[outputs[0]], "constant", self.executed)
        for tensor in outputs:
            if tensor in self.changes.pins:
                yield from self._pin(tensor, "intervention", self.executed)

    def _refer(self, step: int, tensor: int, delta: int) -> Flow:
        storage = self.storage[tensor]
        self.references[storage] = left = self.references[storage] + delta
        yield records.ReferenceChanged, (None, step, tensor, storage, delta, left)
        if self.dealloc == "banish" and delta < 0:
            yield from self._banish_if_dead(storage)
        evictable = storage in self.resident and storage not in self.pinned
        if self.dealloc == "eager" and not left and evictable:
            yield self._free(storage, "release")

    def _materialise(self, tensor: int, why: str, cause: int, asker: Any, depth: int) -> Flow:
        op, inputs = self.op_of[tensor], self.inputs[tensor]
        if any(self.storage[needed] in self.banished for needed in (tensor, *inputs)):
            raise Departed("trace", f"op {op} is needed, of which a storage has been banished")
        yield records.Materialise, (cause, op, tensor, why, asker, depth)
        mine = self.seq
        for needed in inputs:
            if self.dealloc != "banish" or self.references[self.storage[needed]]:
                self.accessed[self.storage[needed]] = self.clock
        missing = [needed for needed in inputs if needed not in self.defined]
        for needed in [needed for needed in inputs if needed in self.defined] + missing:
            if needed not in self.defined:
                yield self._materialise(needed, "remat", mine, op, depth + 1)
            storage = self.storage[needed]
            self.pool.pop(storage, None)
            self.locks[storage] += 1
            yield records.Lock, (mine, storage, op, self.locks[storage])
        yield from self._make_room(op, mine, depth)
        executed = yield from self._execute(op, tensor, mine, why == "first")
        if self.limit is not None and self.remat_cost > self.limit:
            self.outcome = "thrashed"
            yield records.Thrashed, (executed, self.remat_cost, self.limit)

    def _make_room(self, op: int, mine: int, depth: int) -> Flow:
        need = sum(self.size[tensor] for tensor in self.outputs[op])
        while True:
            total = self.memory + need
            switches = [budget for at, budget in self.budgets if at <= self.decisions]
            fits = switches[-1] is None or total <= switches[-1]
            yield records.FitCheck, (mine, op, self.memory, need, fits)
            checked, bound = self.seq, self.bounds[fits]
            closer = bound is None or (total > bound if fits else total < bound)
            if closer and len(switches) == 1:  # the budget is the header's
                self.bounds[fits] = total
            if fits:
                return
            if not self.pool:
                self.outcome = "oom"
                in_use = sum(self.size[storage] for storage in self.resident)
                yield records.OutOfMemory, (checked, op, need, in_use, switches[-1], depth)
            yield records.Evict, lambda event, cause=checked: self._pressure(event, cause, op)

    def _pressure(self, event: records.Evict, cause: int, op: int) -> tuple[Any, ...]:
        """Evict the log's victim under pressure; returns what the event must say of it."""
        victim, losers, pool_size = event.storage, dict(event.candidates), len(self.pool)
        if victim not in self.pool:
            raise Departed("evict", f"storage {victim} is not resident, locked or pinned")
        named = self.victims.get(self.decisions)
        absent = (victim, named.storage if named and not named.forced else None)
        listed = tuple((s, x) for s, x in losers.items() if s in self.pool and s not in absent)
        choice: Choice = (victim, event.score, listed[: self.losers])
        missing = self._missing_losers(event, named, listed)
        if missing > 0:
            raise Departed("candidates", f"evict: {len(listed)} losers, {missing} are missing")
        if self.scores:
            choice = self.scores.choice(event, named)
        if named and self._breaks(named, victim):
            choice = (victim, *choice[1:])
        self._leave(victim, "pressure")
        after = (pool_size, choice[2], self.memory, self.clock)
        return (cause, choice[0], self.size[victim], "pressure", op, choice[1], *after)

    def _missing_losers(
        self, event: records.Evict, named: Victim | None, listed: Sequence[Any]
    ) -> int:
        """How many more a walk over the pool sees, if no score of 0 can have ended it."""
        scores = [score for _, score in listed]
        if event.score is None or None in scores:
            return 0
        others, seen = len(self.pool) - 1, scores if named else [event.score, *scores]
        if named and not named.forced:
            others -= named.storage is None or (named.storage in self.pool and others > 0)
        cut = min(seen, default=1) <= 0
        return 0 if cut else min(self.losers, others) - len(listed)

    def _breaks(self, named: Victim, victim: int) -> bool:
        """Whether an eviction under pressure is not the one that an intervention leads to."""
        if named.storage is not None and named.storage not in self.pool:
            self.remarks.append(f"storage {named.storage} of an intervention is not in the pool")
        elif not named.forced and len(self.pool) == 1:
            self.remarks.append("one storage is forbidden, and there is no other")
        elif named.forced and victim != named.storage:
            self.remarks.append(f"the forced victim is {named.storage}, not {victim}")
        elif not named.forced and victim == named.storage:
            self.remarks.append(f"storage {victim} is forbidden here")
        return bool(self.remarks)

    def _decide(self, under_pressure: bool) -> None:
        if self.decisions in self.victims and not under_pressure:
            self.remarks.append(f"decision {self.decisions} is no eviction under pressure")
        self.decisions += 1

    def _enter_pool(self, storage: int) -> None:
        if storage not in self.changes.keeps:
            self.pool[storage] = None

    def _execute(self, op: int, tensor: int, mine: int, first: bool) -> Flow:
        siblings = [other for other in self.outputs[op] if other != tensor]
        gone: list[int] = []
        if "banished-sibling" in self.repairs:
            gone = [other for other in siblings if self.storage[other] in self.banished]
            siblings = [other for other in siblings if other not in gone]
        defined = [tensor, *(other for other in siblings if other not in self.defined)]
        freed = sum(self.size[other] for other in siblings if other in self.defined)
        freed += sum(self.size[other] for other in gone)
        storages = [self.storage[other] for other in (*siblings, tensor)]
        resident = [storage for storage in storages if storage not in self.resident]
        self.clock += self.cost[op]
        self.memory += sum(self.size[other] for other in self.outputs[op])
        self.peak = max(self.peak, self.memory)
        self.memory -= freed
        self.runs[first] += 1
        self.remat_cost += 0 if first else self.cost[op]
        self.digest.update(b"%c %d\n" % (b"C" if first else b"R", op))
        self._decide(under_pressure=False)
        self.defined.update(defined)
        self.resident.update(resident)
        for storage in resident:
            self._enter_pool(storage)
        if self.scores:
            if first and "uncomputed-neighbour" in self.repairs:
                self.scores.called(op)
            self.scores.returned(resident)
        kind = records.Compute if first else records.Rematerialise
        gained = (tuple(defined), tuple(resident), freed)
        yield kind, (mine, op, tensor, self.cost[op], *gained, self.memory, self.clock)
        executed = self.executed = self.seq
        inputs, position = self.inputs[tensor], 0
        repaired = "live-iteration" in self.repairs
        inputs = list(inputs) if repaired else inputs
        while position < len(inputs):  # banishing shortens this very list (Q-live-iteration)
            storage, position = self.storage[inputs[position]], position + 1
            if repaired and storage in self.banished:
                continue
            self.locks[storage] -= 1
            if not self.locks[storage]:
                self._enter_pool(storage)
            yield records.Unlock, (executed, storage, op, self.locks[storage])
            if self.dealloc == "banish":
                self.dependents[storage] -= {t for t in defined if self.storage[t] != storage}
                yield from self._banish_if_dead(storage)
        return executed

    def _pin(self, storage: int, reason: str, cause: int) -> Flow:
        if storage not in self.pinned:
            self.pinned.add(storage)
            self.pool.pop(storage, None)
            self.locks[storage] += 1
            yield records.Pin, (cause, storage, reason, self.locks[storage])

    def _free(self, storage: int, why: str) -> Due:
        """The eviction of a storage that nobody wants any more, because of the last event."""
        self._leave(storage, why)
        after = (None, None, None, (), self.memory, self.clock)
        return records.Evict, (self.seq, storage, self.size[storage], why, *after)

    def _leave(self, storage: int, why: str) -> None:
        self.resident.remove(storage)
        self.pool.pop(storage, None)
        self.memory -= self.size[storage]
        self.defined.difference_update(self.members[storage])
        for tensor in self.members[storage]:
            self._depend(tensor)
        self.evicted[why][storage] += 1
        self._decide(under_pressure=why == "pressure")
        self.digest.update(b"E %d\n" % storage)
        if self.scores:
            self.scores.evicted(storage)

    def _depend(self, tensor: int) -> None:
        """An undefined tensor depends on the storages of its inputs."""
        for storage in {self.storage[n] for n in self.inputs[tensor]} - {self.storage[tensor]}:
            self.dependents[storage].add(tensor)

    def _banish_if_dead(self, storage: int) -> Flow:
        if self.references[storage] or self.dependents[storage] or storage in self.banished:
            return
        cause = self.seq
        if storage in self.resident:
            self.locks[storage] = 0
            self.pinned.discard(storage)
            yield self._free(storage, "banish")
        self.banished.add(storage)
        yield records.Banish, (cause, storage)
        cause = self.seq
        for tensor in self.members[storage]:
            for needed in self.inputs[tensor]:
                if self.storage[needed] != storage:
                    self.children[needed].remove(tensor)
                    self.dependents[self.storage[needed]].discard(tensor)
            for child in self.children[tensor]:
                if self.storage[child] != storage:
                    self.inputs[child].remove(tensor)
                    yield from self._pin(self.storage[child], "banish", cause)
        if self.scores:
            self.scores.banished(storage)
