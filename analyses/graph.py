"""Which storages are computed from which, and where was each of them at a point of the run?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dtrdiag.analyses.reading import introduced, split_header
from dtrdiag.errors import AnalysisError
from dtrdiag.events.records import Event, Evict, RunHeader
from dtrdiag.ids import OpId, StorageId, TensorId
from dtrdiag.log.replay import Replay

if TYPE_CHECKING:  # whoever wants the names of states alone does not wait for it
    import networkx as nx

UNCOMPUTED = "uncomputed"
EVICTED = "evicted"
RESIDENT = "resident"
LOCKED = "locked"
PINNED = "pinned"
BANISHED = "banished"
STATES = (PINNED, LOCKED, RESIDENT, EVICTED, UNCOMPUTED, BANISHED)


def dependency_graph(events: Iterable[Event], at: int | None = None) -> nx.MultiDiGraph[int]:
    """The storages known after event `at`, and the ops that lead from one to another.

    Nodes are storage ids in the order in which they were defined, with attributes

    - `bytes`: size;
    - `state`: `pinned` or `locked` (resident, and so not evictable), `resident` (evictable),
      `evicted`, `uncomputed` (its op was called but has not run), or `banished` (freed for good,
      unless its op ran again for a sibling);
    - `op`, `op_name`: the op that computes it;
    - `tensors`: ids of the root tensor and its aliases, a tuple;
    - `locks`: locks of pending ops on it, a pin apart; `references`: external references;
    - `evictions`: how often it was evicted so far.

    There is one edge, keyed by op id, from each input's storage to each output's storage of an op,
    with attributes `op` and `op_name`. An alias adds no edge from its storage to itself. A
    banished storage has no edges, as the runtime has cut them. The graph itself has the
    attributes `trace`, `policy`, `semantics`, `interventions`, `budget_bytes` (the header's), and
    `seq`.

    One pass up to `at`; memory in proportion to the graph.

    Args:
        events: events of a run, header first.
        at: `seq` of the last event to take in; None: all of them.

    Raises:
        AnalysisError: the log has no event `at`, or does not begin with a header.
        LogError: an event names something that the log did not introduce.
    """
    header, replay, evictions = _replay_to(events, at)
    import networkx as nx

    graph: nx.MultiDiGraph[int] = nx.MultiDiGraph(
        trace=header.trace_name,
        policy=header.policy,
        semantics=header.semantics,
        interventions=header.interventions,
        budget_bytes=header.budget_bytes,
        seq=replay.seq,
    )
    computed = _ever_computed(replay, evictions)
    with introduced():
        for storage in replay.tensors_of:
            graph.add_node(storage, **_node(replay, storage, computed, evictions.get(storage, 0)))
        for op in replay.ops:
            _add_edges(graph, replay, op)
    return graph


def _replay_to(
    events: Iterable[Event], at: int | None
) -> tuple[RunHeader, Replay, dict[StorageId, int]]:
    """The header, the state after event `at`, and how often each storage was evicted by then."""
    header, rest = split_header(events)
    replay = Replay()
    replay.apply(header)
    evictions: dict[StorageId, int] = {}
    for event in rest if at is None or at > 0 else ():
        replay.apply(event)
        if isinstance(event, Evict):
            evictions[event.storage] = evictions.get(event.storage, 0) + 1
        if event.seq == at:
            break
    if at is not None and at != replay.seq:
        raise AnalysisError(f"the log has no event {at}: its last one is {replay.seq}")
    return header, replay, evictions


def _ever_computed(replay: Replay, evictions: dict[StorageId, int]) -> set[StorageId]:
    # What is not in memory now was computed before if and only if it was evicted since.
    return set(replay.resident) | set(evictions)


def _node(
    replay: Replay, storage: StorageId, computed: set[StorageId], evictions: int
) -> dict[str, Any]:
    op = replay.producer[TensorId(storage)]
    return {
        "bytes": replay.size_bytes[storage],
        "state": _state(replay, storage, computed),
        "op": op,
        "op_name": replay.ops[op].name,
        "tensors": tuple(replay.tensors_of[storage]),
        "locks": len(replay.locks.get(storage, ())),
        "references": replay.references[storage],
        "evictions": evictions,
    }


def _state(replay: Replay, storage: StorageId, computed: set[StorageId]) -> str:
    if storage not in replay.resident:
        # A banished storage comes back if a sibling's op runs again; then it is as others are.
        if storage in replay.banished:
            return BANISHED
        return EVICTED if storage in computed else UNCOMPUTED
    if storage in replay.pins:
        return PINNED
    return LOCKED if storage in replay.locks else RESIDENT


def _add_edges(graph: nx.MultiDiGraph[int], replay: Replay, op: OpId) -> None:
    called = replay.ops[op]
    sources = dict.fromkeys(replay.storage_of[tensor] for tensor in called.inputs)
    for target in dict.fromkeys(called.storages):
        for source in sources:
            if source != target and not {source, target} & replay.banished.keys():
                graph.add_edge(source, target, key=op, op=op, op_name=called.name)


def neighbourhood(graph: nx.MultiDiGraph[int], storage: int, hops: int = 1) -> nx.MultiDiGraph[int]:
    """The part of a dependency graph within `hops` edges of a storage, in either direction.

    Args:
        graph: as `dependency_graph` makes it; it is not changed.
        storage: the storage in the middle.
        hops: largest distance, at least 0.

    Returns:
        A copy of the induced subgraph, nodes in the order of `graph`.

    Raises:
        AnalysisError: the graph has no such storage, or `hops` is negative.
    """
    if storage not in graph:
        raise AnalysisError(f"the graph has no storage {storage} at event {graph.graph['seq']}")
    if hops < 0:
        raise AnalysisError(f"hops must be at least 0, not {hops}")
    near = {storage}
    edge = [storage]
    for _ in range(hops):
        found = {n for node in edge for n in (*graph.predecessors(node), *graph.successors(node))}
        edge = sorted(found - near)
        near.update(edge)
    part: nx.MultiDiGraph[int] = graph.__class__(**graph.graph)
    # By hand, because networkx's own subgraph may list the nodes in another order.
    part.add_nodes_from((node, data) for node, data in graph.nodes(data=True) if node in near)
    for source, target, key, data in graph.edges(keys=True, data=True):
        if source in near and target in near:
            part.add_edge(source, target, key=key, **data)
    return part
