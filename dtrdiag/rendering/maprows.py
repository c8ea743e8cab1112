"""Which rows does a chart of a map hold: every interval to the byte, or, of very many, fewer?

A row is a stretch of budgets on which all is alike. Rows lie side by side and leave nothing of the
range out, so that whatever is pointed at, however narrow, is a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any

import attrs

from dtrdiag.analyses.budget_map import OK, OOM, THRASHED, UNKNOWN, BudgetMap, Segment
from dtrdiag.events.records import End
from dtrdiag.rendering.charts import OUTCOME_WORDS

MOST_ROWS = 30_000
"""Of more intervals than this, neighbours of equal outcome share a row where they are narrow."""
WORDS = OUTCOME_WORDS | {UNKNOWN: "not looked at"}


@attrs.frozen
class MapRow:
    """A stretch of budgets.

    Attributes:
        lo_bytes: its lowest budget, also where that lies below the range.
        hi_bytes: the lowest budget above it; None: it has no upper end.
        outcome: of all runs in it; `UNKNOWN` where none was made.
        least: least overhead of its runs, at the stop where they were stopped; None: none has one.
        most: largest overhead.
        evictions: evictions to make room, of its first run; None where none was made.
        remats: rematerialisations of its first run.
        intervals: how many intervals it stands for.
    """

    lo_bytes: int
    hi_bytes: int | None
    outcome: str
    least: float | None
    most: float | None
    evictions: int | None
    remats: int | None
    intervals: int


def map_rows(budget_map: BudgetMap, most_rows: int = MOST_ROWS) -> list[MapRow]:
    """The rows of a map, ascending, gaps included. O(n).

    Of more than `most_rows` intervals, neighbours that have one outcome and begin in the same of
    `most_rows` equal parts of the range share a row. Where outcomes change, each keeps its row.
    """
    rows = list(_rows(budget_map))
    if len(rows) <= most_rows:
        return rows
    first, after = budget_map.from_bytes, budget_map.to_bytes + 1

    def place(row: MapRow) -> tuple[str, int]:
        return row.outcome, (max(row.lo_bytes, first) - first) * most_rows // (after - first)

    return [_folded(list(group)) for _, group in groupby(rows, place)]


def _rows(budget_map: BudgetMap) -> Iterator[MapRow]:
    gaps = list(budget_map.gaps)[::-1]
    for run in budget_map.runs:
        while gaps and gaps[-1][0] < run.interval_lo_bytes:
            yield _gap(*gaps.pop())
        yield _row(budget_map, run)
    yield from (_gap(*gap) for gap in reversed(gaps))


def _gap(low: int, high: int) -> MapRow:
    return MapRow(low, high, UNKNOWN, None, None, None, None, 0)


def _row(budget_map: BudgetMap, run: End) -> MapRow:
    overhead = None if run.outcome == OOM else budget_map.overhead(run)
    return MapRow(
        run.interval_lo_bytes,
        run.interval_hi_bytes,
        run.outcome,
        overhead,
        overhead,
        run.evictions_pressure,
        run.remats,
        1,
    )


def _folded(rows: Sequence[MapRow]) -> MapRow:
    return attrs.evolve(
        rows[0],
        hi_bytes=rows[-1].hi_bytes,
        least=min((row.least for row in rows if row.least is not None), default=None),
        most=max((row.most for row in rows if row.most is not None), default=None),
        intervals=sum(row.intervals for row in rows),
    )


def row_columns(rows: Sequence[MapRow], to_bytes: int) -> dict[str, list[Any]]:
    """Rows by column: `lo`, `hi`, `width`, `outcome`, `overhead`, `evictions`, `remats`, ...

    Args:
        rows: as `map_rows` gives them.
        to_bytes: the highest budget of the range, where a row without an upper end is drawn to.

    Returns:
        `most` and `intervals` are there only where rows share intervals, `above` (a text) only
        where the last row has no upper end.
    """
    ends = [to_bytes + 1 if row.hi_bytes is None else row.hi_bytes for row in rows]
    columns: dict[str, list[Any]] = {
        "lo": [row.lo_bytes for row in rows],
        "hi": ends,
        "width": [high - row.lo_bytes for row, high in zip(rows, ends, strict=True)],
        "outcome": [WORDS[row.outcome] for row in rows],
        "overhead": [_rounded(row.least) for row in rows],
        "evictions": [row.evictions for row in rows],
        "remats": [row.remats for row in rows],
    }
    if any(row.intervals > 1 for row in rows):
        columns["most"] = [_rounded(row.most) if row.intervals > 1 else None for row in rows]
        columns["intervals"] = [row.intervals if row.intervals > 1 else None for row in rows]
    if rows and rows[-1].hi_bytes is None:
        columns["above"] = [None] * (len(rows) - 1) + ["every larger budget is the same"]
    return columns


def _rounded(overhead: float | None) -> float | None:
    # As `overhead_words` does; the figure to the last bit is in the map.
    return None if overhead is None else round(overhead, 4)


def largest_overhead(budget_maps: Sequence[BudgetMap]) -> float:
    """The largest overhead of a run that finished or was stopped; 1 where there is none."""
    costs = [
        budget_map.overhead(run)
        for budget_map in budget_maps
        for run in budget_map.runs
        if run.outcome in (OK, THRASHED)
    ]
    return max([1.0, *(cost for cost in costs if cost is not None)])


def shared_stretches(
    some: Sequence[Sequence[Segment]], from_bytes: int, to_bytes: int
) -> list[tuple[int, int, list[Segment | None]]]:
    """The stretches of a range on which no list of segments changes, with the segment of each.

    Half-open, ascending; None where a list has no segment. O(n log n) in all segments together.
    """
    after = to_bytes + 1
    edges = {from_bytes, after}
    for segments in some:
        for segment in segments:
            edges.add(min(max(segment.lo_bytes, from_bytes), after))
            high = after if segment.hi_bytes is None else segment.hi_bytes
            edges.add(min(max(high, from_bytes), after))
    ordered = sorted(edges)
    places = [0] * len(some)
    found = []
    for low, high in pairwise(ordered):
        here: list[Segment | None] = []
        for which, segments in enumerate(some):
            while places[which] < len(segments) and _ends_by(segments[places[which]], low):
                places[which] += 1
            at = places[which]
            held = at < len(segments) and segments[at].lo_bytes <= low
            here.append(segments[at] if held else None)
        found.append((low, high, here))
    return found


def _ends_by(segment: Segment, budget_bytes: int) -> bool:
    return segment.hi_bytes is not None and segment.hi_bytes <= budget_bytes


def narrowest_first(rows: Sequence[MapRow]) -> list[MapRow]:
    """Known rows with two ends by width; of equal ones the lowest budgets first."""
    closed = [row for row in rows if row.hi_bytes is not None and row.outcome != UNKNOWN]
    return sorted(closed, key=lambda row: ((row.hi_bytes or 0) - row.lo_bytes, row.lo_bytes))
