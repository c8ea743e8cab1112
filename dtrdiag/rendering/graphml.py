"""How does a graph become GraphML, for Gephi, yEd, Cytoscape or networkx itself?

GraphML knows numbers, booleans and strings, and XML forbids most control characters; attributes are
brought into that form. Attributes that are None are left out.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import networkx as nx

from dtrdiag.analyses.frontier import Frontier
from dtrdiag.errors import OutputError
from dtrdiag.ids import StorageId
from dtrdiag.units import plain_name


def frontier_graph(frontier: Frontier) -> nx.MultiDiGraph[str]:
    """A pinned frontier as a graph, nothing left out.

    Nodes are `op OP` (attributes `kind`, `name`, `depth`, `output_bytes`, `held_bytes`,
    `added_bytes`, `state` = `op`) and `storage STORAGE` (`bytes`, `state`, `name`). Edges carry
    `relation`: `waits_for` from each pending op to the next, `locks` from an op to a storage.
    """
    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(
        trace=frontier.header.trace_name,
        policy=frontier.header.policy,
        semantics=frontier.header.semantics,
        interventions=frontier.header.interventions,
        op=frontier.op,
        requested_bytes=frontier.requested_bytes,
        budget_bytes=frontier.budget_bytes,
        resident_bytes=frontier.resident_bytes,
    )
    for storage in frontier.storages:
        graph.add_node(
            _storage_node(storage.id), state=storage.state, bytes=storage.bytes, name=storage.name
        )
    for depth, step in enumerate(frontier.stack, start=1):
        graph.add_node(
            f"op {step.op}",
            state="op",
            kind=step.kind,
            name=step.name,
            depth=depth,
            output_bytes=step.output_bytes,
            held_bytes=step.held_bytes,
            added_bytes=step.added_bytes,
        )
        for held in step.locks:
            if _storage_node(held) in graph:
                graph.add_edge(f"op {step.op}", _storage_node(held), relation="locks")
    for outer, inner in zip(frontier.stack, frontier.stack[1:], strict=False):
        graph.add_edge(f"op {outer.op}", f"op {inner.op}", relation="waits_for")
    return graph


def _storage_node(storage: StorageId) -> str:
    return f"storage {storage}"


def graphml(graph: nx.Graph[Any]) -> bytes:
    """A graph as a GraphML document, UTF-8.

    Sequences become words separated by spaces; names lose control characters. The argument is not
    changed.
    """
    legal = graph.__class__()
    legal.graph.update(_attributes(graph.graph))
    legal.add_nodes_from((node, _attributes(data)) for node, data in graph.nodes(data=True))
    if graph.is_multigraph():
        for source, target, data in graph.edges(data=True):
            # Without the key, which networkx would write as the edge's id: those must be unique.
            legal.add_edge(source, target, **_attributes(data))
    else:
        for source, target, data in graph.edges(data=True):
            legal.add_edge(source, target, **_attributes(data))
    stream = io.BytesIO()
    # The writer of the standard library, so that the bytes do not depend on lxml being there.
    nx.write_graphml_xml(legal, stream, encoding="utf-8")
    return stream.getvalue()


def _attributes(data: dict[str, Any]) -> dict[str, Any]:
    return {name: _legal(value) for name, value in data.items() if value is not None}


def _legal(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return " ".join(str(item) for item in value)
    return plain_name(str(value), width=400)


def write_graphml(graph: nx.Graph[Any], path: str | Path, force: bool = False) -> Path:
    """Write a graph to a GraphML file.

    Raises:
        OutputError: the file exists (unless `force`) or cannot be written.
    """
    path = Path(path)
    if path.exists() and not force:
        raise OutputError("the file exists; --force replaces it", path=path)
    try:
        path.write_bytes(graphml(graph))
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror or error}", path=path) from error
    return path
