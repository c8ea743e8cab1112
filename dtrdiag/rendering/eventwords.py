"""What does one event of a log say, in a sentence, and in the few words that a list needs?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    Score,
    Thrashed,
    Unlock,
)
from dtrdiag.ids import OpId, StorageId
from dtrdiag.log import Replay
from dtrdiag.units import (
    both_bytes,
    changes_words,
    count,
    duration,
    exact_bytes,
    overhead_words,
    plain_name,
    short_bytes,
)


def score_words(score: Score, digits: int = 6) -> str:
    """A score as people compare them.

    >>> score_words(0.00012345678), score_words(None), score_words(float("inf"))
    ('0.000123457', '-', 'inf')
    """
    return "-" if score is None else f"{score:.{digits}g}"


def op_words(state: Replay, op: OpId | None) -> str:
    """An op with its name, as far as the log has introduced it."""
    if op is None:
        return "the model"
    known = state.ops.get(op)
    return f"op {op}" + (f" ({plain_name(known.name)})" if known else "")


def storage_words(state: Replay, storage: StorageId) -> str:
    """A storage with its size, as far as the log has introduced it."""
    size = state.size_bytes.get(storage)
    return f"storage {storage}" + (f" ({short_bytes(size)})" if size is not None else "")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def event_words(event: Event, state: Replay) -> str:
    """One event, explained in a sentence or two.

    Args:
        event: the event.
        state: right after it.
    """
    return _WORDS[type(event)](event, state)


def _run(event: RunHeader, state: Replay) -> str:
    budget = event.budget_bytes
    room = "without a budget" if budget is None else f"with a budget of {both_bytes(budget)}"
    changes = changes_words(event.semantics, event.interventions)
    return (
        f"The run begins: {plain_name(event.trace_name)} under {plain_name(event.policy)}"
        f"{changes}, {room}."
    )


def _op(event: OpDefined, state: Replay) -> str:
    makes = [
        f"storage {storage} ({short_bytes(size)})" if size else f"a view of storage {storage}"
        for storage, size in zip(event.storages, event.sizes_bytes, strict=True)
    ]
    more = f" and {len(makes) - 3:,} more" if len(makes) > 3 else ""
    inputs = f" from {count(len(event.inputs), 'input')}" if event.inputs else ""
    return (
        f"The model calls op {event.op} ({plain_name(event.name)}), which will make "
        f"{', '.join(makes[:3])}{more}{inputs}, in {duration(event.cost_ns)}."
    )


def _output(event: OutputRequested, state: Replay) -> str:
    there = "in memory" if event.tensor in state.defined else "not in memory now"
    return (
        f"The model asks for tensor {event.tensor} of {storage_words(state, event.storage)} as an "
        f"output of the step; it is {there}."
    )


def _reference(event: ReferenceChanged, state: Replay) -> str:
    does = "takes one more reference to" if event.delta > 0 else "drops a reference to"
    left = "none is left" if event.references == 0 else f"{event.references:,} are there now"
    return f"The model {does} {storage_words(state, event.storage)}: {left}."


def _materialise(event: Materialise, state: Replay) -> str:
    if event.reason == "first":
        why = "is to run for the first time"
    else:
        asks = op_words(state, event.for_op)
        why = f"has to run again, because {asks} needs its tensor {event.tensor}"
    pending = f"{count(event.depth, 'op')} {'is' if event.depth == 1 else 'are'} pending"
    return f"{_capital(op_words(state, event.op))} {why}; {pending}."


def _lock(event: Lock, state: Replay) -> str:
    return (
        f"{_capital(op_words(state, event.op))} locks {storage_words(state, event.storage)}, so "
        f"that it cannot be evicted: {count(event.locks, 'lock')} on it now."
    )


def _unlock(event: Unlock, state: Replay) -> str:
    left = f"{count(event.locks, 'lock')} left on it" if event.locks else "it can be evicted again"
    return (
        f"{_capital(op_words(state, event.op))} gives back its lock on "
        f"{storage_words(state, event.storage)}: {left}."
    )


def _fit(event: FitCheck, state: Replay) -> str:
    wants = (
        f"{_capital(op_words(state, event.op))} wants {both_bytes(event.requested_bytes)} with "
        f"{both_bytes(event.memory_bytes)} in use: "
    )
    budget = state.budget_bytes
    rest = None if budget is None else budget - event.memory_bytes - event.requested_bytes
    if event.fits:
        return wants + (
            "that fits." if rest is None else f"that fits, with {both_bytes(rest)} to spare."
        )
    short = "" if rest is None else f" by {both_bytes(-rest)}"
    return f"{wants}that misses the budget{short}, so something has to go."


def _evict(event: Evict, state: Replay) -> str:
    victim = f"storage {event.storage} of {both_bytes(event.size_bytes)}"
    if event.cause == "pressure":
        of = "" if event.pool_size is None else f"of {event.pool_size:,} that could go, "
        score = "" if event.score is None else f"; its score is {score_words(event.score)}"
        goes = f"{of}{victim} is evicted to make room for {op_words(state, event.op)}{score}."
        return _capital(goes)
    if event.cause == "release":
        return f"{_capital(victim)} is evicted: the model has dropped its last reference."
    return f"{_capital(victim)} leaves memory: it is freed for good."


def _execution(event: Compute | Rematerialise, state: Replay) -> str:
    op = _capital(op_words(state, event.op))
    came = [storage_words(state, storage) for storage in event.resident]
    more = f" and {len(came) - 3:,} more" if len(came) > 3 else ""
    brought = f"; {', '.join(came[:3])}{more} came into memory" if came else ""
    freed = (
        f"; {exact_bytes(event.freed_bytes)} that were there already are freed"
        if event.freed_bytes
        else ""
    )
    if isinstance(event, Compute):
        return f"{op} runs for the first time, in {duration(event.cost_ns)}{brought}{freed}."
    top = state.pending[-1] if state.pending else None
    why = f", for {op_words(state, top.for_op)}" if top is not None and top.op == event.op else ""
    return f"{op} runs again{why}, in {duration(event.cost_ns)}{brought}{freed}."


_PINS = {
    "constant": "it is an input or a parameter of the model",
    "output": "it is an output of the step",
    "banish": "something that it was computed from is freed for good",
    "intervention": "an intervention wants it so",
}


def _pin(event: Pin, state: Replay) -> str:
    why = _PINS.get(event.reason, plain_name(event.reason))
    return f"{_capital(storage_words(state, event.storage))} is pinned, to stay in memory: {why}."


def _banish(event: Banish, state: Replay) -> str:
    return (
        f"{_capital(storage_words(state, event.storage))} is freed for good: nothing can ask for "
        "it any more."
    )


def _oom(event: OutOfMemory, state: Replay) -> str:
    short = event.memory_bytes + event.requested_bytes - event.budget_bytes
    return (
        f"Out of memory: {op_words(state, event.op)} wants {both_bytes(event.requested_bytes)}, "
        f"{both_bytes(short)} more than there is, and nothing can be evicted; "
        f"{count(event.depth, 'op')} pending."
    )


def _thrashed(event: Thrashed, state: Replay) -> str:
    return (
        f"The overhead limit stops the run: rematerialisation has cost "
        f"{duration(event.remat_cost_ns)}, more than {duration(round(event.limit_ns))}."
    )


_OUTCOMES = {"ok": "it finished", "oom": "out of memory", "thrashed": "stopped by the limit"}


def _end(event: End, state: Replay) -> str:
    overhead = ""
    base = state.header.baseline_cost_ns if state.header is not None else None
    if base and event.outcome == "ok":
        factor = overhead_words((base + event.remat_cost_ns) / base)
        overhead = f" and an overhead of {factor}"
    return (
        f"The run ends: {_OUTCOMES.get(event.outcome, plain_name(event.outcome))}, after "
        f"{count(event.evictions_pressure, 'eviction')} to make room, with "
        f"{count(event.remats, 'rematerialisation')}{overhead}."
    )


_WORDS: dict[type[Any], Callable[[Any, Replay], str]] = {
    RunHeader: _run,
    OpDefined: _op,
    OutputRequested: _output,
    ReferenceChanged: _reference,
    Materialise: _materialise,
    Lock: _lock,
    Unlock: _unlock,
    FitCheck: _fit,
    Evict: _evict,
    Compute: _execution,
    Rematerialise: _execution,
    Pin: _pin,
    Banish: _banish,
    OutOfMemory: _oom,
    Thrashed: _thrashed,
    End: _end,
}

SHORT = {
    "run": "run",
    "op": "call",
    "output": "output",
    "reference": "reference",
    "materialise": "wait",
    "lock": "lock",
    "unlock": "unlock",
    "fit": "fit?",
    "evict": "EVICT",
    "compute": "compute",
    "rematerialise": "REMAT",
    "pin": "pin",
    "banish": "banish",
    "oom": "OOM",
    "thrashed": "LIMIT",
    "end": "end",
}
"""What a list calls each kind of event."""


def short_words(event: Event, name: Callable[[OpId], str | None]) -> str:
    """One event in a few words, its kind apart.

    Args:
        event: the event.
        name: the name of an op, None where it is not known.
    """

    def op(number: OpId | None) -> str:
        known = None if number is None else name(number)
        return (
            "model"
            if number is None
            else f"{number}" + (f" {plain_name(known, 16)}" if known else "")
        )

    if isinstance(event, OpDefined):
        return f"{event.op} {plain_name(event.name, 16)}"
    if isinstance(event, Compute | Rematerialise):
        return f"{op(event.op)}, {duration(event.cost_ns)}"
    if isinstance(event, Materialise):
        return f"{op(event.op)}" + (f" for {event.for_op}" if event.for_op is not None else "")
    if isinstance(event, Lock | Unlock):
        return f"s{event.storage} by {op(event.op)}"
    if isinstance(event, FitCheck):
        answer = "yes" if event.fits else "NO"
        return f"{answer}: {short_bytes(event.requested_bytes)} for {op(event.op)}"
    if isinstance(event, Evict):
        why = f"for {op(event.op)}" if event.cause == "pressure" else event.cause
        return f"s{event.storage} {short_bytes(event.size_bytes)} {why}"
    if isinstance(event, ReferenceChanged):
        return f"s{event.storage} {event.delta:+d}: {event.references}"
    if isinstance(event, OutOfMemory):
        return f"{op(event.op)}, {short_bytes(event.requested_bytes)}"
    if isinstance(event, Pin):
        return f"s{event.storage} {plain_name(event.reason, 12)}"
    if isinstance(event, Banish | OutputRequested):
        return f"s{event.storage}"
    return plain_name(event.outcome, 12) if isinstance(event, End) else ""
