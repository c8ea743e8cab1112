"""What one execution of an operator costs: worked out by hand, on devices of round figures."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from dtrdiag.instrumentation import zoo
from dtrdiag.instrumentation.pytorch.costs import Roofline, costs_nothing
from dtrdiag.instrumentation.pytorch.devices import DEVICES, Device
from dtrdiag.instrumentation.pytorch.errors import UnsupportedOpError
from dtrdiag.instrumentation.pytorch.flops import formula_of
from dtrdiag.instrumentation.pytorch.traffic import moved_bytes, tensors_in, views_bytes

aten = torch.ops.aten
GIGA = 10**9
LAUNCH = 7
# Nanoseconds are FLOPs, or bytes where traffic takes longer.
SLOW = Device(
    name="slow", bandwidth=1000 * GIGA, launch_ns=LAUNCH, vector={"fp64": GIGA, "fp32": GIGA}
)
# Nanoseconds are bytes moved.
NARROW = Device(
    name="narrow", bandwidth=GIGA, launch_ns=LAUNCH,
    vector={"fp64": 10**18, "fp32": 10**18},
)  # fmt: skip


class Costed(TorchDispatchMode):  # type: ignore[misc]
    """Keeps the cost of every operator that is dispatched, in order."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.costs = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        outputs = list(tensors_in(result))
        moved = moved_bytes(tensors_in((args, kwargs)), outputs)
        self.costs.append((func.name(), self.model.cost_ns(func, args, kwargs, outputs, moved)))
        return result


def costs(model, program):
    with Costed(model) as mode:
        program()
    return mode.costs


def cost(device, func, *args, **kwargs):
    """Of one call, on tensors of meta."""
    result = func(*args, **kwargs)
    outputs = list(tensors_in(result))
    moved = moved_bytes(tensors_in((args, kwargs)), outputs)
    return Roofline(device).cost_ns(func, args, kwargs, outputs, moved) - LAUNCH


