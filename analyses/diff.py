"""What do two runs of one trace share, where do they part, and what made one of them dearer?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from dtrdiag.analyses.divergence import (
    FOLLOWING,
    Divergence,
    compare_runs,
    divergence_document,
)
from dtrdiag.analyses.reading import require_same_trace, split_header
from dtrdiag.analyses.sets import EvictionSets, sets_document, sets_of
from dtrdiag.analyses.summary import RunSummary, RunTally, summary_document
from dtrdiag.events.records import Event, OpDefined, Rematerialise, RunHeader
from dtrdiag.ids import OpId

DIFF_SCHEMA = "dtrdiag.diff/1"
TOP_OPERATORS = 10

EXACT, LOWER_BOUND, UNKNOWN = "exact", "lower_bound", "unknown"


@attrs.frozen
class OperatorCost:
    """What the ops of one name cost in rematerialisations, in run a and in run b."""

    name: str
    remats_a: int
    remats_b: int
    cost_a_ns: int
    cost_b_ns: int

    @property
    def extra_ns(self) -> int:
        """Cost in b beyond that in a; negative where a paid more."""
        return self.cost_b_ns - self.cost_a_ns


@attrs.frozen
class RunDiff:
    """Two runs, a and b, of one trace side by side.

    Attributes:
        common_prefix: number of equal decisions before the runs part.
        divergence: the first difference; None where all decisions are equal.
        operators: rematerialisation cost by operator name, the largest difference first.
    """

    a: RunSummary
    b: RunSummary
    common_prefix: int
    divergence: Divergence | None
    sets: EvictionSets
    operators: tuple[OperatorCost, ...]

    @property
    def overhead_factor(self) -> float | None:
        """Larger overhead over smaller, at least 1.0; None where one of them is not known."""
        if self.a.overhead is None or self.b.overhead is None:
            return None
        low, high = sorted((self.a.overhead, self.b.overhead))
        return high / low if low else None

    @property
    def censored(self) -> bool:
        """Whether a run was stopped before its end, so that its overhead is only what it had paid
        until then.
        """
        return self.a.outcome != "ok" or self.b.outcome != "ok"

    @property
    def overhead_factor_is(self) -> str | None:
        """What `overhead_factor` says: `exact` (both runs reached their end), `lower_bound` (only
        the run of the larger overhead was stopped), `unknown` (the other one was, so its overhead
        could have grown past). None without a factor.
        """
        if self.a.overhead is None or self.b.overhead is None:
            return None
        # Of equal ones, that of a run which was stopped could still have grown: it is the larger.
        low, high = sorted(
            (self.a, self.b), key=lambda run: (run.overhead or 0.0, run.outcome != "ok")
        )
        if low.outcome != "ok":
            return UNKNOWN
        return EXACT if high.outcome == "ok" else LOWER_BOUND


class _Watch:
    """Counts what a diff needs of one run while another reader walks through its events."""

    def __init__(self, header: RunHeader, events: Iterator[Event]) -> None:
        self.tally = RunTally(header)
        self.costs: dict[str, tuple[int, int]] = {}
        self._names: dict[OpId, str] = {}
        self._events = events

    def __iter__(self) -> Iterator[Event]:
        yield self.tally.header
        for event in self._events:
            self.tally.add(event)
            if isinstance(event, Rematerialise):
                name = self._names.get(event.op, "?")
                remats, cost_ns = self.costs.get(name, (0, 0))
                self.costs[name] = (remats + 1, cost_ns + event.cost_ns)
            elif isinstance(event, OpDefined):
                self._names[event.op] = event.name
            yield event


def diff_runs(a: Iterable[Event], b: Iterable[Event], following: int = FOLLOWING) -> RunDiff:
    """Compare two runs of one trace.

    One pass over each log, side by side. Memory is proportional to the number of ops and storages,
    not to the length of the logs.

    Args:
        a: events of the first run, header first.
        b: events of the second.
        following: how many decisions after the divergence to list for each run.

    Raises:
        AnalysisError: the events do not begin with a header, or the traces differ.
    """
    watch_a, watch_b = _Watch(*split_header(a)), _Watch(*split_header(b))
    require_same_trace(watch_a.tally.header, watch_b.tally.header)
    walk_a, walk_b = iter(watch_a), iter(watch_b)
    comparison = compare_runs(walk_a, walk_b, following)
    for walk in (walk_a, walk_b):
        for _ in walk:
            pass
    return RunDiff(
        a=watch_a.tally.summary(),
        b=watch_b.tally.summary(),
        common_prefix=comparison.common_prefix,
        divergence=comparison.divergence,
        sets=sets_of(watch_a.tally, watch_b.tally),
        operators=_operators(watch_a.costs, watch_b.costs),
    )


def _operators(
    a: dict[str, tuple[int, int]], b: dict[str, tuple[int, int]]
) -> tuple[OperatorCost, ...]:
    costs = [
        OperatorCost(name, remats_a, remats_b, cost_a_ns, cost_b_ns)
        for name in a.keys() | b.keys()
        for remats_a, cost_a_ns in (a.get(name, (0, 0)),)
        for remats_b, cost_b_ns in (b.get(name, (0, 0)),)
    ]
    return tuple(sorted(costs, key=lambda cost: (-abs(cost.extra_ns), cost.name)))


def diff_document(diff: RunDiff, top: int = TOP_OPERATORS) -> dict[str, Any]:
    """A diff as a `dtrdiag.diff/1` document of plain JSON types.

    Args:
        diff: the comparison.
        top: how many operator names `remat_by_operator` lists.
    """
    divergence = diff.divergence
    return {
        "schema": DIFF_SCHEMA,
        "a": summary_document(diff.a),
        "b": summary_document(diff.b),
        "common_prefix": diff.common_prefix,
        "first_divergence": None if divergence is None else divergence_document(divergence),
        "sets": sets_document(diff.sets),
        "evictions_per_storage": {"a": diff.sets.per_storage_a, "b": diff.sets.per_storage_b},
        "overhead_factor": diff.overhead_factor,
        "overhead_factor_is": diff.overhead_factor_is,
        "censored": diff.censored,
        "remat_by_operator": [
            {
                "name": cost.name,
                "remats": {"a": cost.remats_a, "b": cost.remats_b},
                "cost_ns": {"a": cost.cost_a_ns, "b": cost.cost_b_ns},
                "extra_ns": cost.extra_ns,
            }
            for cost in diff.operators[:top]
        ],
    }
