"""What does a map of budgets say in sentences, and how do its segments look as a table?"""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from dtrdiag.analyses.budget_map import (
    OK,
    OOM,
    THRASHED,
    UNKNOWN,
    BudgetMap,
    Cliff,
    MapSummary,
    Segment,
)
from dtrdiag.analyses.instability import Instability, measure_instability
from dtrdiag.rendering.palette import OUTCOME_STYLES
from dtrdiag.units import (
    NOT_KNOWN,
    both_bytes,
    changes_words,
    count,
    exact_bytes,
    plain_name,
    short_bytes,
)

SEGMENT_ROWS = 40
"""Of more segments than this the widest are shown."""


def map_words(
    budget_map: BudgetMap, summary: MapSummary, resolution_bytes: int | None = None
) -> list[str]:
    """What a map comes to, the answer first.

    Args:
        budget_map: what is known.
        summary: what it comes to.
        resolution_bytes: the distance of the samples, if it was made from samples.
    """
    measures = measure_instability(budget_map, summary.within_bytes)
    return [
        _range_words(budget_map, measures),
        _interval_words(budget_map, summary),
        *_gap_words(budget_map, resolution_bytes),
        *_outcome_words(budget_map, summary),
        *_feasible_words(budget_map, summary),
        *_inversion_words(budget_map, summary),
        *_cliff_words(budget_map, summary),
        *instability_words(measures),
    ]


def _range_words(budget_map: BudgetMap, measures: Instability) -> str:
    header = budget_map.header
    low, high = (_place(budget_map, at) for at in (budget_map.from_bytes, budget_map.to_bytes))
    return (
        f"{plain_name(header.trace_name)} under {plain_name(header.policy)}"
        f"{changes_words(header.semantics, header.interventions)}, budgets from {low} to {high}: "
        f"{_share_words(measures)}."
    )


def _share_words(measures: Instability) -> str:
    """How many of the budgets finish, without more precision than a person reads."""
    sizes = measures.outcome_bytes
    ends = ((OK, "finish"), (OOM, "run out of memory"), (THRASHED, "are stopped"))
    shares = [(_percent(measures, sizes[name]), end) for name, end in ends if sizes[name]]
    those = "of them" if measures.complete else "of those known"
    if len(shares) == 1:
        return f"all {those} {shares[0][1]}"
    (first, end), *others = shares
    return ", ".join([f"{first} {those} {end}", *(f"{share} {end}" for share, end in others)])


def _interval_words(budget_map: BudgetMap, summary: MapSummary) -> str:
    number = sum(summary.runs.values())
    kind = "in all" if budget_map.complete else "known so far"
    there = "There is" if number == 1 else "There are"
    return (
        f"{there} {count(number, 'interval')} {kind}, on each of which every decision is the same."
    )


def _gap_words(budget_map: BudgetMap, resolution_bytes: int | None) -> list[str]:
    gaps = budget_map.gaps
    if not gaps:
        return []
    unknown = sum(high - low for low, high in gaps)
    words = [
        f"The map is not complete: {both_bytes(unknown)} of budgets in "
        f"{count(len(gaps), 'gap')} were not looked at, and nothing is said of them."
    ]
    if resolution_bytes is not None:
        words.append(
            f"It was made from samples {both_bytes(resolution_bytes)} apart. Each change of "
            "outcome that they show is exact to the byte, but islands narrower than that may be "
            "missing."
        )
    return words


def _outcome_words(budget_map: BudgetMap, summary: MapSummary) -> list[str]:
    runs, limit = summary.runs, budget_map.header.overhead_limit
    words: list[str] = []
    ends = (
        ("ok", "{} finishes"),
        (OOM, "{} runs out of memory"),
        (THRASHED, f"the overhead limit of {limit} stops {{}}"),
    )
    for outcome, end in ends:
        if runs[outcome]:
            words.append(f"on {runs[outcome]:,} {end.format('it' if words else 'the run')}")
    text = f"Of these intervals, {', '.join(words)}."
    if runs[THRASHED]:
        text += (
            " Runs that were stopped are censored: their overhead would have come to more, or they "
            "would not have ended at all."
        )
    return [text]


