"""Does GraphML read back as the same graph, with legal attributes?"""

# mypy: no-check-untyped-defs

import networkx as nx
import pytest

from dtrdiag.errors import OutputError
from dtrdiag.rendering.graphml import frontier_graph, graphml, write_graphml
from dtrdiag.units import plain_name


def read_back(document):
    return nx.parse_graphml(document.decode(), node_type=str, force_multigraph=True)


def test_a_graph_reads_back_with_its_attributes():
    graph = nx.MultiDiGraph(trace="by hand", budget_bytes=None, seq=3)
    graph.add_node(1, bytes=2**40, state="locked", tensors=(1, 5))
    graph.add_node(2, bytes=0, state="evicted", tensors=(2,), share=0.5, pinned=True)
    graph.add_edge(1, 2, key=7, op=7, op_name="conv")
    graph.add_edge(1, 2, key=8, op=8, op_name="add")
    back = read_back(graphml(graph))
    assert back.nodes["1"] == {"bytes": 2**40, "state": "locked", "tensors": "1 5"}
    assert back.nodes["2"]["share"] == 0.5
    assert back.nodes["2"]["pinned"] is True
    assert sorted(data["op"] for *_, data in back.edges(data=True)) == [7, 8]
    assert (back.graph["trace"], back.graph["seq"]) == ("by hand", 3)
    assert "budget_bytes" not in back.graph
    assert graph.nodes[1]["tensors"] == (1, 5)


def test_edges_of_one_op_between_several_pairs_are_all_kept():
    graph = nx.MultiDiGraph()
    for target in (1, 2, 3):
        graph.add_edge(0, target, key=7, op=7)
    assert read_back(graphml(graph)).number_of_edges() == 3


def test_a_frontier_becomes_ops_that_wait_and_lock(make_frontier):
    graph = frontier_graph(make_frontier([64, 0, 32]))
    back = read_back(graphml(graph))
    relations = sorted((a, b, data["relation"]) for a, b, data in back.edges(data=True))
    assert relations == [
        ("op 100", "op 101", "waits_for"),
        ("op 100", "storage 0", "locks"),
        ("op 100", "storage 500", "locks"),
        ("op 101", "op 102", "waits_for"),
        ("op 102", "storage 502", "locks"),
    ]
    assert back.nodes["storage 500"] == {"state": "locked", "bytes": 64, "name": "conv"}


def test_foreign_names_stay_legal_xml(nasty_name, make_frontier):
    back = read_back(graphml(frontier_graph(make_frontier([64], name=nasty_name))))
    assert back.nodes["storage 500"].get("name", "") == plain_name(nasty_name, 400)


def test_a_file_is_not_replaced_unless_told_to(tmp_path):
    path = tmp_path / "x.graphml"
    write_graphml(nx.MultiDiGraph(), path)
    with pytest.raises(OutputError, match="exists"):
        write_graphml(nx.MultiDiGraph(), path)
    write_graphml(nx.MultiDiGraph(), path, force=True)
    with pytest.raises(OutputError, match="cannot write"):
        write_graphml(nx.MultiDiGraph(), tmp_path / "no" / "x.graphml")
