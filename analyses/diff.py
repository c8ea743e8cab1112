"""What do two runs of one trace share, where do they part, and what made one of them dearer?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import numpy as np

from dtrdiag.analyses.alignment import FINISHED, align, summable
from dtrdiag.analyses.course import NAMES as COURSE_NAMES
from dtrdiag.analyses.course import REMATERIALISE, Course, CourseBuilder
from dtrdiag.analyses.divergence import (
    FOLLOWING,
    Comparison,
    Divergence,
    compare_runs,
    divergence_document,
)
from dtrdiag.analyses.parting import NAMES as ITEM_NAMES
from dtrdiag.analyses.parting import ItemsBuilder, compare_items
from dtrdiag.analyses.reading import require_same_trace, split_header
from dtrdiag.analyses.reevicted import ReEvictions, re_evictions, re_evictions_document
from dtrdiag.analyses.sets import EvictionSets, sets_document, sets_of
from dtrdiag.analyses.summary import NAMES as TALLY_NAMES
from dtrdiag.analyses.summary import RunSummary, RunTally, summary_document
from dtrdiag.analyses.trajectory import Trajectory, trajectory, trajectory_document
from dtrdiag.events.records import Event, Lock, Materialise, Pin, RunHeader, Unlock
from dtrdiag.log.parquet import ParquetReader

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
        trajectory: the runs side by side from where they part on; None where they do not part.
        re_evicted: what only one of them evicts under pressure again; None where they do not part.
    """

    a: RunSummary
    b: RunSummary
    common_prefix: int
    divergence: Divergence | None
    sets: EvictionSets
    operators: tuple[OperatorCost, ...]
    trajectory: Trajectory | None = None
    re_evicted: ReEvictions | None = None

    def _repr_html_(self) -> str:
        from dtrdiag.analyses.notebook import diff_html

        return diff_html(self)

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

    def __init__(self, header: RunHeader, events: Iterable[Event] = ()) -> None:
        self.tally = RunTally(header)
        self.builder = CourseBuilder()
        self.items = ItemsBuilder()
        self._events = events

    def __iter__(self) -> Iterator[Event]:
        yield self.tally.header
        add, note = self.tally.add, self.builder.add
        for event in self._events:
            if type(event) not in _UNCOUNTED:
                add(event)
                note(event)
            yield event

    def read(self, log: ParquetReader) -> None:
        """Count a whole log in columns."""
        for columns in log.batches(_NAMES):
            self.tally.add_columns(columns)
            self.builder.add_columns(columns)
            self.items.add_columns(columns)


_NAMES = TALLY_NAMES | COURSE_NAMES | ITEM_NAMES
_UNCOUNTED = frozenset({Materialise, Lock, Unlock, Pin})
# Half of a log, and neither summary nor course looks at them.


def diff_runs(a: Iterable[Event], b: Iterable[Event], following: int = FOLLOWING) -> RunDiff:
    """Compare two runs of one trace.

    One pass over each log, side by side; two logs in Parquet are read in columns, one after the
    other, and again up to their first difference. Time O(n log n) in the decisions. Memory is
    proportional to the ops, storages and decisions, not to the other events.

    Args:
        a: events of the first run, header first.
        b: events of the second.
        following: how many decisions after the divergence to list for each run.

    Raises:
        AnalysisError: the events do not begin with a header, or the traces differ.
        LogError: a header names interventions that are not known.
    """
    if isinstance(a, ParquetReader) and isinstance(b, ParquetReader):
        watch_a, watch_b = _Watch(a.header), _Watch(b.header)
        require_same_trace(a.header, b.header)
        watch_a.read(a)
        watch_b.read(b)
        comparison = compare_items(a, watch_a.items.items(), b, watch_b.items.items(), following)
    else:
        watch_a, watch_b = _Watch(*split_header(a)), _Watch(*split_header(b))
        require_same_trace(watch_a.tally.header, watch_b.tally.header)
        walk_a, walk_b = iter(watch_a), iter(watch_b)
        comparison = compare_runs(walk_a, walk_b, following)
        for walk in (walk_a, walk_b):
            for _ in walk:
                pass
    return _diff(watch_a, watch_b, comparison)


def _diff(watch_a: _Watch, watch_b: _Watch, comparison: Comparison) -> RunDiff:
    a, b = watch_a.tally.summary(), watch_b.tally.summary()
    courses = watch_a.builder.course(), watch_b.builder.course()
    followed = again = None
    if comparison.divergence is not None:
        parted = min(_parted(course, comparison.common_prefix) for course in courses)
        finished = (a.outcome == FINISHED, b.outcome == FINISHED)
        alignment = align(*courses, finished, parted)
        followed = trajectory(alignment, (a.outcome, b.outcome))
        again = re_evictions(alignment)
    return RunDiff(
        a=a,
        b=b,
        common_prefix=comparison.common_prefix,
        divergence=comparison.divergence,
        sets=sets_of(watch_a.tally, watch_b.tally),
        operators=_operators(*courses),
        trajectory=followed,
        re_evicted=again,
    )


def _parted(course: Course, index: int) -> int:
    """The step that a decision serves; without such a decision, the last one begun."""
    if index < len(course.step):
        return int(course.step[index])
    return int(course.steps[-1]) if len(course.steps) else 0


def _operators(a: Course, b: Course) -> tuple[OperatorCost, ...]:
    costs_a, costs_b = _costs_by_name(a), _costs_by_name(b)
    costs = [
        OperatorCost(name, remats_a, remats_b, cost_a_ns, cost_b_ns)
        for name in costs_a.keys() | costs_b.keys()
        for remats_a, cost_a_ns in (costs_a.get(name, (0, 0)),)
        for remats_b, cost_b_ns in (costs_b.get(name, (0, 0)),)
    ]
    return tuple(sorted(costs, key=lambda cost: (-abs(cost.extra_ns), cost.name)))


def _costs_by_name(course: Course) -> dict[str, tuple[int, int]]:
    """Number and cost of the rematerialisations of the ops of each name."""
    rows = course.kind == REMATERIALISE
    ops, at, numbers = np.unique(course.subject[rows], return_inverse=True, return_counts=True)
    costs_ns = summable(course.cost_ns[rows])
    total = np.zeros(len(ops), costs_ns.dtype)
    np.add.at(total, at, costs_ns)
    found: dict[str, tuple[int, int]] = {}
    for op, number, cost_ns in zip(ops.tolist(), numbers.tolist(), total.tolist(), strict=True):
        name = course.names.get(op, "?")
        remats, so_far_ns = found.get(name, (0, 0))
        found[name] = (remats + number, so_far_ns + cost_ns)
    return found


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
        "trajectory": None if diff.trajectory is None else trajectory_document(diff.trajectory),
        "re_evicted": None if diff.re_evicted is None else re_evictions_document(diff.re_evicted),
    }