def _feasible_words(budget_map: BudgetMap, summary: MapSummary) -> list[str]:
    smallest, always = summary.smallest_feasible_bytes, summary.feasible_from_bytes
    if smallest is None:
        return ["No budget is feasible, as far as this goes."]
    known = "" if budget_map.complete else " known"
    text = f"The smallest{known} feasible budget is {_place(budget_map, smallest)}"
    if smallest < budget_map.from_bytes:
        text += (
            ", where the interval that holds the lower end of the range begins; smaller ones may "
            "be feasible too"
        )
    elif smallest == budget_map.from_bytes:
        text += ", where the range begins, so that smaller ones may be feasible too"
    if always is None:
        return [f"{text}. The highest{known} budget of the range is not feasible."]
    if always == smallest:
        return [f"{text}; from there on every{known} one in the range is."]
    return [f"{text}; from {_place(budget_map, always)} on every{known} one in the range is."]


def _inversion_words(budget_map: BudgetMap, summary: MapSummary) -> list[str]:
    if summary.smallest_feasible_bytes is None:
        return []
    known = "" if budget_map.complete else "known "
    words = []
    if summary.inversions:
        words.append(
            f"{known}feasibility inversions: ".capitalize()
            + f"{_stretches(summary.inversions)}, where the run is out of memory although it "
            "finishes at a smaller budget."
        )
    else:
        words.append(
            f"There is no {known}feasibility inversion: no {known}budget that runs out of memory "
            "lies above one that finishes."
        )
    if summary.stopped_above:
        words.append(
            f"The overhead limit stops runs in {_stretches(summary.stopped_above, known)}, "
            "although a smaller budget finishes."
        )
    return words


def _stretches(segments: Sequence[Segment], known: str = "") -> str:
    total = sum(segment.width_bytes or 0 for segment in segments)
    widest = max(segments, key=lambda segment: segment.width_bytes or 0)
    high = "no end" if widest.hi_bytes is None else f"{widest.hi_bytes:,}"
    where = f"[{widest.lo_bytes:,}, {high})"
    if len(segments) == 1:
        return f"one {known}stretch of {both_bytes(total)}, {where}"
    return f"{len(segments):,} {known}stretches of {both_bytes(total)} in all, the widest {where}"


def _cliff_words(budget_map: BudgetMap, summary: MapSummary) -> list[str]:
    worst, exact = summary.worst_cliff, summary.worst_exact_cliff
    within = _share(budget_map, summary.within_bytes)
    if worst is None:
        known = "" if budget_map.complete else "known "
        return [f"No two {known}budgets within {within} of each other have different overheads."]
    known = "" if budget_map.complete else "known "
    words = [f"Worst {known}cliff within {within}: {_cliff_text(worst)}."]
    if worst.censored and exact is not None:
        words.append(f"Between runs that both finish: {_cliff_text(exact)}.")
    return words


def _cliff_text(cliff: Cliff) -> str:
    more = cliff.high_bytes - cliff.low_bytes
    over, under = (
        ("at least ", "") if cliff.low_overhead > cliff.high_overhead else ("", "at least ")
    )
    if not cliff.censored:
        over = under = ""
    least = "at least " if cliff.censored else ""
    return (
        f"the overhead is {over}{cliff.low_overhead:.4f}x at {exact_bytes(cliff.low_bytes)} and "
        f"{under}{cliff.high_overhead:.4f}x with {exact_bytes(more)} more, a factor of "
        f"{least}{cliff.factor:.4f}"
    )


