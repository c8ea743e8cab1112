"""Execution traces made by hand, call by call, and the profiler's trace beside them."""

import json

from dtrdiag.trace import Instruction
from dtrdiag.trace.chakra import parse_execution_trace

SCHEMA = "1.1.1-chakra.0.0.4"


def tensor(number, storage, *shape, itemsize=4, offset=0, strides=None):
    numel, dense = 1, []
    for size in reversed(shape):
        dense.insert(0, numel)
        numel *= size
    value = [number, storage, offset, numel, itemsize, "cpu"]
    return value, "Tensor(float)", list(shape), dense if strides is None else list(strides)


def number(value=1):
    return value, "Int", [], []


def side(*arguments):
    columns = [list(column) for column in zip(*arguments, strict=True)] or [[], [], [], []]
    return dict(zip(("values", "types", "shapes", "strides"), columns, strict=True))


def call(id, parent, name, inputs=(), outputs=(), schema=None, **attributes):
    if schema is None:
        schema = f"{name}({', '.join(f'Tensor a{i}' for i in range(len(inputs)))}) -> Tensor"
    attributes = {"rf_id": id, "op_schema": schema, **attributes}
    return {
        "id": id,
        "name": name,
        "ctrl_deps": parent,
        "inputs": side(*inputs),
        "outputs": side(*outputs),
        "attrs": [{"name": key, "type": "", "value": value} for key, value in attributes.items()],
    }


def span(id, parent, name="block"):
    return call(id, parent, name, schema="")


ROOT = span(1, 1, "process")
X, W = tensor(10, 11, 4, 4), tensor(20, 21, 4, 4)
A, B, C = (tensor(n, n + 1, 4, 4) for n in (30, 40, 50))
ADD_ = "aten::add_(Tensor(a!) self, Tensor other) -> Tensor(a!)"


def document(*nodes, **fields):
    return {"schema": SCHEMA, "pid": 1, "nodes": [ROOT, *nodes], **fields}


def read(*nodes, **options):
    content = json.dumps(document(*nodes)).encode()
    return parse_execution_trace(
        content, name="step", path="et.json", **{"costs": "bytes"} | options
    )


def ops(*nodes):
    return [name for name in read(*nodes).trace.op_name if name != "constant"]


def arguments(trace, op):
    return [trace.tensor_name[tensor] for tensor in trace.inputs_of(op).tolist()]


def instructions(trace):
    return [Instruction(kind).name for kind in trace.instruction_kind.tolist()]


LINEAR = [
    call(2, 1, "aten::linear", [X, W], [A]),
    call(3, 2, "aten::t", [W], [tensor(22, 21, 4, 4, strides=(1, 4))]),
    call(4, 3, "aten::transpose", [W], [tensor(22, 21, 4, 4, strides=(1, 4))]),
    call(5, 2, "aten::mm", [X, tensor(22, 21, 4, 4, strides=(1, 4))], [A]),
    call(6, 5, "aten::resolve_conj", [A], [A]),
]


def kineto(*events, **fields):
    made = []
    for number, name, duration in events:
        arguments = {"Record function id": number, "External id": number}
        made.append({"ph": "X", "cat": "cpu_op", "name": name, "dur": duration, "args": arguments})
    return {"traceEvents": [{"ph": "M", "name": "process_name"}, *made], **fields}


TIMES = kineto((2, "aten::linear", 99), (3, "aten::t", 0.5), (5, "aten::mm", 7.25))
