"""Which intervals of equal decisions does a range of budgets hold?

`map_range` finds all of them. `sample_range` looks at a grid of budgets and then narrows down every
change of outcome that it shows to a single byte; what lies between the intervals that it found is
unknown. Both add to what is known already and run no budget whose interval is known.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise

from dtrdiag.errors import UsageError
from dtrdiag.experiments.outcomes import Outcome, Outcomes, add_checked
from dtrdiag.experiments.workers import Range, Ranges, Walker, Workers, workers
from dtrdiag.simulator import RunConfig
from dtrdiag.trace import Trace

ALONE_SECONDS = 1.0
"""How long a single process goes on before others are started, which takes them about as long."""
PIECES_A_JOB = 12
"""Into how many parts for each worker a range is split: as many runs at most are made twice."""
MAX_SAMPLES = 100_000
"""A finer grid is a mistake, or a wish for the exact map."""

Tell = Callable[[Sequence[Outcome]], None]


class Mapper:
    """Finds intervals of one trace under one set of rules.

    Args:
        trace: what to run.
        rules: apart from the budget and the ratio.
        known: what is known already; what is found is added.
        jobs: processes; 1: this one alone.
        prepare: as for `Workers`.
        tell: called with what was found, about twice a second, in no particular order.
        alone_seconds: how long this process goes on alone before it starts others.
    """

    def __init__(
        self,
        trace: Trace,
        rules: RunConfig,
        known: Outcomes,
        *,
        jobs: int = 1,
        prepare: Callable[[], object] | None = None,
        tell: Tell = lambda found: None,
        alone_seconds: float = ALONE_SECONDS,
    ) -> None:
        self.known = known
        self._trace = trace
        self._rules = rules
        self._jobs = jobs
        self._prepare = prepare
        self._tell = tell
        self._walker = Walker(trace, rules)
        self._pool: Workers | None = None
        self._alone_until = time.monotonic() + alone_seconds

    def map_range(self, from_bytes: int, to_bytes: int) -> None:
        """Find every interval that meets [from_bytes, to_bytes].

        Afterwards `known` covers that range without gaps. With n intervals unknown at first it
        makes n runs, and as many more at most as there are borders between parts of the range.

        Raises:
            UsageError: the range is empty.
            ContradictionError: two runs that must be equal are not; a fault of an engine.
            DtrdiagError: of the first run that fails. What was found until then is in `known`.
        """
        with ExitStack() as stack:
            self._find([(from_bytes, to_bytes)], stack)

    def sample_range(self, from_bytes: int, to_bytes: int, step_bytes: int) -> None:
        """Look every `step_bytes`, then narrow down each change of outcome to the byte.

        Every interval of at least `step_bytes` that lies in the range is found. Islands that are
        narrower, of another outcome than what surrounds them, may be missed.

        Raises:
            UsageError: the range is empty, the step is below 1 byte, or there are too many samples.
            DtrdiagError: as `map_range`.
        """
        if step_bytes < 1:
            raise UsageError(f"a resolution must be at least 1 byte, not {step_bytes}")
        samples = (to_bytes - from_bytes) // step_bytes + 2
        if samples > MAX_SAMPLES:
            raise UsageError(
                f"a resolution of {step_bytes} bytes takes {samples:,} samples, more than "
                f"{MAX_SAMPLES:,}"
            )
        budgets = [*range(from_bytes, to_bytes + 1, step_bytes), to_bytes]
        with ExitStack() as stack:
            while budgets:
                self._find([(budget, budget) for budget in dict.fromkeys(budgets)], stack)
                budgets = list(_undecided(self.known, from_bytes, to_bytes))

    def _find(self, ranges: Sequence[Range], stack: ExitStack) -> None:
        for low, high in ranges:
            if not 1 <= low <= high:
                raise UsageError(f"no budgets from {low} to {high} bytes")
        unknown = [gap for each in ranges for gap in self.known.gaps(*each)]
        left = self._alone(unknown)
        if not left:
            return
        if self._pool is None:
            opened = workers(self._trace, [self._rules], self._jobs, self._prepare)
            stack.callback(self._forget_pool)
            self._pool = stack.enter_context(opened)
        parts = Ranges(left, self._jobs * PIECES_A_JOB)
        for found, _ in self._pool.each(parts, lambda budgets: self.known.gaps(*budgets)):
            self._keep(found)

    def _forget_pool(self) -> None:
        self._pool = None

    def _alone(self, ranges: Sequence[Range]) -> list[Range]:
        """Walk ranges in this process; returns what is left when it is time for others to help."""
        waiting = list(reversed(ranges))
        while waiting:
            if self._jobs > 1 and time.monotonic() >= self._alone_until:
                break
            unknown = self.known.gaps(*waiting.pop())
            waiting.extend(reversed(unknown[1:]))
            for budgets in unknown[:1]:
                found, left = self._walker.walk(budgets)
                self._keep(found)
                if left is not None:
                    waiting.append(left)
        return waiting[::-1]

    def _keep(self, found: Sequence[Outcome]) -> None:
        for outcome in found:
            add_checked(self.known, outcome)
        self._tell(found)


def _undecided(known: Outcomes, from_bytes: int, to_bytes: int) -> Iterator[int]:
    """The middle of each gap between neighbours with different outcomes."""
    for lower, upper in pairwise(known.meeting(from_bytes, to_bytes + 1)):
        high, low = lower.end.interval_hi_bytes, upper.end.interval_lo_bytes
        if high is not None and high < low and lower.end.outcome != upper.end.outcome:
            yield (high + low - 1) // 2
