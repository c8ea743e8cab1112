"""Which loops in the displacement graph were gone round most often?

A loop is as *wide* as its least travelled edge: that often, at least, each of its storages pushed
out the next. Loops are taken one after the other, the widest first, without an edge in common, so
their costs may be added up.
"""

from __future__ import annotations

from collections import deque

import attrs
import numpy as np

from dtrdiag.analyses.displacement import Displacements, components_of
from dtrdiag.analyses.runtable import Bools, Ints, RunTable, total_of


@attrs.frozen
class Loop:
    """Storages that pushed each other out in turn: each the next, and the last the first.

    Attributes:
        storages: their ids in this order, from the smallest on.
        names: the ops that make them.
        turns: evictions along the least travelled of the loop's edges.
        times: evictions along each edge, the first from `storages[0]` to `storages[1]`.
        cost_ns: what was charged to all these evictions.
        period_ns: the lower median of the times between one eviction along an edge and the next
            along the same edge; None where no edge was taken twice.
        period_decisions: the same in decisions.
        first_step: step of the first of these evictions; they end before `stop_step`.
    """

    storages: tuple[int, ...]
    names: tuple[str, ...]
    bytes: int
    turns: int
    times: tuple[int, ...]
    cost_ns: int
    period_ns: int | None
    period_decisions: int | None
    first_step: int
    stop_step: int


def widest_loops(table: RunTable, edges: Displacements, most: int) -> tuple[Loop, ...]:
    """Up to `most` loops, the dearest first.

    Of the edges that are left, let w be the largest number such that those taken w times or more
    close a loop. Of these edges that lie on a loop, start with the dearest (then the most
    travelled, then the one with the smallest ids); the shortest way back along such edges, at each
    storage in ascending order of ids, closes the loop. Its edges are then left out, and so on.

    Each loop takes time in proportion to the edges taken w times or more, times the logarithm of
    the number of different counts.
    """
    left = np.ones(len(edges), np.bool_)
    found: list[Ints] = []
    width = None
    while len(found) < most:
        cyclic, width = _widest(edges, left, width)
        if not len(cyclic):
            break
        loop = _shortest_loop(edges, cyclic)
        left[loop] = False
        found.append(loop)
    loops = _describe(table, edges, found)
    return tuple(sorted(loops, key=lambda loop: (-loop.cost_ns, -loop.turns, loop.storages)))


def _widest(edges: Displacements, left: Bools, width: int | None) -> tuple[Ints, int]:
    """The edges on loops at the largest width that has any, and that width.

    Args:
        edges: the graph.
        left: which edges have not been used.
        width: there is no loop of a larger width; None: not known.
    """
    rows = np.flatnonzero(left)
    widths = np.unique(edges.times[rows])[::-1]
    if width is not None:
        widths = widths[widths <= width]
    # Ever more edges until there is a loop, then back by halves: few looks at large graphs.
    low, high = -1, 0
    cyclic = np.empty(0, np.int64)
    while high < len(widths):
        cyclic = _on_loops(edges, rows, int(widths[high]))
        if len(cyclic) or high == len(widths) - 1:
            break
        low, high = high, min(2 * high + 1, len(widths) - 1)
    if not len(cyclic):
        return cyclic, 0
    while high - low > 1:
        middle = (low + high) // 2
        some = _on_loops(edges, rows, int(widths[middle]))
        if len(some):
            cyclic, high = some, middle
        else:
            low = middle
    return cyclic, int(widths[high])


def _on_loops(edges: Displacements, rows: Ints, width: int) -> Ints:
    groups = components_of(edges, rows[edges.times[rows] >= width])
    return np.concatenate([np.empty(0, np.int64), *groups])


def _shortest_loop(edges: Displacements, cyclic: Ints) -> Ints:
    """The edges of a loop, in order."""
    keys = (edges.target, edges.source, -edges.times, -edges.cost_ns)
    start = int(cyclic[np.lexsort([key[cyclic] for key in keys])[0]])
    leaving: dict[int, list[tuple[int, int]]] = {}
    for row in np.sort(cyclic).tolist():
        # Edges are sorted by their ends, so successors come in ascending order.
        leaving.setdefault(int(edges.source[row]), []).append((int(edges.target[row]), row))
    goal, first = int(edges.source[start]), int(edges.target[start])
    came_by: dict[int, int] = {first: start}
    queue = deque([first])
    while goal not in came_by:
        for target, row in leaving[queue.popleft()]:
            if target not in came_by:
                came_by[target] = row
                queue.append(target)
    loop = [came_by[goal]]
    while int(edges.source[loop[-1]]) != goal:
        loop.append(came_by[int(edges.source[loop[-1]])])
    loop.reverse()
    smallest = int(np.argmin(edges.source[loop]))
    return np.array(loop[smallest:] + loop[:smallest], np.int64)


def _describe(table: RunTable, edges: Displacements, loops: list[Ints]) -> list[Loop]:
    """The loops from their edges; one pass over the evictions for all of them."""
    loop_of = np.full(len(edges) + 1, -1)
    for number, rows in enumerate(loops):
        loop_of[rows] = number
    gone = np.flatnonzero(loop_of[edges.edge_of] >= 0)
    number_of = loop_of[edges.edge_of[gone]]
    return [
        _loop(table, edges, rows, gone[number_of == number]) for number, rows in enumerate(loops)
    ]


def _loop(table: RunTable, edges: Displacements, rows: Ints, gone: Ints) -> Loop:
    nodes = edges.source[rows]
    order = np.lexsort((gone, edges.edge_of[gone]))
    edge = edges.edge_of[gone[order]]
    same = edge[1:] == edge[:-1]
    steps = table.steps.number[table.evictions.step[gone]]
    return Loop(
        storages=tuple(table.storages.ids[nodes].tolist()),
        names=tuple(table.storage_name(node) for node in nodes.tolist()),
        bytes=total_of(table.storages.size_bytes[nodes]),
        turns=int(edges.times[rows].min()),
        times=tuple(edges.times[rows].tolist()),
        cost_ns=total_of(edges.cost_ns[rows]),
        period_ns=_lower_median(np.diff(table.evictions.clock_ns[gone[order]])[same]),
        period_decisions=_lower_median(np.diff(table.evictions.decision[gone[order]])[same]),
        first_step=int(steps[0]),
        stop_step=int(steps[-1]) + 1,
    )


def _lower_median(values: Ints) -> int | None:
    return int(np.sort(values)[(len(values) - 1) // 2]) if len(values) else None
