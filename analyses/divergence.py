"""Where do two runs of one trace part, and over what?

The decisions of a run are its executions (`C OP`, `R OP`) and evictions (`E STORAGE`). Both runs
are read side by side up to the first difference. Two runs of the same policy differ in nothing but
what their budgets answer, so they part at one fit check that one budget passes and the other does
not. Runs of different policies mostly part at an eviction, over the victim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import attrs

from dtrdiag.analyses.reading import interventions_of, require_same_trace, split_header
from dtrdiag.analyses.summary import INCOMPLETE
from dtrdiag.events.records import (
    Candidate,
    Compute,
    End,
    Event,
    Evict,
    FitCheck,
    Materialise,
    OpDefined,
    OutOfMemory,
    Rematerialise,
    RunHeader,
    Score,
    Thrashed,
)
from dtrdiag.ids import OpId, StorageId

FOLLOWING = 5
"""How many decisions after the first one that differs a divergence lists for each run."""

FIT, EVICT, EXECUTE, STOP = "fit", "evict", "execute", "stop"


@attrs.frozen
class Decision:
    """One decision of a run, or its stop.

    Attributes:
        text: `C OP`, `R OP`, `E STORAGE`, or the outcome at which the run stopped.
        seq: `seq` of the event; None where the log ends without one.
        kind: `compute`, `rematerialise`, `evict`, or `stop`.
        op: the op executed, that room is made for, or that did not fit; None: of no op.
        bytes: size of the victim; None unless `kind` is `evict`.
        cost_ns: cost of the execution; None unless it is one.
        cause: cause of the eviction; None unless it is one.
        candidates: the best losers, where the run was asked to list them.
    """

    text: str
    seq: int | None
    kind: str
    op: OpId | None = None
    op_name: str | None = None
    storage: StorageId | None = None
    bytes: int | None = None
    cost_ns: int | None = None
    cause: str | None = None
    score: Score = None
    pool_size: int | None = None
    candidates: tuple[Candidate, ...] = ()


@attrs.frozen
class Divergence:
    """The first difference between two runs, a and b.

    Attributes:
        index: number of equal decisions before it, so the 0-based index of `a` and `b` among the
            decisions of their runs.
        kind: `fit`: one request fitted in one run alone; `evict`: the victims differ, or one run
            evicted and the other executed; `execute`: different executions; `stop`: one run
            stopped where the other went on.
        op: fit: the op that wants room; otherwise the op of decision `a`, or else of `b`.
        memory_bytes: fit: memory in use at the check; otherwise None.
        requested_bytes: fit: what the op needs for its outputs; otherwise None.
        fits_in: fit: the run, `a` or `b`, in which it fitted; otherwise None.
        margin_a_bytes: fit: budget of a at that check minus memory and request, negative by what
            it misses; None where the budget is unlimited or `kind` is not `fit`.
        reason: fit: whether the op is a `first` execution or a `remat`; None otherwise, and where
            the log does not say.
        depth: fit: size of the pending stack; otherwise None.
        during_op: the op that the schedule called last, which the decisions serve.
        seq_a: `seq` of the check in a, or of its decision; None where a's log ends before.
        a: the first decision of run a that differs.
        a_next: those that follow it, at most `FOLLOWING`.
    """

    index: int
    kind: str
    op: OpId | None
    op_name: str | None
    memory_bytes: int | None
    requested_bytes: int | None
    fits_in: str | None
    margin_a_bytes: int | None
    margin_b_bytes: int | None
    reason: str | None
    depth: int | None
    during_op: OpId | None
    during_op_name: str | None
    seq_a: int | None
    seq_b: int | None
    a: Decision
    b: Decision
    a_next: tuple[Decision, ...]
    b_next: tuple[Decision, ...]


@attrs.frozen
class Comparison:
    """How far two runs agree: `common_prefix` equal decisions, and what comes after them."""

    common_prefix: int
    divergence: Divergence | None


Choice = Compute | Rematerialise | Evict | OutOfMemory | Thrashed

# Tuples, because building a union for each event would cost more than the comparison.
_EXECUTIONS = (Compute, Rematerialise)
_COMPARED = (FitCheck, Compute, Rematerialise, Evict)
_STOPS = (OutOfMemory, Thrashed)


class Walk:
    """The checks and decisions of one run, in order, with what is needed to describe them."""

    def __init__(self, header: RunHeader, events: Iterator[Event]) -> None:
        self.header = header
        self.interventions = interventions_of(header)
        self.names: dict[OpId, str] = {}
        self.called: OpId | None = None
        self.asked: dict[int, Materialise] = {}
        """The last by depth of the pending stack: whatever is pending is among them."""
        self.end: End | None = None
        self.stopped = False
        self._events = events

    def go_on(self, events: Iterator[Event]) -> None:
        """Take what comes next from other events."""
        self._events = events

    def next(self) -> FitCheck | Choice | None:
        """The next fit check, decision or stop; None at the end of the log."""
        for event in self._events:
            if isinstance(event, _COMPARED):
                return event
            if isinstance(event, Materialise):
                self.asked[event.depth] = event
            elif isinstance(event, OpDefined):
                self.called = event.op
                self.names[event.op] = event.name
            elif isinstance(event, _STOPS):
                self.stopped = True
                return event
            elif isinstance(event, End):
                self.end = event
        return None

    def next_choice(self) -> Choice | None:
        """The next decision or stop, past any fit checks."""
        while isinstance(event := self.next(), FitCheck):
            pass
        return event

    def describe(self, event: Choice | None) -> Decision:
        """An event as a `Decision`; None as the end of the log."""
        if isinstance(event, Evict):
            return Decision(
                f"E {event.storage}",
                event.seq,
                "evict",
                op=event.op,
                op_name=self.name(event.op),
                storage=event.storage,
                bytes=event.size_bytes,
                cause=event.cause,
                score=event.score,
                pool_size=event.pool_size,
                candidates=event.candidates,
            )
        if isinstance(event, _EXECUTIONS):
            return Decision(
                f"{'C' if isinstance(event, Compute) else 'R'} {event.op}",
                event.seq,
                event.kind,
                op=event.op,
                op_name=self.name(event.op),
                cost_ns=event.cost_ns,
            )
        if event is None:
            outcome = INCOMPLETE if self.end is None else self.end.outcome
            return Decision(outcome, None if self.end is None else self.end.seq, "stop")
        op = event.op if isinstance(event, OutOfMemory) else None
        return Decision(event.kind, event.seq, "stop", op=op, op_name=self.name(op))

    def name(self, op: OpId | None) -> str | None:
        """Name of an op; None where the log does not say."""
        return None if op is None else self.names.get(op)

    def asked_for(self, op: OpId) -> Materialise | None:
        """Why an op is pending; None where the log does not say."""
        asked = [event for event in self.asked.values() if event.op == op]
        return max(asked, key=lambda event: event.seq, default=None)

    def following(self, last: Choice | None) -> Iterator[Decision]:
        """Decisions after `last`, then the stop; nothing after a stop."""
        while last is not None and not isinstance(last, _STOPS):
            last = self.next_choice()
            yield self.describe(last)


def _line(event: Choice) -> tuple[str, int]:
    if isinstance(event, Evict):
        return ("E", event.storage)
    if isinstance(event, _EXECUTIONS):
        return ("C" if isinstance(event, Compute) else "R", event.op)
    return (event.kind, event.op if isinstance(event, OutOfMemory) else 0)


def first_divergence(
    a: Iterable[Event], b: Iterable[Event], following: int = FOLLOWING
) -> Divergence | None:
    """The first difference between two runs of one trace; None where all decisions are equal.

    Both logs are read side by side and only up to the difference, so memory does not grow with the
    length of the logs (operator names aside). Scores, candidates and clock are not compared: what
    a run decided counts, not what its log says besides.

    Args:
        a: events of the first run, header first.
        b: events of the second.
        following: how many further decisions of each run to list, at least 0.

    Raises:
        AnalysisError: the events do not begin with a header, or the traces differ.
        LogError: a header names interventions that are not known.
    """
    return compare_runs(a, b, following).divergence


def compare_runs(a: Iterable[Event], b: Iterable[Event], following: int = FOLLOWING) -> Comparison:
    """As `first_divergence`, with the number of equal decisions even where there is none."""
    header_a, rest_a = split_header(a)
    header_b, rest_b = split_header(b)
    require_same_trace(header_a, header_b)
    return compare_walks(Walk(header_a, rest_a), Walk(header_b, rest_b), 0, following)


def compare_walks(run_a: Walk, run_b: Walk, index: int, following: int) -> Comparison:
    """As `compare_runs`, of two runs that have come as far as decision `index`, equal up to it."""
    while True:
        at_a, at_b = run_a.next(), run_b.next()
        if isinstance(at_a, FitCheck) and isinstance(at_b, FitCheck):
            if at_a.op == at_b.op and at_a.fits != at_b.fits:
                found = _fit_divergence(index, run_a, run_b, at_a, at_b, following)
                return Comparison(index, found)
            continue
        # A check that one log alone has, of a runtime that logs none, decides nothing by itself.
        choice_a = run_a.next_choice() if isinstance(at_a, FitCheck) else at_a
        choice_b = run_b.next_choice() if isinstance(at_b, FitCheck) else at_b
        if choice_a is None and choice_b is None:
            return Comparison(index, None)
        if choice_a is None or choice_b is None or _line(choice_a) != _line(choice_b):
            found = _choice_divergence(index, run_a, run_b, choice_a, choice_b, following)
            return Comparison(index, found)
        if not run_a.stopped:
            index += 1


def _fit_divergence(
    index: int, run_a: Walk, run_b: Walk, at_a: FitCheck, at_b: FitCheck, following: int
) -> Divergence:
    asked = run_a.asked_for(at_a.op)
    choice_a, choice_b = run_a.next_choice(), run_b.next_choice()
    return Divergence(
        index=index,
        kind=FIT,
        op=at_a.op,
        op_name=run_a.name(at_a.op),
        memory_bytes=at_a.memory_bytes,
        requested_bytes=at_a.requested_bytes,
        fits_in="a" if at_a.fits else "b",
        margin_a_bytes=_margin_bytes(run_a, index, at_a),
        margin_b_bytes=_margin_bytes(run_b, index, at_b),
        reason=None if asked is None else asked.reason,
        depth=None if asked is None else asked.depth,
        during_op=run_a.called,
        during_op_name=run_a.name(run_a.called),
        seq_a=at_a.seq,
        seq_b=at_b.seq,
        a=run_a.describe(choice_a),
        b=run_b.describe(choice_b),
        a_next=tuple(islice(run_a.following(choice_a), following)),
        b_next=tuple(islice(run_b.following(choice_b), following)),
    )


def _margin_bytes(run: Walk, decisions: int, check: FitCheck) -> int | None:
    budget_bytes = run.interventions.budget_at(decisions, run.header.budget_bytes)
    if budget_bytes is None:
        return None
    return budget_bytes - check.memory_bytes - check.requested_bytes


def _choice_divergence(
    index: int,
    run_a: Walk,
    run_b: Walk,
    choice_a: Choice | None,
    choice_b: Choice | None,
    following: int,
) -> Divergence:
    called = run_a.called if choice_a is not None else run_b.called
    decision_a, decision_b = run_a.describe(choice_a), run_b.describe(choice_b)
    named = decision_a if decision_a.op is not None else decision_b
    return Divergence(
        index=index,
        kind=_kind(decision_a, decision_b),
        op=named.op,
        op_name=named.op_name,
        memory_bytes=None,
        requested_bytes=None,
        fits_in=None,
        margin_a_bytes=None,
        margin_b_bytes=None,
        reason=None,
        depth=None,
        during_op=called,
        during_op_name=run_a.name(called) or run_b.name(called),
        seq_a=decision_a.seq,
        seq_b=decision_b.seq,
        a=decision_a,
        b=decision_b,
        a_next=tuple(islice(run_a.following(choice_a), following)),
        b_next=tuple(islice(run_b.following(choice_b), following)),
    )


def _kind(a: Decision, b: Decision) -> str:
    kinds = {a.kind, b.kind}
    if "stop" in kinds:
        return STOP
    return EVICT if "evict" in kinds else EXECUTE


def decision_document(decision: Decision) -> dict[str, Any]:
    """A decision as plain JSON types: its text under `decision`, and what applies besides."""
    document: dict[str, Any] = {"decision": decision.text}
    fields = attrs.asdict(decision, recurse=False)
    del fields["text"], fields["candidates"]
    document.update((name, value) for name, value in fields.items() if value is not None)
    if decision.candidates:
        document["candidates"] = [list(candidate) for candidate in decision.candidates]
    return document


def divergence_document(divergence: Divergence) -> dict[str, Any]:
    """A divergence as the `first_divergence` object of a `dtrdiag.diff/1` document."""
    return {
        "index": divergence.index,
        "kind": divergence.kind,
        "op": divergence.op,
        "op_name": divergence.op_name,
        "memory": divergence.memory_bytes,
        "requested_bytes": divergence.requested_bytes,
        "fits_in": divergence.fits_in,
        "margin_bytes": {"a": divergence.margin_a_bytes, "b": divergence.margin_b_bytes},
        "reason": divergence.reason,
        "depth": divergence.depth,
        "during_op": divergence.during_op,
        "during_op_name": divergence.during_op_name,
        "seq": {"a": divergence.seq_a, "b": divergence.seq_b},
        "a": divergence.a.text,
        "b": divergence.b.text,
        "a_details": decision_document(divergence.a),
        "b_details": decision_document(divergence.b),
        "a_next": [decision_document(decision) for decision in divergence.a_next],
        "b_next": [decision_document(decision) for decision in divergence.b_next],
    }
