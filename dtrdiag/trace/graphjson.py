"""How is a graph of costs and sizes, as planners of checkpoints use them, read as a trace?

A `dtrdiag.graph/1` document is a JSON object with a list of nodes in the order of execution
(docs/doors.md; `graph-1.json` is its JSON Schema). It is data alone: nothing in it is executed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from dtrdiag.errors import TraceError
from dtrdiag.files import read_bytes
from dtrdiag.suggestions import no_such
from dtrdiag.trace.builder import MAX_BYTES, MAX_COST_NS, TraceBuilder, shown
from dtrdiag.trace.jsondocs import REQUIRED, Place, check_keys, parse_document
from dtrdiag.trace.model import CONSTANT_NAME, Trace

GRAPH_SCHEMA = "dtrdiag.graph/1"
LAST_USE, EXPLICIT = "last_use", "explicit"
BACKWARD = "BACKWARD"
"""The label that stands before the first node of the backward pass."""
_DOCUMENT = ("schema", "name", "comment", "nodes", "outputs", "releases")
_NODE = (
    "name", "op", "constant", "cost", "memory", "dependencies", "alias", "results", "backward",
    "release",
)  # fmt: skip
_RESULT = ("name", "memory", "alias")


@attrs.frozen(slots=True)
class _Node:
    """One node, with all references resolved to names of tensors."""

    place: Place
    name: str
    op: str
    constant: bool
    cost_ns: int
    args: tuple[str, ...]
    results: tuple[str, ...]
    memory_bytes: tuple[int, ...]
    aliases: tuple[int, ...]
    backward: bool
    release: tuple[str, ...] | None


def read_graph(source: str | os.PathLike[str]) -> Trace:
    """Read a graph from a file.

    Args:
        source: a file (plain, .gz, .zst) or `archive.zip::PART`.

    Raises:
        InputError: the file cannot be read.
        TraceError: it is no such document, or a node asks for something impossible.
    """
    text = os.fspath(source)
    return parse_graph(read_bytes(text), name=os.path.basename(text), path=text)


def parse_graph(content: bytes, *, name: str, path: str = "<memory>") -> Trace:
    """Read a graph from the uncompressed bytes of its document, in linear time.

    Args:
        content: the document.
        name: short name of the trace, where the document has none.
        path: where it comes from, for messages.

    Raises:
        TraceError: see `read_graph`.
    """
    document = Place(parse_document(content, path), path)
    check_keys(content, document.fields, path)
    schema = document.text("schema")
    if schema != GRAPH_SCHEMA:
        raise document.error(f"schema is {shown(schema)}, and {GRAPH_SCHEMA!r} is what is read")
    document.check_known(_DOCUMENT)
    names = _Names(document)
    nodes = list(names.nodes())
    if not nodes:
        raise document.error("nodes is empty")
    builder = TraceBuilder(document.text("name", name), path)
    releases = _releases(document, nodes, names.outputs())
    began = False
    for node in nodes:
        try:
            if node.backward and not began:
                began = True
                builder.annotate(BACKWARD)
            _build(builder, node, releases[node.name])
        except TraceError as error:
            raise node.place.error(error.what) from None
    return builder.build(hashlib.sha256(content).hexdigest())


def _build(builder: TraceBuilder, node: _Node, release: Sequence[str]) -> None:
    if node.constant:
        builder.constant(node.name, node.memory_bytes[0])
    else:
        builder.call(
            node.results, node.op, node.args, node.cost_ns, node.memory_bytes, node.aliases
        )
    for name in release:
        builder.release(name)


def _releases(
    document: Place, nodes: Sequence[_Node], outputs: list[str] | None
) -> dict[str, Sequence[str]]:
    """What is released after each node, by its name."""
    listed = any(node.release is not None for node in nodes)
    how = document.text("releases", EXPLICIT if listed else LAST_USE)
    if how not in (LAST_USE, EXPLICIT):
        raise document.error(no_such("way of releases", how, (LAST_USE, EXPLICIT)))
    if how == EXPLICIT:
        return _explicit(document, nodes, outputs)
    if listed:
        raise document.error(f"a node has a release, and releases is {LAST_USE!r}")
    return _after_last_use(nodes, outputs)


def _after_last_use(nodes: Sequence[_Node], outputs: list[str] | None) -> dict[str, Sequence[str]]:
    last = {result: node.name for node in nodes for result in node.results}
    used = {arg: node.name for node in nodes for arg in node.args}
    kept = set(outputs) if outputs is not None else last.keys() - used.keys()
    kept |= {node.name for node in nodes if node.constant}
    releases: dict[str, Sequence[str]] = {}
    for node in nodes:
        mentioned = dict.fromkeys((*node.args, *node.results))
        ends = [name for name in mentioned if used.get(name, last[name]) == node.name]
        releases[node.name] = [name for name in ends if name not in kept]
    return releases


def _explicit(
    document: Place, nodes: Sequence[_Node], outputs: list[str] | None
) -> dict[str, Sequence[str]]:
    gone: dict[str, str] = {}
    for node in nodes:
        for arg in (arg for arg in node.args if arg in gone):
            raise node.place.error(f"{shown(arg)} was released after {shown(gone[arg])}")
        for name in node.release or ():
            if name in gone:
                raise node.place.error(f"{shown(name)} is released a second time")
            gone[name] = node.name
    if outputs is not None:
        for name in (name for name in outputs if name in gone):
            raise document.error(f"output {shown(name)} is released after {shown(gone[name])}")
        for node in nodes:
            left = [r for r in node.results if r not in gone and r not in outputs]
            if left and not node.constant:
                raise node.place.error(f"{shown(left[0])} is neither released nor an output")
    return {node.name: node.release or () for node in nodes}


class _Names:
    """Walks the nodes of a document and resolves what they refer to."""

    def __init__(self, document: Place) -> None:
        self._document = document
        self._nodes = document.items("nodes")
        self._results: list[tuple[str, ...]] = []
        self._known: dict[str, None] = {}
        self._all = self._all_names()

    def nodes(self) -> Iterator[_Node]:
        """The nodes, in order."""
        nodes: set[str] = set()
        for at, fields in enumerate(self._nodes):
            place = Place(fields, self._document.path, f"node {at}")
            if not isinstance(fields, dict):
                raise place.error(f"not an object: {shown(fields)}")
            name = place.text("name")
            place.where = f"node {at} ({shown(name)})"
            if name in nodes:
                raise place.error("another node has this name")
            nodes.add(name)
            node = self._node(place, name)
            for result in node.results:
                if result in self._known:
                    raise place.error(f"another node makes {shown(result)}")
                self._known[result] = None
            self._results.append(node.results)
            yield attrs.evolve(node, release=self._released(place))

    def _node(self, place: Place, name: str) -> _Node:
        place.check_known(_NODE)
        constant = place.flag("constant")
        args = self._resolved(place, "dependencies")
        cost_ns = place.within("cost", MAX_COST_NS, 0 if constant else REQUIRED)
        if constant and (args or cost_ns or "alias" in place.fields or "results" in place.fields):
            raise place.error("a constant has no cost, no dependencies, no alias and no results")
        if not constant and place.text("op", name) == CONSTANT_NAME and not args:
            raise place.error('a node without dependencies must not be called "constant"')
        results, sizes, aliases = [], [], []
        for part in self._parts(place):
            results.append(part.text("name"))
            alias = -1
            if part.fields.get("alias") is not None:
                target = self._one(part, "alias", part.fields["alias"])
                if target not in args:
                    raise part.error(f"alias {shown(target)} is not one of the dependencies")
                alias = args.index(target)
            aliases.append(alias)
            sizes.append(part.within("memory", MAX_BYTES, 0 if alias >= 0 else REQUIRED))
        return _Node(
            place, name, place.text("op", name), constant, cost_ns, tuple(args), tuple(results),
            tuple(sizes), tuple(aliases), place.flag("backward"), None,
        )  # fmt: skip

    def _parts(self, place: Place) -> list[Place]:
        """What says names and sizes of results: the node itself, or its `results`."""
        if "results" not in place.fields:
            return [place]
        if "memory" in place.fields or "alias" in place.fields:
            raise place.error("memory and alias stand in its results, where it has them")
        parts = []
        for at, fields in enumerate(place.items("results")):
            part = Place(fields, place.path, f"{place.where}, result {at}")
            if not isinstance(fields, dict):
                raise part.error(f"not an object: {shown(fields)}")
            part.check_known(_RESULT)
            parts.append(part)
        if not parts:
            raise place.error("results is empty")
        return parts

    def _released(self, place: Place) -> tuple[str, ...] | None:
        return tuple(self._resolved(place, "release")) if "release" in place.fields else None

    def outputs(self) -> list[str] | None:
        """The names under `outputs`; None where there is no such field."""
        fields = self._document.fields
        return self._resolved(self._document, "outputs") if "outputs" in fields else None

    def _resolved(self, place: Place, field: str) -> list[str]:
        return [self._one(place, field, value) for value in place.items(field, [])]

    def _one(self, place: Place, field: str, value: Any) -> str:
        """The tensor that a name, or the number of a node from 0, stands for."""
        if isinstance(value, str):
            if value in self._known:
                return value
            later = value in self._all
            why = "comes later: nodes stand in the order of execution" if later else "is no node"
            raise place.error(f"{field}: {shown(value)} {why}")
        if not isinstance(value, int) or isinstance(value, bool):
            raise place.error(f"{field} has what is no name and no number: {shown(value)}")
        if not 0 <= value < len(self._results):
            later = 0 <= value < len(self._nodes)
            why = "comes later: nodes stand in the order of execution" if later else "is not there"
            raise place.error(f"{field}: node {shown(value)} {why}")
        if len(self._results[value]) > 1:
            raise place.error(f"{field}: node {value} has several results; name the one")
        return self._results[value][0]

    def _all_names(self) -> set[str]:
        found = set()
        for fields in self._nodes:
            parts = fields.get("results", [fields]) if isinstance(fields, dict) else []
            for part in parts if isinstance(parts, list) else []:
                if isinstance(part, dict) and isinstance(part.get("name"), str):
                    found.add(part["name"])
        return found
