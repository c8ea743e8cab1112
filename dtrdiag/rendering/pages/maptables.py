"""Which tables and command lines stand on a page on maps: inversions, cliffs, measures, slivers?"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from dtrdiag.analyses.budget_map import OK, OOM, THRASHED, BudgetMap, Cliff, MapSummary, Segment
from dtrdiag.analyses.instability import Instability
from dtrdiag.rendering.commands import changed, run_command
from dtrdiag.rendering.mapmarks import widest_first
from dtrdiag.rendering.maprows import WORDS, MapRow, narrowest_first
from dtrdiag.rendering.pages.parts import RIGHT, Column, Commands, Part, Table, Words
from dtrdiag.units import (
    NOT_KNOWN,
    both_bytes,
    count,
    exact_bytes,
    overhead_words,
    short_bytes,
)

SHOWN = 20
"""Rows of a table of places."""


@attrs.frozen
class Mapped:
    """A map with what a page says of it.

    Attributes:
        name: tells it from the other maps of the page.
        known: the map.
        summary: what it comes to.
        measures: how unstable it is.
        rows: of its charts.
    """

    name: str
    known: BudgetMap
    summary: MapSummary
    measures: Instability
    rows: list[MapRow]


def inversion_parts(each: Mapped, several: bool) -> list[Part]:
    """The inversions of a map, the widest first, and how to look at the widest one; may be none."""
    inversions = widest_first(each.summary.inversions)
    if not inversions:
        return []
    name = f", {each.name}" if several else ""
    rows = [_inversion_row(at, s) for at, s in enumerate(inversions[:SHOWN], start=1)]
    total = both_bytes(each.summary.inversion_bytes)
    note = f"{count(len(inversions), 'stretch', 'stretches')}, {total}; the widest first."
    if len(inversions) > SHOWN:
        note += f" The first {SHOWN} are shown."
    parts: list[Part] = [
        Table(
            f"Feasibility inversions{name}: out of memory, although a smaller budget finishes",
            (
                Column("no.", RIGHT),
                Column("from (B)", RIGHT),
                Column("to below (B)", RIGHT),
                Column("width", RIGHT),
                Column("intervals", RIGHT),
            ),
            rows,
            note,
        )
    ]
    header, first = each.known.header, inversions[0].lo_bytes
    if not changed(header):
        parts.append(
            Commands(
                "What is pinned and locked where the widest one begins, and where that run parts "
                "from the run with one byte less:",
                (
                    run_command(header, first, verb="oom"),
                    run_command(header, first - 1, first, verb="diff"),
                ),
            )
        )
    return parts


def _inversion_row(number: int, segment: Segment) -> tuple[str, ...]:
    width = segment.width_bytes
    return (
        str(number),
        f"{segment.lo_bytes:,}",
        NOT_KNOWN if segment.hi_bytes is None else f"{segment.hi_bytes:,}",
        NOT_KNOWN if width is None else both_bytes(width),
        f"{segment.intervals:,}",
    )


def cliff_parts(mapped: Sequence[Mapped]) -> tuple[Part, ...]:
    """The worst cliffs of each map; empty where no two overheads differ."""
    rows, commands = [], []
    for each in mapped:
        worst, exact = each.summary.worst_cliff, each.summary.worst_exact_cliff
        kinds = [(worst, "the worst")]
        if worst is not None and worst.censored:
            kinds.append((exact, "of runs that both finish"))
        for cliff, what in kinds:
            if cliff is not None:
                rows.append((each.name, what, *_cliff_cells(cliff)))
                budgets = (cliff.low_bytes, cliff.high_bytes)
                if not changed(each.known.header):
                    commands.append(run_command(each.known.header, *budgets, verb="diff"))
    if not rows:
        return ()
    within = exact_bytes(mapped[0].measures.within_bytes)
    stopped = any(each.summary.worst_cliff and each.summary.worst_cliff.censored for each in mapped)
    table = Table(
        f"Two budgets at most {within} apart whose overheads differ most",
        (
            Column("policy"),
            Column("cliff"),
            Column("at (B)", RIGHT),
            Column("overhead", RIGHT),
            Column("at (B)", RIGHT),
            Column("overhead", RIGHT),
            Column("factor", RIGHT),
        ),
        rows,
        "A run that was stopped counts with its overhead at the stop: the factor is at least that."
        if stopped
        else None,
    )
    if not commands:
        return (table,)
    return (table, Commands("Where the two runs part, and what came of it:", tuple(commands)))


def cliff_overheads(cliff: Cliff) -> tuple[str, str]:
    """The overheads at the lower and the higher budget, in words: of a stopped run a bound."""
    words = [overhead_words(each) for each in (cliff.low_overhead, cliff.high_overhead)]
    if cliff.censored:
        stopped = 0 if cliff.low_overhead > cliff.high_overhead else 1
        words[stopped] = f"at least {words[stopped]}"
    return words[0], words[1]


def _cliff_cells(cliff: Cliff) -> tuple[str, ...]:
    low, high = overhead_words(cliff.low_overhead), overhead_words(cliff.high_overhead)
    factor = f"{cliff.factor:.4f}"
    if cliff.censored:
        factor = f">{factor}"
        if cliff.low_overhead > cliff.high_overhead:
            low = f">{low}"
        else:
            high = f">{high}"
    return f"{cliff.low_bytes:,}", low, f"{cliff.high_bytes:,}", high, factor


def measures_table(mapped: Sequence[Mapped]) -> Table:
    """The measures of each map, side by side."""
    columns = [_measures(each.measures) for each in mapped]
    names = [name for name, _ in columns[0]]
    rows = [(name, *(column[at][1] for column in columns)) for at, name in enumerate(names)]
    several = len(mapped) > 1
    heads = [Column(each.name if several else "value", RIGHT) for each in mapped]
    return Table(
        "Measures over all budgets that are known, not over samples of them",
        (Column("measure"), *heads),
        rows,
        "Entropy: of the outcome of a budget drawn at random, 0 to 1.585 bits. Rise: the sum of "
        "all increases of the logarithm of the overhead as the budget grows; 0 if more memory "
        "never cost more.",
    )


def _measures(measures: Instability) -> list[tuple[str, str]]:
    share, sizes = measures.share, measures.outcome_bytes
    per_percent, worst = measures.intervals_per_percent, measures.worst_cliff
    least = "at least " if measures.censored or not measures.complete else ""
    rise = NOT_KNOWN if measures.variation is None else f"{least}{measures.variation.up:.4g}"
    factor = NOT_KNOWN
    if worst is not None:
        factor = f"{'at least ' if worst.censored else ''}{worst.factor:.4f}x"

    def budgets(size_bytes: int) -> str:
        return f"{percent(share(size_bytes))} ({short_bytes(size_bytes)})"

    return [
        ("budgets that finish", budgets(sizes[OK])),
        ("budgets that run out of memory", budgets(sizes[OOM])),
        ("budgets that are stopped by the limit", budgets(sizes[THRASHED])),
        ("intervals", f"{sum(measures.intervals.values()):,}"),
        ("intervals for each percent of the peak", _or_none(per_percent, "{:,.1f}")),
        ("changes of outcome", f"{measures.outcome_changes:,}"),
        ("entropy of the outcome", f"{measures.entropy_bits:.3f} bits"),
        ("feasibility inversions", f"{measures.inversions:,}"),
        ("budgets in inversions", budgets(measures.inversion_bytes)),
        ("stopped although a smaller budget finishes", budgets(measures.stopped_above_bytes)),
        ("median overhead of what finishes", overhead_words(measures.median_overhead)),
        ("largest overhead of what finishes", overhead_words(measures.most_overhead)),
        ("rise of the logarithm of the overhead", rise),
        (f"worst cliff within {exact_bytes(measures.within_bytes)}", factor),
    ]


def _or_none(figure: float | None, form: str) -> str:
    return NOT_KNOWN if figure is None else form.format(figure)


def sliver_parts(each: Mapped) -> tuple[Part, ...]:
    """The narrowest intervals of a map, and the run in the first of them."""
    rows = narrowest_first(each.rows)
    shown = [
        (
            f"{(row.hi_bytes or 0) - row.lo_bytes:,}",
            f"{row.lo_bytes:,}",
            f"{row.hi_bytes:,}",
            WORDS[row.outcome],
            overhead_words(row.least),
        )
        for row in rows[:SHOWN]
    ]
    note = None
    if len(rows) > SHOWN:
        note = f"The narrowest {SHOWN} of {len(rows):,}; all are in the charts."
    table = Table(
        f"{each.name}: intervals of equal decisions, the narrowest first",
        (
            Column("width (B)", RIGHT),
            Column("from (B)", RIGHT),
            Column("to below (B)", RIGHT),
            Column("outcome"),
            Column("overhead", RIGHT),
        ),
        shown,
        note,
    )
    if not rows:
        return (table,)
    first = run_command(each.known.header, rows[0].lo_bytes)
    return (table, Commands("The run in the first of these intervals:", (first,)))


def gap_table(each: Mapped) -> Table:
    """Where a map says nothing, the widest first."""
    gaps = sorted(each.known.gaps, key=lambda gap: (gap[0] - gap[1], gap[0]))
    unknown = sum(high - low for low, high in gaps)
    return Table(
        f"{each.name}: {both_bytes(unknown)} in {count(len(gaps), 'stretch', 'stretches')} of "
        "which nothing is known",
        (Column("from (B)", RIGHT), Column("to below (B)", RIGHT), Column("width", RIGHT)),
        [(f"{low:,}", f"{high:,}", both_bytes(high - low)) for low, high in gaps[:SHOWN]],
        f"The widest {SHOWN} of {len(gaps):,}." if len(gaps) > SHOWN else None,
    )


def command_parts(mapped: Sequence[Mapped]) -> tuple[Part, ...]:
    """How the maps are made again."""
    lines = [
        f"{run_command(each.known.header, verb='map')} --from {each.known.from_bytes}B "
        f"--to {each.known.to_bytes}B"
        for each in mapped
        if not changed(each.known.header)
    ]
    note = Words(
        (
            "Budgets are given to the byte in every command above. The trace is named as in the "
            "map; one that was read from a file needs that file in place of its name.",
        )
    )
    return (Commands("Every budget of the range, to the byte:", tuple(lines)), note)


def percent(share: float) -> str:
    """A share in percent, of three digits.

    >>> percent(0.37019), percent(1), percent(0)
    ('37 %', '100 %', '0 %')
    """
    return f"{100 * share:.3g} %"