def t(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


ONES = [1, 1], [1, 1], [1, 1]


@pytest.mark.parametrize(
    ("call", "flops"),
    [
        ((aten.mm.default, t(3, 4), t(4, 5)), 2 * 3 * 4 * 5),
        ((aten.addmm.default, t(5), t(3, 4), t(4, 5)), 2 * 3 * 4 * 5),
        ((aten.addmm_.default, t(3, 5), t(3, 4), t(4, 5)), 2 * 3 * 4 * 5),
        ((aten.bmm.default, t(6, 3, 4), t(6, 4, 5)), 6 * 2 * 3 * 4 * 5),
        ((aten.baddbmm.default, t(6, 3, 5), t(6, 3, 4), t(6, 4, 5)), 6 * 2 * 3 * 4 * 5),
        ((aten.mv.default, t(3, 4), t(4)), 2 * 3 * 4),
        ((aten.dot.default, t(4), t(4)), 2 * 4),
        # Two images of 3 channels, 5 x 5 with a border of 1, by 8 filters of 3 x 3.
        (
            (aten.convolution.default, t(2, 3, 5, 5), t(8, 3, 3, 3), None, *ONES, False, [0, 0], 1),
            2 * 2 * 25 * 8 * 3 * 9,
        ),
        # The same with 3 groups of one channel: depthwise.
        (
            (aten.convolution.default, t(2, 3, 5, 5), t(3, 1, 3, 3), None, *ONES, False, [0, 0], 3),
            2 * 2 * 25 * 3 * 9,
        ),
        # Backward: as much again for each of the two gradients, and a sum for the bias.
        (
            (
                aten.convolution_backward.default, t(2, 8, 5, 5), t(2, 3, 5, 5), t(8, 3, 3, 3), [8],
                *ONES, False, [0, 0], 1, [True, True, True],
            ),
            2 * (2 * 2 * 25 * 8 * 3 * 9) + 2 * 8 * 25,
        ),
        (
            (
                aten.convolution_backward.default, t(2, 3, 5, 5), t(2, 3, 5, 5), t(3, 1, 3, 3), [0],
                *ONES, False, [0, 0], 3, [False, True, False],
            ),
            2 * 2 * 25 * 3 * 9,
        ),
        # Queries by keys and scores by values; 2 heads, 3 queries, 7 keys, 4 numbers each.
        (
            (
                aten._scaled_dot_product_flash_attention_for_cpu.default,
                t(1, 2, 3, 4), t(1, 2, 7, 4), t(1, 2, 7, 4),
            ),
            2 * (2 * 2 * 3 * 7 * 4),
        ),
        # The scores again, and four gradients.
        (
            (
                aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
                t(1, 2, 3, 4), t(1, 2, 3, 4), t(1, 2, 7, 4), t(1, 2, 7, 4), t(1, 2, 3, 4),
                t(1, 2, 3), 0.0, False,
            ),
            5 * (2 * 2 * 3 * 7 * 4),
        ),
        ((aten.add.Tensor, t(4, 5), t(5)), 20),
        ((aten.add_.Tensor, t(4, 5), t(5)), 20),
        ((aten.sum.default, t(4, 5)), 20),
        ((aten._softmax.default, t(4, 5), 1, False), 5 * 20),
        (
            (
                aten.native_batch_norm.default, t(2, 3, 4, 4), t(3), t(3), t(3), t(3), True, 0.1,
                1e-5,
            ),
            8 * 2 * 3 * 16,
        ),
        ((aten.native_layer_norm.default, t(6, 4), [4], t(4), t(4), 1e-5), 8 * 24),
        # 2 x 3 windows of 2 x 2 for each of 5 channels.
        ((aten.max_pool2d_with_indices.default, t(1, 5, 4, 6), [2, 2]), 4 * 5 * 6),
        ((aten._foreach_add_.Scalar, [t(3), t(4)], 1.0), 7),
        ((aten._foreach_addcdiv_.Scalar, [t(3), t(4)], [t(3), t(4)], [t(3), t(4)], 1.0), 3 * 7),
    ],
    ids=lambda value: value[0].name() if isinstance(value, tuple) else "",
)  # fmt: skip
def test_arithmetic_by_hand(call, flops):
    assert cost(SLOW, *call) == flops


def test_every_matrix_of_a_recurrent_layer_is_multiplied_once_for_each_vector():
    # 5 steps of 2 vectors of 3 numbers, 4 hidden: four gates each.
    args = (
        t(5, 2, 3), t(16, 3), t(16, 4), t(16), t(16), t(1, 2, 4), t(1, 2, 4),
        False, [], 2, 4, 1, True, False, False, True,
    )  # fmt: skip
    expected = 2 * 5 * 2 * (16 * 3 + 16 * 4)
    formula = formula_of(aten.mkldnn_rnn_layer.default)
    assert (formula.count(args, {}, []), formula.unit) == (expected, "matrix")
    weights = [t(16, 3), t(16, 4), t(16), t(16)]
    cudnn = (t(5, 2, 3), weights, 4)
    assert formula_of(aten._cudnn_rnn.default).count(cudnn, {}, []) == expected
    assert formula_of(aten._cudnn_rnn_backward.default).count(cudnn, {}, []) == 2 * expected


@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions_of_one_group_agree_with_the_counter_of_torch(transposed):
    inputs, weight = t(2, 3, 5, 5), t(3, 8, 3, 3) if transposed else t(8, 3, 3, 3)
    rest = (*ONES, transposed, [0, 0], 1)
    grad = aten.convolution.default(inputs, weight, None, *rest)
    args = (grad, inputs, weight, None, *rest, [True, True, False])
    grads = aten.convolution_backward.default(*args)
    theirs = flop_registry[aten.convolution_backward](*args, out_val=grads)
    assert cost(SLOW, aten.convolution_backward.default, *args) == theirs


@pytest.mark.parametrize(
    ("call", "moved"),
    [
        ((aten.mm.default, t(3, 4), t(4, 5)), 4 * (12 + 20 + 15)),
        ((aten.add.Tensor, t(4, 5), t(5)), 4 * (20 + 5 + 20)),
        # In place: read and written.
        ((aten.add_.Tensor, t(4, 5), t(5)), 4 * (20 + 5 + 20)),
        # Filled: written alone.
        ((aten.zero_.default, t(20)), 4 * 20),
        ((aten.copy_.default, t(20), t(20)), 4 * (20 + 20)),
        ((aten.bernoulli_.float, t(20), 0.5), 4 * 20),
        ((aten.zeros_like.default, t(20)), 4 * 20),
        # 3 rows of a table of 100: numbers of rows, rows read, rows written.
        ((aten.embedding.default, t(100, 4), t(3, dtype=torch.int64)), 3 * 8 + 2 * 4 * 12),
        # No more than the whole table is read.
        ((aten.embedding.default, t(2, 4), t(9, dtype=torch.int64)), 9 * 8 + 4 * 8 + 4 * 36),
        (
            (
                aten.embedding_dense_backward.default, t(3, 4), t(3, dtype=torch.int64), 100, -1,
                False,
            ),
            4 * 12 + 3 * 8 + 4 * 400,
        ),
        # 2 numbers added to a tensor of 50: indices, values, and the places, read and written.
        (
            (aten.scatter_add_.default, t(50), 0, t(2, dtype=torch.int64), t(2)),
            2 * 8 + 2 * 4 + 2 * 2 * 4,
        ),
        # An expanded dimension is read once.
        ((aten.clone.default, t(1, 5).expand(4, 5)), 4 * 5 + 4 * 20),
        ((aten.mm.out, t(3, 4), t(4, 5)), 4 * (12 + 20 + 15)),
    ],
    ids=lambda value: value[0].name() if isinstance(value, tuple) else "",
)  # fmt: skip
def test_traffic_by_hand(call, moved):
    out = {"out": t(3, 5)} if call[0] is aten.mm.out else {}
    assert cost(NARROW, *call, **out) == moved


def test_bytes_that_two_views_show_count_once():
    x = t(4, 6)
    assert views_bytes([x, x.t(), x[1:3]]) == 4 * 24
    assert views_bytes([x[:2], x[2:]]) == 4 * 24
    assert views_bytes([x[:3], x[2:]]) == 4 * 24
    assert views_bytes([x[:, 0], x[:, 5]]) == 4 * 8
    assert views_bytes([x[:, 0], t(4, 6)]) == 4 * (4 + 24)
    assert views_bytes([x[:0], t(0)]) == 0
    assert views_bytes([x.as_strided((6, 4), (1, 1))]) == 4 * 9


def test_a_tensor_without_a_storage_is_refused():
    sparse = torch.ones(1).to_sparse()
    with pytest.raises(UnsupportedOpError, match="storage"):
        moved_bytes([sparse], [])


@pytest.mark.parametrize(
    ("func", "args"),
    [
        (aten.view.default, (t(4, 5), [20])),
        (aten._unsafe_view.default, (t(4, 5), [20])),
        (aten.transpose.int, (t(4, 5), 0, 1)),
        (aten.t_.default, (t(4, 5),)),
        (aten.detach.default, (t(4, 5),)),
        (aten.split.Tensor, (t(4, 5), 2)),
        (aten.unsafe_chunk.default, (t(4, 5), 2)),
        (aten.expand.default, (t(1, 5), [4, 5])),
        (aten.empty_like.default, (t(4, 5),)),
    ],
    ids=lambda value: value.name() if hasattr(value, "name") else "",
)
def test_views_and_reserved_memory_cost_nothing(func, args):
    assert cost(SLOW, func, *args) == -LAUNCH
    assert costs_nothing(func, args, list(tensors_in(func(*args))))


def test_writing_in_place_is_no_view():
    args = (t(4, 5), 1.0)
    assert not costs_nothing(aten.mul_.Scalar, args, [args[0]])
    assert cost(SLOW, aten.mul_.Scalar, *args) == 20


def test_precision_decides_which_peak_counts():
    device = Device(
        name="mixed", bandwidth=10**18, launch_ns=LAUNCH,
        vector={"fp64": GIGA, "fp32": 2 * GIGA},
        matrix={"fp64": 3 * GIGA, "fp32": 4 * GIGA, "tf32": 6 * GIGA, "fp16": 8 * GIGA},
    )  # fmt: skip
    image, filters, rest = t(1, 4, 1, 1), t(6, 4, 1, 1), ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)

    def product(dtype, **settings):
        model = Roofline(device, **settings)
        args = (t(3, 4, dtype=dtype), t(4, 8, dtype=dtype))
        return model.cost_ns(aten.mm.default, args, {}, [t(3, 8, dtype=dtype)], 0) - LAUNCH

    def convolution(**settings):
        args = (image, filters, None, *rest)
        model = Roofline(device, **settings)
        return model.cost_ns(aten.convolution.default, args, {}, [t(1, 6, 1, 1)], 0) - LAUNCH

    flops = 2 * 3 * 4 * 8
    assert product(torch.float64) == flops // 3
    assert product(torch.float32) == flops // 4
    assert product(torch.float32, matmul_tf32=True) == flops // 6
    assert product(torch.float16) == product(torch.float8_e4m3fn) == flops // 8
    assert product(torch.bfloat16) == flops // 4  # not in the table: as fp32
    assert convolution() == 48 // 6
    assert convolution(convolution_tf32=False) == 48 // 4
    assert cost(device, aten.add.Tensor, t(8), t(8)) == 4
    assert cost(device, aten.add.Tensor, t(8, dtype=torch.float64), 1.0) == 8


