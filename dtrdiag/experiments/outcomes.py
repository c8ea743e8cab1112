"""What runs came to, and for which other budgets that answers too.

A run at one budget is, decision for decision, the run at every budget of its interval [lo, hi).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

import attrs

from dtrdiag.errors import ContradictionError
from dtrdiag.events.records import End, RunHeader
from dtrdiag.simulator import RunResult


@attrs.frozen
class Outcome:
    """What a simulated run came to, and so every run with a budget in its interval."""

    header: RunHeader
    end: End
    engine: str
    simulate_seconds: float

    @classmethod
    def of(cls, result: RunResult) -> Outcome:
        """What a run came to."""
        return cls(result.header, result.end, result.engine, result.simulate_seconds)

    def covers(self, budget_bytes: int) -> bool:
        """Whether the run at that budget makes the same decisions."""
        high = self.end.interval_hi_bytes
        return self.end.interval_lo_bytes <= budget_bytes and (high is None or budget_bytes < high)


class Outcomes:
    """Known outcomes of one trace under one set of rules. Looking one up takes O(log n)."""

    def __init__(self, known: Sequence[Outcome] = ()) -> None:
        self._lows: list[int] = []
        self._known: list[Outcome] = []
        for outcome in known:
            self.add(outcome)

    def __iter__(self) -> Iterator[Outcome]:
        """In ascending order of intervals."""
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome, unless its interval is known already."""
        low = outcome.end.interval_lo_bytes
        at = bisect.bisect_left(self._lows, low)
        if at == len(self._lows) or self._lows[at] != low:
            self._lows.insert(at, low)
            self._known.insert(at, outcome)

    def find(self, budget_bytes: int) -> Outcome | None:
        """The outcome whose interval holds a budget. Intervals of one map do not overlap."""
        at = bisect.bisect_right(self._lows, budget_bytes) - 1
        if at >= 0 and self._known[at].covers(budget_bytes):
            return self._known[at]
        return None

    def meeting(self, low_bytes: int, high_bytes: int | None) -> list[Outcome]:
        """Those whose interval meets the half-open [low, high), ascending. O(log n + found)."""
        first = max(bisect.bisect_right(self._lows, low_bytes) - 1, 0)
        found = []
        for at in range(first, len(self._known)):
            outcome = self._known[at]
            if high_bytes is not None and outcome.end.interval_lo_bytes >= high_bytes:
                break
            high = outcome.end.interval_hi_bytes
            if high is None or high > low_bytes:
                found.append(outcome)
        return found

    def gaps(self, from_bytes: int, to_bytes: int) -> list[tuple[int, int]]:
        """The ranges of budgets in [from, to] that no interval holds, both ends included."""
        found = []
        for outcome in self.meeting(from_bytes, to_bytes + 1):
            if outcome.end.interval_lo_bytes > from_bytes:
                found.append((from_bytes, outcome.end.interval_lo_bytes - 1))
            high = outcome.end.interval_hi_bytes
            from_bytes = to_bytes + 1 if high is None else high
        if from_bytes <= to_bytes:
            found.append((from_bytes, to_bytes))
        return found


def add_checked(known: Outcomes, outcome: Outcome) -> None:
    """Add an outcome; if its interval is known already, the runs must be equal.

    Raises:
        ContradictionError: they are not, or the interval overlaps another one.
    """
    low, high = outcome.end.interval_lo_bytes, outcome.end.interval_hi_bytes
    for other in known.meeting(low, high):
        if not _equal(other, outcome):
            raise ContradictionError(
                f"the runs at {other.header.budget_bytes} and {outcome.header.budget_bytes} bytes "
                "disagree on the budgets that they share; one of them is wrong"
            )
    known.add(outcome)


def _equal(one: Outcome, other: Outcome) -> bool:
    a, b = one.end, other.end
    return (
        a.interval_lo_bytes == b.interval_lo_bytes
        and a.interval_hi_bytes == b.interval_hi_bytes
        and a.outcome == b.outcome
        and a.decisions_sha256 == b.decisions_sha256
    )
