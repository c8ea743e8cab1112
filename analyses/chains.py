"""Which storages are evicted and brought back again and again, by whom, and what does that cost?

A storage's cycles one after the other are its *re-eviction chain*. Causes are kept apart: a
re-eviction is an eviction of a storage that was evicted for the same cause before, and came back.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import networkx as nx
import numpy as np

from dtrdiag.analyses.cycles import ASKED, PRESSURE, Cycles, cycles_of
from dtrdiag.analyses.displacement import (
    Component,
    Displacements,
    components_of,
    describe_component,
    displacement_graph,
    displacements,
)
from dtrdiag.analyses.loops import Loop, widest_loops
from dtrdiag.analyses.onset import Onset, thrash_onset
from dtrdiag.analyses.remat_cost import RematCost, Share, costly_steps, dearest_steps, remat_cost
from dtrdiag.analyses.runtable import Bools, Exact, Ints, RunTable, totals_by
from dtrdiag.analyses.summary import INCOMPLETE
from dtrdiag.analyses.tabulating import run_table
from dtrdiag.errors import AnalysisError
from dtrdiag.events.records import Event, RunHeader
from dtrdiag.log.state import CAUSES

COLLATERAL, GONE = "collateral", "not"
RETURNS = (*ASKED, COLLATERAL, GONE)
"""How a storage came back: asked for by whom (see `ASKED`), as a sibling, or not at all."""
MOST_CYCLES = 100


@attrs.frozen
class Cycle:
    """One eviction of a storage and its way back.

    The storage is absent in [evicted, returned), in clock_ns and in decisions. Where it did not
    come back, all that begins with `returned` is None.

    Attributes:
        cause: of the eviction.
        for_op: under pressure, the op that room was made for, `for_remat` whether that op was being
            rematerialised, `for_storage` the storage that was wanted from it, and `for_asked_by`
            the op that asked for that; None: the model did.
        returned: how, a word of `RETURNS`; returned_op: the op that was executed;
            returned_asked_by: the op that asked for it; None: the model did.
        cost_ns: what is charged to the eviction; see `Cycles`.
        tree_cost_ns: the returning execution's cost with all that was rematerialised for it.
    """

    cause: str
    for_op: int | None
    for_remat: bool | None
    for_storage: int | None
    for_asked_by: int | None
    evicted_step: int
    evicted_decision: int
    evicted_clock_ns: int
    returned: str
    returned_op: int | None
    returned_asked_by: int | None
    returned_step: int | None
    returned_decision: int | None
    returned_clock_ns: int | None
    cost_ns: int
    tree_cost_ns: int | None


@attrs.frozen
class Chain:
    """The re-eviction chain of a storage.

    Attributes:
        name: the op that makes the storage.
        evictions: by cause.
        returns: how often it came back.
        cost_ns: what is charged to its evictions.
        cycles: the first `MOST_CYCLES` of them, in order.
    """

    storage: int
    name: str
    bytes: int
    evictions: dict[str, int]
    returns: int
    cost_ns: int
    cycles: tuple[Cycle, ...]


@attrs.frozen(eq=False)
class Chains:
    """The re-eviction chains of a run, and what they come to.

    Attributes:
        outcome: of the run, or `incomplete`.
        agrees: whether counts and cost are what `end` states; None where the log has none.
        evictions, distinct, re_evictions: by cause; re-evictions are evictions less distinct ones.
        made_room_for: evictions under pressure, by what the op was doing: `first`, `remat`,
            `unknown`.
        returns: for each cause, evictions by how the storage came back; see `RETURNS`.
        chains: of storages that came back or were evicted under pressure, those that cost most,
            then those of most evictions under pressure, then by id.
        components: those of most cost first, then of most evictions.
        chained: how many storages there are of which `chains` has the first.
        dearest_steps: number, what it calls, and its share of rematerialisation.
        costly_steps: how many steps rematerialisation cost anything in.
    """

    header: RunHeader
    outcome: str
    agrees: bool | None
    evictions: dict[str, int]
    distinct: dict[str, int]
    re_evictions: dict[str, int]
    made_room_for: dict[str, int]
    returns: dict[str, dict[str, int]]
    cost: RematCost
    dearest_steps: tuple[tuple[int, str, Share], ...]
    costly_steps: int
    chains: tuple[Chain, ...]
    chained: int
    components: tuple[Component, ...]
    loops: tuple[Loop, ...]
    onset: Onset
    graph: nx.DiGraph[int]


def find_chains(events: Iterable[Event], top: int = 10) -> Chains:
    """The chains of a run from its log, in one pass.

    O(n log n) in the events, and see `widest_loops`. A Parquet log is read in columns: ten million
    events take some ten seconds and less than 1.5 GB.

    Args:
        events: the events of a run, header first.
        top: how many chains, loops and dearest steps to describe.

    Raises:
        AnalysisError: the events do not begin with a header, or `top` is below 0.
        LogError: as for `run_table`.
    """
    if top < 0:
        raise AnalysisError(f"top must be at least 0, not {top}")
    table = run_table(events)
    cycles = cycles_of(table)
    edges = displacements(table, cycles)
    cost = remat_cost(table, cycles)
    cause = table.evictions.cause
    distinct = [len(np.unique(table.evictions.storage[cause == code])) for code in range(3)]
    evictions = np.bincount(cause, minlength=len(CAUSES)).tolist()
    again = np.bincount(cause[cycles.again()], minlength=len(CAUSES)).tolist()
    parts = [describe_component(table, edges, rows) for rows in components_of(edges)]
    return Chains(
        header=table.header,
        outcome=INCOMPLETE if table.stated is None else table.stated["outcome"],
        agrees=_agrees(table, cost, evictions, distinct),
        evictions=dict(zip(CAUSES, evictions, strict=True)),
        distinct=dict(zip(CAUSES, distinct, strict=True)),
        re_evictions=dict(zip(CAUSES, again, strict=True)),
        made_room_for=_made_room_for(table, edges),
        returns=_returns(table, cycles),
        cost=cost,
        dearest_steps=dearest_steps(table, top),
        costly_steps=len(costly_steps(table)),
        chains=_dearest(table, cycles, top),
        chained=len(_chained(table, cycles)),
        components=tuple(sorted(parts, key=lambda part: (-part.cost_ns, -part.times))),
        loops=widest_loops(table, edges, top),
        onset=thrash_onset(table, cycles),
        graph=displacement_graph(table, cycles, edges),
    )


def _agrees(
    table: RunTable, cost: RematCost, evictions: list[int], distinct: list[int]
) -> bool | None:
    if table.stated is None:
        return None
    stated = table.stated
    counted = {"remats": cost.total.remats, "remat_cost_ns": cost.total.cost_ns}
    counted["computes"] = int((~table.runs.remat).sum())
    counted |= {f"evictions_{word}": evictions[code] for code, word in enumerate(CAUSES)}
    # `distinct_banish` counts storages that were banished while they were not resident, too.
    counted |= {f"distinct_{word}": distinct[CAUSES.index(word)] for word in CAUSES[:2]}
    return all(stated[name] == value for name, value in counted.items())


def _made_room_for(table: RunTable, edges: Displacements) -> dict[str, int]:
    pressed = int((table.evictions.cause == PRESSURE).sum())
    first, remat = int(edges.by_first.sum()), int(edges.times.sum())
    return {"first": first, "remat": remat, "unknown": pressed - first - remat}


def _how(table: RunTable, cycles: Cycles) -> Ints:
    """How each evicted storage came back, as an index in `RETURNS`."""
    how = np.full(len(cycles.back), RETURNS.index(GONE))
    back = cycles.back >= 0
    run = cycles.back[back]
    sibling = table.runs.storage[run] != table.evictions.storage[back]
    how[back] = np.where(sibling, RETURNS.index(COLLATERAL), cycles.asked[run])
    return how


def _returns(table: RunTable, cycles: Cycles) -> dict[str, dict[str, int]]:
    how, cause = _how(table, cycles), table.evictions.cause
    counts = {
        word: np.bincount(how[cause == code], minlength=len(RETURNS)).tolist()
        for code, word in enumerate(CAUSES)
    }
    return {word: dict(zip(RETURNS, numbers, strict=True)) for word, numbers in counts.items()}


def _chained(table: RunTable, cycles: Cycles) -> Ints:
    """The storages that came back or were evicted under pressure, ascending."""
    gone = table.evictions
    return np.unique(gone.storage[(gone.cause == PRESSURE) | (cycles.back >= 0)])


def _dearest(table: RunTable, cycles: Cycles, top: int) -> tuple[Chain, ...]:
    gone, size = table.evictions, len(table.storages.ids)
    cost: Exact = totals_by(gone.storage, cycles.charged_ns, size)
    pressed = np.bincount(gone.storage[gone.cause == PRESSURE], minlength=size)
    some = _chained(table, cycles)
    order = some[np.lexsort((some, -pressed[some], -cost[some]))][:top]
    picked: Bools = np.zeros(size, np.bool_)
    picked[order] = True
    rows = np.flatnonzero(picked[gone.storage])
    spent = _Spent(table, cycles)
    return tuple(
        spent.chain(storage, rows[gone.storage[rows] == storage], int(cost[storage]))
        for storage in order.tolist()
    )


class _Spent:
    """What describing cycles takes: how each came back, and the cost of whole trees."""

    def __init__(self, table: RunTable, cycles: Cycles) -> None:
        self.table = table
        self.cycles = cycles
        self.how = _how(table, cycles)
        remats = np.where(table.runs.remat, table.runs.cost_ns, 0)
        self.before_ns = np.append(np.zeros(1, remats.dtype), np.cumsum(remats))

    def chain(self, storage: int, rows: Ints, cost_ns: int) -> Chain:
        """The chain of a storage from its evictions."""
        table, gone = self.table, self.table.evictions
        counts = np.bincount(gone.cause[rows], minlength=len(CAUSES)).tolist()
        return Chain(
            storage=int(table.storages.ids[storage]),
            name=table.storage_name(storage),
            bytes=int(table.storages.size_bytes[storage]),
            evictions=dict(zip(CAUSES, counts, strict=True)),
            returns=int((self.cycles.back[rows] >= 0).sum()),
            cost_ns=cost_ns,
            cycles=tuple(self.cycle(row) for row in rows[:MOST_CYCLES].tolist()),
        )

    def cycle(self, row: int) -> Cycle:
        """The cycle that begins with an eviction."""
        table, gone, runs, asks = (
            self.table, self.table.evictions, self.table.runs, self.table.asks
        )  # fmt: skip
        ask, back = int(gone.ask[row]), int(self.cycles.back[row])
        came, pressed = back >= 0, ask >= 0
        wanted = int(table.tensors.storage[asks.tensor[ask]]) if pressed else -1
        return Cycle(
            cause=CAUSES[int(gone.cause[row])],
            for_op=int(table.ops.ids[asks.op[ask]]) if pressed else None,
            for_remat=not asks.first[ask] if pressed else None,
            for_storage=int(table.storages.ids[wanted]) if pressed else None,
            for_asked_by=self._asker(ask),
            evicted_step=int(table.steps.number[gone.step[row]]),
            evicted_decision=int(gone.decision[row]),
            evicted_clock_ns=int(gone.clock_ns[row]),
            returned=RETURNS[int(self.how[row])],
            returned_op=int(table.ops.ids[runs.op[back]]) if came else None,
            returned_asked_by=self._asker(int(runs.ask[back])) if came else None,
            returned_step=int(table.steps.number[runs.step[back]]) if came else None,
            returned_decision=int(runs.decision[back]) if came else None,
            returned_clock_ns=int(runs.clock_ns[back]) if came else None,
            cost_ns=int(self.cycles.charged_ns[row]),
            tree_cost_ns=self._tree_ns(back) if came else None,
        )

    def _asker(self, ask: int) -> int | None:
        """The op that caused an ask; None: the model or nobody."""
        parent = int(self.table.asks.parent[ask]) if ask >= 0 else -1
        return int(self.table.ops.ids[self.table.asks.op[parent]]) if parent >= 0 else None

    def _tree_ns(self, run: int) -> int:
        """The cost of rematerialisation from an ask to its execution, this included."""
        ask = int(self.table.runs.ask[run])
        at = int(self.table.asks.at[ask]) if ask >= 0 else int(self.table.runs.at[run])
        first = int(np.searchsorted(self.table.runs.at, at))
        return int(self.before_ns[run + 1] - self.before_ns[first])
