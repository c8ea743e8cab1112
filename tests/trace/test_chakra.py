"""Execution traces: which calls are operators, what is one storage, and what they cost."""

import copy
import json

import pytest

from dtrdiag.errors import TraceError
from dtrdiag.simulator import baseline_peak_bytes
from dtrdiag.trace import parse_dtr_log, read_trace, write_dtr_log
from dtrdiag.trace.model import Step

from .executiontraces import (
    ADD_,
    LINEAR,
    SCHEMA,
    TIMES,
    A,
    B,
    C,
    W,
    X,
    arguments,
    call,
    instructions,
    kineto,
    number,
    ops,
    read,
    span,
    tensor,
)


def test_a_composite_gives_way_to_those_within_it_which_are_taken_once():
    found = read(*LINEAR)
    assert found.trace.op_name == ("constant", "constant", "aten::t", "aten::mm")
    assert (found.operators, found.views, found.constants) == (2, 1, 2)
    assert arguments(found.trace, 3) == ["s11", found.trace.tensor_name[2]]


def test_a_call_that_does_the_work_itself_is_taken_whole():
    # `copy_` writes to a storage that nothing within `addmm` has made.
    inner = call(3, 2, "aten::copy_", [A, X], [A], schema=ADD_.replace("add_", "copy_"))
    assert ops(call(2, 1, "aten::addmm", [X, W], [A]), inner) == ["aten::addmm"]


def test_what_fills_its_own_allocation_is_taken_whole():
    nodes = [
        call(2, 1, "aten::ones_like", [X], [A]),
        call(3, 2, "aten::empty_like", [X], [A]),
        call(4, 2, "aten::fill_", [A], [A], schema="aten::fill_(Tensor(a!) self) -> Tensor(a!)"),
    ]
    assert ops(*nodes) == ["aten::ones_like"]


def test_a_call_that_reads_more_than_those_within_it_is_taken_whole():
    nodes = [call(2, 1, "aten::gather_rows", [X, W], [A]), call(3, 2, "aten::zeros_of", [X], [A])]
    assert ops(*nodes) == ["aten::gather_rows"]


def test_a_call_is_taken_apart_for_what_is_used_later():
    mask = tensor(60, 61, 4, 4)
    nodes = [
        call(2, 1, "aten::dropout", [X], [A]),
        call(3, 2, "aten::empty_like", [X], [mask]),
        call(
            4, 2, "aten::bernoulli_", [mask], [mask], schema="aten::b_(Tensor(a!) self) -> Tensor"
        ),
        call(5, 2, "aten::mul", [X, mask], [A]),
        call(6, 1, "aten::mul", [A, mask], [B]),
    ]
    names = ["aten::empty_like", "aten::bernoulli_", "aten::mul", "aten::mul"]
    assert ops(*nodes) == names
    assert read(*nodes).random == 1
    assert ops(*nodes[:4]) == names[:3]


def test_what_is_made_unseen_and_used_later_is_refused():
    nodes = [
        call(2, 1, "aten::fused", [X, W], [A]),
        call(3, 2, "aten::part", [X], [B]),
        call(4, 1, "aten::neg", [B], [C]),
    ]
    with pytest.raises(
        TraceError, match=r"node 2 \('aten::fused'\): makes what is used later \(sto"
    ):
        read(*nodes)


KEPT = [
    call(2, 1, "aten::relu", [X], [A]),
    call(3, 1, "aten::silu_", [A], [A], schema="aten::silu_(Tensor(a!) self) -> Tensor(a!)"),
    call(4, 3, "aten::clone", [A], [B]),
    call(5, 1, "aten::silu_backward", [A, B], [C]),
]
"""Autograd keeps a copy of what is overwritten."""


def test_a_copy_that_autograd_keeps_is_an_operator_that_comes_first(files):
    assert ops(*KEPT) == ["aten::relu", "aten::clone", "aten::silu_", "aten::silu_backward"]
    trace = read(*KEPT).trace
    assert arguments(trace, 2) == ["s31"]
    assert arguments(trace, 4) == ["s31$", "s41"]
    times = [(2, "aten::relu", 1), (3, "aten::silu_", 10), (4, "aten::clone", 4)]
    files(kineto(*times, (5, "aten::silu_backward", 2)), KEPT)
    assert read_trace("et.json").op_cost_ns.tolist() == [0, 1000, 4000, 6000, 2000]


