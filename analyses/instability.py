"""How unstable is behaviour over a range of budgets, in figures that are exact for the whole range?

A few budgets show that something can happen; these measures say how much of it there is. They are
taken over every budget of a map, not over samples of them. docs/instability.md has the formulas. An
interval that reaches beyond the range counts with what of it lies inside; budgets of which nothing
is known do not count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import attrs

from dtrdiag.analyses.budget_map import OK, OOM, THRASHED, BudgetMap, Cliff, worst_cliff
from dtrdiag.errors import AnalysisError
from dtrdiag.events.records import End

OUTCOMES = (OK, OOM, THRASHED)
EXACT, LOWER_BOUND = "exact", "lower_bound"
_Stretch = tuple[int, int]
"""Half-open, within the range."""


@attrs.frozen
class Variation:
    """By how much the natural logarithm of the overhead goes up and down as the budget grows.

    The sums run over the budgets that have an overhead, ascending; those out of memory have none
    and are passed over, and so are those that nothing is known of. Of a run that was stopped no
    more is known than that its overhead is above the one at the stop; `up` and `down` are the least
    that they can be, if each such run ends with some overhead.

    Attributes:
        up: sum of the increases.
        down: sum of the decreases, not negative.
        finished_up: over finished runs alone; less than the truth at most, whatever becomes of the
            stopped ones.
        finished_down: the same of the decreases.
    """

    up: float
    down: float
    finished_up: float
    finished_down: float


@attrs.frozen
class Instability:
    """Measures of a map. Bytes are numbers of budgets; shares are of the known budgets.

    Attributes:
        range_bytes: how many budgets the range holds.
        known_bytes: of how many the run is known.
        intervals: number of intervals, by outcome.
        outcome_bytes: budgets by outcome.
        outcome_changes: neighbouring budgets, both known, with different outcomes.
        inversions: maximal stretches out of memory above a budget that finishes.
        inversion_bytes: budgets in them; what becomes of stopped runs can only add to it.
        inversion_bytes_at_most: the same, had stopped runs come out in the worst way.
        stopped_above: maximal stretches of stopped runs above a budget that finishes.
        stopped_above_bytes: budgets in them.
        variation: of the logarithm of the overhead; None without a baseline.
        median_overhead: least overhead that at least half of the finished budgets do not exceed.
        most_overhead: the largest one of a run that finished.
        within_bytes: how close the two budgets of a cliff are, at most.
        worst_cliff: as `budget_map.worst_cliff` finds it.
        worst_exact_cliff: that between runs that finished.
        percent_bytes: one percent of the peak; None without a peak.
    """

    range_bytes: int
    known_bytes: int
    intervals: dict[str, int]
    outcome_bytes: dict[str, int]
    outcome_changes: int
    inversions: int
    inversion_bytes: int
    inversion_bytes_at_most: int
    stopped_above: int
    stopped_above_bytes: int
    variation: Variation | None
    median_overhead: float | None
    most_overhead: float | None
    within_bytes: int
    worst_cliff: Cliff | None
    worst_exact_cliff: Cliff | None
    percent_bytes: float | None

    @property
    def complete(self) -> bool:
        """Whether every budget of the range is known."""
        return self.known_bytes == self.range_bytes

    @property
    def censored(self) -> bool:
        """Whether the overhead limit stopped a run."""
        return self.intervals[THRASHED] > 0

    def share(self, size_bytes: int) -> float:
        """Of the known budgets; 0 where none is known."""
        return size_bytes / self.known_bytes if self.known_bytes else 0.0

    @property
    def entropy_bits(self) -> float:
        """Shannon entropy of the outcome of a known budget drawn uniformly, 0 to log2(3)."""
        shares = [self.share(size) for size in self.outcome_bytes.values() if size]
        return math.fsum(-share * math.log2(share) for share in shares)

    @property
    def intervals_per_percent(self) -> float | None:
        """Intervals for each percent of the peak in known budgets; None without a peak."""
        if not self.percent_bytes or not self.known_bytes:
            return None
        return sum(self.intervals.values()) * self.percent_bytes / self.known_bytes


def measure_instability(budget_map: BudgetMap, within_bytes: int) -> Instability:
    """The measures of a map, complete or not.

    O(n) in the number of intervals; the median sorts them.

    Args:
        budget_map: what is known.
        within_bytes: how close the two budgets of a cliff are, at most.

    Raises:
        AnalysisError: `within_bytes` is below 1.
    """
    if within_bytes < 1:
        raise AnalysisError(f"two budgets differ by at least 1 byte, not {within_bytes}")
    runs, clipped = budget_map.runs, _clipped(budget_map)
    widths = [high - low for low, high in clipped]
    inverted, stopped = (_above_feasible(budget_map, outcome) for outcome in (OOM, THRASHED))
    median, most = _finished_overheads(budget_map, widths)
    peak_bytes = budget_map.header.peak_bytes
    return Instability(
        range_bytes=budget_map.to_bytes - budget_map.from_bytes + 1,
        known_bytes=sum(widths),
        intervals={outcome: sum(run.outcome == outcome for run in runs) for outcome in OUTCOMES},
        outcome_bytes={
            outcome: sum(w for run, w in zip(runs, widths, strict=True) if run.outcome == outcome)
            for outcome in OUTCOMES
        },
        outcome_changes=sum(
            one.outcome != other.outcome and one.interval_hi_bytes == other.interval_lo_bytes
            for one, other in pairwise(runs)
        ),
        inversions=len(inverted),
        inversion_bytes=_bytes(inverted),
        inversion_bytes_at_most=_most_inverted(runs, widths),
        stopped_above=len(stopped),
        stopped_above_bytes=_bytes(stopped),
        variation=_variation(budget_map),
        median_overhead=median,
        most_overhead=most,
        within_bytes=within_bytes,
        worst_cliff=worst_cliff(budget_map, within_bytes),
        worst_exact_cliff=worst_cliff(budget_map, within_bytes, exact=True),
        percent_bytes=peak_bytes / 100 if peak_bytes else None,
    )


def inverted_stretches(budget_map: BudgetMap) -> tuple[tuple[int, int], ...]:
    """Where budgets run out of memory above one that finishes: half-open, ascending. O(n).

    Each is as long as it can be within the range.
    """
    return tuple(_above_feasible(budget_map, OOM))


def common_bytes(some: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]) -> int:
    """How many budgets lie in both of two lists of half-open stretches, each ascending. O(n)."""
    found = i = j = 0
    while i < len(some) and j < len(others):
        found += max(0, min(some[i][1], others[j][1]) - max(some[i][0], others[j][0]))
        if some[i][1] <= others[j][1]:
            i += 1
        else:
            j += 1
    return found


def _clipped(budget_map: BudgetMap) -> list[_Stretch]:
    """Each interval as far as it lies in the range."""
    first, after = budget_map.from_bytes, budget_map.to_bytes + 1
    return [
        (
            max(run.interval_lo_bytes, first),
            after if run.interval_hi_bytes is None else min(run.interval_hi_bytes, after),
        )
        for run in budget_map.runs
    ]


def _above_feasible(budget_map: BudgetMap, outcome: str) -> list[_Stretch]:
    """Maximal stretches of an outcome that lie above a budget that finishes."""
    found: list[_Stretch] = []
    feasible = False
    for run, (low, high) in zip(budget_map.runs, _clipped(budget_map), strict=True):
        feasible = feasible or run.outcome == OK
        if not feasible or run.outcome != outcome:
            continue
        if found and found[-1][1] == low:
            low = found.pop()[0]
        found.append((low, high))
    return found


def _bytes(stretches: Sequence[_Stretch]) -> int:
    return sum(high - low for low, high in stretches)


def _most_inverted(runs: Sequence[End], widths: Sequence[int]) -> int:
    """Most bytes that inversions can hold, whatever the stopped runs would have come to.

    The worst is that the lowest budget that may be feasible is, and no stopped one above it.
    """
    lowest = next((at for at, run in enumerate(runs) if run.outcome != OOM), len(runs))
    above = range(lowest + 1, len(runs))
    return sum(widths[at] for at in above if runs[at].outcome != OK)


def _variation(budget_map: BudgetMap) -> Variation | None:
    if not budget_map.header.baseline_cost_ns:
        return None
    everything = list(_steps(budget_map, exact=False))
    finished = list(_steps(budget_map, exact=True))
    return Variation(
        *(math.fsum(column) for column in zip((0.0, 0.0), *everything, strict=True)),
        *(math.fsum(column) for column in zip((0.0, 0.0), *finished, strict=True)),
    )


def _steps(budget_map: BudgetMap, exact: bool) -> Iterator[tuple[float, float]]:
    """Increase and decrease from each finished run to the next, stopped ones between included.

    Whatever finite values above their stops the stopped ones have, going from a to b by way of
    them rises by max(m, b) - a at least (if that is positive), with m the highest stop; and that is
    all it takes if each of them is at the highest of the three. Before the first finished run and
    after the last one, only one of the ends is there.
    """
    before: int | None = None
    stopped = 0
    baseline_ns = budget_map.header.baseline_cost_ns or 0
    for run in budget_map.runs:
        cost = baseline_ns + run.remat_cost_ns
        if run.outcome == OK:
            top = max(stopped, cost, before or 0)
            yield (math.log(top / before) if before else 0.0), math.log(top / cost)
            before, stopped = cost, 0
        elif run.outcome == THRASHED and not exact:
            stopped = max(stopped, cost)
    if before and stopped > before:
        yield math.log(stopped / before), 0.0


def _finished_overheads(
    budget_map: BudgetMap, widths: Sequence[int]
) -> tuple[float | None, float | None]:
    """Median, weighted by budgets, and maximum of the overheads of finished runs."""
    finished = sorted(
        (run.remat_cost_ns, width, at)
        for at, (run, width) in enumerate(zip(budget_map.runs, widths, strict=True))
        if run.outcome == OK
    )
    total = sum(width for _, width, _ in finished)
    passed = 0
    median = None
    for _, width, at in finished:
        passed += width
        if 2 * passed >= total:
            median = budget_map.overhead(budget_map.runs[at])
            break
    return median, budget_map.overhead(budget_map.runs[finished[-1][2]]) if finished else None


def instability_document(measures: Instability) -> dict[str, Any]:
    """The measures as plain JSON types; each figure is a scalar at a path that is always there.

    A figure that does not exist, such as a median where nothing finishes, is None.
    """
    share = measures.share
    return {
        "range_bytes": measures.range_bytes,
        "known_bytes": measures.known_bytes,
        "intervals": {
            "total": sum(measures.intervals.values()),
            **measures.intervals,
            "per_percent_of_peak": measures.intervals_per_percent,
        },
        "budgets": {f"{name}_bytes": size for name, size in measures.outcome_bytes.items()}
        | {f"{name}_share": share(size) for name, size in measures.outcome_bytes.items()},
        "outcome_changes": measures.outcome_changes,
        "entropy_bits": measures.entropy_bits,
        "inversions": {
            "number": measures.inversions,
            "bytes": measures.inversion_bytes,
            "share": share(measures.inversion_bytes),
            "bytes_at_most": measures.inversion_bytes_at_most,
            "share_at_most": share(measures.inversion_bytes_at_most),
        },
        "stopped_above_feasible": {
            "number": measures.stopped_above,
            "bytes": measures.stopped_above_bytes,
            "share": share(measures.stopped_above_bytes),
        },
        "log_overhead": _variation_document(measures),
        "overhead": {"median": measures.median_overhead, "max": measures.most_overhead},
        "within": measures.within_bytes,
        "worst_cliff": _cliff_document(measures.worst_cliff),
        "worst_exact_cliff": _cliff_document(measures.worst_exact_cliff),
    }


def _variation_document(measures: Instability) -> dict[str, Any]:
    found = measures.variation
    if found is None:
        names = ("upward", "total", "upward_finished", "total_finished", "variation_is")
        return dict.fromkeys(names)
    return {
        "upward": found.up,
        "total": found.up + found.down,
        "upward_finished": found.finished_up,
        "total_finished": found.finished_up + found.finished_down,
        "variation_is": LOWER_BOUND if measures.censored or not measures.complete else EXACT,
    }


def _cliff_document(cliff: Cliff | None) -> dict[str, Any]:
    return {
        "factor": None if cliff is None else cliff.factor,
        "factor_is": None if cliff is None else (LOWER_BOUND if cliff.censored else EXACT),
        "low_budget": None if cliff is None else cliff.low_bytes,
        "high_budget": None if cliff is None else cliff.high_bytes,
        "low_overhead": None if cliff is None else cliff.low_overhead,
        "high_overhead": None if cliff is None else cliff.high_overhead,
    }
