"""Which storages did one run evict under pressure again and again, and the other one did not?

A *re-eviction* is an eviction under pressure of a storage that had been evicted under pressure
before and came back in between. A storage with at least one is re-evicted. Evictions for other
causes (a release that frees a dead storage) neither count nor begin a chain.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from dtrdiag.analyses.alignment import Alignment, movements
from dtrdiag.analyses.course import PRESSURE, Course, Ints
from dtrdiag.events.packed import sum_exactly
from dtrdiag.ids import OpId, StorageId

TOP_STORAGES = 10


@attrs.frozen
class ReEvicted:
    """A storage that was evicted under pressure, came back, and was evicted under pressure again.

    Attributes:
        op: the op that made it first; None where the log does not say.
        size_bytes: its size; 0 where the log does not say.
        pressure: evictions under pressure.
        re_evictions: those of them that are re-evictions, at least 1.
        returns: how often it came back after an eviction under pressure.
        cost_ns: cost of the rematerialisations that brought it back so. One that brings back
            several storages counts for each.
        other_pressure: evictions of the same storage under pressure in the other run, 0 or 1.
    """

    storage: StorageId
    op: OpId | None
    op_name: str | None
    size_bytes: int
    pressure: int
    re_evictions: int
    returns: int
    cost_ns: int
    other_pressure: int


@attrs.frozen
class OneSided:
    """What is re-evicted in one run only.

    Attributes:
        storages: the re-evicted storages, dearest first, then most often, then by id.
        re_evictions: their re-evictions.
        cost_ns: cost of the rematerialisations that brought any of them back, each counted once.
    """

    storages: tuple[ReEvicted, ...]
    re_evictions: int
    cost_ns: int


@attrs.frozen
class ReEvictions:
    """Re-evictions of two runs, a and b.

    Attributes:
        storages_a: number of storages re-evicted in a.
        storages_b: number of storages re-evicted in b.
        storages_both: number of storages re-evicted in both.
        re_evictions_a: all re-evictions of a.
        re_evictions_b: all re-evictions of b.
        only_a: those of the storages that are re-evicted in a and not in b.
        only_b: the reverse.
        until_step: what later steps than this one did is left out, because one of the runs was
            stopped in it; None where both finished.
    """

    storages_a: int
    storages_b: int
    storages_both: int
    re_evictions_a: int
    re_evictions_b: int
    only_a: OneSided
    only_b: OneSided
    until_step: int | None

    @property
    def one_sided(self) -> bool:
        """Whether a storage is re-evicted in one of the runs only."""
        return bool(self.only_a.storages or self.only_b.storages)


@attrs.frozen(eq=False)
class _Counts:
    """By storage that was evicted under pressure, ascending; and each return of one."""

    storage: Ints
    pressure: Ints
    re_evictions: Ints
    returned: Ints
    by: Ints

    @property
    def again(self) -> Ints:
        """The re-evicted storages."""
        return self.storage[self.re_evictions > 0]


def re_evictions(alignment: Alignment) -> ReEvictions:
    """Compare the re-evictions of two aligned runs. O(m log m) in arrivals and evictions."""
    until = alignment.stopped
    a, b = (_count(course, until) for course in (alignment.a, alignment.b))
    both = np.intersect1d(a.again, b.again)
    return ReEvictions(
        storages_a=len(a.again),
        storages_b=len(b.again),
        storages_both=len(both),
        re_evictions_a=int(a.re_evictions.sum()),
        re_evictions_b=int(b.re_evictions.sum()),
        only_a=_one_sided(alignment.a, a, b),
        only_b=_one_sided(alignment.b, b, a),
        until_step=until,
    )


def _count(course: Course, until: int | None) -> _Counts:
    storage, decision, step, is_in = movements(course)
    if until is not None:
        inside = step <= until
        storage, decision, is_in = storage[inside], decision[inside], is_in[inside]
    pressed = course.cause[decision] == PRESSURE
    pressed &= ~is_in
    fresh = np.ones(len(storage), np.bool_)
    fresh[1:] = storage[1:] != storage[:-1]
    group = np.cumsum(fresh) - 1
    so_far = np.cumsum(pressed)
    earlier = so_far - pressed - (so_far - pressed)[np.flatnonzero(fresh)][group]
    # The row before, of the same storage: an arrival before an eviction, or what it returns from.
    arrived = np.append(False, is_in[:-1])[: len(is_in)] & ~fresh
    left = np.append(False, pressed[:-1])[: len(is_in)] & ~fresh
    again = pressed & arrived & (earlier > 0)
    returns = is_in & left
    groups = int(group[-1]) + 1 if len(group) else 0
    pressure = np.bincount(group[pressed], minlength=groups)
    some = pressure > 0
    return _Counts(
        storage=storage[fresh][some],
        pressure=pressure[some],
        re_evictions=np.bincount(group[again], minlength=groups)[some],
        returned=storage[returns],
        by=decision[returns],
    )


def _one_sided(course: Course, own: _Counts, other: _Counts) -> OneSided:
    only = (own.re_evictions > 0) & ~np.isin(own.storage, other.again)
    storages = own.storage[only]
    brought = np.isin(own.returned, storages)
    returned, by = own.returned[brought], own.by[brought]
    costs_ns: dict[int, list[int]] = {}
    for storage, cost_ns in zip(returned.tolist(), course.cost_ns[by].tolist(), strict=True):
        costs_ns.setdefault(storage, []).append(cost_ns)
    pressed = _lookup(storages, other.storage, other.pressure)
    columns = (storages, own.pressure[only], own.re_evictions[only], pressed)
    found = [
        _re_evicted(course, StorageId(storage), costs_ns.get(storage, []), *counts)
        for storage, *counts in zip(*(column.tolist() for column in columns), strict=True)
    ]
    found.sort(key=lambda each: (-each.cost_ns, -each.re_evictions, each.storage))
    return OneSided(
        storages=tuple(found),
        re_evictions=int(own.re_evictions[only].sum()),
        cost_ns=sum_exactly(course.cost_ns[np.unique(by)]),
    )


def _lookup(wanted: Ints, keys: Ints, values: Ints) -> npt.NDArray[Any]:
    """For each key, ascending, its value, or 0."""
    if not len(keys):
        return np.zeros(len(wanted), np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], 0)


def _re_evicted(
    course: Course,
    storage: StorageId,
    costs_ns: list[int],
    pressure: int,
    again: int,
    other_pressure: int,
) -> ReEvicted:
    op = course.producer.get(storage)
    return ReEvicted(
        storage=storage,
        op=op,
        op_name=None if op is None else course.names.get(op),
        size_bytes=course.size_bytes.get(storage, 0),
        pressure=pressure,
        re_evictions=again,
        returns=len(costs_ns),
        cost_ns=sum(costs_ns),
        other_pressure=other_pressure,
    )


def re_evictions_document(found: ReEvictions, top: int = TOP_STORAGES) -> dict[str, Any]:
    """Re-evictions as the `re_evicted` object of a `dtrdiag.diff/1` document.

    Args:
        found: the comparison.
        top: how many storages to list for each run.
    """
    return {
        "a": {"storages": found.storages_a, "re_evictions": found.re_evictions_a},
        "b": {"storages": found.storages_b, "re_evictions": found.re_evictions_b},
        "both": {"storages": found.storages_both},
        "only_a": _one_sided_document(found.only_a, top),
        "only_b": _one_sided_document(found.only_b, top),
        "until_step": found.until_step,
    }


def _one_sided_document(side: OneSided, top: int) -> dict[str, Any]:
    return {
        "storages": len(side.storages),
        "re_evictions": side.re_evictions,
        "cost_ns": side.cost_ns,
        "top": [attrs.asdict(each) for each in side.storages[:top]],
    }