def test_a_mask_that_an_operator_fills_unseen_is_refused():
    nodes = [KEPT[0], KEPT[1], call(4, 3, "aten::empty_like", [A], [B]), KEPT[3]]
    with pytest.raises(TraceError, match="makes what is used later"):
        read(*nodes)


def test_what_was_ended_by_an_exception_counts_by_what_happened_within_it():
    found = read(call(7, 6, "aten::clamp_min", [X], [A]), call(8, 1, "aten::neg", [A], [B]))
    assert found.trace.op_name[1:] == ("aten::clamp_min", "aten::neg")
    assert found.unfinished == 1
    assert "1 call did not finish" in found.notes()


def test_zeros_that_are_written_to_are_part_of_what_writes_them():
    into = tensor(32, 31, 4, offset=4, strides=(1,))
    nodes = [
        call(2, 1, "aten::select_backward", [X], [A]),
        call(3, 2, "aten::zeros", [], [A]),
        call(4, 2, "aten::select", [A], [into]),
        call(5, 2, "aten::copy_", [into, X], [into], schema=ADD_),
    ]
    assert ops(*nodes) == ["aten::select_backward"]


def test_a_number_that_is_given_again_is_another_storage():
    nodes = [
        call(2, 1, "aten::relu", [X], [A]),
        call(3, 1, "aten::sum", [A], [tensor(70, 71)]),
        call(4, 1, "aten::relu", [W], [A]),
        call(5, 1, "aten::mul", [A, tensor(70, 71)], [C]),
    ]
    trace = read(*nodes).trace
    assert trace.tensor_name[2:] == ("s31", "s71", "s31.2", "s51")
    assert arguments(trace, 5) == ["s31.2", "s71"]
    assert baseline_peak_bytes(trace) == 2 * 64 + 4 + 64 + 64


def test_numbers_of_python_are_no_tensors():
    two = tensor(80, 31, itemsize=8)  # given the number of a storage that is gone
    nodes = [
        call(2, 1, "aten::relu", [X], [A]),
        call(3, 1, "aten::relu", [A], [B]),
        call(4, 1, "aten::mul", [B, two], [C]),
    ]
    trace = read(*nodes).trace
    assert arguments(trace, 3) == ["s41"]
    assert read(*nodes).constants == 1


def test_what_cannot_be_of_a_storage_is_of_one_made_unseen():
    nodes = [
        call(2, 1, "aten::relu", [X], [A]),
        call(3, 1, "aten::mul", [tensor(33, 31, 9, 9), X], [B]),
        call(4, 1, "aten::mul", [tensor(34, 41, 2, itemsize=2), X], [C]),
    ]
    found = read(*nodes)
    assert found.constants == 3
    assert found.constant_bytes == 64 + 4 * 81 + 2 * 2


def test_sizes_are_how_far_tensors_reach_into_their_storage():
    part = tensor(90, 91, 2, 3, offset=5, strides=(10, 1))
    wide = tensor(92, 93, 100, 4, strides=(0, 1))
    found = read(call(2, 1, "aten::mul", [part, wide], [A]))
    assert found.trace.tensor_size_bytes.tolist() == [4 * (5 + 10 + 2 + 1), 4 * 4, 64]


def test_a_write_makes_a_new_version_and_views_of_the_old_one_end():
    view = tensor(35, 31, 16)
    nodes = [
        call(2, 1, "aten::relu", [X], [A]),
        call(3, 1, "aten::view", [A], [view]),
        call(4, 1, "aten::add_", [view, X], [view], schema=ADD_),
        call(5, 1, "aten::neg", [view], [B]),
    ]
    found = read(*nodes)
    kinds = instructions(found.trace)
    assert (
        kinds == ["CONSTANT", "CALL", "CALL", "RELEASE", "MUTATE", "CALL", "RELEASE"][: len(kinds)]
    )
    assert arguments(found.trace, 3) == ["s31", "s11"]
    assert arguments(found.trace, 4) == ["s31$"]
    assert found.in_place == 1
    assert baseline_peak_bytes(found.trace) == 64 * 3


def test_a_write_that_hands_back_something_else_is_one_call():
    schema = "aten::norm_(Tensor(a!) self, Tensor w) -> (Tensor(a!), Tensor)"
    nodes = [
        call(2, 1, "aten::relu", [X], [A]),
        call(3, 1, "aten::norm_", [A, W], [A, B], schema=schema),
        call(4, 1, "aten::mul", [A, B], [C]),
    ]
    trace = read(*nodes).trace
    assert instructions(trace).count("COPY_FROM") == 1
    assert [trace.tensor_size_bytes[t] for t in trace.outputs_of(3)] == [64, 64]
    assert baseline_peak_bytes(trace) == 64 * (2 + 3)


