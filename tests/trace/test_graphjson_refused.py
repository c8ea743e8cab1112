"""A document that is no graph is refused by what is wrong with it, and where."""

import json

import pytest

from dtrdiag.errors import TraceError
from dtrdiag.trace import (
    parse_graph,
    read_trace,
)

from .graphs import TWO_LAYERS, with_nodes

X = {"name": "x", "constant": True, "memory": 8}
A = {"name": "a", "cost": 1, "memory": 8, "dependencies": ["x"]}

REFUSED = {
    # what it is: (document, text, whether the JSON Schema refuses it too)
    "no nodes": ({"schema": "dtrdiag.graph/1"}, "there is no nodes", True),
    "empty nodes": (with_nodes(), "nodes is empty", True),
    "nodes no list": (with_nodes(nodes={}), "nodes is not a list: {}", True),
    "another version": (
        {**TWO_LAYERS, "schema": "dtrdiag.graph/2"},
        "schema is 'dtrdiag.graph/2', and 'dtrdiag.graph/1' is what is read",
        True,
    ),
    "a mistyped field": (
        with_nodes(X, {**A, "memroy": 3}),
        "node 1 ('a'): no field \"memroy\"; did you mean memory?",
        True,
    ),
    "a field of the document": (with_nodes(X, output=[]), 'no field "output"', True),
    "a node no object": (with_nodes(X, 7), "node 1: not an object: 7", True),
    "no name": (with_nodes({"cost": 1, "memory": 1}), "node 0: there is no name", True),
    "an empty name": (with_nodes({**X, "name": ""}), "node 0: name is not a text: ''", True),
    "a name twice": (with_nodes(X, A, A), "node 2 ('a'): another node has this name", False),
    "no cost": (with_nodes(X, {"name": "a", "memory": 1}), "node 1 ('a'): there is no cost", True),
    "a cost that is half": (
        with_nodes(X, {**A, "cost": 1.5}),
        "node 1 ('a'): cost is not a whole number: 1.5",
        True,
    ),
    "a negative cost": (with_nodes(X, {**A, "cost": -1}), "cost is negative: -1", True),
    "an absurd cost": (with_nodes(X, {**A, "cost": 1 << 51}), "cost is absurdly large", True),
    "a cost as text": (with_nodes(X, {**A, "cost": "1"}), "cost is not a whole number: '1'", True),
    "no memory": (with_nodes(X, {"name": "a", "cost": 1}), "there is no memory", True),
    "a negative size": (with_nodes({**X, "memory": -8}), "memory is negative: -8", True),
    "an absurd size": (with_nodes({**X, "memory": 10**30}), "memory is absurdly large", True),
    "a size that is true": (
        with_nodes({**X, "memory": True}),
        "memory is not a whole number: True",
        True,
    ),
    "a size that is nothing": (with_nodes({**X, "memory": None}), "not a whole number: None", True),
    "an unknown dependency": (
        with_nodes(X, {**A, "dependencies": ["y"]}),
        "node 1 ('a'): dependencies: 'y' is no node",
        False,
    ),
    "a later dependency": (
        with_nodes(X, {**A, "dependencies": ["b"]}, {**A, "name": "b"}),
        "'b' comes later: nodes stand in the order of execution",
        False,
    ),
    "itself as dependency": (
        with_nodes(X, {**A, "dependencies": [1]}),
        "node 1 comes later",
        False,
    ),
    "a number too large": (with_nodes(X, {**A, "dependencies": [9]}), "node 9 is not there", False),
    "a negative number": (with_nodes(X, {**A, "dependencies": [-1]}), "node -1 is not there", True),
    "a dependency that is a list": (
        with_nodes(X, {**A, "dependencies": [["x"]]}),
        "dependencies has what is no name and no number: ['x']",
        True,
    ),
    "dependencies no list": (
        with_nodes(X, {**A, "dependencies": "x"}),
        "dependencies is not a list: 'x'",
        True,
    ),
    "a constant with a cost": (with_nodes({**X, "cost": 3}), "a constant has no cost", True),
    "a constant that is a word": (
        with_nodes({**X, "constant": "yes"}),
        "constant is not true or false: 'yes'",
        True,
    ),
    "called constant": (
        with_nodes({"name": "c", "op": "constant", "cost": 0, "memory": 1}),
        'must not be called "constant"',
        False,
    ),
    "an alias of no dependency": (
        with_nodes(X, A, {"name": "v", "cost": 0, "dependencies": ["x"], "alias": "a"}),
        "alias 'a' is not one of the dependencies",
        False,
    ),
    "results and memory": (
        with_nodes(X, {**A, "results": [{"name": "r", "memory": 1}]}),
        "memory and alias stand in its results",
        True,
    ),
    "empty results": (
        with_nodes(X, {"name": "a", "cost": 1, "results": []}),
        "results is empty",
        True,
    ),
    "a result no object": (
        with_nodes(X, {"name": "a", "cost": 1, "results": ["r"]}),
        "result 0: not an object: 'r'",
        True,
    ),
    "a result made twice": (
        with_nodes(X, {"name": "a", "cost": 1, "results": [{"name": "x", "memory": 1}]}),
        "another node makes 'x'",
        False,
    ),
    "a node of several results by number": (
        with_nodes(
            X,
            {"name": "a", "cost": 1, "results": [{"name": n, "memory": 1} for n in "rs"]},
            {**A, "name": "b", "dependencies": [1]},
        ),
        "node 1 has several results; name the one",
        False,
    ),
    "an unknown output": (with_nodes(X, A, outputs=["y"]), "outputs: 'y' is no node", False),
    "a way of releases": (
        with_nodes(X, A, releases="never"),
        'no way of releases "never"; there are last_use, explicit',
        True,
    ),
    "both ways": (
        with_nodes(X, {**A, "release": []}, releases="last_use"),
        "a node has a release, and releases is 'last_use'",
        False,
    ),
    "released twice": (
        with_nodes(X, A, {**A, "name": "b", "release": ["a", "a"]}),
        "'a' is released a second time",
        False,
    ),
    "used after its release": (
        with_nodes(
            X, {**A, "release": ["a"]}, {**A, "name": "b", "dependencies": ["a"], "release": []}
        ),
        "node 2 ('b'): 'a' was released after 'a'",
        False,
    ),
    "a released output": (
        with_nodes(X, {**A, "release": ["a"]}, outputs=["a"]),
        "output 'a' is released after 'a'",
        False,
    ),
    "neither released nor an output": (
        with_nodes(X, A, {**A, "name": "b", "release": []}, outputs=["b"]),
        "node 1 ('a'): 'a' is neither released nor an output",
        False,
    ),
    "sizes that add up to too much": (
        with_nodes(*({**X, "name": f"x{i}", "memory": 1 << 50} for i in range(4097))),
        "node 4096 ('x4096'): the sizes or the costs add up to more than 2**62",
        False,
    ),
}


