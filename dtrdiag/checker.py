"""Does a log say what a run of its trace has to do? Checked apart from the code that wrote it.

A run is determined by its trace, its budget, what was changed on purpose, and its victims. So
`checkerrun` carries out the schedule and says which event is due next, with which fields; `Checker`
compares. Only the victims are taken from the log; `checkerscores` tells whom the policy would
choose. Nothing is used of simulator or replay: of dtrdiag these modules know what events, traces
and interventions are made of.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from dtrdiag.checkerrun import SEMANTICS, Departed, Due, Run, as_run, peak_bytes
from dtrdiag.checkerscores import Scores
from dtrdiag.errors import LogError, UsageError
from dtrdiag.events import records
from dtrdiag.interventions import parse_interventions
from dtrdiag.trace.model import Trace

MAX_PROBLEMS = 100  # after which checking stops
MAX_CANDIDATES = 1_000_000  # of a run
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
_KNOWN_SCHEMAS = [
    f"{records.SCHEMA_NAME}/{records.SCHEMA_MAJOR}.{minor}"
    for minor in range(records.SCHEMA_MINOR + 1)
]
_RULE_OF = {word: rule for rule, words in _RULES.items() for word in words.split()}
_NAMES = {
    kind: [field.name for field in attrs.fields(kind) if field.name not in ("seq", "extra")]
    for kind in records.EVENT_TYPES.values()
}


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
            except Departed as departed:
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
            raise Departed("seq-order", f"seq is {event.seq}, expected {self.seq}")
        self.seq = event.seq
        if self._due is None:
            raise Departed("end", f"{event.kind}: the log goes on where the run is over")
        kind, due = self._due
        if type(event) is not kind:
            raise Departed(*self._surprise(event, kind, due))
        fields = due(event) if callable(due) else due
        for message in self._run.remarks:
            self.report("intervention", f"{event.kind}: {message}")
        for name, value in zip(_NAMES[kind], fields, strict=True):
            found = getattr(event, name)
            if found != value and not self.stopped:
                # A victim that is in the pool, and still not the one: the policy takes another.
                choice = callable(due) and name == "storage"
                rule = "choice" if choice else _RULE_OF.get(name) or _rule_of(kind, fields)
                self.report(rule, f"{event.kind}: {name} is {found!s:.200}, not {value!s:.200}")
        self._run.seq, self._run.remarks = self.seq, []
        self._due = next(self._flow, None)
        self.seq += 1

    def _header(self, header: records.RunHeader) -> tuple[Any, ...]:
        """What the header must say, given what it chooses freely."""
        trace, budget = self.trace, header.budget_bytes
        # A live run may not know the trace of its program: then the events alone tell.
        if header.trace_sha256 not in (None, trace.sha256) or header.semantics not in SEMANTICS:
            what = f"of another trace, or not with the semantics {' or '.join(SEMANTICS)}"
            raise Departed("trace", f"run: {what}")
        try:
            changes = parse_interventions(header.interventions)
            trace = as_run(trace, changes)
        except UsageError as error:
            raise Departed("header", f"run: interventions: {error}") from error
        self._run = Run(trace, header, changes)
        if self.scores:
            self._run.scores = Scores(self._run, header)
        self._flow, self._newer = self._run.due(), header.schema not in _KNOWN_SCHEMAS
        peak = None if header.peak_bytes is None else self._peak(trace, header)
        if header.ratio is not None:
            budget = int(min(max((peak or 0) * header.ratio, 0), 1 << 63))
        expected = {"trace_ops": trace.ops, "trace_tensors": trace.tensors, "peak_bytes": peak}
        expected |= {"baseline_cost_ns": trace.baseline_cost_ns, "budget_bytes": budget}
        unknown = ("trace_ops", "trace_tensors", "baseline_cost_ns")
        expected |= {name: None for name in unknown if getattr(header, name) is None}
        expected["candidates"] = min(max(header.candidates, 0), MAX_CANDIDATES)
        if header.seed is not None:
            expected["seed"] = min(max(header.seed, 0), (1 << 63) - 1)
        return tuple(expected.get(n, getattr(header, n)) for n in _NAMES[records.RunHeader])

    def _peak(self, trace: Trace, header: records.RunHeader) -> int | None:
        """The base of ratios: the recorded trace's peak, or that of the trace as it was run."""
        peaks = [peak_bytes(self.trace, header)]
        if trace is not self.trace and header.peak_bytes not in peaks:
            peaks.append(peak_bytes(trace, header))
        return header.peak_bytes if header.peak_bytes in peaks else peaks[0]

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
