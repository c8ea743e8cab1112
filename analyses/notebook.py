"""How do the results of analyses show in a notebook? One function for each kind of result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtrdiag.notebook import (
    OUTCOME_WORDS,
    facts,
    heading,
    legend,
    name,
    page,
    run_html,
    run_title,
    strip,
    table,
)
from dtrdiag.units import both_bytes, count, duration, exact_bytes, overhead_words, short_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dtrdiag.analyses.budget_map import BudgetMap, Cliff, MapSummary, Segment
    from dtrdiag.analyses.diff import RunDiff
    from dtrdiag.analyses.divergence import Decision
    from dtrdiag.analyses.frontier import Frontier
    from dtrdiag.analyses.summary import RunSummary

_ORDER = ("ok", "oom", "thrashed")
_STATES = ("pinned", "locked", "evictable")


def summary_html(run: RunSummary) -> str:
    """A run: what it was and what came of it."""
    counts = {
        "computes": run.computes,
        "remats": run.remats,
        "remat_cost_ns": run.remat_cost_ns,
        "pressure": run.evictions.pressure,
        "release": run.evictions.release,
        "banish": run.evictions.banish,
        "max_memory_bytes": run.max_memory_bytes,
    }
    interval = run.interval_lo_bytes, run.interval_hi_bytes
    return run_html(run.header, run.outcome, counts, interval, run.overhead)


def diff_html(diff: RunDiff) -> str:
    """Two runs side by side, where they part, and what the difference was paid for."""
    a, b = diff.a, diff.b
    rows = [
        ("trace", name(a.header.trace_name), name(b.header.trace_name)),
        ("policy", name(a.header.policy), name(b.header.policy)),
        ("budget", *(_budget(run.header.budget_bytes) for run in (a, b))),
        ("outcome", *(OUTCOME_WORDS.get(run.outcome, name(run.outcome)) for run in (a, b))),
        ("overhead", overhead_words(a.overhead), overhead_words(b.overhead)),
        ("rematerialisations", f"{a.remats:,}", f"{b.remats:,}"),
        ("evictions to make room", f"{a.evictions.pressure:,}", f"{b.evictions.pressure:,}"),
    ]
    parts = [
        heading("Two runs.", _parting_words(diff)),
        table(("", "a", "b"), rows, "side by side", shown=len(rows)),
    ]
    if diff.divergence is not None:
        sets = [
            (cause, f"{s.a:,}", f"{s.b:,}", f"{s.intersection:,}", f"{s.jaccard:.4f}")
            for cause, s in diff.sets.by_cause.items()
        ]
        columns = ("evicted storages", "a", "b", "both", "Jaccard index")
        parts.append(table(columns, sets, "what they evicted, by cause"))
        costs = [
            (name(o.name), duration(o.cost_a_ns), duration(o.cost_b_ns)) for o in diff.operators
        ]
        parts.append(table(("operator", "a", "b"), costs, "cost of rematerialisation"))
    return page(*parts)


def _parting_words(diff: RunDiff) -> str:
    found = diff.divergence
    if found is None:
        return f"All {diff.common_prefix:,} decisions are equal."
    words = f"{found.index:,} decisions are equal. Then a {_decision(found.a)}, "
    words += f"and b {_decision(found.b)}"
    if found.kind == "fit" and found.fits_in is not None:
        memory, requested = found.memory_bytes or 0, found.requested_bytes or 0
        words += (
            f": {both_bytes(requested)} for op {found.op} ({name(found.op_name)}), on top of "
            f"{both_bytes(memory)}, fit in {found.fits_in} alone"
        )
    return f"{words}."


def _decision(decision: Decision) -> str:
    what = name(decision.text)
    if decision.kind == "evict":
        return f"evicts storage {what.removeprefix('E ')}"
    if decision.kind == "stop":
        return f"ends ({OUTCOME_WORDS.get(what, what)})"
    when = "for the first time" if decision.kind == "compute" else "again"
    return f"executes op {decision.op} {when}"


def frontier_html(frontier: Frontier) -> str:
    """An out-of-memory stop: what did not fit, what held the memory, and who waits for whom."""
    held = dict(zip(_STATES, _held(frontier), strict=True))
    title = run_title(frontier.header)
    sentence = (
        f"is out of memory: op {frontier.op} ({name(frontier.op_name)}) needs "
        f"{both_bytes(frontier.requested_bytes)}, and the budget lacks "
        f"{both_bytes(frontier.shortfall_bytes)}."
    )
    rows: list[tuple[str, str | None]] = [
        ("budget", both_bytes(frontier.budget_bytes)),
        ("in use", both_bytes(frontier.resident_bytes)),
        *((f"of these {state}", both_bytes(size)) for state, size in held.items()),
        ("this request passes at", exact_bytes(frontier.passes_at_bytes)),
        ("ops that wait", f"{frontier.depth:,}"),
    ]
    steps = [
        (str(s.op), name(s.name), _KINDS.get(s.kind, s.kind), short_bytes(s.output_bytes),
         short_bytes(s.added_bytes))
        for s in reversed(frontier.stack)
    ]  # fmt: skip
    columns = ("op", "name", "executes", "needs", "keeps locked")
    storages = sorted(frontier.storages, key=lambda s: (-s.bytes, s.id))
    largest = [(str(s.id), name(s.name), short_bytes(s.bytes), s.state) for s in storages]
    return page(
        heading(title, sentence),
        facts(rows),
        table(columns, steps, "who waits: the one that did not fit first", last=3),
        table(("storage", "computed by", "size", "state"), largest, "the largest in memory"),
    )


_KINDS = {"first": "for the first time", "remat": "again"}


def _held(frontier: Frontier) -> tuple[int, int, int]:
    return frontier.pinned_bytes, frontier.locked_bytes, frontier.evictable_bytes


def map_html(budget_map: BudgetMap) -> str:
    """A map: its outcomes over the budgets as a strip, and how many budgets have each."""
    low, high = budget_map.from_bytes, budget_map.to_bytes + 1
    spans, widths, runs = [], dict.fromkeys(_ORDER, 0), dict.fromkeys(_ORDER, 0)
    for run in budget_map.runs:
        above = high if run.interval_hi_bytes is None else run.interval_hi_bytes
        spans.append((run.outcome, run.interval_lo_bytes, above))
        if run.outcome in widths:
            runs[run.outcome] += 1
            widths[run.outcome] += min(above, high) - max(run.interval_lo_bytes, low)
    found = [outcome for outcome in _ORDER if runs[outcome]]
    words = ", ".join(f"{OUTCOME_WORDS[each]} {widths[each] / (high - low):.2%}" for each in found)
    rows = [
        (OUTCOME_WORDS[each], f"{runs[each]:,}", f"{widths[each]:,} B", _costs(budget_map, each))
        for each in found
    ]
    known = "" if budget_map.complete else " Parts of it are not known."
    sentence = f"from {exact_bytes(low)} to {exact_bytes(budget_map.to_bytes)}: {words}.{known}"
    return page(
        heading(run_title(budget_map.header), sentence),
        strip(spans, low, high, f"Outcomes of budgets {sentence}"),
        legend(found),
        table(("outcome", "intervals", "budgets", "overhead"), rows, "what is known"),
    )


def _costs(budget_map: BudgetMap, outcome: str) -> str:
    if outcome == "oom":
        return ""
    runs = (run for run in budget_map.runs if run.outcome == outcome)
    costs = [cost for cost in map(budget_map.overhead, runs) if cost is not None]
    if not costs:
        return ""
    least, most = overhead_words(min(costs)), overhead_words(max(costs))
    return least if least == most else f"{least} to {most}"


def map_summary_html(summary: MapSummary) -> str:
    """What a map comes to: where runs finish, inversions, cliffs."""
    feasible = summary.smallest_feasible_bytes
    runs = ", ".join(
        f"{number:,} {OUTCOME_WORDS[each]}" for each, number in summary.runs.items() if number
    )
    safe = summary.feasible_from_bytes
    rows: list[tuple[str, str | None]] = [
        ("intervals", runs),
        ("smallest budget that finishes", None if feasible is None else both_bytes(feasible)),
        ("from here on every one does", None if safe is None else both_bytes(safe)),
        ("worst cliff", _cliff(summary.worst_cliff)),
        ("worst between runs that finish", _cliff(summary.worst_exact_cliff)),
    ]
    parts = [heading("A map of budgets.", _inversion_words(summary)), facts(rows)]
    if summary.inversions:
        columns = ("from", "to below", "budgets")
        parts.append(table(columns, list(_spans(summary.inversions)), "inversions"))
    return page(*parts)


def _inversion_words(summary: MapSummary) -> str:
    if summary.smallest_feasible_bytes is None:
        return "No budget is known at which the run finishes."
    if not summary.inversions:
        return "No known budget is out of memory above one that finishes."
    return (
        f"{count(len(summary.inversions), 'stretch', 'stretches')}, {summary.inversion_bytes:,} "
        "budgets in all, out of memory above a smaller budget that finishes."
    )


def _spans(segments: Iterable[Segment]) -> Iterable[tuple[str, ...]]:
    for each in segments:
        above = "" if each.hi_bytes is None else exact_bytes(each.hi_bytes)
        width = "" if each.width_bytes is None else f"{each.width_bytes:,}"
        yield exact_bytes(each.lo_bytes), above, width


def _cliff(cliff: Cliff | None) -> str | None:
    if cliff is None:
        return None
    at_least = "at least " if cliff.censored else ""
    return (
        f"{at_least}{cliff.factor:.4g} times, between {exact_bytes(cliff.low_bytes)} "
        f"({overhead_words(cliff.low_overhead)}) and {exact_bytes(cliff.high_bytes)} "
        f"({overhead_words(cliff.high_overhead)})"
    )


def _budget(budget_bytes: int | None) -> str:
    return "unlimited" if budget_bytes is None else both_bytes(budget_bytes)
