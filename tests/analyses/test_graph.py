"""Is the dependency graph that of the ops, with each storage where it was at the moment asked?"""

# mypy: no-check-untyped-defs

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtrdiag.analyses import dependency_graph, neighbourhood
from dtrdiag.errors import AnalysisError
from dtrdiag.events import records


def edges_by_plain_loop(events):
    owner, edges = {}, set()
    for event in events:
        if event.kind == "op":
            owner.update(zip(event.outputs, event.storages, strict=True))
            for tensor in event.inputs:
                for storage in event.storages:
                    if owner[tensor] != storage:
                        edges.add((owner[tensor], storage, event.op))
    return edges


def state_by_plain_loop(events, storage):
    """The state of a storage after all events, from those that concern it."""
    state, locks, pinned = "uncomputed", 0, False
    for event in events:
        if event.kind in ("compute", "rematerialise") and storage in event.resident:
            state = "resident"
        elif getattr(event, "storage", None) == storage:
            if event.kind == "evict":
                state = "evicted"
            locks += (event.kind == "lock") - (event.kind == "unlock")
            pinned = pinned or event.kind == "pin"
    if state != "resident":
        return state
    return "pinned" if pinned else "locked" if locks else "resident"


@given(data=st.data(), budget_bytes=st.integers(40, 260))
def test_states_at_any_event_are_those_of_a_plain_loop(data, budget_bytes, toy_log, block_ops):
    events = toy_log(block_ops, budget_bytes)
    at = data.draw(st.integers(0, len(events) - 1))
    graph = dependency_graph(events, at)
    seen = events[: at + 1]
    assert list(graph) == [e.op for e in seen if e.kind == "op"]
    assert graph.graph["seq"] == at
    for storage, node in graph.nodes(data=True):
        assert node["state"] == state_by_plain_loop(seen, storage)
        assert node["bytes"] == abs(block_ops[storage][3])
        assert node["op_name"] == block_ops[storage][0]
        assert node["evictions"] == sum(e.kind == "evict" and e.storage == storage for e in seen)
    assert set(graph.edges(keys=True)) == edges_by_plain_loop(seen)


@pytest.mark.parametrize("at", [None, 4000])
def test_the_graph_of_a_public_run_is_that_of_a_plain_loop(at, public_run):
    events = public_run("resnet32", "dtr", 0.102)
    graph = dependency_graph(events, at)
    seen = events if at is None else events[: at + 1]
    assert set(graph.edges(keys=True)) == edges_by_plain_loop(seen)
    for storage in list(graph)[::7]:
        assert graph.nodes[storage]["state"] == state_by_plain_loop(seen, storage)


def test_aliases_belong_to_their_root_and_add_no_loop(public_run):
    graph = dependency_graph(public_run("resnet32", "dtr", 0.102))
    shared = {node: data["tensors"] for node, data in graph.nodes(data=True)}
    assert any(len(tensors) > 1 for tensors in shared.values())
    assert all(tensors[0] == node for node, tensors in shared.items())
    assert nx.number_of_selfloops(graph) == 0


def test_banished_storages_are_told_apart_and_cut_off(public_run):
    events = public_run("resnet32", "lru", 0.3, dealloc="banish", limit=10)
    graph = dependency_graph(events)
    banished = {event.storage for event in events if event.kind == "banish"}
    gone = {n for n, data in graph.nodes(data=True) if data["state"] == "banished"}
    assert gone == {
        storage
        for storage in banished
        if state_by_plain_loop(events, storage) in ("evicted", "uncomputed")
    }
    assert gone
    assert all(graph.degree(node) == 0 for node in banished)


def test_a_banished_storage_that_came_back_is_resident(make_header):
    def execution(kind, seq, resident):
        return kind(seq, seq - 1, 0, resident[0], 1, resident, resident, 0, 8, seq)

    events = [
        make_header(),
        records.OpDefined(1, None, 0, 0, "split", 1, (), (0, 1), (0, 1), (8, 8)),
        records.Materialise(2, 1, 0, 0, "first", None, 1),
        execution(records.Compute, 3, (1, 0)),
        records.ReferenceChanged(4, None, 1, 0, 0, -1, 0),
        records.Evict(5, 4, 0, 8, "banish", None, None, None, (), 8, 2),
        records.Banish(6, 4, 0),
        records.Evict(7, 0, 1, 8, "pressure", 0, None, 1, (), 0, 2),
        records.Materialise(8, 1, 0, 1, "remat", None, 1),
        execution(records.Rematerialise, 9, (0, 1)),
    ]
    states = [dependency_graph(events, at).nodes[0]["state"] for at in (1, 3, 6, 9)]
    assert states == ["uncomputed", "resident", "banished", "resident"]


@pytest.mark.parametrize("hops", [0, 1, 2, 5])
def test_a_neighbourhood_is_what_networkx_finds_ignoring_direction(hops, public_run):
    graph = dependency_graph(public_run("resnet32", "dtr", 0.102))
    near = neighbourhood(graph, 190, hops)
    expected = nx.ego_graph(graph, 190, radius=hops, undirected=True)
    assert set(near) == set(expected)
    assert set(near.edges(keys=True)) == set(expected.edges(keys=True))
    assert list(near) == [node for node in graph if node in expected]
    assert near.nodes[190] == graph.nodes[190]
    assert near.graph == graph.graph


@pytest.mark.parametrize("at", [-1, 10**6])
def test_an_event_that_is_not_there_is_refused(at, toy_log, block_ops):
    with pytest.raises(AnalysisError, match=f"no event {at}"):
        dependency_graph(toy_log(block_ops, 130), at)


def test_a_neighbourhood_of_nothing_is_refused(toy_log, block_ops):
    graph = dependency_graph(toy_log(block_ops, 130))
    with pytest.raises(AnalysisError, match="no storage 99 at event"):
        neighbourhood(graph, 99)
    with pytest.raises(AnalysisError, match="at least 0"):
        neighbourhood(graph, 1, hops=-1)
