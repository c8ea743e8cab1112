"""Generated traces are steps of the documented networks, the same on every run and platform."""

import gzip
import os
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtrdiag.errors import TraceError, UsageError
from dtrdiag.trace import Step, parse_dtr_log, write_dtr_log
from dtrdiag.trace.generators import GENERATORS, generate, generator
from dtrdiag.trace.generators.__main__ import main
from dtrdiag.trace.generators.registry import MAX_BATCH
from dtrdiag.trace.generators.roofline import elements, kernel_ns, matmul_flops, size_bytes

LIMIT_OF_DEPTH = {"linear-chain": 12, "residual-chain": 6, "recurrent": 6, "tree": 4}
parameters = st.sampled_from(sorted(GENERATORS)).flatmap(
    lambda name: st.tuples(
        st.just(name),
        st.integers(1, LIMIT_OF_DEPTH[name]),
        st.integers(1, 9),
        st.integers(1, 5),
    )
)


def make(name, depth, width, batch):
    return generate(name, depth=depth, width=width, batch=batch)


def held_at_the_end(trace):
    """Names of the tensors that are outputs of the step, constants aside."""
    constants = {int(trace.output_start[op]) for op in ops_named(trace, "constant")}
    outputs = trace.step_operand[trace.step_kind == Step.OUTPUT].tolist()
    return [trace.tensor_name[tensor] for tensor in outputs if tensor not in constants]


def ops_named(trace, name):
    return [op for op, found in enumerate(trace.op_name) if found == name]


def constants_named(trace, *suffixes):
    names = [trace.tensor_name[int(trace.output_start[op])] for op in ops_named(trace, "constant")]
    return [name for name in names if name.endswith(suffixes)]


def count_of(trace):
    """How many operators of each name there are."""
    return Counter(trace.op_name)


def memory_of(trace):
    """Bytes in use after each step of an unlimited run that frees on the last release."""
    references: Counter[int] = Counter()
    used, history, peak = 0, [], 0
    storage = trace.tensor_storage.tolist()
    size = trace.tensor_size_bytes.tolist()
    pinned = set()
    for kind, operand in zip(trace.step_kind.tolist(), trace.step_operand.tolist(), strict=True):
        if kind in (Step.CALL, Step.CONSTANT):
            for tensor in trace.outputs_of(operand):
                references[storage[tensor]] += 1
                used += size[tensor]
                if kind == Step.CONSTANT:
                    pinned.add(tensor)
        elif kind == Step.RELEASE:
            references[storage[operand]] -= 1
            if not references[storage[operand]] and storage[operand] not in pinned:
                used -= size[storage[operand]]
        peak = max(peak, used)
        history.append(used)
    return peak, history


@given(parameters)
@settings(max_examples=60, deadline=None)
def test_everything_but_constants_loss_and_gradients_is_released(parameters):
    trace = make(*parameters)
    steps = zip(trace.step_kind.tolist(), trace.step_operand.tolist(), strict=True)
    released = Counter(tensor for kind, tensor in steps if kind == Step.RELEASE)
    held = set(trace.step_operand[trace.step_kind == Step.OUTPUT].tolist())
    assert set(released) | held == set(range(trace.tensors))
    assert not set(released) & held
    assert set(released.values()) <= {1}


@given(parameters)
@settings(max_examples=60, deadline=None)
def test_a_name_is_released_right_after_its_last_use(parameters):
    trace = make(*parameters)
    last_use = {}
    for op in range(trace.ops):
        last_use.update(dict.fromkeys(trace.inputs_of(op).tolist(), op))
        last_use.update(dict.fromkeys(trace.outputs_of(op), op))
    current = None
    for kind, operand in zip(trace.step_kind.tolist(), trace.step_operand.tolist(), strict=True):
        if kind in (Step.CALL, Step.CONSTANT):
            current = operand
        elif kind == Step.RELEASE:
            assert last_use[operand] == current


@given(parameters)
@settings(max_examples=60, deadline=None)
def test_no_released_tensor_is_an_argument(parameters):
    trace = make(*parameters)
    released = set()
    for kind, operand in zip(trace.step_kind.tolist(), trace.step_operand.tolist(), strict=True):
        if kind == Step.RELEASE:
            released.add(operand)
        elif kind == Step.CALL:
            assert not released & set(trace.inputs_of(operand).tolist())


