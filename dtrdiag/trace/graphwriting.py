"""How is a trace written as a graph document, and what is lost by that?

Ops, costs, sizes, views, dependencies and the moment at which each tensor loses its last name are
kept, so a run decides the same on the graph. Lost are names beyond the first of a tensor (COPY,
COPY_FROM), labels and the preamble, that a MUTATE was one (it becomes the op that makes the new
version, and a release of the old one), and the order of what is wanted at the end, which becomes
that in which it was made.
"""

from __future__ import annotations

from typing import Any

import orjson

from dtrdiag.errors import TraceError
from dtrdiag.trace.builder import shown
from dtrdiag.trace.graphjson import EXPLICIT, GRAPH_SCHEMA
from dtrdiag.trace.model import Step, Trace


def write_graph(trace: Trace) -> bytes:
    """The trace as a `dtrdiag.graph/1` document, with a newline at its end.

    Raises:
        TraceError: the trace uses a tensor after its last release, which a graph cannot say.
    """
    names = _tensor_names(trace)
    ends = _ends(trace)
    nodes: list[dict[str, Any]] = []
    released_at: dict[int, list[int]] = {}
    for step, tensor in sorted((step, tensor) for tensor, step in ends.items()):
        released_at.setdefault(step, []).append(tensor)
    kinds, operands = trace.step_kind.tolist(), trace.step_operand.tolist()
    for step, (kind, operand) in enumerate(zip(kinds, operands, strict=True)):
        if kind in (Step.CALL, Step.CONSTANT):
            _check_used(trace, operand, ends, step)
            nodes.append(_node(trace, operand, names, kind == Step.CONSTANT))
        if step in released_at:
            if not nodes:
                raise TraceError("the first step releases a tensor", path=trace.path)
            here = nodes[-1].setdefault("release", [])
            here += [names[tensor] for tensor in released_at[step]]
    document = {"schema": GRAPH_SCHEMA, "name": trace.name, "releases": EXPLICIT, "nodes": nodes}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _node(trace: Trace, op: int, names: list[str], constant: bool) -> dict[str, Any]:
    outputs = trace.outputs_of(op)
    if constant:
        memory_bytes = int(trace.tensor_memory_bytes[outputs[0]])
        return {"name": names[outputs[0]], "constant": True, "memory": memory_bytes}
    args = [names[tensor] for tensor in trace.inputs_of(op).tolist()]
    results = []
    for tensor in outputs:
        alias = int(trace.tensor_alias[tensor])
        result: dict[str, Any] = {"name": names[tensor]}
        if alias >= 0:
            result["alias"] = args[alias]
        results.append(result | {"memory": int(trace.tensor_memory_bytes[tensor])})
    what = {
        "op": trace.op_name[op],
        "cost": int(trace.op_cost_ns[op]),
        "dependencies": args,
    }
    if len(results) == 1:
        return results[0] | what
    return {"name": f"{names[outputs[0]]} and more", **what, "results": results}


def _tensor_names(trace: Trace) -> list[str]:
    """A name for each tensor, its own where no other has it."""
    names: list[str] = []
    taken: set[str] = set()
    for own in trace.tensor_name:
        name, number = own, 1
        while not name or name in taken:
            number += 1
            name = f"{own}#{number}"
        taken.add(name)
        names.append(name)
    return names


def _ends(trace: Trace) -> dict[int, int]:
    """The step after which a tensor never has a name again, by tensor."""
    held = [1] * trace.tensors
    ends: dict[int, int] = {}
    kinds, operands = trace.step_kind.tolist(), trace.step_operand.tolist()
    for step, (kind, tensor) in enumerate(zip(kinds, operands, strict=True)):
        if kind == Step.RETAIN:
            held[tensor] += 1
            ends.pop(tensor, None)
        elif kind == Step.RELEASE:
            held[tensor] -= 1
            if held[tensor] == 0:
                ends[tensor] = step
    return ends


def _check_used(trace: Trace, op: int, ends: dict[int, int], step: int) -> None:
    for tensor in trace.inputs_of(op).tolist():
        if ends.get(tensor, step) < step:
            name = shown(trace.tensor_name[tensor])
            raise TraceError(
                f"{shown(trace.op_name[op])} uses {name} after its release, which a graph cannot "
                "say: keep it as a DTR log",
                path=trace.path,
            )
