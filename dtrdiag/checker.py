"""Does a log say what a run of its trace has to do? Checked apart from the code that wrote it.

A run is determined by its trace, its budget and its victims. So `_Run` carries out the schedule by
docs/semantics.md and says which event is due next, with which fields; `Checker` compares. Only the
victims are taken from the log; `checkerscores` tells whom the policy would choose. Nothing is used
of simulator or replay: of dtrdiag this module knows what events and traces are made of.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from itertools import pairwise
from typing import Any

import attrs

from dtrdiag.checkerscores import Scores
from dtrdiag.errors import LogError
from dtrdiag.events import records
from dtrdiag.trace.model import Step, Trace

MAX_PROBLEMS = 100  # after which checking stops
# Rule by field, or else by record, of whatever is not as it must be; other kinds are rules.
_RULES = {
    "trace": "OpDefined OutputRequested baseline_cost_ns peak_bytes trace_ops trace_tensors",
    "header": "RunHeader", "references": "ReferenceChanged", "pending": "Materialise",
    "fit": "FitCheck", "execute": "Compute Rematerialise", "oom": "OutOfMemory", "counts": "End",
    "cause": "cause_seq", "step-order": "step", "memory": "memory_bytes", "clock": "clock_ns",
    "outputs": "defined resident freed_bytes", "score": "score", "candidates": "candidates",
    "interval": "interval_lo_bytes interval_hi_bytes", "end": "outcome",
    "digest": "decisions_sha256",
}  # fmt: skip
_RULE_OF = {word: rule for rule, words in _RULES.items() for word in words.split()}
_NAMES = {
    kind: [field.name for field in attrs.fields(kind) if field.name not in ("seq", "extra")]
    for kind in records.EVENT_TYPES.values()
}

Due = tuple[type[Any], Any]  # a kind of event; its fields after `seq`, or a function of it
Flow = Generator[Any, None, Any]  # yields what is due, or another flow to be carried out first


@attrs.frozen
class Problem:
    """One thing that is not as the trace and the semantics have it, at the event `seq`."""

    seq: int
    rule: str
    message: str


def check(events: Iterable[records.Event], trace: Trace, *, scores: bool = False) -> Checker:
    """Check a log, from its header on, against the trace that was run, in time linear in the log.

    Damage to the log is a problem, not an exception. `scores` compares victims, scores and losers
    with the policy's; it raises `UsageError` if that policy is not defined here.
    """
    checker = Checker(trace, scores=scores)
    try:
        for event in events:
            checker.feed(event)
    except LogError as error:
        checker.report("readable", str(error), last=True)
    checker.finish()
    return checker


class Checker:
    """Takes `events` in order, notes `problems` and whether the log is `complete`; see `check`."""

    def __init__(self, trace: Trace, *, scores: bool = False) -> None:
        self.trace, self.scores = trace, scores
        self.problems: list[Problem] = []
        self.events, self.seq, self.complete, self.stopped, self._newer = 0, 0, False, False, False
        self._run: Any = None
        self._due: Due | None = (records.RunHeader, self._header)

    def feed(self, event: Any) -> None:
        """Compare the next event with what is due."""
        self.events += 1
        self.complete = type(event) is records.End
        if not self.stopped:
            try:
                self._compare(event)
            except _Departed as departed:
                self.report(departed.args[0], departed.args[1], last=True)

    def finish(self) -> None:
        """The log ends here."""
        if not self.complete and all(problem.rule != "readable" for problem in self.problems):
            self.report("end", f"the log stops after {self.events} events without an end event")

    def report(self, rule: str, message: str, last: bool = False) -> None:
        """Note a problem; the `last` one leaves unknown what would have to follow."""
        message += "; the rest of the log was not checked" if last else ""
        self.problems.append(Problem(self.seq, rule, message))
        self.stopped = self.stopped or last or len(self.problems) >= MAX_PROBLEMS

    def _compare(self, event: Any) -> None:
        if event.seq != self.seq and not (self._newer and event.seq > self.seq):
            raise _Departed("seq-order", f"seq is {event.seq}, expected {self.seq}")
        self.seq = event.seq
        if self._due is None:
            raise _Departed("end", f"{event.kind}: the log goes on where the run is over")
        kind, due = self._due
        if type(event) is not kind:
            raise _Departed(*self._surprise(event, kind, due))
        fields = due(event) if callable(due) else due
        for name, value in zip(_NAMES[kind], fields, strict=True):
            found = getattr(event, name)
            if found != value and not self.stopped:
                # A victim that is in the pool, and still not the one: the policy takes another.
                choice = callable(due) and name == "storage"
                rule = "choice" if choice else _RULE_OF.get(name) or _rule_of(kind, fields)
                self.report(rule, f"{event.kind}: {name} is {found!s:.200}, not {value!s:.200}")
        self._run.seq = self.seq
        self._due = next(self._flow, None)
        self.seq += 1

    def _header(self, header: records.RunHeader) -> tuple[Any, ...]:
        """What the header must say, given what it chooses freely."""
        trace, budget = self.trace, header.budget_bytes
        if (header.trace_sha256, header.semantics) != (trace.sha256, "simrd"):
            raise _Departed("trace", "run: of another trace, or not with the semantics simrd")
        self._run = _Run(trace, header)
        if self.scores:
            self._run.scores = Scores(self._run, header.policy, header.seed)
        self._flow, self._newer = self._run.due(), header.schema != records.SCHEMA
        peak = None if header.peak_bytes is None else _peak_bytes(trace, header)
        if header.ratio is not None:
            budget = int(min(max((peak or 0) * header.ratio, 0), 1 << 63))
        expected = {"trace_ops": trace.ops, "trace_tensors": trace.tensors, "peak_bytes": peak}
        expected |= {"baseline_cost_ns": trace.baseline_cost_ns, "budget_bytes": budget}
        expected["candidates"] = max(header.candidates, 0)
        return tuple(expected.get(n, getattr(header, n)) for n in _NAMES[records.RunHeader])

    def _surprise(self, event: Any, kind: type[Any], fields: Any) -> tuple[str, str]:
        """Rule and message for an event of another kind than the one that is due."""
        rule = event.kind if event.kind in ("oom", "thrashed", "end") else _rule_of(kind, fields)
        what = f"{fields!s:.200}" if type(fields) is tuple else ""
        if kind is records.Evict and not what:
            what = f"of one of the evictable storages {[*self._run.pool]!s:.200}"
        return rule, f"{event.kind}: expected {kind.kind} {what} instead"


def _rule_of(kind: type[Any], fields: Any) -> str:
    if kind is records.Evict and not callable(fields) and fields[3] != "pressure":
        return str(fields[3])
    return _RULE_OF.get(kind.__name__, str(kind.kind))


def _peak_bytes(trace: Trace, header: records.RunHeader) -> int | None:
    """The base of ratios: the peak of an unlimited run that frees dead storages."""
    rules = attrs.evolve(header, dealloc="banish", budget_bytes=None, overhead_limit=None)
    run = _Run(trace, rules)
    try:
        return [run.peak for _ in run.due()][-1]
    except _Departed:
        return None


class _Departed(Exception):  # noqa: N818 - a way to end a check
    """The log leaves the path that can be followed; the arguments are rule and message."""


class _Run:
    """What a run of a trace does, as the sequence of events that are due."""

    def __init__(self, trace: Trace, header: records.RunHeader) -> None:
        self.trace, self.dealloc, self.losers = trace, header.dealloc, header.candidates
        self.budget, limit = header.budget_bytes, header.overhead_limit
        self.limit = None if limit is None else trace.baseline_cost_ns * (limit - 1)
        self.scores: Scores | None = None
        self.seq = 0  # of the last event; set by whoever compares
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
        distinct = (len(set().union(*evicted)), *map(len, evicted), self.peak)
        ends = (self.memory, self.clock, *self.bounds.values(), self.digest.hexdigest())
        yield records.End, (self.outcome, *counts, *distinct, *ends)

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
        if self.scores:
            self.scores.called(op)
        created = zip(*((t, self.storage[t], self.size[t]) for t in outputs), strict=True)
        definition = (None, step, op, self.trace.op_name[op], self.cost[op], inputs, *created)
        yield records.OpDefined, definition
        yield self._materialise(outputs[0], "first", self.seq, None, 1)
        for tensor in outputs:
            self.accessed[self.storage[tensor]] = self.clock
        if constant:
            yield from self._pin(self.storage[outputs[0]], "constant", self.seq)

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
            raise _Departed("trace", f"op {op} is needed, of which a storage has been banished")
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
            fits = self.budget is None or total <= self.budget
            yield records.FitCheck, (mine, op, self.memory, need, fits)
            checked, bound = self.seq, self.bounds[fits]
            if bound is None or (total > bound if fits else total < bound):
                self.bounds[fits] = total
            if fits:
                return
            if not self.pool:
                self.outcome = "oom"
                in_use = sum(self.size[storage] for storage in self.resident)
                yield records.OutOfMemory, (checked, op, need, in_use, self.budget, depth)
            yield records.Evict, lambda event, cause=checked: self._pressure(event, cause, op)

    def _pressure(self, event: records.Evict, cause: int, op: int) -> tuple[Any, ...]:
        """Evict the log's victim under pressure; returns what the event must say of it."""
        victim, losers, pool_size = event.storage, dict(event.candidates), len(self.pool)
        if victim not in self.pool:
            raise _Departed("evict", f"storage {victim} is not resident, locked or pinned")
        listed = tuple((s, x) for s, x in losers.items() if s in self.pool and s != victim)
        claimed = (victim, event.score, listed[: self.losers])
        choice = self.scores.choice(event) if self.scores else claimed
        self._leave(victim, "pressure")
        after = (pool_size, choice[2], self.memory, self.clock)
        return (cause, choice[0], self.size[victim], "pressure", op, choice[1], *after)

    def _execute(self, op: int, tensor: int, mine: int, first: bool) -> Flow:
        siblings = [other for other in self.outputs[op] if other != tensor]
        defined = [tensor, *(other for other in siblings if other not in self.defined)]
        freed = sum(self.size[other] for other in siblings if other in self.defined)
        storages = [self.storage[other] for other in (*siblings, tensor)]
        resident = [storage for storage in storages if storage not in self.resident]
        self.clock += self.cost[op]
        self.memory += sum(self.size[other] for other in self.outputs[op])
        self.peak = max(self.peak, self.memory)
        self.memory -= freed
        self.runs[first] += 1
        self.remat_cost += 0 if first else self.cost[op]
        self.digest.update(b"%c %d\n" % (b"C" if first else b"R", op))
        self.defined.update(defined)
        self.resident.update(resident)
        self.pool.update(dict.fromkeys(resident))
        if self.scores:
            self.scores.returned(resident)
        kind = records.Compute if first else records.Rematerialise
        gained = (tuple(defined), tuple(resident), freed)
        yield kind, (mine, op, tensor, self.cost[op], *gained, self.memory, self.clock)
        executed, inputs, position = self.seq, self.inputs[tensor], 0
        while position < len(inputs):  # banishing shortens this very list (Q-live-iteration)
            storage, position = self.storage[inputs[position]], position + 1
            self.locks[storage] -= 1
            if not self.locks[storage]:
                self.pool[storage] = None
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