@given(parameters)
@settings(max_examples=40, deadline=None)
def test_the_step_fits_in_less_than_all_its_tensors(parameters):
    trace = make(*parameters)
    peak, history = memory_of(trace)
    kept = {int(t) for t in trace.step_operand[trace.step_kind == Step.OUTPUT]}
    assert peak <= int(trace.tensor_size_bytes.sum())
    if parameters[1] > 1:
        assert peak < int(trace.tensor_size_bytes.sum())
    assert history[-1] == sum(int(trace.tensor_size_bytes[tensor]) for tensor in kept)


@given(parameters)
@settings(max_examples=30, deadline=None)
def test_a_generated_trace_is_a_dtr_log(parameters):
    trace = make(*parameters)
    content = write_dtr_log(trace)
    assert parse_dtr_log(content, name="t") == trace, "the digest is that of the log's bytes"
    assert write_dtr_log(make(*parameters)) == content


@given(parameters)
@settings(max_examples=30, deadline=None)
def test_sizes_grow_with_the_batch_and_costs_do_not_fall(parameters):
    name, depth, width, batch = parameters
    small, large = make(name, depth, width, batch), make(name, depth, width, 2 * batch)
    assert small.op_name == large.op_name
    assert small.input_tensor.tolist() == large.input_tensor.tolist()
    assert (small.tensor_size_bytes <= large.tensor_size_bytes).all()
    assert (small.op_cost_ns <= large.op_cost_ns).all()
    assert int(small.tensor_size_bytes.sum()) < int(large.tensor_size_bytes.sum())


@pytest.mark.parametrize("name", GENERATORS)
def test_views_have_no_bytes_and_are_cheaper_than_any_kernel(name):
    trace = make(name, 4, 8, 2)
    costs: dict[bool, set[int]] = {True: set(), False: set()}
    for op in range(trace.ops):
        views = [trace.tensor_alias[tensor] >= 0 for tensor in trace.outputs_of(op)]
        if trace.op_name[op] != "constant":
            costs[all(views)].add(int(trace.op_cost_ns[op]))
    assert costs[True] <= {500}
    assert min(costs[False]) >= 4_000


@pytest.mark.parametrize("name", GENERATORS)
def test_the_description_is_one_line(name):
    assert GENERATORS[name].name == name
    assert 20 < len(GENERATORS[name].description) < 90


class TestLinearChain:
    @given(st.integers(1, 20), st.integers(1, 9), st.integers(1, 9))
    @settings(max_examples=30, deadline=None)
    def test_all_sizes_and_costs_are_one_and_memory_peaks_as_documented(self, n, width, batch):
        trace = make("linear-chain", n, width, batch)
        unit = 4 * width * batch
        assert trace.ops == 2 * n + 1
        assert set(trace.tensor_size_bytes.tolist()) == {unit}
        assert len(set(trace.op_cost_ns[1:].tolist())) == 1
        assert memory_of(trace)[0] == (n + 1) * unit

    def test_each_gradient_needs_the_next_one_and_an_activation(self):
        trace = make("linear-chain", 3, 1, 1)
        names = trace.tensor_name
        calls = {
            names[trace.outputs_of(op)[0]]: [names[t] for t in trace.inputs_of(op).tolist()]
            for op in range(trace.ops)
        }
        assert calls == {
            "t0": [],
            "t1": ["t0"],
            "t2": ["t1"],
            "t3": ["t2"],
            "g3": ["t2"],
            "g2": ["t1", "g3"],
            "g1": ["t0", "g2"],
        }
        assert held_at_the_end(trace) == ["g1"]


