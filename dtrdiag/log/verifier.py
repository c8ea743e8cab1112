"""Whether an event log keeps every rule of `rules.RULES`, and where it breaks which."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dtrdiag.errors import LogError
from dtrdiag.events.records import (
    Banish,
    Compute,
    End,
    Event,
    Evict,
    FitCheck,
    Lock,
    Materialise,
    OpDefined,
    OutOfMemory,
    OutputRequested,
    Pin,
    ReferenceChanged,
    Rematerialise,
    RunHeader,
    Thrashed,
    Unlock,
)
from dtrdiag.log.checking import Due
from dtrdiag.log.eviction_rules import EvictionRules
from dtrdiag.log.rules import MAX_PROBLEMS, Problem, Verification


def verify(events: Iterable[Event], *, complete: bool = True) -> Verification:
    """Check a log against all rules. A damaged log gives problems, never an exception.

    After a problem the check goes on from the state that the log's own events lead to, so that
    later problems may be shadows of the first.

    Args:
        events: the log, from its header on.
        complete: whether a log without `end` event breaks a rule.

    Complexity: linear in the log; a banishment, in its dependents.
    """
    verifier = Verifier()
    problems = verifier.problems
    count = 0
    try:
        for event in events:
            verifier.feed(event)
            count += 1
            if len(problems) >= MAX_PROBLEMS:
                break
    except LogError as error:
        problems.append(Problem(verifier.next_seq, "readable", str(error)))
    finished = verifier.state.end is not None
    if not count:
        problems.append(Problem(0, "header-first", "the log has no events"))
    elif complete and not finished and len(problems) < MAX_PROBLEMS:
        message = f"the log stops after {count} events without an end event"
        problems.append(Problem(verifier.next_seq, "end", message))
    return Verification(count, finished, tuple(problems))


class Verifier(EvictionRules):
    """Checks a log one event at a time; `problems` grows, `state` is the state so far."""

    def __init__(self) -> None:
        super().__init__()
        self.next_seq = 0
        """What the next event's `seq` should be."""
        self._check: dict[type[Any], Callable[[Any, Due | None], None]] = {
            RunHeader: self.run,
            OpDefined: self.op,
            OutputRequested: self.output_requested,
            ReferenceChanged: self.reference,
            Materialise: self.materialise,
            Lock: self.lock,
            Unlock: self.unlock,
            FitCheck: self.fit,
            Evict: self.evict,
            Compute: self.execute,
            Rematerialise: self.execute,
            Pin: self.pin,
            Banish: self.banish,
            OutOfMemory: self.oom,
            Thrashed: self.thrashed,
            End: self.ended,
        }

    def feed(self, event: Event) -> None:
        """Check the next event and move past it."""
        kind = type(event)
        if event.seq != self.next_seq:
            self.expect("seq-order", event, "seq", event.seq, self.next_seq)
        self.next_seq = event.seq + 1
        due, self.due = self.due, None
        if due is not None and kind not in due.kinds:
            self.report(due.rule, event, _expected(due))
        try:
            self._check[kind](event, due)
        except KeyError as error:
            self.report("ids", event, f"nothing introduced {error}")
        except LogError as error:
            self.report("ids", event, error.what)


def _expected(due: Due) -> str:
    kinds = " or ".join(kind.kind for kind in due.kinds) or "nothing"
    about = "" if due.subject is None else f" about {due.subject}"
    cause = "" if due.cause_seq is None else f" because of event {due.cause_seq}"
    detail = f" ({due.detail})" if due.detail else ""
    return f"expected {kinds}{about}{detail}{cause} instead"
