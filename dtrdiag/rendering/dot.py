"""How are a frontier and a dependency graph drawn?

The functions return DOT source, which is text and needs no program; `dotprogram` makes pictures of
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import graphviz
import networkx as nx

from dtrdiag.analyses.frontier import Frontier, FrontierStep, FrontierStorage
from dtrdiag.analyses.graph import STATES
from dtrdiag.ids import StorageId
from dtrdiag.rendering.palette import look
from dtrdiag.units import both_bytes, changes_words, count, plain_name, short_bytes

COLLAPSE_ABOVE = 12
"""A chain of more steps is drawn without its middle."""
_HEAD, _TAIL, _HEAVY = 2, 4, 6
PINNED_SHOWN = 3
DRAWN_EDGES = 300
"""Edges of a dependency graph that `dot` lays out in seconds; twice as many take minutes."""

_GRAPH = {"fontname": "Helvetica", "fontsize": "11", "labelloc": "t", "nodesep": "0.25"}
_NODE = {"fontname": "Helvetica", "fontsize": "10", "shape": "box"}
_EDGE = {"fontname": "Helvetica", "fontsize": "9", "color": "#595959"}


def label(*lines: str) -> str:
    r"""Lines of text as a DOT label that says exactly them.

    DOT reads backslashes (`\N`, `\G`), HTML-like `<...>` and entities (`&amp;`) in labels; foreign
    names may hold any of these.
    """
    safe = (graphviz.escape(plain_name(line, width=120).replace("&", "&amp;")) for line in lines)
    return graphviz.nohtml("\\n".join(str(line) for line in safe))


def _style(state: str, dot: graphviz.Digraph, node: str, text: str, **extra: str) -> None:
    drawn = look(state)
    dot.node(
        node,
        text,
        style=f"filled,{drawn.outline}",
        fillcolor=drawn.fill,
        fontcolor=drawn.ink,
        id=node,
        **extra,
    )


def frontier_dot(frontier: Frontier, expand: bool = False, bare: bool = False) -> str:
    """DOT source of a pinned frontier: the pending chain and what each step of it locks.

    The chain runs from the op that the model asked for, at the top, to the one that did not fit.
    A chain of more than `COLLAPSE_ABOVE` steps keeps its ends and those steps that add most to the
    locked bytes; each run of other steps becomes one node that says how many and how much.

    Args:
        frontier: as `pinned_frontier` finds it.
        expand: draw every step.
        bare: without the title and with labels of two lines at most, so that it is less tall.
    """
    dot = graphviz.Digraph("frontier", graph_attr=dict(_GRAPH), node_attr=_NODE, edge_attr=_EDGE)
    if bare:
        dot.attr(ranksep="0.2")
        # A browser's font may be wider than the one that graphviz measures.
        dot.attr("node", margin="0.25,0.055")
    else:
        dot.attr(label=label(*_title(frontier)))
    say = _two_lines if bare else label
    storages = {storage.id: storage for storage in frontier.storages}
    drawn: set[StorageId] = set()
    above = None
    for steps in frontier_groups(frontier.stack, expand):
        node = f"op_{steps[0].op}"
        if len(steps) == 1:
            _draw_step(dot, steps[0], storages, drawn, say)
        else:
            _draw_omitted(dot, node, steps, storages, say)
        if above is not None:
            dot.edge(above, node)
        above = node
    _draw_request(dot, frontier, above, say)
    _draw_pinned(dot, frontier)
    return str(dot.source)


def _two_lines(*lines: str) -> str:
    """A label of the first line, and all others in another."""
    return label(lines[0], ", ".join(lines[1:]))


def _title(frontier: Frontier) -> tuple[str, ...]:
    header = frontier.header
    changes = changes_words(header.semantics, header.interventions)[2:-1]
    return (
        f"{header.trace_name}, {header.policy}: out of memory at a budget of "
        f"{both_bytes(frontier.budget_bytes)}",
        *([changes] if changes else []),
        f"{both_bytes(frontier.resident_bytes)} in use: "
        f"{short_bytes(frontier.pinned_bytes)} pinned, {short_bytes(frontier.locked_bytes)} "
        f"locked, {short_bytes(frontier.evictable_bytes)} evictable",
        _chain_title(frontier.depth),
    )


def _chain_title(depth: int) -> str:
    if depth == 1:
        return "one op is pending, and waits for room"
    return f"{depth:,} ops are pending: each waits for the next one down, the last for room"


def frontier_groups(
    stack: Sequence[FrontierStep], expand: bool = False
) -> Iterator[list[FrontierStep]]:
    """Steps to draw, each alone, and runs of steps to draw as one node; see `frontier_dot`.

    A node has the name, and in a picture the `id`, `op_` and the op of its first step.
    """
    shown = _shown(stack, expand)
    run: list[FrontierStep] = []
    for position, step in enumerate(stack):
        if position not in shown:
            run.append(step)
            continue
        if run:
            yield run
        yield [step]
        run = []
    if run:
        yield run


def _shown(stack: Sequence[FrontierStep], expand: bool) -> set[int]:
    if expand or len(stack) <= COLLAPSE_ABOVE:
        return set(range(len(stack)))
    heaviest = sorted(range(len(stack)), key=lambda position: -stack[position].added_bytes)
    heavy = {position for position in heaviest[:_HEAVY] if stack[position].added_bytes}
    return {*range(_HEAD), *heavy, *range(len(stack) - _TAIL, len(stack))}


def _draw_step(
    dot: graphviz.Digraph,
    step: FrontierStep,
    storages: dict[StorageId, FrontierStorage],
    drawn: set[StorageId],
    say: Callable[..., str],
) -> None:
    node = f"op_{step.op}"
    when = "first execution" if step.kind == "first" else "rematerialisation"
    lines = [f"op {step.op}: {step.name}", when, f"needs {short_bytes(step.output_bytes)}"]
    if step.held_bytes:
        lines.append(f"locks {short_bytes(step.held_bytes)}")
    pinned = [s for s in step.locks if s in storages and storages[s].state == "pinned"]
    if pinned:
        lines.append(f"and {count(len(pinned), 'pinned storage')}")
    _style("op", dot, node, say(*lines))
    for storage_id in step.locks:
        storage = storages.get(storage_id)
        if storage is None or storage.state == "pinned":
            continue
        if storage_id not in drawn:
            drawn.add(storage_id)
            _draw_storage(dot, storage, say)
        dot.edge(node, f"s_{storage_id}", style="dashed", arrowhead="tee", constraint="false")
        with dot.subgraph() as row:
            row.attr(rank="same")
            row.node(node)
            row.node(f"s_{storage_id}")


def _draw_storage(dot: graphviz.Digraph, storage: FrontierStorage, say: Callable[..., str]) -> None:
    lines = (f"storage {storage.id} of {storage.name}", short_bytes(storage.bytes), storage.state)
    _style(storage.state, dot, f"s_{storage.id}", say(*lines), shape="cylinder")


def _draw_omitted(
    dot: graphviz.Digraph,
    node: str,
    steps: Sequence[FrontierStep],
    storages: dict[StorageId, FrontierStorage],
    say: Callable[..., str],
) -> None:
    held = {
        storage
        for step in steps
        for storage in step.locks
        if storage in storages and storages[storage].state == "locked"
    }
    held_bytes = sum(storages[storage].bytes for storage in held)
    names = Counter(plain_name(step.name, 24) for step in steps).most_common(4)
    lines = [f"… {count(len(steps), 'more step')}, ops {steps[0].op} to {steps[-1].op}"]
    what = f"{count(len(held), 'storage')}, {short_bytes(held_bytes)}" if held else "nothing"
    lines.append(f"holding {what}")
    lines.append(", ".join(f"{name} ×{times}" for name, times in names))  # noqa: RUF001
    _style("omitted", dot, node, say(*lines))


def _draw_request(
    dot: graphviz.Digraph, frontier: Frontier, above: str | None, say: Callable[..., str]
) -> None:
    lines = (
        f"requested: {both_bytes(frontier.requested_bytes)}",
        f"too much by {both_bytes(frontier.shortfall_bytes)}",
        f"passes at a budget of {frontier.passes_at_bytes:,} B",
    )
    _style("requested", dot, "requested", say(*lines), penwidth="2", shape="note")
    if above is not None:
        dot.edge(above, "requested", label="does not fit")


def _draw_pinned(dot: graphviz.Digraph, frontier: Frontier) -> None:
    pinned = [storage for storage in frontier.storages if storage.state == "pinned"]
    if not pinned:
        return
    largest = sorted(pinned, key=lambda storage: (-storage.bytes, storage.id))[:PINNED_SHOWN]
    lines = [f"pinned: {count(len(pinned), 'storage')}, {short_bytes(frontier.pinned_bytes)}"]
    lines += [f"storage {s.id} of {s.name}: {short_bytes(s.bytes)}" for s in largest]
    if len(pinned) > len(largest):
        lines.append(f"and {len(pinned) - len(largest):,} smaller")
    _style("pinned", dot, "pinned", label(*lines), shape="cylinder")


def graph_dot(graph: nx.MultiDiGraph[int]) -> str:
    """DOT source of a dependency graph as `dependency_graph` makes it, with a legend of states.

    Storages are drawn in the order of the graph, each edge with the op that leads along it.
    Layout programs manage some hundreds of nodes: take a neighbourhood of a larger graph.
    """
    dot = graphviz.Digraph("storages", graph_attr=dict(_GRAPH), node_attr=_NODE, edge_attr=_EDGE)
    about = graph.graph
    changes = changes_words(about.get("semantics"), about.get("interventions"))[2:-1]
    title = f"{about['trace']} after event {about['seq']:,}"
    dot.attr(label=label(title, *([changes] if changes else [])))
    for storage, data in graph.nodes(data=True):
        lines = [f"storage {storage} of {data['op_name']}", short_bytes(data["bytes"])]
        lines.append(look(data["state"]).word)
        if data["evictions"]:
            lines.append(f"evicted {count(data['evictions'], 'time')}")
        _style(data["state"], dot, f"s_{storage}", label(*lines))
    for source, target, data in graph.edges(data=True):
        text = label(f"{data['op']}: {plain_name(data['op_name'], 24)}")
        dot.edge(f"s_{source}", f"s_{target}", label=text)
    _draw_legend(dot, {data["state"] for _, data in graph.nodes(data=True)})
    return str(dot.source)


def _draw_legend(dot: graphviz.Digraph, states: set[str]) -> None:
    with dot.subgraph(name="cluster_legend") as legend:
        legend.attr(label="states", style="dotted")
        for state in STATES:
            if state in states:
                _style(state, legend, f"legend_{state}", label(look(state).word))