def test_the_longer_of_arithmetic_and_traffic_counts_rounded_up():
    device = Device(
        name="thirds", bandwidth=3 * GIGA, launch_ns=0, vector={"fp64": GIGA, "fp32": 7 * GIGA}
    )
    model = Roofline(device)
    args = (t(2, 2), t(2, 2))
    assert model.cost_ns(aten.mm.default, args, {}, [t(2, 2)], 4) == 3  # 16 / 7 over 4 / 3
    assert model.cost_ns(aten.mm.default, args, {}, [t(2, 2)], 10) == 4  # 10 / 3 over 16 / 7


def small_conv():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3),
    ), (2, 3, 8, 8)  # fmt: skip


def small_transformer():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True, activation="gelu")
    return nn.Sequential(layer, nn.Flatten(), nn.Linear(8 * 5, 3)), (2, 5, 8)


class Cells(nn.Module):  # type: ignore[misc]
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.LSTMCell(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        state = None
        for step in x.unbind(1):
            state = self.cell(step, state)
        return self.out(state[0])


def small_recurrent():
    return Cells(), (2, 3, 4)


def step_of(make):
    model, shape = make()
    inputs, targets = torch.ones(shape), torch.zeros(shape[0], dtype=torch.int64)
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)

    def step():
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()

    return step


