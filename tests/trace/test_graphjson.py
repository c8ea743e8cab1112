"""A graph is a trace: tensors go after their last use or where it says, and nothing is guessed."""

import json
from importlib import resources

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from dtrdiag.errors import TraceError
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, simulate
from dtrdiag.trace import (
    Instruction,
    Step,
    TraceBuilder,
    parse_dtr_log,
    parse_graph,
    read_trace,
    write_dtr_log,
    write_graph,
)
from dtrdiag.trace.catalog import resolve

TWO_LAYERS = {
    "schema": "dtrdiag.graph/1",
    "name": "two-layers",
    "nodes": [
        {"name": "x", "constant": True, "memory": 40},
        {"name": "a", "cost": 5, "memory": 100, "dependencies": ["x"]},
        {"name": "b", "cost": 6, "memory": 60, "dependencies": [1]},
        {"name": "gb", "cost": 7, "memory": 60, "dependencies": ["b"], "backward": True},
        {"name": "ga", "cost": 8, "memory": 100, "dependencies": ["gb", "a"]},
    ],
}


@pytest.fixture(scope="module")
def validator():
    text = resources.files("dtrdiag.trace").joinpath("graph-1.json").read_text(encoding="utf-8")
    Draft202012Validator.check_schema(json.loads(text))
    return Draft202012Validator(json.loads(text))


def read(document, name="graph"):
    return parse_graph(json.dumps(document).encode(), name=name)


def with_nodes(*nodes, **fields):
    return {"schema": "dtrdiag.graph/1", "nodes": list(nodes), **fields}


def released_after(trace):
    """Names of tensors, by the name of the op after which they are released."""
    found, op = {}, None
    for kind, operand in zip(trace.step_kind.tolist(), trace.step_operand.tolist(), strict=True):
        if kind in (Step.CALL, Step.CONSTANT):
            op = trace.tensor_name[trace.output_start[operand]]
        elif kind == Step.RELEASE:
            found.setdefault(op, []).append(trace.tensor_name[operand])
    return found


def outputs(trace):
    steps = zip(trace.step_kind.tolist(), trace.step_operand.tolist(), strict=True)
    return [trace.tensor_name[tensor] for kind, tensor in steps if kind == Step.OUTPUT]


def test_costs_sizes_and_dependencies_are_those_of_the_nodes():
    trace = read(TWO_LAYERS)
    assert trace.name == "two-layers"
    assert trace.op_name == ("constant", "a", "b", "gb", "ga")
    assert trace.op_cost_ns.tolist() == [0, 5, 6, 7, 8]
    assert trace.tensor_size_bytes.tolist() == [40, 100, 60, 60, 100]
    assert [trace.inputs_of(op).tolist() for op in range(5)] == [[], [0], [1], [2], [3, 1]]


def test_without_release_points_a_tensor_goes_after_its_last_use():
    trace = read(TWO_LAYERS)
    assert released_after(trace) == {"gb": ["b"], "ga": ["gb", "a"]}
    assert outputs(trace) == ["x", "ga"]
    assert baseline_peak_bytes(trace) == 40 + 100 + 60 + 100


def test_what_nothing_depends_on_goes_at_once_where_outputs_are_named():
    trace = read({**TWO_LAYERS, "outputs": ["b"]})
    assert released_after(trace) == {"ga": ["gb", "a", "ga"]}
    assert outputs(trace) == ["x", "b"]


def test_release_points_are_taken_as_they_stand():
    nodes = [dict(node) for node in TWO_LAYERS["nodes"]]
    nodes[4]["release"] = ["gb", 2]
    trace = read(with_nodes(*nodes))
    assert released_after(trace) == {"ga": ["gb", "b"]}
    assert outputs(trace) == ["x", "a", "ga"]
    kept = read(with_nodes(*TWO_LAYERS["nodes"], releases="explicit"))
    assert released_after(kept) == {}


def test_the_backward_pass_is_labelled_once():
    nodes = [{**node, "backward": "g" in node["name"]} for node in TWO_LAYERS["nodes"]]
    trace = read(with_nodes(*nodes))
    kinds = trace.instruction_kind.tolist()
    assert kinds.count(Instruction.ANNOTATE) == 1
    assert kinds[kinds.index(Instruction.ANNOTATE) + 1 :].count(Instruction.CALL) == 2


