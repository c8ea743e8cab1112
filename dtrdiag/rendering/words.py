"""What do a frontier and a diff say, in sentences with exact bytes?

Each function returns a list of sentences, the most important first.
"""

from __future__ import annotations

from dtrdiag.analyses.diff import EXACT, LOWER_BOUND, RunDiff
from dtrdiag.analyses.divergence import EVICT, EXECUTE, FIT, Decision, Divergence
from dtrdiag.analyses.frontier import Frontier, FrontierStep
from dtrdiag.analyses.sets import SetComparison
from dtrdiag.analyses.summary import RunSummary
from dtrdiag.rendering.diffs import re_evicted_words, trajectory_words
from dtrdiag.units import (
    both_bytes,
    changes_words,
    count,
    duration,
    exact_bytes,
    interval_words,
    overhead_words,
    plain_name,
)


def frontier_words(frontier: Frontier) -> list[str]:
    """Why a run stopped out of memory."""
    return [
        f"Out of memory at op {frontier.op} ({plain_name(frontier.op_name)}): it needs "
        f"{both_bytes(frontier.requested_bytes)}, {both_bytes(frontier.resident_bytes)} are in "
        f"use, and the budget is {both_bytes(frontier.budget_bytes)}: "
        f"{both_bytes(frontier.shortfall_bytes)} too little.",
        _what_is_resident(frontier),
        *pending_words(frontier),
        *asked_back_words(frontier),
        *help_words(frontier),
        *_what_was_changed(frontier),
    ]


def _what_was_changed(frontier: Frontier) -> list[str]:
    header = frontier.header
    changes = changes_words(header.semantics, header.interventions)
    return [f"The run is under {plain_name(header.policy)}{changes}."] if changes else []


def _what_is_resident(frontier: Frontier) -> str:
    pinned = sum(storage.state == "pinned" for storage in frontier.storages)
    locked = sum(storage.state == "locked" for storage in frontier.storages)
    text = (
        f"Of what is resident, {both_bytes(frontier.locked_bytes)} in "
        f"{count(locked, 'storage')} are locked by pending ops and "
        f"{both_bytes(frontier.pinned_bytes)} in {count(pinned, 'storage')} are pinned; "
    )
    if frontier.unaccounted_bytes:
        text += f"{both_bytes(frontier.unaccounted_bytes)} are in no storage that the log names; "
    if frontier.evictable_bytes:
        return text + f"{both_bytes(frontier.evictable_bytes)} were evictable all the same."
    return text + "nothing is evictable."


def pending_words(frontier: Frontier) -> list[str]:
    """Which ops wait for each other, and which of them hold memory; nothing without a stack."""
    origin = frontier.origin
    if origin is None:
        return []
    holding = [step for step in frontier.stack if step.added_bytes]
    if frontier.depth == 1:
        sentences = [f"Only that op is pending, {_why(origin)}."]
    else:
        sentences = [
            f"{frontier.depth:,} ops are pending, each waiting for the next, from op {origin.op} "
            f"({plain_name(origin.name)}) on, {_why(origin)}."
        ]
    if holding:
        most = max(holding, key=lambda step: step.added_bytes)
        who = f"{len(holding):,} of them hold" if frontier.depth > 1 else "It holds"
        sentences.append(
            f"{who} the locked bytes, the most by op {most.op} "
            f"({plain_name(most.name)}): {both_bytes(most.added_bytes)}."
        )
    return sentences


def asked_back_words(frontier: Frontier) -> list[str]:
    """What was asked back first, and how it had been lost; nothing where nothing was."""
    step = frontier.asked_back
    if step is None:
        return []
    origin = frontier.stack[0]
    who = "The model"
    if step is not origin:
        who = f"Op {origin.op} ({plain_name(origin.name)})"
    return [
        f"{who} first asked back storage {step.storage}, made by op {step.op} "
        f"({plain_name(step.name)}): {loss_words(frontier, step)}."
    ]


def loss_words(frontier: Frontier, step: FrontierStep) -> str:
    """When and for which op the storage that a step brings back was lost, as a log knows it."""
    loss = step.loss
    if loss is None:
        return "the log does not say when it left memory"
    where = f"at event {loss.seq:,}"
    served = f" (step {loss.step:,} of the schedule)"
    if loss.cause == "release":
        return f"freed {where}{served}, when the model dropped its last reference to it"
    if loss.cause != "pressure":
        return f"freed for good {where}{served}"
    if loss.op is None:
        room = "to make room, for which op the log does not say"
    else:
        name = frontier.room_for.get(loss.op)
        room = f"to make room for op {loss.op}"
        room += "" if name is None else f" ({plain_name(name)})"
    text = f"evicted {where}{served} {room}"
    if loss.pool_size is not None:
        text += f", out of {count(loss.pool_size, 'candidate')}"
    return text if loss.score is None else f"{text}, with a score of {loss.score:.6g}"