@pytest.mark.parametrize(("document", "text", "schema_refuses"), REFUSED.values(), ids=[*REFUSED])
def test_a_document_that_makes_no_sense_is_refused(document, text, schema_refuses, validator):
    with pytest.raises(TraceError) as refused:
        parse_graph(json.dumps(document).encode(), name="bad", path="bad.json")
    assert text in str(refused.value)
    assert str(refused.value).endswith("(bad.json)")
    assert "\n" not in str(refused.value)
    assert validator.is_valid(document) is not schema_refuses


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "the file is empty (bad.json)"),
        (b'{"schema": "dtrdiag.graph/1",\n "nodes": [}', "not JSON: "),
        (
            b'{"schema": "dtrdiag.graph/1",\n "nodes": [',
            "middle of the document) (bad.json:2)",
        ),
        (b"[1]", "not a JSON object (bad.json)"),
        (b'{"schema": ' + b"[" * 100_000, "not JSON: "),
        (b'{"schema": "dtrdiag.graph/1", "nodes": [NaN]}', "not JSON: "),
    ],
)
def test_what_is_no_document_is_refused(content, text):
    with pytest.raises(TraceError) as refused:
        parse_graph(content, name="bad", path="bad.json")
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"name":"a","cost":1,"cost":2,"memory":1}', "'a': 'cost' stands twice in one object"),
        ('{"name":"a","cost":1,"memory":1,"cost" :2}', "'a': 'cost' stands twice in one object"),
        ('{"name":"a:","cost":1,"memory":1,"cost":1}', "'a:': 'cost' stands twice in one object"),
        ('{"name":"a","name":"b","cost":1,"memory":1}', "'a': 'name' stands twice in one object"),
        (
            '{"name":"a","cost":1,"results":[{"name":"r","memory":1,"memory":1}]}',
            "'r': 'memory' stands twice in one object",
        ),
    ],
)
def test_a_key_that_stands_twice_is_refused_by_where_it_is(text, what):
    content = '{"schema":"dtrdiag.graph/1","comment":"\\"memory\\": {:","nodes":[' + text + "]}"
    with pytest.raises(TraceError) as refused:
        parse_graph(content.encode(), name="graph")
    assert refused.value.what == what


def test_what_looks_like_a_key_within_a_text_is_none():
    text = '{"schema":"dtrdiag.graph/1","comment":"\\"memory\\": {:","nodes":['
    text += '{"name":"a\\":b","cost":1,"memory":1}]}'
    assert parse_graph(text.encode(), name="graph").op_name == ('a":b',)


@pytest.mark.parametrize("number", ["1" + "0" * 30, "-" + "9" * 30, "123456789012345678901"])
def test_a_number_that_is_refused_is_told_as_it_was_given(number):
    text = '{"schema":"dtrdiag.graph/1","nodes":[{"name":"a","cost":1,"memory":' + number + "}]}"
    with pytest.raises(TraceError, match=number):
        parse_graph(text.encode(), name="graph")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"\x80\x04\x95.", "a pickle, which may run what it holds, and is never read"),
        (b'{"schema": "dtrdiag.map/1"}', "a document of schema 'dtrdiag.map/1', which is no trace"),
        (b'{\n"nodes": [],\n"name": "x"}', 'begins with its "schema"'),
        (b'{"nodes": [], "schema": "dtrdiag.graph/1"}', 'told by a "schema" that comes first'),
        (b'{\n"nodes": [],\n"schema": "dtrdiag.graph/1"}', 'a "schema" that comes first'),
        (json.dumps(TWO_LAYERS).encode("utf-16"), "the text is in UTF-16, and UTF-8 is what is"),
        (json.dumps(TWO_LAYERS).encode("utf-16-be"), "the text is in UTF-16"),
        (json.dumps(TWO_LAYERS).encode("utf-32"), "the text is in UTF-32"),
        (
            json.dumps(TWO_LAYERS).encode("utf-8-sig"),
            "begins with a byte-order mark (BOM): save it",
        ),
        (b'{"INSTRUCTION": "JUMP"}\n', "unknown instruction 'JUMP'"),
    ],
)
def test_other_files_are_refused_by_what_they_are(content, text, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(TraceError) as refused:
        read_trace(path)
    assert text in str(refused.value)