def test_views_and_ops_of_several_results():
    trace = read(
        with_nodes(
            {"name": "x", "constant": True, "memory": 40},
            {"name": "v", "cost": 1, "dependencies": ["x"], "alias": "x"},
            {
                "name": "split",
                "op": "chunk",
                "cost": 2,
                "dependencies": ["x", "v"],
                "results": [{"name": "l", "memory": 8}, {"name": "r", "alias": 1}],
            },
        )
    )
    assert trace.op_name == ("constant", "v", "chunk")
    assert trace.tensor_alias.tolist() == [-1, 0, -1, 1]
    assert trace.tensor_size_bytes.tolist() == [40, 0, 8, 0]
    assert trace.storages == 2


def test_the_digest_is_that_of_the_file(tmp_path):
    path = tmp_path / "graph"
    path.write_text(json.dumps(TWO_LAYERS))
    assert resolve(path).sha256 == read(TWO_LAYERS).sha256
    assert resolve(path) == read_trace(path)


def test_a_graph_is_told_by_its_content_whatever_it_is_called(tmp_path):
    path = tmp_path / "looks-like.log"
    path.write_text(json.dumps(TWO_LAYERS, indent=2))
    assert read_trace(path).name == "two-layers"
    log = tmp_path / "looks-like.json"
    log.write_bytes(write_dtr_log(read(TWO_LAYERS)))
    assert read_trace(log).name == "looks-like"


@settings(max_examples=40)
@given(data=st.data())
def test_a_written_graph_decides_as_its_trace(random_traces, data):
    trace = data.draw(random_traces)
    again = parse_graph(write_graph(trace), name=trace.name)
    assert again.op_cost_ns.tolist() == trace.op_cost_ns.tolist()
    assert again.tensor_size_bytes.tolist() == trace.tensor_size_bytes.tolist()
    assert again.tensor_storage.tolist() == trace.tensor_storage.tolist()
    peak = baseline_peak_bytes(trace)
    assert baseline_peak_bytes(again) == peak
    # Where a MUTATE or COPY_FROM has given a name away, outputs are wanted in another order.
    rebound = {Instruction.MUTATE, Instruction.COPY_FROM} & set(trace.instruction_kind.tolist())
    if not rebound:
        config = RunConfig("dtr", max(peak // 2, 1))
        a, b = simulate(trace, config), simulate(again, config)
        assert (b.end.outcome, b.end.decisions_sha256) == (a.end.outcome, a.end.decisions_sha256)


@settings(max_examples=40)
@given(data=st.data())
def test_reading_and_writing_a_graph_is_stable(random_traces, data):
    written = write_graph(data.draw(random_traces))
    assert write_graph(parse_graph(written, name="random")) == written


@pytest.mark.parametrize("name", ["chain-64", "residual-12", "recurrent-16", "tree-4"])
def test_bundled_traces_survive_the_way_there_and_back(name, validator):
    trace = resolve(name)
    written = write_graph(trace)
    validator.validate(json.loads(written))
    again = parse_graph(written, name=name)
    budget = baseline_peak_bytes(trace) * 6 // 10
    a, b = (simulate(each, RunConfig("dtr", budget)) for each in (trace, again))
    assert (b.end.decisions_sha256, b.end.interval_hi_bytes) == (
        a.end.decisions_sha256,
        a.end.interval_hi_bytes,
    )


def test_a_graph_goes_through_a_dtr_log():
    trace = read(TWO_LAYERS)
    log = parse_dtr_log(write_dtr_log(trace), name="two-layers")
    assert attrs.evolve(log, sha256="", step_line=trace.step_line) == attrs.evolve(trace, sha256="")


def test_a_use_after_the_release_cannot_be_written():
    builder = TraceBuilder("late", "late.log")
    builder.constant("x", 8)
    builder.call(["a"], "f", ["x"], 1, [8], [-1])
    builder.release("a")
    builder.call(["b"], "g", ["a"], 1, [8], [-1])
    with pytest.raises(TraceError, match=r"'g' uses 'a' after its release.*\(late\.log\)"):
        write_graph(builder.build("0" * 64))


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


def test_the_example_is_what_the_schema_describes(validator):
    validator.validate(TWO_LAYERS)
