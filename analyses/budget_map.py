"""How does behaviour change over a range of budgets?

A run is the same, decision for decision, for every budget of its interval [lo, hi), so the runs of
neighbouring intervals describe a whole range of budgets. This module takes the last events of such
runs and says where runs finish, where they do not although less memory would do, and how sharply
the overhead changes. What lies between known intervals is unknown and never guessed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import attrs

from dtrdiag.errors import AnalysisError
from dtrdiag.events.records import End, RunHeader

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

OK, OOM, THRASHED = "ok", "oom", "thrashed"
UNKNOWN = "unknown"
"""What a segment is called in which no run was made."""


@attrs.frozen
class BudgetMap:
    """What is known of a range of budgets, for one trace and one set of rules.

    The first interval may begin below the range, and the last one end above it.

    Attributes:
        header: of any of the runs; its budget and ratio do not matter.
        runs: the last event of each run, ascending by interval, without overlap.
        from_bytes: lowest budget of the range.
        to_bytes: highest budget of the range, included.

    Raises:
        AnalysisError: the intervals are empty, overlap, descend, or lie outside the range.
    """

    header: RunHeader
    runs: tuple[End, ...]
    from_bytes: int
    to_bytes: int

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.from_bytes <= self.to_bytes:
            raise AnalysisError(f"no budgets from {self.from_bytes} to {self.to_bytes} bytes")
        for run in self.runs:
            low, high = run.interval_lo_bytes, run.interval_hi_bytes
            if high is not None and high <= low:
                raise AnalysisError(f"the interval [{low}, {high}) holds no budget")
            if low > self.to_bytes or (high is not None and high <= self.from_bytes):
                raise AnalysisError(f"the interval from {low} lies outside the range")
        for one, other in pairwise(self.runs):
            high, low = one.interval_hi_bytes, other.interval_lo_bytes
            if high is None or high > low:
                raise AnalysisError(f"the interval from {low} overlaps the one before it")

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """The half-open stretches of the range in which nothing is known, ascending. O(n)."""
        found, at = [], self.from_bytes
        for run in self.runs:
            if run.interval_lo_bytes > at:
                found.append((at, run.interval_lo_bytes))
            at = self.to_bytes + 1 if run.interval_hi_bytes is None else run.interval_hi_bytes
        if at <= self.to_bytes:
            found.append((at, self.to_bytes + 1))
        return tuple(found)

    @property
    def complete(self) -> bool:
        """Whether the behaviour at every budget of the range is known."""
        return not self.gaps

    def overhead(self, run: End) -> float | None:
        """(baseline + remat cost) / baseline of a run; None where the baseline is unknown or 0.

        Of a run that stopped early it is the overhead so far: what it would have come to is more.
        """
        baseline_ns = self.header.baseline_cost_ns
        return (baseline_ns + run.remat_cost_ns) / baseline_ns if baseline_ns else None

    def _repr_html_(self) -> str:
        from dtrdiag.analyses.notebook import map_html

        return map_html(self)

    def to_arrow(self) -> pa.Table:
        """A `pyarrow.Table` with a row for each interval; see `map_table` for its columns.

        Raises:
            UsageError: pyarrow is not installed.
            AnalysisError: a number does not fit into 64 bits.
        """
        from dtrdiag.analyses.map_table import map_arrow

        return map_arrow(self)

    def to_pandas(self) -> pd.DataFrame:
        """The same as a DataFrame, indexed from 0; an interval without an upper bound has `<NA>`.

        Raises:
            UsageError: pandas or pyarrow is not installed.
            AnalysisError: as `to_arrow`.
        """
        from dtrdiag.log.tables import pandas_frame

        return pandas_frame(self.to_arrow())


@attrs.frozen
class Segment:
    """Neighbouring intervals with the same outcome, as many as there are.

    Attributes:
        outcome: of every run in it; `UNKNOWN` where none was made.
        lo_bytes: the lowest budget in it.
        hi_bytes: the lowest budget above it; None where it has no upper bound.
        intervals: how many intervals of equal decisions.
        least_overhead: with `most_overhead` the range of overheads; None for `oom` and `UNKNOWN`.
            Those of `thrashed` runs are the overheads at the stop.
    """

    outcome: str
    lo_bytes: int
    hi_bytes: int | None
    intervals: int
    least_overhead: float | None
    most_overhead: float | None

    @property
    def width_bytes(self) -> int | None:
        """How many budgets it holds; None where it has no upper bound."""
        return None if self.hi_bytes is None else self.hi_bytes - self.lo_bytes


@attrs.frozen
class Cliff:
    """Two budgets that lie close together, and whose overheads do not.

    Attributes:
        low_bytes: the smaller budget.
        high_bytes: the larger budget; no two budgets of these two intervals lie closer together.
        low_overhead: of the run at the smaller budget.
        high_overhead: of the run at the larger budget.
        factor: the larger overhead over the smaller one.
        censored: the run with the larger overhead was stopped by the overhead limit, so the true
            factor is more than this, or that run does not end at all.
    """

    low_bytes: int
    high_bytes: int
    low_overhead: float
    high_overhead: float
    factor: float
    censored: bool


@attrs.frozen
class MapSummary:
    """What a map comes to.

    *Feasible* is a budget at which the run finishes (`ok`), infeasible one at which it runs out of
    memory (`oom`). Of a run that the overhead limit stopped (`thrashed`) neither is known.

    Attributes:
        runs: number of intervals, by outcome.
        segments: maximal segments of equal outcome, ascending, gaps included as `UNKNOWN`.
        smallest_feasible_bytes: the lowest budget known to be feasible.
        feasible_from_bytes: the lowest budget such that it and every known one above it are
            feasible; None where the highest known one is not.
        inversions: the `oom` segments that lie above a feasible budget.
        stopped_above: the `thrashed` segments that lie above a feasible budget.
        within_bytes: how close the two budgets of a cliff are, at most.
        worst_cliff: the largest factor within that distance, censored or not; None where no two
            overheads differ.
        worst_exact_cliff: the largest factor between runs that both finished.
    """

    runs: dict[str, int]
    segments: tuple[Segment, ...]
    smallest_feasible_bytes: int | None
    feasible_from_bytes: int | None
    inversions: tuple[Segment, ...]
    stopped_above: tuple[Segment, ...]
    within_bytes: int
    worst_cliff: Cliff | None
    worst_exact_cliff: Cliff | None

    def _repr_html_(self) -> str:
        from dtrdiag.analyses.notebook import map_summary_html

        return map_summary_html(self)

    @property
    def inversion_bytes(self) -> int:
        """How many budgets the inversions hold together."""
        return sum(segment.width_bytes or 0 for segment in self.inversions)

    @property
    def censored(self) -> int:
        """How many runs the overhead limit stopped."""
        return self.runs[THRASHED]


def summarise_map(budget_map: BudgetMap, within_bytes: int) -> MapSummary:
    """What a map comes to. O(n) in the number of intervals.

    Raises:
        AnalysisError: `within_bytes` is below 1.
    """
    if within_bytes < 1:
        raise AnalysisError(f"two budgets differ by at least 1 byte, not {within_bytes}")
    segments = map_segments(budget_map)
    feasible = [run.interval_lo_bytes for run in budget_map.runs if run.outcome == OK]
    smallest = feasible[0] if feasible else None
    above = [s for s in segments if smallest is not None and s.lo_bytes > smallest]
    return MapSummary(
        runs={
            outcome: sum(run.outcome == outcome for run in budget_map.runs)
            for outcome in (OK, OOM, THRASHED)
        },
        segments=segments,
        smallest_feasible_bytes=smallest,
        feasible_from_bytes=_feasible_from(budget_map.runs),
        inversions=tuple(s for s in above if s.outcome == OOM),
        stopped_above=tuple(s for s in above if s.outcome == THRASHED),
        within_bytes=within_bytes,
        worst_cliff=worst_cliff(budget_map, within_bytes),
        worst_exact_cliff=worst_cliff(budget_map, within_bytes, exact=True),
    )


def _feasible_from(runs: Sequence[End]) -> int | None:
    lowest = None
    for run in reversed(runs):
        if run.outcome != OK:
            break
        lowest = run.interval_lo_bytes
    return lowest


def map_segments(budget_map: BudgetMap) -> tuple[Segment, ...]:
    """The maximal segments of equal outcome, ascending and without gaps. O(n).

    Neighbours with a gap between them are two segments, even if their outcomes are equal.
    """
    found = []
    for (outcome, _), group in groupby(_stretches(budget_map), lambda item: item[0]):
        pieces = [piece for _, piece in group]
        costs = [p.most_overhead for p in pieces if p.most_overhead is not None]
        found.append(
            Segment(
                outcome,
                pieces[0].lo_bytes,
                pieces[-1].hi_bytes,
                sum(piece.intervals for piece in pieces),
                min(costs, default=None),
                max(costs, default=None),
            )
        )
    return tuple(found)


def _stretches(budget_map: BudgetMap) -> Iterator[tuple[tuple[str, int], Segment]]:
    """Each interval and each gap as a segment of its own, with what it is grouped by."""
    gaps = deque(budget_map.gaps)
    passed = 0
    for run in budget_map.runs:
        while gaps and gaps[0][0] < run.interval_lo_bytes:
            passed += 1
            yield (UNKNOWN, passed), Segment(UNKNOWN, *gaps.popleft(), 0, None, None)
        low, high = run.interval_lo_bytes, run.interval_hi_bytes
        overhead = None if run.outcome == OOM else budget_map.overhead(run)
        yield (run.outcome, passed), Segment(run.outcome, low, high, 1, overhead, overhead)
    for gap in gaps:
        yield (UNKNOWN, passed + 1), Segment(UNKNOWN, *gap, 0, None, None)


def worst_cliff(budget_map: BudgetMap, within_bytes: int, exact: bool = False) -> Cliff | None:
    """The largest ratio of overheads between two budgets at most `within_bytes` apart.

    Of the runs that the overhead limit stopped only a lower bound of the overhead is known. So one
    may be the larger of two, and the ratio is then a lower bound; it may not be the smaller, since
    that would bound nothing. Runs out of memory have no overhead. The budgets of intervals i < j
    come as close as lo_j - (hi_i - 1), so for each j those within reach are a window that only
    moves up, and the extremes in it are kept in monotone queues: O(n).

    Args:
        budget_map: what is known; between known intervals nothing is claimed.
        within_bytes: the largest distance.
        exact: look at runs that finished alone.

    Returns:
        None where no two overheads differ, or where the baseline is not known. Of equal ratios the
        one at the lowest budgets.
    """
    baseline_ns = budget_map.header.baseline_cost_ns
    if not baseline_ns:
        return None
    runs = [
        run for run in budget_map.runs if run.outcome == OK or (run.outcome != OOM and not exact)
    ]
    costs = [baseline_ns + run.remat_cost_ns for run in runs]
    largest = _Extreme(lambda new, old: costs[new] > costs[old])
    smallest = _Extreme(lambda new, old: costs[new] < costs[old])
    best: tuple[int, int] | None = None
    first = 0
    for j, run in enumerate(runs):
        while first < j and _distance(runs[first], run) > within_bytes:
            first += 1
        least, most = smallest.of(first), largest.of(first)
        pairs = [] if least is None else [(j, least)]
        if run.outcome == OK:
            pairs += [] if most is None else [(most, j)]
            smallest.add(j)
        largest.add(j)
        for over, under in pairs:
            if costs[over] <= costs[under]:
                continue
            # Whole numbers, since two ratios may be the same double and not be equal.
            if best is None or costs[over] * costs[best[1]] > costs[best[0]] * costs[under]:
                best = over, under
    return None if best is None else _cliff(budget_map, runs[best[0]], runs[best[1]])


def _distance(lower: End, upper: End) -> int:
    """How close a budget of one interval comes to one of a higher interval."""
    high = lower.interval_hi_bytes
    return upper.interval_lo_bytes - (upper.interval_lo_bytes if high is None else high) + 1


def _cliff(budget_map: BudgetMap, over: End, under: End) -> Cliff:
    lower, upper = sorted((over, under), key=lambda run: run.interval_lo_bytes)
    overheads = [budget_map.overhead(run) or 0.0 for run in (lower, upper)]
    baseline_ns = budget_map.header.baseline_cost_ns or 0
    return Cliff(
        low_bytes=upper.interval_lo_bytes - _distance(lower, upper),
        high_bytes=upper.interval_lo_bytes,
        low_overhead=overheads[0],
        high_overhead=overheads[1],
        factor=(baseline_ns + over.remat_cost_ns) / (baseline_ns + under.remat_cost_ns),
        censored=over.outcome != OK,
    )


class _Extreme:
    """The extreme of a window of positions that moves up: O(1) a step, taken over all."""

    def __init__(self, beats: Callable[[int, int], bool]) -> None:
        self._beats = beats
        self._kept: deque[int] = deque()

    def add(self, position: int) -> None:
        """Let the window reach up to a position, higher than all before."""
        while self._kept and self._beats(position, self._kept[-1]):
            self._kept.pop()
        self._kept.append(position)

    def of(self, first: int) -> int | None:
        """The extreme of those from a position on, never lower than asked for before."""
        while self._kept and self._kept[0] < first:
            self._kept.popleft()
        return self._kept[0] if self._kept else None
