"""How are a frontier and a dependency graph drawn?

The functions return DOT source, which is text and needs no program; `write_picture` turns it into
SVG or PNG with graphviz's `dot`, if that is installed.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs
import graphviz
import networkx as nx

from dtrdiag.analyses.frontier import Frontier, FrontierStep, FrontierStorage
from dtrdiag.analyses.graph import STATES
from dtrdiag.errors import OutputError
from dtrdiag.ids import StorageId
from dtrdiag.rendering.palette import look
from dtrdiag.rendering.units import both_bytes, changes_words, count, plain_name, short_bytes

COLLAPSE_ABOVE = 12
"""A chain of more steps is drawn without its middle."""
_HEAD, _TAIL, _HEAVY = 2, 4, 6
PINNED_SHOWN = 3
PICTURE_FORMATS = ("svg", "png")
DRAWN_EDGES = 300
"""Edges of a dependency graph that `dot` lays out in seconds; twice as many take minutes."""
DOT_SECONDS = 60
"""How long `dot` may take."""

_GRAPH = {"fontname": "Helvetica", "fontsize": "11", "labelloc": "t", "nodesep": "0.25"}
_NODE = {"fontname": "Helvetica", "fontsize": "10", "shape": "box"}
_EDGE = {"fontname": "Helvetica", "fontsize": "9", "color": "#595959"}


@attrs.frozen
class Picture:
    """What `write_picture` wrote, and why it is text instead of what was asked, if it is."""

    path: Path
    message: str | None


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


def _draw_storage(
    dot: graphviz.Digraph, storage: FrontierStorage, say: Callable[..., str]
) -> None:
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


def write_picture(
    dot_source: str, path: str | Path, picture_format: str = "svg", force: bool = False
) -> Picture:
    """Draw DOT source into a file with graphviz's `dot`.

    Without that program, or if it takes more than `DOT_SECONDS`, the source itself is written
    beside it, under the same name with the suffix `.dot`, and the picture's `message` says why.

    Args:
        dot_source: as `frontier_dot` and `graph_dot` return it.
        path: the file to write.
        picture_format: one of `PICTURE_FORMATS`.
        force: replace a file that exists.

    Raises:
        OutputError: an unknown format, a file that exists or cannot be written, or `dot` failed.
    """
    path = Path(path)
    if picture_format not in PICTURE_FORMATS:
        known = ", ".join(PICTURE_FORMATS)
        raise OutputError(f"no picture format {picture_format!r}; there are {known}")
    _refuse_existing(path, force)
    picture, message = _draw(dot_source, path, picture_format)
    if picture is None:
        text_path = path.with_suffix(".dot")
        write_dot(dot_source, text_path, force)
        return Picture(text_path, message)
    _write(path, picture)
    return Picture(path, None)


def _draw(dot_source: str, path: Path, picture_format: str) -> tuple[bytes | None, str | None]:
    # Not graphviz.pipe, which cannot give up.
    command = ["dot", f"-T{picture_format}"]
    try:
        done = subprocess.run(
            command,
            input=dot_source.encode(),
            capture_output=True,
            timeout=DOT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        return None, "the program `dot` is missing (Debian: apt install graphviz)"
    except subprocess.TimeoutExpired:
        return None, f"the program `dot` did not finish within {DOT_SECONDS} s"
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        why = said[0] if said else f"exit status {done.returncode}"
        raise OutputError(f"`dot` failed: {plain_name(why, width=200)}", path=path)
    return done.stdout, None


def write_dot(dot_source: str, path: str | Path, force: bool = False) -> Path:
    """Write DOT source to a file, UTF-8; a file that already holds just that is left as it is.

    Raises:
        OutputError: the file exists with other content (unless `force`) or cannot be written.
    """
    path = Path(path)
    content = dot_source.encode()
    if path.is_file() and path.read_bytes() == content:
        return path
    _refuse_existing(path, force)
    _write(path, content)
    return path


def _refuse_existing(path: Path, force: bool) -> None:
    if path.exists() and not force:
        raise OutputError("the file exists; --force replaces it", path=path)


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror or error}", path=path) from error
