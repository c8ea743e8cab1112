"""How far apart do two runs get after they have parted, when does the cost accrue, do they meet?

Both runs are aligned by the steps of the schedule (`dtrdiag.analyses.alignment`), from the one in
which they part to the last that both completed, and compared after each: the resident sets, and the
cost of rematerialisation so far.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from dtrdiag.analyses.alignment import (
    Alignment,
    Numbers,
    Place,
    Residents,
    residents,
    running_cost,
)
from dtrdiag.analyses.course import Course, Ints

POINTS = 200
"""A trajectory of more steps is thinned to at most this many points."""
SHARES = (50, 90)
"""The percentages of the extra cost whose accrual is told."""
YES, NO, UNKNOWN = "yes", "no", "unknown"


@attrs.frozen
class Extreme:
    """A value and the first step after which it holds."""

    value: float | int
    place: Place


@attrs.frozen(eq=False)
class Trajectory:
    """Two runs, a and b, after each compared step; all arrays are as long as `alignment.steps`.

    Where no step can be compared (the runs part in the very step in which one is stopped) the
    arrays are empty, and what is taken from them is None.

    Attributes:
        alignment: the k steps, and where the runs part and stop.
        storages: resident storages, counted.
        bytes: resident storages in bytes.
        cost_a_ns: int64[k], cost of run a's rematerialisations from the start of the run to the end
            of each step.
        cost_b_ns: int64[k], the same of run b.
        beyond_a_ns: what run a paid after the last of these steps; without any, from the step in
            which the runs part on.
        beyond_b_ns: the same of run b.
        rejoined: the first compared step after which the runs are equal for good: the same storages
            are resident after it and after each later one, and all later decisions are the same.
        rejoined_is: `yes`; `no`; `unknown` where they have not, but a run was stopped by the
            overhead limit or its log is cut, so that they might have.
    """

    alignment: Alignment
    storages: Residents
    bytes: Residents
    cost_a_ns: Numbers
    cost_b_ns: Numbers
    beyond_a_ns: int
    beyond_b_ns: int
    rejoined: Place | None
    rejoined_is: str

    @property
    def steps(self) -> Ints:
        """int64[k], the compared steps, ascending."""
        return self.alignment.steps

    @property
    def extra_ns(self) -> Numbers:
        """int64[k], cost of b beyond that of a up to each step; negative where a paid more."""
        extra: Numbers = self.cost_b_ns - self.cost_a_ns
        return extra

    @property
    def jaccard(self) -> npt.NDArray[np.float64]:
        """float64[k], |A and B| / |A or B| of the resident storages; 1.0 for two empty sets."""
        return self.storages.jaccard

    @property
    def jaccard_bytes(self) -> npt.NDArray[np.float64]:
        """float64[k], the same with each storage weighted by its size."""
        return self.bytes.jaccard

    @property
    def first(self) -> Place | None:
        """The first compared step: that in which the runs part."""
        return self._place(0) if len(self.steps) else None

    @property
    def last(self) -> Place | None:
        """The last step that both runs completed."""
        return self._place(-1) if len(self.steps) else None

    @property
    def lowest_jaccard(self) -> Extreme | None:
        """Where the resident sets are least alike."""
        return self._extreme(self.jaccard, np.argmin)

    @property
    def lowest_jaccard_bytes(self) -> Extreme | None:
        """Where they are least alike in bytes."""
        return self._extreme(self.jaccard_bytes, np.argmin)

    @property
    def highest_extra(self) -> Extreme | None:
        """Where b has paid most beyond a, in nanoseconds."""
        return self._extreme(self.extra_ns, np.argmax)

    @property
    def lowest_extra(self) -> Extreme | None:
        """Where b has paid least beyond a, so a most beyond b, in nanoseconds."""
        return self._extreme(self.extra_ns, np.argmin)

    @property
    def final_extra_ns(self) -> int | None:
        """Cost of b beyond that of a, up to the last compared step."""
        return int(self.extra_ns[-1]) if len(self.steps) else None

    @property
    def monotone(self) -> bool | None:
        """Whether the extra cost goes from 0 to what it is in the end without a step back."""
        if not len(self.steps):
            return None
        moves = np.diff(self.extra_ns, prepend=0)
        return bool((moves >= 0).all() or (moves <= 0).all())

    @property
    def equal_steps(self) -> int:
        """After how many of the compared steps the resident sets are equal."""
        return int((self.storages.both == self.storages.union).sum())

    def accrued(self, percent: int) -> Place | None:
        """From which step on a share of the final extra cost has accrued for good.

        That is the first step such that the extra cost is at least `percent` % of its final value,
        in the same direction, after this step and after all later ones. Where the extra cost goes
        up and down, an earlier step at which it was that large for a while does not count. None
        where there is no extra cost in the end.
        """
        final = self.final_extra_ns
        if not final:
            return None
        toward = self.extra_ns if final > 0 else -self.extra_ns
        enough = -(-abs(final) * percent // 100)
        short = np.flatnonzero(toward < enough)
        return self._place(int(short[-1]) + 1 if len(short) else 0)

    def points(self, most: int = POINTS) -> Ints:
        """Indices of the steps that tell the trajectory in few points, ascending.

        All, if there are at most `most`. Otherwise the steps are cut into spans of equal numbers,
        and each gives its last step and the first ones of lowest Jaccard index (of storages, of
        bytes) and of lowest and highest extra cost; so the extremes of the whole are exact. The
        very first step is kept too.
        """
        length = len(self.steps)
        if length <= most:
            return np.arange(length, dtype=np.int64)
        edges = np.linspace(0, length, (most - 1) // 5 + 1).astype(np.int64)
        jaccard, jaccard_bytes, extra = self.jaccard, self.jaccard_bytes, self.extra_ns
        kept = {0}
        for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            part = slice(start, stop)
            lows = (jaccard[part].argmin(), jaccard_bytes[part].argmin(), extra[part].argmin())
            inside = (*lows, extra[part].argmax(), stop - 1 - start)
            kept.update(start + int(at) for at in inside)
        return np.array(sorted(kept), np.int64)

    def _place(self, at: int) -> Place:
        return self.alignment.place(int(self.steps[at]))

    def _extreme(self, values: Numbers, find: Callable[[Numbers], Any]) -> Extreme | None:
        if not len(values):
            return None
        at = int(find(values))
        value = values[at]
        return Extreme(float(value) if values.dtype == np.float64 else int(value), self._place(at))


def trajectory(alignment: Alignment, outcomes: tuple[str, str]) -> Trajectory:
    """Follow two runs from where they part.

    O(m log m) in the decisions and arrivals of both, in memory too.

    Args:
        alignment: the runs, aligned.
        outcomes: how a and how b ended.
    """
    storages, in_bytes = residents(alignment)
    costs, beyond = [], []
    for course in (alignment.a, alignment.b):
        costs.append(running_cost(course, alignment.steps))
        total = running_cost(course, _END)
        paid = int(costs[-1][-1]) if len(alignment.steps) else _before(course, alignment.parted)
        beyond.append(int(total[-1]) - paid)
    at = _rejoined(alignment, storages) if outcomes[0] == outcomes[1] else None
    open_ended = any(outcome not in ("ok", "oom") for outcome in outcomes)
    return Trajectory(
        alignment=alignment,
        storages=storages,
        bytes=in_bytes,
        cost_a_ns=costs[0],
        cost_b_ns=costs[1],
        beyond_a_ns=beyond[0],
        beyond_b_ns=beyond[1],
        rejoined=None if at is None else alignment.place(at),
        rejoined_is=YES if at is not None else UNKNOWN if open_ended else NO,
    )


_END = np.array([np.iinfo(np.int64).max])


def _before(course: Course, step: int) -> int:
    return int(running_cost(course, np.array([step - 1]))[-1])


def _rejoined(alignment: Alignment, storages: Residents) -> int | None:
    """The step after which the runs are equal for good."""
    a, b, steps = alignment.a, alignment.b, alignment.steps
    # How many decisions of each run come after each step.
    later_a = len(a.step) - np.searchsorted(a.step, steps, "right")
    later_b = len(b.step) - np.searchsorted(b.step, steps, "right")
    alike = storages.both == storages.union
    alike &= (later_a == later_b) & (later_a <= _common_suffix(a, b))
    different = np.flatnonzero(~alike)
    at = int(different[-1]) + 1 if len(different) else 0
    return int(steps[at]) if at < len(steps) else None


def _common_suffix(a: Course, b: Course) -> int:
    """How many decisions are equal, counted from the last one."""
    shorter = min(len(a.kind), len(b.kind))
    from_a, from_b = len(a.kind) - shorter, len(b.kind) - shorter
    differ = np.flatnonzero(
        (a.kind[from_a:] != b.kind[from_b:]) | (a.subject[from_a:] != b.subject[from_b:])
    )
    return shorter - 1 - int(differ[-1]) if len(differ) else shorter


def trajectory_document(found: Trajectory, most: int = POINTS) -> dict[str, Any]:
    """A trajectory as the `trajectory` object of a `dtrdiag.diff/1` document.

    Args:
        found: the trajectory.
        most: how many `points` to list, as `Trajectory.points` chooses them.
    """
    alignment = found.alignment
    stopped = alignment.stopped
    return {
        "steps": len(found.steps),
        "schedule_steps": alignment.schedule_steps,
        "parted": _place_document(alignment.place(alignment.parted)),
        "last": _place_document(found.last),
        "stopped": None if stopped is None else _place_document(alignment.place(stopped)),
        "lowest_jaccard": _extreme_document(found.lowest_jaccard),
        "lowest_jaccard_bytes": _extreme_document(found.lowest_jaccard_bytes),
        "final_jaccard": float(found.jaccard[-1]) if len(found.steps) else None,
        "final_jaccard_bytes": float(found.jaccard_bytes[-1]) if len(found.steps) else None,
        "equal_steps": found.equal_steps,
        "extra_ns": found.final_extra_ns,
        "highest_extra": _extreme_document(found.highest_extra),
        "lowest_extra": _extreme_document(found.lowest_extra),
        "extra_monotone": found.monotone,
        "accrued": {f"p{share}": _place_document(found.accrued(share)) for share in SHARES},
        "beyond_ns": {"a": found.beyond_a_ns, "b": found.beyond_b_ns},
        "rejoined": _place_document(found.rejoined),
        "rejoined_is": found.rejoined_is,
        "points": _points_document(found, found.points(most)),
    }


def _points_document(found: Trajectory, at: Ints) -> list[dict[str, Any]]:
    sides = ("a", "b", "both")
    columns: dict[str, list[Any]] = {
        "step": found.steps[at].tolist(),
        "jaccard": found.jaccard[at].tolist(),
        "jaccard_bytes": found.jaccard_bytes[at].tolist(),
        "extra_ns": found.extra_ns[at].tolist(),
    }
    for name, held in (("resident", found.storages), ("resident_bytes", found.bytes)):
        counts = zip(*(getattr(held, side)[at].tolist() for side in sides), strict=True)
        columns[name] = [dict(zip(sides, count, strict=True)) for count in counts]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _place_document(place: Place | None) -> dict[str, Any] | None:
    return None if place is None else attrs.asdict(place)


def _extreme_document(extreme: Extreme | None) -> dict[str, Any] | None:
    return None if extreme is None else {"value": extreme.value, **attrs.asdict(extreme.place)}