class TestResidualChain:
    def test_every_block_has_its_operators(self):
        trace = make("residual-chain", 6, 4, 2)
        count = count_of(trace)
        # Two convolutions a block, one in the stem, one on the skip of two wider stages.
        assert count["conv2d"] == count["batch_norm"] == 2 * 6 + 1 + 2
        assert count["convolution_backward"] == count["batch_norm_backward"] == count["conv2d"]
        assert count["relu_"] == count["threshold_backward"] == 2 * 6 + 1
        assert count["add_"] == 2 * 6, "the skip forward, the two gradients backward"

    def test_activations_halve_from_stage_to_stage(self):
        trace = make("residual-chain", 3, 4, 2)
        sizes = {
            trace.tensor_name[t]: int(trace.tensor_memory_bytes[t]) for t in range(trace.tensors)
        }
        assert [sizes[f"b{block}.2"] for block in range(3)] == [32768, 16384, 8192]
        assert sizes["b0.2"] == 4 * 2 * 4 * 32 * 32

    def test_loss_and_a_gradient_per_weight_remain(self):
        trace = make("residual-chain", 3, 4, 2)
        weights = constants_named(trace, ".weight", ".scale", ".shift", ".bias")
        held = held_at_the_end(trace)
        assert sorted(held) == sorted(["loss", *(f"g.{weight}" for weight in weights)])

    def test_a_convolution_costs_its_documented_operations(self):
        trace = make("residual-chain", 1, 64, 256)
        op = ops_named(trace, "conv2d")[1]
        activation = 256 * 64 * 32 * 32
        flops = 2 * activation * 64 * 9
        assert trace.op_cost_ns[op] == 4_000 + -(-flops // 10_000)


class TestRecurrent:
    def test_every_time_step_has_its_operators(self):
        trace = make("recurrent", 5, 4, 2)
        count = count_of(trace)
        assert count["chunk"] == count["cat"] == count["select"] == 5
        assert count["sigmoid"] == count["sigmoid_backward"] == 3 * 5
        assert count["tanh"] == 2 * 5
        assert count["tanh_backward"] == 2 * 5

    def test_weight_gradients_are_added_up_in_place(self):
        trace = make("recurrent", 5, 4, 2)
        # 4 weights, 4 later contributions each; the gates forward; the cell's gradients that meet.
        assert count_of(trace)["add_"] == 4 * 4 + 5 + 4
        held = held_at_the_end(trace)
        assert "loss" in held
        assert len(held) == 1 + 4 + 2
        sizes = dict(zip(trace.tensor_name, trace.tensor_size_bytes.tolist(), strict=True))
        weights = constants_named(trace, "weight_x", "weight_h", "bias_x", "bias_h")
        weights += constants_named(trace, "head.weight", "head.bias")
        assert len(weights) == len(held) - 1
        assert sorted(sizes[name] for name in held if name != "loss") == sorted(
            sizes[name] for name in weights
        )

    def test_gates_are_four_views_of_one_storage(self):
        trace = make("recurrent", 2, 4, 2)
        chunk = ops_named(trace, "chunk")[0]
        outputs = trace.outputs_of(chunk)
        assert len(outputs) == 4
        assert len({int(trace.tensor_storage[tensor]) for tensor in outputs}) == 1
        assert [int(trace.tensor_size_bytes[tensor]) for tensor in outputs] == [0] * 4


class TestTree:
    @pytest.mark.parametrize("depth", [1, 2, 4])
    def test_there_is_a_cell_per_node(self, depth):
        count = count_of(make("tree", depth, 4, 2))
        assert count["leaf_cell"] == count["leaf_cell_backward"] == 2**depth
        assert count["tree_cell"] == count["tree_cell_backward"] == 2**depth - 1

    def test_cells_return_two_states_and_their_backward_three_gradients(self):
        trace = make("tree", 2, 4, 2)
        outputs = {trace.op_name[op]: len(trace.outputs_of(op)) for op in range(trace.ops)}
        assert outputs["leaf_cell"] == outputs["tree_cell"] == 2
        assert outputs["tree_cell_backward"] == 3

    def test_children_come_before_their_parents_and_backward_after(self):
        trace = make("tree", 2, 4, 2)
        order = [name for name in trace.tensor_name if name.endswith(".h") and name[0] == "n"]
        assert order == ["n4.h", "n5.h", "n2.h", "n6.h", "n7.h", "n3.h", "n1.h"]
        gates = [name for name in trace.tensor_name if name.startswith("g.n") and "gates" in name]
        assert gates == [f"g.n{number}.gates" for number in (1, 3, 7, 6, 2, 5, 4)]


def test_the_roofline_is_the_longer_of_arithmetic_and_traffic():
    assert kernel_ns(0, 0) == 4_000
    assert kernel_ns(1, 0) == kernel_ns(0, 1) == 4_001
    assert kernel_ns(30_000, 601) == 4_003
    assert kernel_ns(10_000, 6_000) == 4_010
    assert matmul_flops(2, 3, 5) == 60
    assert (elements(()), elements((2, 3))) == (1, 6)
    assert size_bytes((2, 3)) == 24


def test_costs_are_exact_where_a_double_would_not_be():
    assert kernel_ns(10_000 * (2**60 + 1), 0) == 4_000 + 2**60 + 1


def test_a_name_registers_once():
    with pytest.raises(UsageError, match="generator 'tree' is registered a second time"):
        generator("tree")(lambda net, depth, width, batch: None)
    assert GENERATORS["tree"].write.__name__ == "tree"


def test_a_user_adds_a_generator():
    @generator("mine", max_depth=3)
    def mine(net, depth, width, batch):
        """One input."""
        net.constant("x", (batch, width))

    try:
        trace = generate("mine", depth=1, width=2, batch=3, label="short")
        assert (trace.name, trace.constant_bytes) == ("short", 24)
        assert GENERATORS["mine"].description == "One input."
        with pytest.raises(UsageError, match="depth 4 of 'mine' out of range: 1 to 3"):
            generate("mine", depth=4, width=2, batch=3)
    finally:
        del GENERATORS["mine"]


def test_an_unknown_generator_is_refused_with_those_there_are():
    with pytest.raises(UsageError, match='no generator "mlp"; there are linear-chain'):
        make("mlp", 1, 1, 1)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"depth": 0}, "depth 0 of 'tree' out of range: 1 to 12"),
        ({"depth": 13}, "depth 13 of 'tree' out of range: 1 to 12"),
        ({"width": -1}, "width -1 of 'tree' out of range"),
        ({"batch": MAX_BATCH + 1}, "batch 1048577 of 'tree' out of range"),
    ],
)
def test_a_parameter_out_of_range_is_refused(changes, text):
    with pytest.raises(UsageError, match=text):
        generate("tree", **{"depth": 1, "width": 1, "batch": 1, **changes})


