"""Is the DOT source well formed and complete, and are pictures written or explained?"""

# mypy: no-check-untyped-defs

import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import attrs
import graphviz
import networkx as nx
import pytest

from dtrdiag.errors import OutputError
from dtrdiag.rendering import dot, dotprogram
from dtrdiag.rendering.palette import LOOKS
from dtrdiag.units import plain_name

needs_dot = pytest.mark.skipif(
    shutil.which("dot") is None, reason="no program `dot` (Debian: apt install graphviz)"
)


def drawn_nodes(source):
    return re.findall(r"^\t+(op_\d+|s_\d+|requested|pinned) \[label", source, re.MULTILINE)


@pytest.mark.parametrize("depth", [1, 2, dot.COLLAPSE_ABOVE])
def test_a_short_chain_is_drawn_step_by_step(depth, make_frontier):
    source = dot.frontier_dot(make_frontier([64] * depth))
    ops = [node for node in drawn_nodes(source) if node.startswith("op_")]
    assert ops == [f"op_{100 + step}" for step in range(depth)]
    assert source.count("->") == 2 * depth
    assert "more step" not in source


def test_a_long_chain_keeps_its_ends_and_its_heavy_steps(make_frontier):
    steps = [0] * 118
    steps[0] = steps[117] = 10
    steps[40], steps[41] = 2048, 4096
    source = dot.frontier_dot(make_frontier(steps))
    ops = [node for node in drawn_nodes(source) if node.startswith("op_")]
    expected = [0, 1, 2, 40, 41, 42, 114, 115, 116, 117]
    assert ops == [f"op_{100 + step}" for step in expected]
    assert "38 more steps, ops 102 to 139" in source
    assert "72 more steps, ops 142 to 213" in source
    assert source.count("holding nothing") == 2


def test_what_omitted_steps_hold_is_said(make_frontier):
    steps = [1 + depth for depth in range(30)]
    source = dot.frontier_dot(make_frontier(steps))
    said = re.findall(r"… (\d+) more steps.*?holding (\d+) storages?, (\d+)", source)
    drawn = [node for node in drawn_nodes(source) if node.startswith("s_")]
    assert sum(int(count) for _, count, _ in said) + len(drawn) == 30
    held = sum(int(size) for _, _, size in said)
    assert held + sum(steps[int(node[2:]) - 500] for node in drawn) == sum(steps)


def test_expanded_every_step_and_storage_is_drawn(make_frontier):
    source = dot.frontier_dot(make_frontier([8] * 118), expand=True)
    nodes = drawn_nodes(source)
    assert len(nodes) == len(set(nodes)) == 2 * 118 + 2


def test_states_have_the_colours_of_the_palette(make_frontier):
    source = dot.frontier_dot(make_frontier([64, 0]))
    for node, state in (("op_100", "op"), ("s_500", "locked"), ("pinned", "pinned")):
        line = re.search(rf"^\t+{node} \[label.*$", source, re.MULTILINE)
        assert LOOKS[state].fill in line.group()
    assert "too much by 30 B" in source


def test_a_storage_that_two_steps_lock_is_drawn_once_with_two_edges(make_frontier):
    frontier = make_frontier([64, 0])
    outer, inner = frontier.stack
    shared = attrs.evolve(frontier, stack=(outer, attrs.evolve(inner, locks=(500,))))
    source = dot.frontier_dot(shared)
    assert drawn_nodes(source).count("s_500") == 1
    assert len(re.findall(r"-> s_500", source)) == 2


def small_graph(name="conv"):
    graph = nx.MultiDiGraph(trace="by hand", policy="lru", budget_bytes=None, seq=12)
    states = ("pinned", "locked", "resident", "evicted", "uncomputed", "banished")
    for storage, state in enumerate(states):
        graph.add_node(
            storage,
            bytes=2**storage,
            state=state,
            op=storage,
            op_name=name,
            tensors=(storage, storage + 10),
            locks=0,
            references=1,
            evictions=storage,
        )
    graph.add_edge(0, 1, key=1, op=1, op_name=name)
    graph.add_edge(0, 1, key=2, op=2, op_name=name)
    return graph


def test_a_graph_is_drawn_with_a_legend_of_its_states():
    source = dot.graph_dot(small_graph())
    assert source.count("->") == 2
    for word in ("pinned", "locked", "evictable", "evicted", "not computed yet", "freed for good"):
        assert re.search(rf"legend_\w+ \[label=\"?{word}", source)
    assert "evicted 3 times" in source


def test_the_same_graph_gives_the_same_source(make_frontier):
    assert dot.graph_dot(small_graph()) == dot.graph_dot(small_graph())
    assert dot.frontier_dot(make_frontier([5] * 20)) == dot.frontier_dot(make_frontier([5] * 20))


def lines_of(source):
    """The lines of text in the picture that `dot` draws, as people see them."""
    svg = graphviz.pipe("dot", "svg", source.encode(), quiet=True)
    texts = [e.text or "" for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("}text")]
    return [" ".join(text.split()) for text in texts]