def forbid_option(frontier: Frontier) -> str | None:
    """What keeps the eviction from happening that lost what was asked back first.

    None: nothing was, or its loss was nobody's choice, or the run cannot be made again here.
    """
    step = frontier.asked_back
    if step is None or step.loss is None or step.loss.cause != "pressure":
        return None
    return f"--forbid {step.loss.seq}" if frontier.header.runtime == "dtrdiag" else None


def _why(origin: FrontierStep) -> str:
    if origin.kind == "first":
        return "which runs for the first time"
    return "which runs again because the step's output is asked for"


def help_words(frontier: Frontier) -> list[str]:
    """From which budgets on it would end otherwise."""
    passes, change = frontier.passes_at_bytes, frontier.interval_hi_bytes
    if frontier.budget_is_switched or change is None:
        return _under_another_budget(frontier)
    sentences = [
        f"Every budget from {exact_bytes(frontier.interval_lo_bytes)} to below "
        f"{exact_bytes(change)} stops here in the same way."
    ]
    if frontier.next_change_is_here:
        sentences.append(f"From a budget of {exact_bytes(passes)} this very request passes.")
    else:
        sentences.append(
            f"This very request would pass from a budget of {exact_bytes(passes)}; before that, "
            f"from {exact_bytes(change)}, an earlier eviction becomes needless and the run takes "
            "another course."
        )
    return sentences


def _under_another_budget(frontier: Frontier) -> list[str]:
    """The interval is about the header's budget, the stop about an intervention's."""
    own = frontier.header.budget_bytes
    begins = "without a budget" if own is None else f"with one of {both_bytes(own)}"
    # A run of which no check was made under its own budget has an interval from 0; no budget is 0.
    same = interval_words(max(frontier.interval_lo_bytes, 1), frontier.interval_hi_bytes)
    return [
        f"That budget is an intervention's; the run begins {begins}. If the intervention's alone "
        "were larger, then this very request, if it still came about like this, would pass from "
        f"{exact_bytes(frontier.passes_at_bytes)}.",
        f"With the interventions kept, every budget {same} to begin with stops here in the same "
        "way.",
    ]


def stack_words(frontier: Frontier) -> list[str]:
    """What two columns of the frontier's table say; nothing without a stack."""
    if not frontier.stack:
        return []
    return [
        "held: what the step locks, pinned storages apart; added: the part of it that no step "
        "above locks already."
    ]


def diff_words(diff: RunDiff) -> list[str]:
    """Where two runs part and what came of it."""
    sentences = [f"{_run_words('a', diff.a)} {_run_words('b', diff.b)}"]
    if diff.divergence is None:
        return [
            *sentences,
            f"All {count(diff.common_prefix, 'decision')} are equal: the runs are the same.",
        ]
    return [
        *sentences,
        *divergence_words(diff.divergence),
        *_overhead_words(diff),
        *trajectory_words(diff),
        *_operator_words(diff),
        *_set_words(diff),
        *re_evicted_words(diff.re_evicted),
    ]


def _run_words(side: str, run: RunSummary) -> str:
    budget = run.header.budget_bytes
    changes = changes_words(run.header.semantics, run.header.interventions)
    where = "without a budget" if budget is None else f"at a budget of {both_bytes(budget)}"
    ended = {
        "ok": "finished",
        "oom": "stopped out of memory",
        "thrashed": "was stopped by the overhead limit",
        "incomplete": "has an incomplete log",
    }.get(run.outcome, f"ended as {plain_name(run.outcome)}")
    known = "" if run.overhead is None else f" and overhead {overhead_words(run.overhead)}"
    return (
        f"Run {side}, under {plain_name(run.header.policy)}{changes} {where}, {ended}, with "
        f"{count(run.remats, 'rematerialisation')}{known}."
    )


def divergence_words(divergence: Divergence) -> list[str]:
    """Where two runs part and what each did next."""
    same = f"The first {count(divergence.index, 'decision')} are equal."
    if divergence.index == 1:
        same = "The first decision is equal."
    elif divergence.index == 0:
        same = "The runs differ from the first decision on."
    return [same, _parting_words(divergence), _next_words(divergence)]


def parting_words(divergence: Divergence) -> str:
    """Where two runs part, the answer first, so that a short place cuts what matters least."""
    if divergence.kind != FIT:
        return _parting_words(divergence).removeprefix("Then ")
    op = f"op {divergence.op} ({plain_name(divergence.op_name)})"
    return (
        f"{op} {_margin_words(divergence)}. It wants {both_bytes(divergence.requested_bytes or 0)} "
        f"with {both_bytes(divergence.memory_bytes or 0)} in use."
    )