def test_a_write_to_a_constant_makes_nothing():
    found = read(call(2, 1, "aten::add_", [W, X], [W], schema=ADD_))
    assert found.constant_writes == 1
    assert found.trace.tensor_size_bytes.tolist() == [64, 64, 0]
    assert "1 write to constants made no new version" in found.notes()


def test_the_destination_of_a_result_is_made_by_it():
    schema = "aten::mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)"
    found = read(call(2, 1, "aten::mul", [X, W, A], [A], schema=schema))
    assert found.constants == 2
    assert arguments(found.trace, 2) == ["s11", "s21"]


def test_releases_come_after_the_last_use_and_what_is_handed_back_last_stays():
    nodes = [
        call(2, 1, "aten::relu", [X], [A]),
        call(3, 1, "aten::neg", [A], [B]),
        call(4, 1, "aten::neg", [A], [C]),
        call(5, 1, "aten::neg", [B], [tensor(70, 71, 4, 4)]),
    ]
    trace = read(*nodes).trace
    steps = zip(trace.step_kind.tolist(), trace.step_operand.tolist(), strict=True)
    steps = [(Step(kind).name, trace.tensor_name[operand]) for kind, operand in steps]
    assert [name for kind, name in steps if kind == "RELEASE"] == ["s31", "s41"]
    assert [name for kind, name in steps if kind == "OUTPUT"] == ["s11", "s51", "s71"]


def test_gradients_stay_where_the_optimizer_uses_them():
    gradient = tensor(45, 41, 4, 4)
    nodes = [
        call(2, 1, "aten::relu", [X], [B]),
        call(3, 1, "torch::autograd::AccumulateGrad", [B], [], schema=""),
        call(4, 3, "aten::detach", [B], [gradient]),
        call(5, 4, "detach", [B], [], schema=""),
        call(6, 1, "aten::add_", [W, gradient], [W], schema=ADD_),
    ]
    trace = read(*nodes).trace
    outputs = [
        op for kind, op in zip(trace.step_kind, trace.step_operand, strict=True) if kind == 4
    ]
    assert 64 in trace.tensor_memory_bytes[outputs][2:]


def test_lists_of_tensors_and_undefined_ones():
    both = (
        [A[0], X[0]],
        "GenericList[Tensor(float),Tensor(float)]",
        [[4, 4], [4, 4]],
        [[4, 1], [4, 1]],
    )
    nothing = [88, 0, 0, 0, 0, ""], "Tensor(nullptr (uninitialized))", [], []
    trace = read(
        call(2, 1, "aten::relu", [X], [A]), call(3, 1, "aten::cat", [both, nothing, number()], [B])
    ).trace
    assert arguments(trace, 2) == ["s31", "s11"]


def test_a_stand_in_by_bytes():
    trace = read(*LINEAR).trace
    assert trace.op_cost_ns.tolist() == [0, 0, 500, 4000 + 1]


def test_durations_are_those_of_the_profiler_beside_it(files):
    files()
    assert read_trace("et.json").op_cost_ns.tolist() == [0, 0, 500, 7250]


def test_devices_count_where_there_are_any(files):
    times = copy.deepcopy(TIMES)
    for event, duration in ((5, 100), (6, 20), (3, 1), (77, 1000)):
        kernel = {"ph": "X", "cat": "kernel", "name": "k", "dur": duration}
        times["traceEvents"].append({**kernel, "args": {"External id": event}})
    files(times)
    assert read_trace("et.json").op_cost_ns.tolist() == [0, 0, 1000, 120_000]


def test_the_trace_goes_through_a_dtr_log_with_where_it_is_from():
    trace = read(*LINEAR).trace
    log = write_dtr_log(trace)
    assert parse_dtr_log(log, name="step").op_name == trace.op_name
    told = json.loads(json.loads(log.splitlines()[0])["ANNOTATION"])
    assert (told["execution trace"], told["costs"], told["operators"]) == (SCHEMA, "bytes", 2)


def test_deep_nesting_is_walked():
    depth = 5_000
    nodes = [span(n, n - 1) for n in range(2, depth)]
    leaf = call(depth, depth - 1, "aten::mm", [X, W], [A])
    assert ops(*nodes, leaf) == ["aten::mm"]
