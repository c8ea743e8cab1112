"""Which steps of two runs can be compared, and which storages were in memory after each?

Both runs carry out the same schedule, so they are aligned by its positions: not by time, which
rematerialisation stretches, nor by decisions, of which one run has more. What is compared is the
state after a step, when its pending ops are done. A run that was stopped leaves its last step
undone, and a step that only one log names changes nothing in the other run.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from dtrdiag.analyses.course import EVICT, REMATERIALISE, Course, Ints
from dtrdiag.events.packed import sum_exactly
from dtrdiag.ids import OpId, StorageId

FINISHED = "ok"
"""The outcome of a run that carried out its whole schedule."""

Numbers = npt.NDArray[Any]
"""int64, or Python integers where 64 bits might not do."""


@attrs.frozen
class Place:
    """A step of the schedule.

    Attributes:
        step: its position in the schedule, from 0.
        op: the op that the schedule called last, at or before it.
        fraction: (step + 1) / steps of the schedule, in (0, 1]; None where neither run finished,
            so that nobody knows how long the schedule is.
    """

    step: int
    op: OpId | None
    op_name: str | None
    fraction: float | None


@attrs.frozen(eq=False)
class Alignment:
    """The steps after which two runs, a and b, are compared.

    Attributes:
        a: course of run a.
        b: course of run b.
        steps: int64[k], the steps that both runs completed, from the one in which they part on,
            ascending; those that no log names are not among them.
        parted: the step in which they part.
        stopped: the step in which the first of the runs that did not finish was stopped; None where
            both finished.
        schedule_steps: number of steps of the schedule, None where neither run finished.
    """

    a: Course
    b: Course
    steps: Ints
    parted: int
    stopped: int | None
    schedule_steps: int | None

    def place(self, step: int) -> Place:
        """A step with its op."""
        op = self.a.op_at(step)
        op = self.b.op_at(step) if op is None else op
        name = None if op is None else self.a.names.get(op) or self.b.names.get(op)
        known = self.schedule_steps
        return Place(step, op, name, None if known is None else (step + 1) / known)


def align(a: Course, b: Course, finished: tuple[bool, bool], parted: int) -> Alignment:
    """Align two runs from a step on.

    Args:
        a: course of one run.
        b: course of the other.
        finished: whether a, whether b carried out its whole schedule.
        parted: the step from which on they are compared.
    """
    courses = (a, b)
    ends = [_last(course) for course, done in zip(courses, finished, strict=True) if not done]
    whole = [_last(course) + 1 for course, done in zip(courses, finished, strict=True) if done]
    stopped = min(ends, default=None)
    steps = np.union1d(a.steps, b.steps)
    steps = steps[steps >= parted]
    if stopped is not None:
        steps = steps[steps < stopped]
    return Alignment(a, b, steps, parted, stopped, max(whole, default=None))


def _last(course: Course) -> int:
    return int(course.steps[-1]) if len(course.steps) else 0


@attrs.frozen(eq=False)
class Residents:
    """What was in memory after each compared step, in numbers of storages or in bytes.

    Attributes:
        a: int64[k], in run a.
        b: int64[k], in run b.
        both: int64[k], in both.
    """

    a: Numbers
    b: Numbers
    both: Numbers

    @property
    def union(self) -> Numbers:
        """int64[k], in either run."""
        union: Numbers = self.a + self.b - self.both
        return union

    @property
    def jaccard(self) -> npt.NDArray[np.float64]:
        """float64[k]: both over either, in [0, 1]; 1.0 where both runs hold nothing."""
        union = self.union
        empty = union == 0
        share = np.where(empty, 1, self.both) / np.where(empty, 1, union)
        return share.astype(np.float64)


def residents(alignment: Alignment) -> tuple[Residents, Residents]:
    """Storages resident after each compared step, counted and in bytes.

    O(m log m) in the arrivals and evictions of both runs.
    """
    courses = (alignment.a, alignment.b)
    changes = [presence(course) for course in courses]
    storage = np.concatenate([change[0] for change in changes])
    step = np.concatenate([change[1] for change in changes])
    is_in = np.concatenate([change[2] for change in changes])
    of_b = np.repeat([False, True], [len(change[0]) for change in changes])
    order = np.lexsort((step, storage))
    storage, step, is_in, of_b = storage[order], step[order], is_in[order], of_b[order]
    fresh = _begins(storage)
    in_a, in_b = (_carried(is_in, of_b == side, fresh) for side in (False, True))
    # A change within the steps before the first one compared belongs to the state that it finds.
    at = np.searchsorted(alignment.steps, step)
    sizes = _sizes(storage, fresh, courses)
    counted, in_bytes = [], []
    for present in (in_a, in_b, in_a & in_b):
        change = present.astype(np.int8) - np.where(fresh, False, np.roll(present, 1))
        moved = np.flatnonzero(change)
        counted.append(_running(at[moved], change[moved].astype(np.int64), len(alignment.steps)))
        weights = sizes[moved] * change[moved]
        in_bytes.append(_running(at[moved], weights, len(alignment.steps)))
    return Residents(*counted), Residents(*in_bytes)


def presence(course: Course) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
    """Where residency changes: storage, step, and whether it is resident after the step.

    Sorted by storage, then by step; one row for each storage and step in which it came or went.
    """
    storage, _, step, is_in = movements(course)
    last = np.ones(len(storage), np.bool_)
    last[:-1] = (storage[1:] != storage[:-1]) | (step[1:] != step[:-1])
    return storage[last], step[last], is_in[last]


def movements(course: Course) -> tuple[Ints, Ints, Ints, npt.NDArray[np.bool_]]:
    """Every arrival and eviction: storage, index of the decision, step, whether it arrives.

    Sorted by storage, then in order.
    """
    evictions = np.flatnonzero(course.kind == EVICT)
    storage = np.concatenate([course.arrivals, course.subject[evictions]])
    decision = np.concatenate([course.arrived, evictions])
    order = np.lexsort((decision, storage))
    decision = decision[order]
    return storage[order], decision, course.step[decision], order < len(course.arrivals)


def running_cost(course: Course, steps: Ints) -> Numbers:
    """Cost of all rematerialisations up to each of some steps, in nanoseconds. O(n log k)."""
    rows = np.flatnonzero(course.kind == REMATERIALISE)
    costs: Numbers = course.cost_ns[rows]
    return _running(np.searchsorted(steps, course.step[rows]), summable(costs), len(steps))


def _running(at: npt.NDArray[np.intp], change: Numbers, length: int) -> Numbers:
    """Sums of all changes up to each position; those beyond the last are left out."""
    total = np.zeros(length + 1, change.dtype)
    np.add.at(total, at, change)
    running: Numbers = np.cumsum(total[:-1])
    return running


def summable(values: Numbers) -> Numbers:
    """The same numbers, as Python integers if their sum might not do with 64 bits."""
    return values if sum_exactly(np.abs(values)) < 1 << 62 else values.astype(object)


def _sizes(storage: Ints, fresh: npt.NDArray[np.bool_], courses: tuple[Course, Course]) -> Numbers:
    """The size of the storage in each row; 0 where no log tells it."""
    known = [
        courses[0].size_bytes.get(StorageId(s)) or courses[1].size_bytes.get(StorageId(s)) or 0
        for s in storage[fresh].tolist()
    ]
    sizes = summable(np.array(known, np.int64))
    return sizes[np.cumsum(fresh) - 1] if len(known) else sizes


def _begins(storage: Ints) -> npt.NDArray[np.bool_]:
    fresh = np.ones(len(storage), np.bool_)
    fresh[1:] = storage[1:] != storage[:-1]
    return fresh


def _carried(
    is_in: npt.NDArray[np.bool_], own: npt.NDArray[np.bool_], fresh: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """After each row, whether the storage is in memory in the run that has the `own` rows."""
    index = np.arange(len(is_in))
    latest = np.maximum.accumulate(np.where(own, index, -1))
    first = np.maximum.accumulate(np.where(fresh, index, -1))
    known: npt.NDArray[np.bool_] = (latest >= first) & is_in[latest]
    return known