def test_sizes_beyond_the_limit_of_a_tensor_are_refused():
    with pytest.raises(TraceError, match="absurdly large"):
        make("residual-chain", 1, 1 << 20, 1 << 20)


class TestCommand:
    ARGUMENTS = ("linear-chain", "--depth", "3", "--width", "2", "--batch", "1", "-o")

    def test_it_writes_the_log_plain_or_compressed_by_suffix(self, tmp_path):
        plain, packed = tmp_path / "c.log", tmp_path / "c.log.gz"
        assert main([*self.ARGUMENTS, str(plain)]) == 0
        assert main([*self.ARGUMENTS, str(packed)]) == 0
        assert plain.read_bytes() == write_dtr_log(make("linear-chain", 3, 2, 1))
        assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
        assert packed.read_bytes()[4:8] == bytes(4), "no time of writing"

    def test_it_never_overwrites_without_force(self, tmp_path, capsys):
        path = tmp_path / "c.log"
        path.write_bytes(b"precious")
        assert main([*self.ARGUMENTS, str(path)]) == 2
        text = f"dtrdiag: error: exists already; --force replaces it ({path})\n"
        assert capsys.readouterr() == ("", text)
        assert path.read_bytes() == b"precious"
        assert main([*self.ARGUMENTS, str(path), "--force"]) == 0
        assert path.read_bytes() != b"precious"

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (("mlp", *ARGUMENTS[1:]), 'no generator "mlp"'),
            (("tree", "--depth", "0", *ARGUMENTS[3:]), "depth 0 of 'tree' out of range"),
        ],
    )
    def test_a_wrong_argument_is_one_line(self, tmp_path, capsys, arguments, text):
        path = tmp_path / "c.log"
        assert main([*arguments, str(path)]) == 2
        error = capsys.readouterr().err
        assert error.startswith("dtrdiag: error: ")
        assert text in error
        assert error.count("\n") == 1
        assert not path.exists()

    def test_a_folder_that_is_not_there_is_one_line(self, tmp_path, capsys):
        assert main([*self.ARGUMENTS, str(tmp_path / "none" / "c.log")]) == 2
        assert "cannot be written: No such file or directory" in capsys.readouterr().err

    @pytest.mark.parametrize("seed", ["0", "1"])
    def test_another_process_writes_the_same_bytes(self, tmp_path, seed):
        path = tmp_path / "c.log"
        command = [sys.executable, "-m", "dtrdiag.trace.generators", "tree"]
        command += ["--depth", "2", "--width", "3", "--batch", "2", "-o", str(path)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command, check=True, env=environment, cwd=tmp_path)
        assert path.read_bytes() == write_dtr_log(make("tree", 2, 3, 2))
