"""How do runs, frontiers and comparisons look as tables in a terminal?

Tables take the records or documents of the analyses. Foreign names are set as `Text`, since rich
would read `[...]` in a string as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from dtrdiag.analyses.diff import RunDiff
from dtrdiag.analyses.frontier import Frontier, FrontierStep
from dtrdiag.analyses.sets import EvictionSets
from dtrdiag.rendering.palette import OUTCOME_STYLES, look
from dtrdiag.units import (
    LONG_NAME,
    both_bytes,
    cut_words,
    duration,
    interval_words,
    overhead_words,
    plain_name,
    short_bytes,
)

Document = Mapping[str, Any]
STACK_ROWS = 24
"""A longer stack is shown without its middle."""


def run_table(run: Document) -> Table:
    """One run, a fact a row.

    Args:
        run: a `dtrdiag.run/1` document.
    """
    name = f"{plain_name(run['trace']['name'])}, {plain_name(run['policy'])}"
    table = Table(title=Text(name), show_header=False)
    table.add_column("")
    table.add_column("", justify="right")
    for name, value in _run_rows(run):
        table.add_row(name, value)
    return table


def _run_rows(run: Document) -> Iterable[tuple[str, Text | str]]:
    low, high = run["interval"]
    yield "outcome", outcome_text(run["outcome"])
    yield "budget", _budget_words(run)
    if run["peak"] is not None:
        yield "peak (ratio 1)", both_bytes(run["peak"])
    yield "deallocation", plain_name(run["dealloc"])
    if run.get("semantics") not in (None, "simrd"):
        yield "semantics", plain_name(run["semantics"])
    if run.get("interventions") is not None:
        yield "interventions", plain_name(run["interventions"], LONG_NAME)
    yield "overhead", overhead_words(run["overhead"])
    yield "cost of rematerialisation", duration(run["remat_cost"])
    yield "executions", f"{run['computes']:,} first, {run['remats']:,} repeated"
    yield "evictions", _cause_words(run["evictions"])
    yield "distinct storages evicted", _cause_words(run["distinct_evicted"])
    yield "largest memory in use", both_bytes(run["max_memory"])
    yield "same decisions for budgets", interval_words(low, high)
    if run["engine"] is not None:
        yield "engine", run["engine"]
    if run["simulate_seconds"] is not None:
        yield "simulated in", f"{run['simulate_seconds']:.3f} s"


def _budget_words(run: Document) -> str:
    if run["budget"] is None:
        return "unlimited"
    ratio = "" if run["ratio"] is None else f", {run['ratio']:g} of the peak"
    return both_bytes(run["budget"]) + ratio


def _cause_words(counts: Document) -> str:
    causes = [f"{counts[cause]:,} {cause}" for cause in ("pressure", "release")]
    if counts.get("banish"):
        causes.append(f"{counts['banish']:,} banish")
    return f"{counts['total']:,}: {', '.join(causes)}"


def outcome_text(outcome: str) -> Text:
    """An outcome in its colour."""
    return Text(plain_name(outcome), style=OUTCOME_STYLES.get(outcome, ""))


def frontier_table(frontier: Frontier, expand: bool = False) -> Table:
    """The pending stack at an out-of-memory stop, outermost first.

    Args:
        frontier: as `pinned_frontier` finds it.
        expand: show every step of a long stack; otherwise those that add no locked bytes are left
            out from its middle.
    """
    table = Table(title=f"pending stack, {frontier.depth:,} deep")
    for name in ("#", "op"):
        table.add_column(name, justify="right")
    table.add_column("name", overflow="fold")
    table.add_column("kind")
    table.add_column("locks", overflow="fold")
    for name in ("held", "added"):
        table.add_column(name, justify="right")
    omitted = 0
    for depth, step in enumerate(frontier.stack, start=1):
        if not expand and _left_out(frontier, depth, step):
            omitted += 1
            continue
        _add_omitted(table, omitted)
        omitted = 0
        _add_step(table, depth, step)
    _add_omitted(table, omitted)
    return table


def _left_out(frontier: Frontier, depth: int, step: FrontierStep) -> bool:
    rows = len(frontier.stack)
    if rows <= STACK_ROWS:
        return False
    edge = STACK_ROWS // 4
    return edge < depth <= rows - edge and not step.added_bytes


def _add_omitted(table: Table, omitted: int) -> None:
    if omitted:
        words = Text(
            f"… {omitted:,} more that {'adds' if omitted == 1 else 'add'} nothing",
            style=look("omitted").terminal,
        )
        table.add_row("", "", words, "", "", "", "")


def _add_step(table: Table, depth: int, step: FrontierStep) -> None:
    table.add_row(
        str(depth),
        str(step.op),
        Text(plain_name(step.name, LONG_NAME)),
        step.kind,
        " ".join(map(str, step.locks)),
        short_bytes(step.held_bytes),
        Text(short_bytes(step.added_bytes), style=look("locked").terminal)
        if step.added_bytes
        else "",
    )


def state_table(frontier: Frontier) -> Table:
    """Resident bytes by state at an out-of-memory stop, with what is requested and the budget."""
    table = Table(title="memory at the stop")
    table.add_column("")
    table.add_column("bytes", justify="right")
    rows = [
        ("pinned", frontier.pinned_bytes),
        ("locked", frontier.locked_bytes),
        ("evictable", frontier.evictable_bytes),
    ]
    for state, size_bytes in rows:
        table.add_row(Text(state, style=look(state).terminal), both_bytes(size_bytes))
    if frontier.unaccounted_bytes:
        table.add_row("in no storage", both_bytes(frontier.unaccounted_bytes))
    table.add_row("in use", both_bytes(frontier.resident_bytes), end_section=True)
    style = look("requested").terminal
    table.add_row(Text("requested", style=style), both_bytes(frontier.requested_bytes))
    table.add_row("budget", both_bytes(frontier.budget_bytes))
    table.add_row("too little by", both_bytes(frontier.shortfall_bytes))
    return table


def sets_table(sets: EvictionSets) -> Table:
    """The storages that two runs evicted, a cause a row."""
    table = Table(title="storages evicted")
    table.add_column("cause")
    for name in ("in a", "in b", "in both", "in either", "Jaccard"):
        table.add_column(name, justify="right")
    for cause, compared in sets.by_cause.items():
        table.add_row(
            cause,
            f"{compared.a:,}",
            f"{compared.b:,}",
            f"{compared.intersection:,}",
            f"{compared.union:,}",
            f"{compared.jaccard:.4f}",
        )
    return table


def operators_table(diff: RunDiff, top: int = 10) -> Table:
    """Cost of rematerialisation by operator name in two runs, the largest difference first.

    Args:
        diff: of two runs.
        top: how many operators to show at most; the title says of how many.
    """
    order = "the most different"
    table = Table(title=cut_words("rematerialisation by operator", top, len(diff.operators), order))
    table.add_column("operator", overflow="fold")
    for name in ("times in a", "times in b", "cost in a", "cost in b", "b - a"):
        table.add_column(name, justify="right")
    for cost in diff.operators[:top]:
        table.add_row(
            Text(plain_name(cost.name, LONG_NAME)),
            f"{cost.remats_a:,}",
            f"{cost.remats_b:,}",
            duration(cost.cost_a_ns),
            duration(cost.cost_b_ns),
            duration(cost.extra_ns),
        )
    return table
