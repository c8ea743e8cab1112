"""An execution trace from which something cannot be told is refused by name."""

import copy
import json

import pytest

from dtrdiag.errors import DtrdiagError, TraceError
from dtrdiag.trace import read_trace
from dtrdiag.trace.chakra import parse_execution_trace, read_execution_trace

from .executiontraces import ADD_, SCHEMA, A, W, X, call, document, kineto, side, span, tensor


def changed(node, **fields):
    return {**copy.deepcopy(node), **fields}


MM = call(2, 1, "aten::mm", [X, W], [A])
BAD = {
    "nodes no list": (document(nodes=7), "nodes is not a list: 7"),
    "no nodes": ({"schema": SCHEMA}, "there is no nodes"),
    "an older schema": (
        document(MM, schema="0.9-chakra"),
        "schema is '0.9-chakra', and 1.x.x-chakra",
    ),
    "a node no object": (document(3), "node 1: not an object: 3"),
    "no id": (document({"name": "x"}), "node 1: there is no id"),
    "an id twice": (document(MM, MM), "node 2 ('aten::mm'): another node has this id"),
    "an id as text": (document(changed(MM, id="2")), "id is not a whole number: '2'"),
    "no name": (document(changed(MM, name=None)), "name is not a text: None"),
    "before its parent": (document(changed(MM, ctrl_deps=5), span(5, 1)), "began before node 5"),
    "no attributes": (document(changed(MM, attrs={})), "attrs is not a list: {}"),
    "an attribute without a name": (document(changed(MM, attrs=[1])), "no object with a name: 1"),
    "inputs no object": (document(changed(MM, inputs=[])), "inputs is not an object: []"),
    "no strides": (
        document(changed(MM, inputs={"values": [], "types": [], "shapes": []})),
        "node 2 ('aten::mm'), inputs: there are no strides, so sizes of views cannot be told",
    ),
    "columns of other lengths": (
        document(changed(MM, inputs={**side(X), "shapes": []})),
        "values, types, shapes and strides differ in length",
    ),
    "a tensor too short": (
        document(call(2, 1, "f", [([1, 2], *X[1:])], [A])),
        "a tensor is not six values, whole numbers first: [1, 2]",
    ),
    "a tensor of text": (
        document(call(2, 1, "f", [(["a", 2, 0, 4, 4, "cpu"], *X[1:])], [A])),
        "a tensor is not six values",
    ),
    "a negative size": (
        document(call(2, 1, "f", [([1, 2, 0, -4, 4, "cpu"], *X[1:])], [A])),
        "a tensor is not six values",
    ),
    "no storage": (
        document(call(2, 1, "f", [([1, 0, 0, 4, 4, "cpu"], *X[1:])], [A])),
        "a tensor without a storage",
    ),
    "strides of another rank": (
        document(call(2, 1, "f", [(*X[:3], [1])], [A])),
        "a tensor's shape and strides are no sizes: [[4, 4], [1]]",
    ),
    "an absurd size": (
        document(call(2, 1, "f", [tensor(1, 2, 1 << 40, 1 << 20)], [A])),
        "a tensor is absurdly large",
    ),
    "a list that is none": (
        document(call(2, 1, "f", [(3, "GenericList[Tensor(float)]", [[1]], [[1]])], [A])),
        "a list of tensors is no list: 3",
    ),
    "a type no text": (
        document(call(2, 1, "f", [(X[0], 3, *X[2:])], [A])),
        "a type is not a text: 3",
    ),
    "a schema of other arguments": (
        document(call(2, 1, "f_", [X], [X], schema=ADD_)),
        "its schema has 2 arguments and the node 1, so what it writes cannot be told",
    ),
    "a schema without an end": (
        document(call(2, 1, "f_", [X], [X], schema="f_(Tensor(a!) self")),
        "an op_schema without an end",
    ),
    "a compiled kernel": (
        document(call(2, 1, "triton_", [X], [A], kernel_backend="triton")),
        "made by a compiler ('triton')",
    ),
    "a tensor from nowhere": (
        document(call(2, 1, "MyKernel", [X], [A], schema="")),
        "node 2 ('MyKernel'): makes tensors, and has no schema that says how",
    ),
    "a collective": (document(call(2, 1, "record_param_comms", [X], [X])), "a collective"),
    "nothing ran": (document(), "no operator in it: it was stopped before anything ran"),
}


