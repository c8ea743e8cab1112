"""What is read off the buckets of a timeline, in words with exact figures?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtrdiag.analyses.timeline import CLOCK, Timeline
from dtrdiag.units import both_bytes, count, duration, overhead_words, short_bytes

NOTHING = "none"
_TIMES = ((1_000_000_000, "s", 9), (1_000_000, "ms", 6), (1_000, "us", 3), (1, "ns", 0))


class TimelineTexts:
    """Texts for each bucket of a timeline. All are O(buckets)."""

    def __init__(self, found: Timeline) -> None:
        self._found = found
        self._places: list[str] | None = None

    @property
    def place_label(self) -> str:
        """What a place along the axis is called."""
        return self._found.axis

    def places(self) -> list[str]:
        """Where a bucket lies: from its first place to before the next bucket's."""
        if self._places is None:
            found = self._found
            spans = zip(found.x.tolist(), found.x2.tolist(), strict=True)
            if found.axis == CLOCK:
                moment, unit = _moments(int(found.x2[-1]))
                self._places = [f"{moment(x)} to {moment(x2)} {unit}" for x, x2 in spans]
            else:
                self._places = [_span(x, x2) for x, x2 in spans]
        return self._places

    @staticmethod
    def sizes(sizes_bytes: Any) -> list[str]:
        """Sizes, exact and rounded."""
        return [both_bytes(size) for size in np.asarray(sizes_bytes).tolist()]

    def evictions(self, cause: str) -> list[str]:
        """How many storages went for a cause, and their bytes."""
        pairs = zip(
            self._found.evictions[cause].tolist(),
            self._found.evicted_bytes[cause].tolist(),
            strict=True,
        )
        return [
            f"{count(number, 'storage')}, {short_bytes(size)}" if number else NOTHING
            for number, size in pairs
        ]

    @staticmethod
    def short_sizes(sizes_bytes: Any) -> list[str]:
        """Sizes, rounded."""
        return [short_bytes(size) for size in np.asarray(sizes_bytes).tolist()]

    @staticmethod
    def executions(counts: Any, costs_ns: Any) -> list[str]:
        """How many ops were executed, and their cost."""
        pairs = zip(counts.tolist(), costs_ns.tolist(), strict=True)
        return [
            f"{count(number, 'op')}, {duration(cost_ns)}" if number else NOTHING
            for number, cost_ns in pairs
        ]

    def overheads(self) -> list[str]:
        """Overhead of all up to the end of each bucket, against the whole baseline."""
        baseline_ns = self._found.header.baseline_cost_ns
        spent = np.cumsum(self._found.remat_ns.astype(object)).tolist()
        if not baseline_ns:
            return [overhead_words(None)] * len(spent)
        return [overhead_words((baseline_ns + cost_ns) / baseline_ns) for cost_ns in spent]


def _span(first: int, stop: int) -> str:
    return f"{first:,}" if stop == first + 1 else f"{first:,} to {stop - 1:,}"


def _moments(last_ns: int) -> tuple[Callable[[int], str], str]:
    """How moments of the clock are written, exactly, in the unit that suits the last one."""
    scale, unit, digits = next((each for each in _TIMES if last_ns >= 2 * each[0]), _TIMES[-1])

    def moment(time_ns: int) -> str:
        whole, rest = divmod(time_ns, scale)
        fraction = f"{rest:0{digits}d}".rstrip("0") if digits and rest else ""
        return f"{whole:,}.{fraction}" if fraction else f"{whole:,}"

    return moment, unit
