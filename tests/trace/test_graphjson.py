"""A graph is a trace: tensors go after their last use or where it says, and nothing is guessed."""

import json

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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

from .graphs import TWO_LAYERS, with_nodes


def read(document, name="graph"):
    return parse_graph(json.dumps(document).encode(), name=name)


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


def test_the_example_is_what_the_schema_describes(validator):
    validator.validate(TWO_LAYERS)