def _parting_words(divergence: Divergence) -> str:
    op = f"op {divergence.op} ({plain_name(divergence.op_name)})"
    if divergence.kind == FIT:
        return _fit_words(divergence, op)
    a, b = divergence.a, divergence.b
    if divergence.kind == EVICT and a.kind == b.kind == "evict":
        victims = f"{_victim_words(a)} in a, {_victim_words(b)} in b"
        return f"Then they part over what to evict: {victims}."
    if divergence.kind in (EVICT, EXECUTE):
        return f"Then a does `{a.text}` where b does `{b.text}`."
    stopped, other = ("a", b) if a.kind == "stop" else ("b", a)
    outcome = a.text if stopped == "a" else b.text
    return f"Then {stopped} ends ({outcome}), where the other run goes on with `{other.text}`."


def _fit_words(divergence: Divergence, op: str) -> str:
    return (
        f"Then {op} wants {both_bytes(divergence.requested_bytes or 0)} with "
        f"{both_bytes(divergence.memory_bytes or 0)} in use: it {_margin_words(divergence)}."
    )


def _margin_words(divergence: Divergence) -> str:
    fits, misses = ("a", "b") if divergence.fits_in == "a" else ("b", "a")
    margins = {"a": divergence.margin_a_bytes, "b": divergence.margin_b_bytes}
    spare, short = margins[fits], margins[misses]
    room = "with no budget to keep" if spare is None else f"with {both_bytes(spare)} to spare"
    miss = "" if short is None else f" by {both_bytes(-short)}"
    return f"fits in {fits} {room} and misses in {misses}{miss}"


def _victim_words(decision: Decision) -> str:
    score = "" if decision.score is None else f", score {decision.score:.6g}"
    return f"storage {decision.storage} ({exact_bytes(decision.bytes or 0)}{score})"


def _next_words(divergence: Divergence) -> str:
    a = ", ".join(decision.text for decision in (divergence.a, *divergence.a_next))
    b = ", ".join(decision.text for decision in (divergence.b, *divergence.b_next))
    return (
        f"From there on, a: {a}; b: {b} (C computes an op for the first time, R recomputes one, E "
        "evicts a storage)."
    )


def _overhead_words(diff: RunDiff) -> list[str]:
    factor = diff.overhead_factor
    if factor is None:
        return []
    if factor == 1:
        return [_equal_overhead_words(diff)]
    if diff.overhead_factor_is == EXACT:
        return [f"The overheads differ by a factor of {factor:.4f}."]
    if diff.overhead_factor_is == LOWER_BOUND:
        return [
            f"The overheads differ by a factor of at least {factor:.4f}: the larger one is of a "
            "run that did not reach its end, and could have grown."
        ]
    return [
        f"The overheads so far differ by a factor of {factor:.4f}, which says little: the run "
        "with the smaller one did not reach its end."
    ]


def _equal_overhead_words(diff: RunDiff) -> str:
    if diff.overhead_factor_is == EXACT:
        return "The overheads are equal."
    if diff.overhead_factor_is == LOWER_BOUND:
        early = "a" if diff.a.outcome != "ok" else "b"
        return f"The overheads so far are equal; that of {early}, which did not end, could grow."
    return "The overheads so far are equal, which says little: neither run reached its end."


def _operator_words(diff: RunDiff) -> list[str]:
    top = [cost for cost in diff.operators if cost.extra_ns][:3]
    if not top:
        return []
    parts = [
        f"{plain_name(cost.name)} ({cost.remats_a:,} and {cost.remats_b:,} times, "
        f"{duration(cost.cost_a_ns)} and {duration(cost.cost_b_ns)})"
        for cost in top
    ]
    return [
        f"The cost of rematerialisation differs most in {'; '.join(parts)}, first a and then b."
    ]


def _set_words(diff: RunDiff) -> list[str]:
    sets = diff.sets.by_cause
    sides = [side for side, run in (("a", diff.a), ("b", diff.b)) if run.outcome != "ok"]
    cut = f" In {' and '.join(sides)} that is only up to the stop." if sides else ""
    return [
        f"Storages evicted under pressure: {_compared(sets['pressure'])}. "
        f"For any cause: {_compared(sets['all'])}.{cut}"
    ]


def _compared(sets: SetComparison) -> str:
    return (
        f"{sets.a:,} in a and {sets.b:,} in b, {sets.intersection:,} in both "
        f"(Jaccard {sets.jaccard:.3f})"
    )
