import shutil

import networkx as nx
import pytest

from dtrdiag.analyses import dependency_graph, neighbourhood
from dtrdiag.log import open_log
from dtrdiag.rendering.dot import DRAWN_EDGES

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed")


def test_json_is_the_graph_of_the_analysis(answers, small):
    found = answers("graph", small, "--at", 400, "--json").json
    graph = dependency_graph(open_log(small), 400)
    assert found["schema"] == "dtrdiag.graph/1"
    assert found["seq"] == 400
    assert {s["id"]: s["state"] for s in found["storages"]} == dict(graph.nodes(data="state"))
    assert [(e["from"], e["to"], e["op"]) for e in found["edges"]] == list(graph.edges(keys=True))


def test_a_neighbourhood(answers, small):
    found = answers("graph", small, "--around", 10, "--hops", 1, "--json").json
    part = neighbourhood(dependency_graph(open_log(small)), 10, 1)
    assert [storage["id"] for storage in found["storages"]] == list(part)
    wider = answers("graph", small, "--around", 10, "--json").json
    assert len(wider["storages"]) > len(found["storages"])


def test_a_trace_with_options_is_the_same_run(answers, small):
    saved = answers("graph", small, "--json").json
    assert answers("graph", "chain-64", "-b", "8MB", "--json").json == saved


def test_people_get_a_sentence_and_a_table(answers, small):
    out = answers("graph", small, "--at", 400).out
    assert out.startswith("chain-64 after event 400: ")
    assert "evicted" in out


def test_files_by_suffix(answers, small, here):
    answers("graph", small, "--around", 10, "-o", "a.dot")
    answers("graph", small, "--around", 10, "-o", "a.graphml")
    assert (here / "a.dot").read_text().startswith("digraph")
    assert len(nx.read_graphml(here / "a.graphml")) > 1


@needs_dot
def test_a_picture(answers, small, here):
    assert answers("graph", small, "--around", 10, "-o", "a.svg").out.endswith("Wrote a.svg.\n")
    assert b"</svg>" in (here / "a.svg").read_bytes()


def test_without_dot_the_text_is_written(dtrdiag, small, here, monkeypatch):
    monkeypatch.setenv("PATH", str(here))
    answer = dtrdiag("graph", small, "--around", 10, "-o", "a.svg")
    assert answer.status == 0
    assert "wrote a.dot" in answer.err
    assert [path.name for path in here.iterdir()] == ["a.dot"]


@needs_dot
def test_a_graph_too_large_to_draw_is_written_as_text(dtrdiag, answers, fails, here):
    answer = dtrdiag("graph", fails, "-o", "a.svg")
    assert answer.status == 0
    assert answer.err.count("\n") == 1
    edges = (here / "a.dot").read_text().count("->")
    assert edges > DRAWN_EDGES
    assert f"{edges:,} edges are too many to draw" in answer.err
    assert "wrote a.dot; take --around STORAGE --hops N, or write .graphml" in answer.err
    assert answer.out.endswith("Wrote a.dot.\n")
    assert [path.name for path in here.iterdir()] == ["a.dot"]
    # Again it writes the same, and that is no obstacle.
    assert dtrdiag("graph", fails, "-o", "a.svg").status == 0


@needs_dot
def test_text_instead_of_a_picture_replaces_nothing(refuses, dtrdiag, fails, here):
    (here / "a.dot").write_text("mine")
    assert "exists already; --force replaces it (a.dot)" in refuses("graph", fails, "-o", "a.svg")
    assert dtrdiag("graph", fails, "-o", "a.svg", "--force").status == 0
    assert (here / "a.dot").read_text().startswith("digraph")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--around", "99999"], "the graph has no storage 99999"),
        (["--hops", "1"], "--hops needs a storage to start from"),
        (["--around", "1", "--hops", "-1"], "--hops must be at least 0"),
        (["--at", "-1"], "--at must be at least 0"),
        (["--at", "99999"], "the log has no event 99999"),
        (["-o", "a.gif"], "-o must end in .dot, .svg, .png, .pdf, .graphml, not '.gif'"),
        (["-o", "gone/a.dot"], "the folder does not exist"),
    ],
)
def test_what_is_refused(refuses, small, options, why):
    assert why in refuses("graph", small, *options)


@pytest.mark.parametrize("name", ["a.dot", "a.graphml"])
def test_files_are_replaced_with_force_alone(answers, refuses, small, here, name):
    (here / name).write_text("mine")
    assert "exists already" in refuses("graph", small, "--around", 10, "-o", name)
    answers("graph", small, "--around", 10, "-o", name, "--force")
    assert (here / name).read_text() != "mine"
