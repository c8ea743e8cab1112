"""Which evictions were undone, by whom, and at what cost?

A *cycle* of a storage is an eviction, the absence after it, and the execution that brought the
storage back. Each rematerialisation is charged to one eviction: the last one, before it, of the
storage of the tensor that was wanted, which is what made that tensor undefined.
"""

from __future__ import annotations

import attrs
import numpy as np

from dtrdiag.analyses.runtable import NONE, Bools, Exact, Ints, RunTable, totals_by
from dtrdiag.log.state import CAUSES

MODEL, FIRST, RECURSIVE, UNKNOWN = "model", "first", "recursive", "unknown"
ASKED = (MODEL, FIRST, RECURSIVE, UNKNOWN)
"""Who asked for a rematerialisation: the model for an output, an op that runs for the first time,
an op that is itself being rematerialised, or nobody that the log names."""
PRESSURE = CAUSES.index("pressure")
RELEASE, BANISH = "release", "banish"


@attrs.frozen(eq=False)
class Cycles:
    """An entry per eviction, or per execution, in the order of the log.

    Attributes:
        back: int[evictions], the execution that brought the storage back, or NONE.
        nth: int[evictions], the how manieth eviction of the storage for this cause, from 1.
        charged_ns: int[evictions], cost of the rematerialisations charged to it.
        undoes: bool[evictions], whether a rematerialisation of the very same step had brought the
            storage back.
        charge: int[runs], the eviction that the execution is charged to, or NONE; NONE for a first
            execution.
        asked: int[runs], who asked, as an index in `ASKED`; meaningless for a first execution.
    """

    back: Ints
    nth: Ints
    charged_ns: Exact
    undoes: Bools
    charge: Ints
    asked: Ints

    def again(self) -> Bools:
        """bool[evictions]: whether a re-eviction: evicted before for the same cause."""
        found: Bools = self.nth > 1
        return found


def cycles_of(table: RunTable) -> Cycles:
    """The cycles of a run. O(n log n) in executions and evictions."""
    back, undoes = _returns(table)
    charge = _charges(table)
    charged = charge >= 0
    return Cycles(
        back=back,
        nth=_ordinals(table),
        charged_ns=totals_by(charge[charged], table.runs.cost_ns[charged], len(back)),
        undoes=undoes,
        charge=charge,
        asked=_asked(table),
    )


def _returns(table: RunTable) -> tuple[Ints, Bools]:
    gone, runs, came = table.evictions, table.runs, table.arrivals
    arrived = table.keys(came.storage, runs.at[came.run])
    order = np.argsort(arrived, kind="stable")
    arrived, run, storage = arrived[order], came.run[order], came.storage[order]
    left = table.keys(gone.storage, gone.at)
    after = np.searchsorted(arrived, left)
    back = _where(after, storage, gone.storage, run)
    # Another eviction may stand in between in a log that makes no sense.
    last = np.iinfo(np.int64).max
    ascending = np.append(np.sort(left), last)
    following = ascending[np.searchsorted(ascending, left) + 1]
    back = np.where(np.append(arrived, last)[after] < following, back, NONE)
    before = _where(after - 1, storage, gone.storage, run)
    known = before >= 0
    undoes = known.copy()
    undoes[known] = runs.remat[before[known]] & (runs.step[before[known]] == gone.step[known])
    return back, undoes


def _where(at: Ints, storage: Ints, wanted: Ints, run: Ints) -> Ints:
    """The run at each place, if that place is there and of the wanted storage; else NONE."""
    if not len(storage):
        return np.full(len(at), NONE)
    place = np.clip(at, 0, len(storage) - 1)
    inside = (at == place) & (storage[place] == wanted)
    found: Ints = np.where(inside, run[place], NONE)
    return found


def _ordinals(table: RunTable) -> Ints:
    """Of evictions of one storage for one cause, counted from 1."""
    gone = table.evictions
    order = np.lexsort((gone.at, gone.cause, gone.storage))
    fresh = np.ones(len(order), np.bool_)
    storage, cause = gone.storage[order], gone.cause[order]
    fresh[1:] = (storage[1:] != storage[:-1]) | (cause[1:] != cause[:-1])
    places = np.arange(len(order))
    start = np.maximum.accumulate(np.where(fresh, places, 0))
    nth = np.empty(len(order), np.int64)
    nth[order] = places - start + 1
    return nth


def _charges(table: RunTable) -> Ints:
    runs, gone = table.runs, table.evictions
    left = table.keys(gone.storage, gone.at)
    order = np.argsort(left, kind="stable")
    at = np.searchsorted(left[order], table.keys(runs.storage, runs.at)) - 1
    charge = _where(at, gone.storage[order], runs.storage, order)
    return np.where(runs.remat, charge, NONE)


def _asked(table: RunTable) -> Ints:
    asks, ask = table.asks, table.runs.ask
    asked = np.full(len(ask), ASKED.index(UNKNOWN))
    known = np.flatnonzero(ask >= 0)
    parent = asks.parent[ask[known]]
    by_op = known[parent >= 0]
    first = asks.first[parent[parent >= 0]]
    asked[by_op] = np.where(first, ASKED.index(FIRST), ASKED.index(RECURSIVE))
    asked[known[asks.model[ask[known]]]] = ASKED.index(MODEL)
    return asked
