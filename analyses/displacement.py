"""Which storages does rematerialising one push out, and where does that go round in circles?

In the *displacement graph* an edge leads from o to s if s was evicted under pressure to make room
for an op that was being rematerialised for a tensor of o. A strongly connected component with a
loop in it is a set of storages that push each other out, directly or by way of others.
"""

from __future__ import annotations

from typing import Any

import attrs
import networkx as nx
import numpy as np

from dtrdiag.analyses.cycles import PRESSURE, Cycles
from dtrdiag.analyses.runtable import Bools, Exact, Ints, RunTable, total_of, totals_by


@attrs.frozen(eq=False)
class Displacements:
    """The edges of the graph, sorted by `source`, then `target` (indices of storages).

    Attributes:
        times: how many evictions each stands for.
        cost_ns: what was charged to these evictions: the cost of bringing the target back.
        edge_of: int[evictions], the edge of each eviction, or -1 for those that are none.
        by_first: int[evictions], bool: under pressure, for an op that ran for the first time.
    """

    source: Ints
    target: Ints
    times: Ints
    cost_ns: Exact
    edge_of: Ints
    by_first: Bools

    def __len__(self) -> int:
        return len(self.source)


def displacements(table: RunTable, cycles: Cycles) -> Displacements:
    """The edges of a run's displacement graph. O(n log n) in the evictions."""
    gone, asks = table.evictions, table.asks
    known = (gone.cause == PRESSURE) & (gone.ask >= 0)
    first = np.zeros(len(known), np.bool_)
    first[known] = asks.first[gone.ask[known]]
    rows = np.flatnonzero(known & ~first)
    source = table.tensors.storage[asks.tensor[gone.ask[rows]]]
    count = max(1, len(table.storages.ids))
    keys, edge = np.unique(source * count + gone.storage[rows], return_inverse=True)
    edge_of = np.full(len(known), -1)
    edge_of[rows] = edge
    return Displacements(
        source=keys // count,
        target=keys % count,
        times=np.bincount(edge, minlength=len(keys)),
        cost_ns=totals_by(edge, cycles.charged_ns[rows], len(keys)),
        edge_of=edge_of,
        by_first=first,
    )


def displacement_graph(table: RunTable, cycles: Cycles, edges: Displacements) -> nx.DiGraph[int]:
    """The displacement graph; its nodes are storage ids.

    Nodes have `bytes`, `op`, `op_name` (what makes the storage), `evictions` (under pressure) and
    `cost_ns` (charged to these, whoever displaced it); edges have `times` and `cost_ns`.
    """
    graph: nx.DiGraph[int] = nx.DiGraph(
        trace=table.header.trace_name,
        policy=table.header.policy,
        semantics=table.header.semantics,
        interventions=table.header.interventions,
        budget=table.header.budget_bytes,
    )
    ids = table.storages.ids
    pressed = table.evictions.cause == PRESSURE
    evictions = np.bincount(table.evictions.storage[pressed], minlength=len(ids))
    costs = totals_by(table.evictions.storage[pressed], cycles.charged_ns[pressed], len(ids))
    for storage in np.unique(np.concatenate([edges.source, edges.target])).tolist():
        op = int(table.storages.op[storage])
        graph.add_node(
            int(ids[storage]),
            bytes=int(table.storages.size_bytes[storage]),
            op=int(table.ops.ids[op]),
            op_name=table.ops.names[op],
            evictions=int(evictions[storage]),
            cost_ns=int(costs[storage]),
        )
    rows = zip(
        ids[edges.source].tolist(),
        ids[edges.target].tolist(),
        edges.times.tolist(),
        edges.cost_ns.tolist(),
        strict=True,
    )
    graph.add_edges_from((a, b, {"times": n, "cost_ns": cost}) for a, b, n, cost in rows)
    return graph


@attrs.frozen
class Component:
    """A strongly connected component of the displacement graph that has a loop.

    Attributes:
        storages: how many; `bytes` is their size together.
        edges: edges between them; `times` and `cost_ns` are the sums over these.
        first_step: step of the first of these evictions; they end before `stop_step`.
        operators: the ops that make the storages, by name, with the evictions of their storages
            along these edges; the most first, then by name.
    """

    storages: int
    bytes: int
    edges: int
    times: int
    cost_ns: int
    first_step: int
    stop_step: int
    operators: tuple[tuple[str, int], ...]


def components_of(edges: Displacements, some: Ints | None = None) -> list[Ints]:
    """The edges within each strongly connected component that has a loop.

    Args:
        edges: the graph.
        some: consider these edges alone; None: all.

    Returns:
        Ascending indices of edges, the component with the smallest source first. O(edges).
    """
    rows = _between(edges, np.arange(len(edges)) if some is None else np.sort(some))
    source, target = edges.source[rows], edges.target[rows]
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_edges_from(zip(source.tolist(), target.tolist(), strict=True))
    size = int(max(source.max(), target.max())) + 1 if len(rows) else 0
    part = np.full(size, -1)
    for number, nodes in enumerate(nx.strongly_connected_components(graph)):
        part[list(nodes)] = number
    inside = part[source] == part[target]
    rows, number_of = rows[inside], part[source[inside]]
    order = np.argsort(number_of, kind="stable")
    starts = np.flatnonzero(np.diff(number_of[order], prepend=-1))
    groups = np.split(rows[order], starts[1:]) if len(rows) else []
    return sorted(groups, key=lambda group: int(edges.source[group[0]]))


def _between(edges: Displacements, rows: Ints) -> Ints:
    """Without edges from where none leads to, or to where none leads from: they are on no loop.

    A few rounds, since what is left is for networkx, which takes longer for each edge.
    """
    for _ in range(8):
        source, target = edges.source[rows], edges.target[rows]
        stays = np.isin(source, target) & np.isin(target, source)
        if stays.all():
            break
        rows = rows[stays]
    return rows


def describe_component(table: RunTable, edges: Displacements, rows: Ints) -> Component:
    """What a component comes to, from the indices of its edges."""
    nodes = np.unique(np.concatenate([edges.source[rows], edges.target[rows]]))
    inside = np.zeros(len(edges) + 1, np.bool_)
    inside[rows] = True
    gone = np.flatnonzero(inside[edges.edge_of] & (edges.edge_of >= 0))
    numbers = table.steps.number[table.evictions.step[gone]]
    return Component(
        storages=len(nodes),
        bytes=total_of(table.storages.size_bytes[nodes]),
        edges=len(rows),
        times=int(edges.times[rows].sum()),
        cost_ns=total_of(edges.cost_ns[rows]),
        first_step=int(numbers[0]),
        stop_step=int(numbers[-1]) + 1,
        operators=operators_of(table, edges, rows),
    )


def operators_of(table: RunTable, edges: Displacements, rows: Ints) -> tuple[tuple[str, int], ...]:
    """Names of the ops whose storages some edges lead to, and how often; the most first."""
    counts: dict[str, Any] = {}
    for target, times in zip(edges.target[rows].tolist(), edges.times[rows].tolist(), strict=True):
        name = table.storage_name(target)
        counts[name] = counts.get(name, 0) + times
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