def instability_words(measures: Instability) -> list[str]:
    """How unstable a range is, apart from its inversions and cliffs, in two sentences at most."""
    known = "" if measures.complete else " known"
    sizes, inverted = measures.outcome_bytes, measures.inversion_bytes
    inside = (
        f"{_percent(measures, inverted)} of the{known} budgets are in inversions. "
        if inverted
        else ""
    )
    words = [
        f"{inside}The outcome of the{known} budgets changes "
        f"{count(measures.outcome_changes, 'time')}, and has an entropy of "
        f"{measures.entropy_bits:.3f} bits."
    ]
    variation = measures.variation
    if variation is not None and sizes[OK]:
        least = "at least " if measures.censored or not measures.complete else ""
        words.append(
            f"As the budget grows, the logarithm of the overhead rises by {least}"
            f"{variation.up:.4g} in all and falls by {least}{variation.down:.4g}; if more memory "
            "never cost more, it would not rise."
        )
    return words


def _percent(measures: Instability, size_bytes: int) -> str:
    return f"{100 * measures.share(size_bytes):.4g} %"


def segment_table(budget_map: BudgetMap, segments: Sequence[Segment], left_out: int = 0) -> Table:
    """Maximal segments of equal outcome, ascending; of very many the widest.

    Their ends are exact, widths and overheads rounded.

    Args:
        budget_map: what is known.
        segments: its segments.
        left_out: 1: the ratios, and a digit of overheads; 2: widths, too, so that budgets of eleven
            digits fit into 80 columns.
    """
    shown = list(segments)
    title = "segments of equal outcome"
    if len(shown) > SEGMENT_ROWS:
        widest = sorted(segments, key=lambda s: -(s.width_bytes or 1 << 63))[:SEGMENT_ROWS]
        shown = sorted(widest, key=lambda s: s.lo_bytes)
        title = f"the {SEGMENT_ROWS} widest of {len(segments):,} {title}"
    table = Table(title=title)
    table.add_column("outcome")
    more = (("width", "of peak"), ("width",), ())[left_out]
    for name in ("from (B)", "to below", *more, "intervals", "overhead"):
        # A size is not parted from its unit.
        table.add_column(name, justify="right", no_wrap=True)
    for segment in shown:
        table.add_row(*_segment_row(budget_map, segment, left_out))
    return table


def _segment_row(budget_map: BudgetMap, segment: Segment, left_out: int) -> list[Text | str]:
    high, width = segment.hi_bytes, segment.width_bytes
    peak = budget_map.header.peak_bytes
    ratio = f"{segment.lo_bytes / peak:.6f}" if peak else NOT_KNOWN
    return [
        Text(segment.outcome, style=OUTCOME_STYLES.get(segment.outcome, "")),
        f"{segment.lo_bytes:,}",
        NOT_KNOWN if high is None else f"{high:,}",
        *[NOT_KNOWN if width is None else short_bytes(width), ratio][: 2 - left_out],
        NOT_KNOWN if segment.outcome == UNKNOWN else f"{segment.intervals:,}",
        _overhead(segment, 2 if left_out else 3),
    ]


def _overhead(segment: Segment, decimals: int) -> str:
    least, most = segment.least_overhead, segment.most_overhead
    if least is None or most is None:
        return NOT_KNOWN
    low, high = f"{least:.{decimals}f}", f"{most:.{decimals}f}"
    text = low if low == high else f"{low}-{high}"
    return f">{text}" if segment.outcome == THRASHED else text


def _place(budget_map: BudgetMap, budget_bytes: int) -> str:
    peak = budget_map.header.peak_bytes
    ratio = f" ({budget_bytes / peak:.6g} of the peak)" if peak else ""
    return f"{exact_bytes(budget_bytes)}{ratio}"


def _share(budget_map: BudgetMap, size_bytes: int) -> str:
    peak = budget_map.header.peak_bytes
    share = f" ({100 * size_bytes / peak:.3g} % of the peak)" if peak else ""
    return f"{exact_bytes(size_bytes)}{share}"
