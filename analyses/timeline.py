"""How full was memory in the course of a run, with what, and what was evicted and recomputed then?

The events of a run lie along an axis: the clock, the decisions, or the steps of the schedule. They
are gathered in buckets that keep every extreme. As long as the events have few enough different
places, each place is a bucket of its own and nothing is lost at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from dtrdiag.analyses.buckets import Buckets
from dtrdiag.analyses.reading import in_columns
from dtrdiag.analyses.residency import RESIDENCY_NAMES, ResidencyReader
from dtrdiag.analyses.runtable import Bools, Exact, Ints
from dtrdiag.errors import AnalysisError
from dtrdiag.events.columns import COLUMNS, KIND_CODES, EventColumns
from dtrdiag.events.records import Event, RunHeader
from dtrdiag.log.state import CAUSES

CLOCK, DECISION, STEP = "clock", "decision", "step"
AXES = (CLOCK, DECISION, STEP)
"""Along what a timeline goes: nanoseconds of the clock, decisions, steps of the schedule."""
BUCKETS = 4096
NAMES = frozenset({*RESIDENCY_NAMES, "step", "clock_ns", "cost_ns"})
"""The columns of a log that a timeline is made from."""

_CAUSE_CODES = np.array([CAUSES.index(word) for word in COLUMNS["cause"].words or ()], np.int64)
_EVICT, _COMPUTE, _REMAT = (KIND_CODES[kind] for kind in ("evict", "compute", "rematerialise"))


@attrs.frozen(eq=False)
class Timeline:
    """The n buckets of a run along an axis; all arrays are of length n.

    A bucket begins at an event and reaches to where the next one begins: it is [x, x2). Its states
    are those right after each of its events; so a state is that from there on.

    Attributes:
        axis: one of `AXES`.
        width: places that one bucket may have in it; 1: nothing is put together.
        x: ascending: clock in ns; index of a decision (an execution or an eviction), from 0; or
            step of the schedule. Events before the first are with it, those between two belong to
            the one before them; the clock begins at 1.
        x2: the next bucket's x; the last one's is one more than the last place.
        clock_ns, decision, step: the place along each axis of the bucket's first event.
        low_bytes, high_bytes: least and most bytes in resident storages.
        high_seq: `seq` of the first event after which it is the most.
        pinned_bytes, locked_bytes: of the resident bytes right then, as `Residency` has them.
        in_use_bytes: the most memory in use that the log states, with outputs that are there twice
            for a moment.
        evictions, evicted_bytes: by cause: how many, and their bytes.
        computes, compute_ns: first executions and their cost.
        remats, remat_ns: rematerialisations and their cost.
        depth: most ops that were pending at a time.
    """

    header: RunHeader
    axis: str
    width: int
    x: Ints
    x2: Ints
    clock_ns: Ints
    decision: Ints
    step: Ints
    low_bytes: Exact
    high_bytes: Exact
    high_seq: Ints
    pinned_bytes: Exact
    locked_bytes: Exact
    in_use_bytes: Exact
    evictions: Mapping[str, Ints]
    evicted_bytes: Mapping[str, Exact]
    computes: Ints
    compute_ns: Exact
    remats: Ints
    remat_ns: Exact
    depth: Ints

    def __len__(self) -> int:
        return len(self.x)

    @property
    def evictable_bytes(self) -> Exact:
        """Of the resident bytes at the moment of the most, those that are neither."""
        rest: Exact = self.high_bytes - self.pinned_bytes - self.locked_bytes
        return rest


def run_timeline(events: Iterable[Event], axis: str = CLOCK, buckets: int = BUCKETS) -> Timeline:
    """The timeline of a run from its log; see `run_timelines`."""
    return run_timelines(events, (axis,), buckets)[axis]


def run_timelines(
    events: Iterable[Event], axes: Sequence[str] = AXES, buckets: int = BUCKETS
) -> dict[str, Timeline]:
    """The timelines of a run along several axes, in one pass.

    O(n log n) in the events; memory is proportional to the storages and the buckets. A Parquet log
    is read in columns: ten million events take some ten seconds.

    Args:
        events: the events of a run, header first.
        axes: each one of `AXES`.
        buckets: how many at most. A bucket's width is the smallest power of two that does.

    Raises:
        AnalysisError: the events do not begin with a header, an axis is not known, or `buckets` is
            below 1.
        LogError: an event names a storage that no `op` event introduced.
    """
    unknown = [axis for axis in axes if axis not in AXES]
    if unknown:
        raise AnalysisError(f"no axis {unknown[0]!r}; there are {', '.join(AXES)}")
    if buckets < 1:
        raise AnalysisError(f"a timeline needs at least 1 bucket, not {buckets}")
    header, batches = in_columns(events, NAMES)
    reader = _Reader(axes, buckets)
    for columns in batches:
        reader.pass_over(columns)
    return {axis: reader.timeline(header, axis) for axis in axes}


class _Reader:
    """Places and states of the events so far."""

    def __init__(self, axes: Sequence[str], buckets: int) -> None:
        self._residency = ResidencyReader()
        self._clock_ns, self._decisions, self._step = 1, 0, 0
        self._buckets = {axis: Buckets(buckets) for axis in axes}

    def pass_over(self, columns: EventColumns) -> None:
        """Take in a batch that has the columns `NAMES`."""
        if not len(columns):
            return
        state = self._residency.pass_over(columns)
        places = self._places(columns)
        rows: dict[str, Any] = {
            "clock_ns": places[CLOCK],
            "decision": places[DECISION],
            "step": places[STEP],
            "low_bytes": state.resident_bytes,
            "high_bytes": state.resident_bytes,
            "high_seq": columns.column("seq").values,
            "pinned_bytes": state.pinned_bytes,
            "locked_bytes": state.locked_bytes,
            "in_use_bytes": state.in_use_bytes,
            "depth": state.depth,
            **self._evictions(columns),
            **_executions(columns),
        }
        for axis, gathered in self._buckets.items():
            gathered.add(places[axis], rows)

    def _places(self, columns: EventColumns) -> dict[str, Ints]:
        clocks = np.maximum.accumulate(np.append(self._clock_ns, columns.column("clock_ns").values))
        steps = np.maximum.accumulate(np.append(self._step, columns.column("step").values))
        decides = np.isin(columns.kind, (_EVICT, _COMPUTE, _REMAT))
        decisions = self._decisions + np.cumsum(decides)
        self._clock_ns, self._step = int(clocks[-1]), int(steps[-1])
        self._decisions = int(decisions[-1])
        return {
            CLOCK: clocks[np.cumsum(columns.rows("clock_ns"))],
            DECISION: np.maximum(decisions - 1, 0),
            STEP: steps[np.cumsum(columns.rows("step"))],
        }

    def _evictions(self, columns: EventColumns) -> dict[str, Exact]:
        evicts = np.flatnonzero(columns.kind == _EVICT)
        cause = _CAUSE_CODES[columns.column("cause").codes]
        sizes = self._residency.size_bytes(columns.of("evict", "storage").values)
        found = {}
        for code, word in enumerate(CAUSES):
            here = cause == code
            found[f"evictions_{word}"] = _marked(columns, evicts[here])
            spread = np.zeros(len(columns), sizes.dtype)
            spread[evicts[here]] = sizes[here]
            found[f"evicted_bytes_{word}"] = spread
        return found

    def timeline(self, header: RunHeader, axis: str) -> Timeline:
        """What has been gathered along an axis."""
        x, x2, width, found = self._buckets[axis].gathered()
        return Timeline(
            header=header,
            axis=axis,
            width=width,
            x=x,
            x2=x2,
            evictions={word: found.pop(f"evictions_{word}") for word in CAUSES},
            evicted_bytes={word: found.pop(f"evicted_bytes_{word}") for word in CAUSES},
            **found,
        )


def _executions(columns: EventColumns) -> dict[str, Exact]:
    found = {}
    for code, kind, word in ((_COMPUTE, "compute", "compute"), (_REMAT, "rematerialise", "remat")):
        rows = columns.kind == code
        found[f"{word}s"] = _marked(columns, rows)
        cost_ns = np.zeros(len(columns), np.int64)
        cost_ns[rows] = columns.of(kind, "cost_ns").values
        found[f"{word}_ns"] = cost_ns
    return found


def _marked(columns: EventColumns, rows: Ints | Bools) -> Ints:
    marked = np.zeros(len(columns), np.int64)
    marked[rows] = 1
    return marked