def tensor_of(numel, itemsize, *shape):
    return [30, 31, 0, numel, itemsize, "cpu"], "Tensor(float)", list(shape), [1] * len(shape)


TWICE = call(2, 1, "aten::exp", [X], [A])
TWICE["attrs"] = [*TWICE["attrs"], {"name": "op_schema", "value": ADD_}]
BAD |= {
    "numel of another shape": (
        document(call(2, 1, "aten::exp", [X], [tensor_of(7, 4, 1024)])),
        "node 2 ('aten::exp'), outputs: a tensor of 7 elements has the shape [1024]",
    ),
    "elements of nothing": (
        document(call(2, 1, "aten::exp", [X], [tensor_of(8, 0, 8)])),
        "outputs: a tensor of elements without bytes: [30, 31, 0,",
    ),
    "an attribute twice": (document(TWICE), "node 2 ('aten::exp'): two attributes 'op_schema'"),
    "calls without an end": (
        document(*(call(at, at - 1, "aten::exp", [X], [A]) for at in range(2, 300))),
        "node 259 ('aten::exp'): operators within operators, more than 256 levels",
    ),
}


@pytest.mark.parametrize(("bad", "text"), BAD.values(), ids=[*BAD])
def test_what_does_not_suffice_is_refused(bad, text):
    content = json.dumps(bad).encode()
    with pytest.raises(DtrdiagError) as refused:
        parse_execution_trace(content, name="step", path="et.json", costs="bytes")
    assert text in str(refused.value)
    assert "\n" not in str(refused.value)
    assert str(refused.value).endswith("(et.json)")


def test_a_key_that_stands_twice_in_a_node_is_refused():
    content = json.dumps(document(call(2, 1, "aten::exp", [X], [A])))
    content = content.replace(
        '"ctrl_deps": 1, "inputs"', '"ctrl_deps": 2, "ctrl_deps": 1, "inputs"'
    )
    with pytest.raises(TraceError, match="'process': 'ctrl_deps' stands twice in one object"):
        parse_execution_trace(content.encode(), name="step", costs="bytes")


BAD_TIMES = {
    "not JSON": ("{", "not JSON: "),
    "another document": ("{}", "there is no traceEvents"),
    "an event no object": (json.dumps({"traceEvents": [1]}), "event 0: not an object: 1"),
    "no operators": (json.dumps(kineto()), "no operator in it has a 'Record function id'"),
    "a duration of text": (json.dumps(kineto((3, "aten::t", "x"))), "dur is no number of micro"),
    "a negative duration": (json.dumps(kineto((3, "aten::t", -1))), "dur is no number of micro"),
    "one is missing": (json.dumps(kineto((3, "aten::t", 1))), "no duration for 1 of 2 operators"),
    "of another run": (
        json.dumps(kineto((3, "aten::add", 1), (5, "aten::mm", 1))),
        "call 3 is 'aten::add' here, and 'aten::t' in the execution trace: they are not of one run",
    ),
}


@pytest.mark.parametrize(("times", "text"), BAD_TIMES.values(), ids=[*BAD_TIMES])
def test_durations_that_do_not_fit_are_refused(files, tmp_path, times, text):
    files()
    (tmp_path / "et.kineto.json").write_text(times)
    with pytest.raises(TraceError) as refused:
        read_trace("et.json")
    assert text in str(refused.value)
    assert "et.kineto.json" in str(refused.value)


def test_without_durations_it_is_refused_unless_a_stand_in_is_asked_for(files):
    files(name="elsewhere.json")
    with pytest.raises(TraceError, match="without durations: the profiler's trace of the same run"):
        read_trace("et.json")
    with pytest.raises(TraceError, match="no stand-in 'guess'"):
        read_execution_trace("et.json", costs="guess")
    found = read_execution_trace("et.json", durations="elsewhere.json")
    assert found.trace.op_cost_ns.tolist() == [0, 0, 500, 7250]
    assert (
        read_execution_trace("et.json", costs="bytes").notes()[-1].startswith("costs are a stand")
    )


def test_protobuf_is_refused_with_what_to_take(tmp_path):
    path = tmp_path / "chakra.0.et"
    path.write_bytes(b"\x0a\x0e\x0a\x050.0.4\x12")
    with pytest.raises(
        TraceError, match=r"a Chakra trace as protobuf.*take the JSON that it was con"
    ):
        read_trace(path)