MODELS = [small_conv, small_transformer, small_recurrent]


@pytest.mark.parametrize("make", MODELS)
def test_every_operator_of_a_step_has_a_formula_and_a_cost_in_integers(make):
    model = Roofline()
    found = costs(model, step_of(make))
    assert all(type(ns) is int and (ns == 0 or ns > 1_000) for _, ns in found)
    assert sum(ns > 0 for _, ns in found) > 30
    assert model.describe()["one_flop_an_element"] == []


def test_every_operator_of_the_zoo_has_a_formula():
    model = Roofline()
    for name in zoo.MODELS:
        costs(model, zoo.make(name, "small", optimizer="sgd", implementation="foreach").run)
    assert model.describe()["one_flop_an_element"] == []


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
def test_fake_tensors_cost_as_real_ones(make):
    real = costs(Roofline(), step_of(make))
    with FakeTensorMode():
        fake = costs(Roofline(), step_of(make))
    # Making constants is told apart: a fake program has other bookkeeping, at no cost.
    assert [c for c in fake if c[1]] == [c for c in real if c[1]]


sizes = st.integers(1, 9)


@settings(max_examples=30)
@given(sizes, sizes, sizes, st.integers(0, 2))
def test_larger_operands_cost_no_less(m, k, n, grown):
    def product(m, k, n):
        return cost(DEVICES["a100-40gb"], aten.mm.default, t(m, k), t(k, n))

    larger = [m, k, n]
    larger[grown] *= 40
    assert product(*larger) >= product(m, k, n)


def test_an_operator_without_a_formula_is_bound_by_traffic_and_named():
    model = Roofline()
    args = (t(6, 6),)
    outputs = [t(6, 6), t(6, 6)]
    func = aten.linalg_qr.default
    assert model.cost_ns(func, args, {}, outputs, 3 * 144) == 1_000 + 1
    assert model.describe()["one_flop_an_element"] == ["aten::linalg_qr"]


def test_a_description_says_where_the_figures_come_from():
    described = Roofline("h100-sxm").describe()
    assert described["model"] == Roofline.name == "roofline"
    assert described["device"]["name"] == "h100-sxm"
    assert "data sheet" in described["device"]["source"]
    assert json.loads(json.dumps(described)) == described
