"""What was the cost of rematerialisation spent on?

Each split adds up exactly to the run's `remat_cost`: by who asked, by the cause of the eviction
that made it necessary, by operator name, by position in the schedule, and into what was wanted and
what came with it.
"""

from __future__ import annotations

import attrs
import numpy as np

from dtrdiag.analyses.cycles import ASKED, PRESSURE, Cycles
from dtrdiag.analyses.runtable import Bools, Ints, RunTable, step_name, total_of, totals_by
from dtrdiag.log.state import CAUSES

NEVER = "never"
"""In place of a cause: the storage had not been evicted before."""
MOST_BINS = 50


@attrs.frozen
class Share:
    """Some of the rematerialisations: how many, and their cost."""

    remats: int
    cost_ns: int


@attrs.frozen
class Collateral:
    """What rematerialisations computed besides the tensor that was wanted.

    An op is computed as a whole, so a tensor comes with its siblings. The cost of an execution is
    shared among the op's outputs by their bytes, rounded in favour of the one that was wanted; an
    op whose outputs have no bytes did it all for that one.

    Attributes:
        remats: executions that computed sized siblings.
        cost_ns: the siblings' part of the cost.
        returned: storages that came back as siblings, and their bytes.
        freed_bytes: siblings that were there already and were freed again at once.
    """

    remats: int
    cost_ns: int
    returned: int
    returned_bytes: int
    freed_bytes: int


@attrs.frozen
class Position:
    """Rematerialisations while the steps `first` to `stop` (not included) were served."""

    first: int
    stop: int
    share: Share


@attrs.frozen
class RematCost:
    """The cost of rematerialisation in a run, and its splits.

    Attributes:
        asked: by who asked; the keys are those of `ASKED`.
        caused: by the cause of the eviction that it is charged to, or `NEVER`.
        again: the part charged to re-evictions under pressure.
        repeated: the part that is not the first rematerialisation of its op.
        operators: by operator name, the dearest first, then by name.
        positions: at most `MOST_BINS` ranges of steps of equal length, in order.
    """

    total: Share
    asked: dict[str, Share]
    caused: dict[str, Share]
    again: Share
    repeated: Share
    collateral: Collateral
    operators: tuple[tuple[str, Share], ...]
    positions: tuple[Position, ...]


def remat_cost(table: RunTable, cycles: Cycles) -> RematCost:
    """The splits of a run's cost. O(n log n) in the executions."""
    remats = np.flatnonzero(table.runs.remat)
    causes = (*CAUSES, NEVER)
    charge = cycles.charge[remats]
    cause = np.full(len(remats), causes.index(NEVER))
    cause[charge >= 0] = table.evictions.cause[charge[charge >= 0]]
    again = np.zeros(len(remats), np.bool_)
    again[charge >= 0] = (cycles.again() & (table.evictions.cause == PRESSURE))[charge[charge >= 0]]
    asked = cycles.asked[remats]
    return RematCost(
        total=_share(table, remats),
        asked={who: _share(table, remats[asked == code]) for code, who in enumerate(ASKED)},
        caused={word: _share(table, remats[cause == code]) for code, word in enumerate(causes)},
        again=_share(table, remats[again]),
        repeated=_share(table, remats[_repeated(table.runs.op[remats])]),
        collateral=_collateral(table, remats),
        operators=_operators(table, remats),
        positions=_positions(table, remats),
    )


def _share(table: RunTable, remats: Ints) -> Share:
    return Share(len(remats), total_of(table.runs.cost_ns[remats]))


def _repeated(ops: Ints) -> Bools:
    """Which of some ids have been there before."""
    _, first = np.unique(ops, return_index=True)
    repeated = np.ones(len(ops), np.bool_)
    repeated[first] = False
    return repeated


def _collateral(table: RunTable, remats: Ints) -> Collateral:
    runs, came = table.runs, table.arrivals
    made = table.ops.output_bytes[runs.op[remats]]
    wanted = table.tensors.size_bytes[runs.tensor[remats]]
    some = remats[made > wanted]
    cost_ns = 0
    parts = zip(
        runs.cost_ns[some].tolist(),
        made[made > wanted].tolist(),
        wanted[made > wanted].tolist(),
        strict=True,
    )
    for cost, all_bytes, wanted_bytes in parts:
        # In Python's integers, since the product may not fit into 64 bits.
        cost_ns += cost * (all_bytes - wanted_bytes) // all_bytes
    beside = runs.remat[came.run] & (came.storage != runs.storage[came.run])
    return Collateral(
        remats=len(some),
        cost_ns=cost_ns,
        returned=int(beside.sum()),
        returned_bytes=total_of(table.storages.size_bytes[came.storage[beside]]),
        freed_bytes=total_of(runs.freed_bytes[remats]),
    )


def _operators(table: RunTable, remats: Ints) -> tuple[tuple[str, Share], ...]:
    index: dict[str, int] = {}
    code = np.array([index.setdefault(name, len(index)) for name in table.ops.names], np.int64)
    codes = code[table.runs.op[remats]]
    costs = totals_by(codes, table.runs.cost_ns[remats], len(index)).tolist()
    counts = np.bincount(codes, minlength=len(index)).tolist()
    shares = [(name, Share(counts[at], costs[at])) for name, at in index.items() if counts[at]]
    return tuple(sorted(shares, key=lambda item: (-item[1].cost_ns, item[0])))


def _positions(table: RunTable, remats: Ints) -> tuple[Position, ...]:
    if not len(table.steps):
        return ()
    first, last = int(table.steps.number.min()), int(table.steps.number.max())
    width = -(-(last + 1 - first) // MOST_BINS)
    bins = (table.steps.number[table.runs.step[remats]] - first) // width
    size = (last - first) // width + 1
    costs = totals_by(bins, table.runs.cost_ns[remats], size).tolist()
    counts = np.bincount(bins, minlength=size).tolist()
    return tuple(
        Position(first + at * width, min(first + (at + 1) * width, last + 1), Share(*both))
        for at, both in enumerate(zip(counts, costs, strict=True))
    )


def costly_steps(table: RunTable) -> Ints:
    """The steps, as rows of the table's, in which rematerialisation cost anything."""
    runs = table.runs
    return np.unique(runs.step[runs.remat & (runs.cost_ns > 0)])


def dearest_steps(table: RunTable, most: int) -> tuple[tuple[int, str, Share], ...]:
    """The steps that rematerialisation cost most while they were served, the dearest first.

    Each with its number and what it calls (see `step_name`); steps without a cost are left out.
    """
    remats = np.flatnonzero(table.runs.remat)
    steps = table.runs.step[remats]
    costs = totals_by(steps, table.runs.cost_ns[remats], len(table.steps))
    counts = np.bincount(steps, minlength=len(table.steps))
    order = np.argsort(-costs, kind="stable")[:most].tolist()
    return tuple(
        (int(table.steps.number[at]), step_name(table, at), Share(int(counts[at]), int(costs[at])))
        for at in order
        if costs[at]
    )
