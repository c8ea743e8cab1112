import csv
import io

import attrs
import networkx as nx
import pytest

from dtrdiag.analyses import find_chains
from dtrdiag.analyses.displacement import Component
from dtrdiag.cli.sources import record
from dtrdiag.log import read_events
from dtrdiag.rendering.chains import (
    chain_words,
    chains_words,
    cost_table,
    displacement_csv,
    displacement_dot,
    loops_table,
    steps_table,
)
from dtrdiag.rendering.fitting import fit
from dtrdiag.simulator import RunConfig
from dtrdiag.trace.catalog import resolve


@pytest.fixture
def graph():
    graph = nx.DiGraph()
    for node, name in ((1, 'a "b"'), (2, "c\x1b[31m"), (3, "d")):
        graph.add_node(node, bytes=1024, op=node, op_name=name, evictions=1, cost_ns=1)
    graph.add_edge(1, 2, times=2, cost_ns=5)
    graph.add_edge(2, 1, times=1, cost_ns=50)
    graph.add_edge(2, 3, times=9, cost_ns=0)
    return graph


def test_dot_shows_the_dearest_edges_and_what_is_on_a_loop(graph):
    text = displacement_dot(graph, 2)
    assert "1 edges of less cost are left out" in text
    assert "2 -> 1" in text
    assert "2 -> 3" not in text
    assert r"a \"b\"" in text
    assert "\x1b" not in text
    whole = displacement_dot(graph, 9)
    assert whole.count("#b2182b") == 2
    assert whole.count("#777777") == 1


def test_csv_has_every_edge_the_dearest_first(graph):
    rows = list(csv.reader(io.StringIO(displacement_csv(graph).decode())))
    assert rows[0][0] == "source"
    assert [(row[0], row[4], row[8], row[9]) for row in rows[1:]] == [
        ("2", "1", "1", "50"),
        ("1", "2", "2", "5"),
        ("2", "3", "9", "0"),
    ]


@pytest.fixture
def found(tmp_path):
    path = tmp_path / "log.jsonl"
    record(resolve("recurrent-16"), RunConfig("dtr", 38_359_635), path)
    return find_chains(read_events(path))


LOOP = Component(2, 1024, 2, 3, 50, 1, 9, (("mul", 3),))


def test_one_thrash_loop_is_not_called_the_dearest(found):
    one = attrs.evolve(found, components=(LOOP,))
    (said,) = (line for line in chains_words(one) if "thrash loop" in line)
    assert said.startswith("1 thrash loop: ")
    assert "dearest" not in said
    two = attrs.evolve(found, components=(LOOP, LOOP))
    assert any(line.startswith("2 thrash loops. The dearest: ") for line in chains_words(two))


def test_steps_that_do_not_thrash_have_no_figures_of_thrash(found):
    calm = attrs.evolve(found, onset=attrs.evolve(found.onset, steps=()))
    table = steps_table(calm)
    assert "- : the step does not thrash" in table.title
    assert {cell for column in table.columns[4:] for cell in column.cells} == {"-"}


def test_sentences_and_tables(found):
    words = chains_words(found)
    assert words[0].startswith(f"{found.evictions['pressure']:,} evictions under pressure hit")
    assert any(line.startswith("Thrash begins at step") for line in words)
    assert any("push each other out" in line for line in words)
    assert fit(cost_table(found), 80)
    assert fit(loops_table(found), 80)
    assert len(cost_table(found).rows) >= 5
    lines = chain_words(found.chains[0])
    assert lines[1].startswith("- step ")
