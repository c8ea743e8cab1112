"""What a recording cannot tell it refuses by name, and nothing is left of the file."""

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as fn
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from dtrdiag.errors import OutputError, UsageError
from dtrdiag.instrumentation.pytorch import record
from dtrdiag.instrumentation.pytorch.errors import (
    NestedContextError,
    RecordingError,
    UndeclaredWriteError,
    UnsupportedOpError,
)
from dtrdiag.instrumentation.pytorch.step import Step

from .ownsteps import calls, recorded


class Wrapped(torch.Tensor):  # type: ignore[misc]
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return args[0]


def resized():
    x = torch.ones(3) * 1
    x.untyped_storage().resize_(0)
    return x + 1


def compiled():
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))


def condition(x):
    from torch._higher_order_ops.cond import cond_op

    return cond_op(x > 0, lambda x: x + 1, lambda x: x - 1, (x,))


def differentiated_forward():
    torch.func.jvp(lambda a: (a * 2).sum(), (torch.ones(3),), (torch.ones(3),))


REFUSED = {
    "unique": (lambda: torch.unique(torch.ones(3)), "aten._unique2.default: the sizes of its res"),
    "nested": (
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "quantized and nested tensors cannot be told",
    ),
    "resize_as_": (lambda: torch.ones(3).resize_as_(torch.ones(9)), "aten.resize_as_.default: giv"),
    "resized": (resized, "a storage of 12 bytes has 0 now: it was resized, and not by an operator"),
    "subclass": (lambda: Wrapped(torch.ones(3)) * 2, "tensors of class Wrapped cannot be told"),
    "compiled": (compiled, "inside torch.compile, and what compiled code executes cannot be told"),
    "condition": (lambda: condition(torch.ones(1)), "cond is not a plain operator of PyTorch"),
    "forward": (differentiated_forward, "zeros without memory"),
}


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize(("program", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_recorded_is_refused_by_name(program, said, tmp_path):
    path = tmp_path / "x.log"
    with pytest.raises(RecordingError) as refused, record(path):
        program()
    assert said in str(refused.value)
    assert list(tmp_path.iterdir()) == []


READS = {
    "if": lambda: 1 if torch.ones(()) > 0 else 2,
    "equal": lambda: torch.equal(torch.ones(3), torch.ones(3)),
}


@pytest.mark.parametrize("program", READS.values(), ids=READS)
def test_without_values_none_is_read(program):
    said = "reads a value, which fake tensors do not have; record on real tensors"
    with pytest.raises(UnsupportedOpError, match=said), FakeTensorMode(), record():
        program()


def lstm_step():
    model, x = nn.LSTM(8, 8), torch.randn(3, 2, 8)
    return Step("lstm", model, lambda: model(x)[0].sum().backward())


def test_the_workspace_of_an_lstm_is_recorded_with_values():
    """Its fake kernel makes none, and a log without it would be short of most of the memory."""
    found = recorded(lstm_step).trace
    sizes = [int(size) for size in found.tensor_size_bytes]
    assert 2 * max(sizes) > sum(sizes) / 2
    layer = found.op_name.index("aten.mkldnn_rnn_layer.default")
    backward = found.op_name.index("aten.mkldnn_rnn_layer_backward.default")
    workspace = found.outputs_of(layer)[3]
    assert sizes[workspace] == max(sizes)
    # The backward pass writes to it without saying so.
    assert sizes.count(max(sizes)) == 2
    assert max(sizes) in [sizes[tensor] for tensor in found.outputs_of(backward)]


def test_parameters_without_a_size_are_refused():
    with pytest.raises(RecordingError, match="weight has no size yet: call the model once before"):
        record(None, nn.LazyLinear(4)).__enter__()


@torch.library.custom_op("dtrdiag_tests::secretive", mutates_args=())
def secretive(x: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    return x + 1


def test_a_secret_write_is_found_where_it_is_looked_for(tmp_path):
    path = tmp_path / "x.log"
    said = "dtrdiag_tests.secretive.default writes to x without saying so"
    with pytest.raises(UndeclaredWriteError, match=said), record(path, check=True):
        secretive(torch.ones(3))
    assert not path.exists()


def through_numpy():
    y = torch.ones(3) * 2
    y.numpy()[:] = 5
    return y + 1


def at_the_end():
    weight = nn.Linear(2, 2).weight.detach()
    weight.sum()
    weight.numpy()[:] = 5
    return weight


@pytest.mark.parametrize(("program", "where"), [
    (through_numpy, "aten.add.Tensor: self"),
    (at_the_end, "the end of the block: what aten.uniform_.default left"),
])  # fmt: skip
def test_what_is_written_by_no_operator_is_found_where_it_is_looked_for(program, where, tmp_path):
    path = tmp_path / "x.log"
    said = f"{where} was written before, and by no operator"
    with pytest.raises(UndeclaredWriteError, match=said), record(path, check=True):
        kept = program()
    assert not path.exists()
    del kept


def assigned(x):
    y = x * 2
    y.data = x * 3
    model = nn.Linear(2, 2)
    model.weight.data = model.weight.data * 2
    return y + 1, model(x), model.weight


def not_assigned(x):
    y = x * 2
    z = x * 3
    del y
    model = nn.Linear(2, 2)
    # The parameter's object lives on either way, and looks elsewhere.
    weight = model.weight.detach() * 2
    bias = model.bias
    del model
    return z + 1, fn.linear(x, weight.requires_grad_(), bias), weight


@pytest.mark.parametrize("fake", [False, True], ids=["real", "fake"])
def test_what_is_assigned_to_data_is_the_tensor_from_then_on(fake):
    """No operator does it; what it is used for, and what is dropped, is seen all the same."""
    contents = []
    for program in (assigned, not_assigned):
        with FakeTensorMode() if fake else nullcontext():
            x = torch.ones(3, 2)
            with record() as recording:
                kept = program(x)
            contents.append(recording.content)
            del kept
    assert contents[0] == contents[1]


def test_recordings_are_of_one_block_and_not_inside_another():
    with record() as found:
        torch.ones(3)
        with pytest.raises(NestedContextError), record():
            torch.zeros(3)
        torch.ones(3)
    assert calls(found) == ["ones", "ones"]
    with pytest.raises(RecordingError, match="of one block"), found:
        torch.ones(3)
    with pytest.raises(RecordingError, match="nothing is recorded yet"):
        record().trace  # noqa: B018 - it raises


def test_arguments_are_refused_before_anything_runs(tmp_path):
    path = tmp_path / "x.log"
    path.write_text("what was there")
    with pytest.raises(OutputError, match="exists already"):
        record(path)
    with pytest.raises(OutputError, match="the folder does not exist"):
        record(tmp_path / "none" / "x.log")
    with pytest.raises(UsageError, match="writes must be one of copy, sink, not twice"):
        record(writes="twice")
    with record(path, force=True):
        torch.ones(3)
    assert path.read_text().startswith('{"ANNOTATION"')