@needs_dot
def test_dot_draws_exactly_the_name(nasty_name, make_frontier):
    seen = plain_name(nasty_name)
    short = make_frontier([64, 0], name=nasty_name)
    assert " ".join(f"op 100: {seen}".split()) in lines_of(dot.frontier_dot(short))
    long = make_frontier([0] * 20, name=nasty_name)
    omitted = f"{plain_name(nasty_name, 24)} ×14"  # noqa: RUF001
    assert " ".join(omitted.split()) in lines_of(dot.frontier_dot(long))
    drawn = lines_of(dot.graph_dot(small_graph(nasty_name)))
    assert " ".join(f"storage 0 of {seen}".split()) in drawn
    assert " ".join(f"1: {plain_name(nasty_name, 24)}".split()) in drawn


@needs_dot
@pytest.mark.parametrize("lines", [("<b>bold</b>",), ("<i>", "x>"), ('"', "\\"), ("\\N", "&lt;")])
def test_a_whole_label_of_special_characters_is_drawn_as_it_is(lines):
    digraph = graphviz.Digraph()
    digraph.node("a", dot.label(*lines))
    assert lines_of(digraph.source) == list(lines)


@needs_dot
@pytest.mark.parametrize(("picture_format", "begins"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_a_picture_is_written(picture_format, begins, tmp_path, make_frontier):
    path = tmp_path / f"frontier.{picture_format}"
    source = dot.frontier_dot(make_frontier([64]))
    written = dotprogram.write_picture(source, path, picture_format)
    assert (written.path, written.message) == (path, None)
    assert path.read_bytes().startswith(begins)


@pytest.fixture
def without_dot(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "nothing here"))


def test_without_the_program_the_source_is_written_and_one_line_says_why(without_dot, tmp_path):
    written = dotprogram.write_picture("digraph { a }", tmp_path / "x.svg")
    assert written.path == tmp_path / "x.dot"
    assert written.path.read_text() == "digraph { a }"
    assert not (tmp_path / "x.svg").exists()
    assert "apt install graphviz" in written.message
    assert "\n" not in written.message


def test_the_same_source_beside_it_is_no_obstacle_another_file_is(without_dot, tmp_path):
    dotprogram.write_dot("digraph { a }", tmp_path / "x.dot")
    dotprogram.write_picture("digraph { a }", tmp_path / "x.svg")
    with pytest.raises(OutputError, match="exists"):
        dotprogram.write_picture("digraph { b }", tmp_path / "x.svg")
    dotprogram.write_picture("digraph { b }", tmp_path / "x.svg", force=True)
    assert (tmp_path / "x.dot").read_text() == "digraph { b }"


def test_a_picture_replaces_nothing_unless_told_to(tmp_path):
    (tmp_path / "x.svg").write_text("precious")
    with pytest.raises(OutputError, match="--force replaces it"):
        dotprogram.write_picture("digraph { a }", tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text() == "precious"


def test_a_format_that_is_not_known_is_refused(tmp_path):
    with pytest.raises(OutputError, match="there are svg, png"):
        dotprogram.write_picture("digraph { a }", tmp_path / "x.pdf", "pdf")


def test_a_failing_program_is_one_line(monkeypatch, tmp_path):
    def fails(command, **kwargs):
        return subprocess.CompletedProcess(command, 1, b"", b"Error: syntax\nmore\n")

    monkeypatch.setattr(subprocess, "run", fails)
    with pytest.raises(OutputError, match=r"`dot` failed: Error: syntax \(.*x.svg\)"):
        dotprogram.write_picture("digraph {", tmp_path / "x.svg")


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(OutputError, match="cannot write"):
        dotprogram.write_dot("digraph { a }", tmp_path / "no" / "x.dot")


@needs_dot
def test_the_program_takes_the_largest_source_that_a_frontier_makes(make_frontier):
    source = dot.frontier_dot(make_frontier([8] * 300))
    subprocess.run(["dot", "-Tsvg"], input=source.encode(), capture_output=True, check=True)


def test_a_program_that_takes_too_long_is_given_up_and_the_source_kept(monkeypatch, tmp_path):
    def hangs(command, **kwargs):
        raise subprocess.TimeoutExpired(command, kwargs["timeout"])

    monkeypatch.setattr(subprocess, "run", hangs)
    written = dotprogram.write_picture("digraph { a }", tmp_path / "x.svg")
    assert written.path == tmp_path / "x.dot"
    assert written.path.read_text() == "digraph { a }"
    assert written.message == f"the program `dot` did not finish within {dotprogram.DOT_SECONDS} s"
    assert not (tmp_path / "x.svg").exists()


def test_the_title_says_who_waits_for_what(make_frontier):
    assert "one op is pending, and waits for room" in dot.frontier_dot(make_frontier([5]))
    title = "3 ops are pending: each waits for the next one down, the last for room"
    assert title in dot.frontier_dot(make_frontier([5, 5, 5]))
