"""What a live run cannot do it refuses by name; the model is left as before, and nothing leaks."""

# ruff: noqa: PT012, SIM117 - what a context does at its end is what is tested

import copy
import io
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as fn
from torch.utils._python_dispatch import TorchDispatchMode

from dtrdiag.errors import DtrdiagError, OutputError, SubscriberError
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation.pytorch import record, remat
from dtrdiag.instrumentation.pytorch.errors import (
    BudgetError,
    EscapedTensorError,
    LiveRunError,
    NestedContextError,
    RematOutOfMemoryError,
    UnsupportedOpError,
)
from dtrdiag.instrumentation.pytorch.witness import Witness
from dtrdiag.instrumentation.pytorch.wrapper import RematTensor

from .livenet import (
    INPUTS,
    NO_INDEX,
    NO_MEMORY,
    Net,
    Refused,
    alike,
    assert_usable,
    both,
    state_of,
    step,
    tensors,
)

# --- what is refused ----------------------------------------------------------------------------


def changed(model, change):
    made = model(INPUTS).detach()
    change(made)


def assigned(model):
    model.first.weight.data = model.first.weight.data * 2


class Tagged(torch.Tensor):  # type: ignore[misc]
    """A class of a program's own."""


@torch.library.custom_op("dtrdiag_tests::untold", mutates_args=())
def untold(x: torch.Tensor) -> torch.Tensor:
    return x * 2


UNSUPPORTED = {
    "a sparse tensor": lambda model: model(INPUTS).to_sparse(),
    "a sparse gradient": lambda model: (
        fn.embedding(torch.arange(4), model.table.weight, sparse=True).sum().backward()
    ),
    "nonzero": lambda model: model(INPUTS).nonzero(),
    "a mask": lambda model: model(INPUTS)[INPUTS > 0],
    "unique": lambda model: model(INPUTS).unique(),
    "looked at anew in place": lambda model: changed(model, lambda t: t.as_strided_((2,), (1,))),
    "set_": lambda model: changed(model, lambda t: t.set_(torch.zeros(3))),
    "resize_": lambda model: changed(model, lambda t: t.resize_(3)),
    "a result that is resized": lambda model: torch.mul(model(INPUTS).detach(), 2, out=INPUTS[:0]),
    "a tensor without memory": lambda model: model(INPUTS) + NO_MEMORY,
    "data of a parameter, used": lambda model: (assigned(model), model(INPUTS)),
    "compiled code": lambda model: torch.compile(lambda x: x + 1, backend="eager")(model(INPUTS)),
    "a class of tensors": lambda model: model(INPUTS.as_subclass(Tagged)),
    "a class on known bytes": lambda model: (model(INPUTS), model(INPUTS.as_subclass(Tagged))),
    "an operator that fake tensors do not have": lambda model: untold(model(INPUTS)),
    "a recurrent layer of mkldnn": lambda model: nn.LSTM(8, 8)(model(INPUTS)),
}


@pytest.mark.parametrize("what", UNSUPPORTED)
def test_an_operator_that_cannot_be_told_is_refused(what):
    Refused(UnsupportedOpError)(UNSUPPORTED[what])


BYTES = {
    "assigned to data": lambda made: setattr(made, "data", torch.zeros(2)),
    "numpy": lambda made: made.numpy(),
    "tolist": lambda made: made.tolist(),
    "data_ptr": lambda made: made.data_ptr(),
    "dlpack": torch.from_dlpack,
    "a pickle": lambda made: torch.save(made, io.BytesIO()),
}


@pytest.mark.parametrize("what", BYTES)
def test_what_needs_the_bytes_of_a_tensor_is_refused_and_the_run_goes_on(what):
    def block(model):
        made = model(INPUTS)
        with pytest.raises(LiveRunError, match=r"needs the bytes|cannot be assigned"):
            BYTES[what](made.detach())
        made.sum().backward()

    model = Net()
    with remat(None, model=model):
        block(model)
    assert all(type(p.grad) is not RematTensor for p in model.parameters())


def test_data_of_a_parameter_that_is_assigned_and_not_used_is_refused_at_the_end():
    Refused(LiveRunError, r"`.data` of a parameter")(lambda model: (step(model), assigned(model)))


def test_contexts_do_not_nest():
    model = Net()
    with remat(None, model=model):
        with pytest.raises(NestedContextError), remat(None, model=model):
            pass
        with pytest.raises(NestedContextError), record(None, model):
            pass
        loss = step(model)
    assert loss.item() > 0
    with record(None, model) as r:
        with pytest.raises(NestedContextError), remat(None, model=model):
            pass
        step(model)
    assert r.trace.ops


@pytest.mark.parametrize("share", [0.5, 1.0, 1.5])
def test_a_budget_below_constants_and_gradients_is_refused_before_anything_runs(share):
    model = Net()
    budget = int(sum(t.numel() * t.element_size() for t in tensors(model)) * share)
    before = state_of(model)
    with pytest.raises(BudgetError, match=f"{budget} bytes"), remat(budget, model=model):
        raise AssertionError("the block runs")
    assert_usable(model, before)


def test_a_budget_just_above_them_runs_out_of_memory_and_says_what_held_it():
    model = Net()
    budget = 2 * sum(t.numel() * t.element_size() for t in tensors(model)) + 500
    before = state_of(model)
    witness = Witness(tensors(model))
    alive_bytes = witness.alive_bytes
    with pytest.raises(RematOutOfMemoryError, match="out of memory") as caught, witness:
        with remat(budget, model=model) as rt:
            step(model)
    error = caught.value
    assert error.memory_bytes + error.requested_bytes > budget
    assert sum(each.nbytes for each in error.frontier) == error.memory_bytes
    assert rt.result is None
    assert witness.alive_bytes - alive_bytes == INPUTS.untyped_storage().nbytes()
    assert_usable(model, before)


# --- exceptions ---------------------------------------------------------------------------------


def test_an_exception_of_the_program_comes_out_and_the_model_is_as_before():
    def block(model):
        step(model)
        raise ValueError("of the program")

    Refused(ValueError, "of the program")(block)


def test_an_exception_of_a_kernel_comes_out_and_the_model_is_as_before():
    Refused(IndexError)(lambda model: (step(model), model.table(NO_INDEX)))


def test_a_failure_that_the_block_swallows_comes_out_all_the_same():
    def block(model):
        step(model)
        with pytest.raises(UnsupportedOpError):
            model(INPUTS).nonzero()
        with pytest.raises(LiveRunError, match="the live run is over: it stopped: Unsupported"):
            model(INPUTS)

    Refused(UnsupportedOpError)(block)


def test_a_call_that_is_wrong_in_plain_pytorch_does_nothing():
    def block(model):
        with pytest.raises(RuntimeError, match=r"shapes|dim"):
            model.first(INPUTS[:, :3])
        return step(model)

    plain, live = both(block)
    assert alike(plain, live)


class Interrupting(TorchDispatchMode):  # type: ignore[misc]
    """Presses Ctrl-C at a kernel of its choice."""

    def __init__(self, at):
        super().__init__()
        self.left = at

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("swallows", [False, True])
def test_an_interrupt_in_a_kernel_leaves_the_model_as_before(swallows):
    model = Net()
    step(model)
    before = state_of(model)
    kept = []

    def block():
        kept.append(weakref.ref(model(INPUTS)))
        step(model)

    with pytest.raises(KeyboardInterrupt), Interrupting(400):
        with remat(None, model=model):
            try:
                for _ in range(20):
                    block()
            except KeyboardInterrupt:
                if not swallows:
                    raise
    assert kept[0]() is None
    assert_usable(model, before)


def test_a_log_that_exists_is_refused_before_anything_runs(tmp_path):
    log = tmp_path / "run.jsonl"
    log.write_text("mine")
    model = Net()
    before = state_of(model)
    with pytest.raises(OutputError, match="exists"), remat(None, model=model, log=log):
        raise AssertionError("the block runs")
    assert log.read_text() == "mine"
    assert_usable(model, before)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_log_that_cannot_be_written_stops_the_run():
    model = Net()
    before = state_of(model)
    with pytest.raises(SubscriberError, match="No space left"):
        with remat(None, model=model, log="/dev/full", force=True):
            for _ in range(20):
                step(model)
    assert_usable(model, before)


def test_a_subscriber_that_fails_stops_the_run():
    hooks = Hooks()
    seen = []

    def full(event):
        seen.append(event)
        if len(seen) > 300:
            raise OSError("no room")

    hooks.subscribe(full)
    Refused(SubscriberError, hooks=hooks)(step)


# --- tensors that escape ------------------------------------------------------------------------


def test_a_tensor_of_a_failed_run_has_no_value_and_says_so():
    model = Net()
    with pytest.raises(ValueError, match="stop"), remat(None, model=model):
        made = model(INPUTS)
        raise ValueError("stop")
    with pytest.raises(EscapedTensorError, match="stopped without a value"):
        made + 1
    with pytest.raises(EscapedTensorError), remat(None, model=model):
        made + 1
    assert repr(made).startswith("RematTensor(shape=[32, 8]")


def test_a_tensor_of_a_good_run_has_its_value_wherever_it_is_used():
    model = Net()
    with torch.random.fork_rng():
        torch.manual_seed(7)
        expected = model(INPUTS).detach()
        torch.manual_seed(7)
        with remat(None, model=Net()):
            made = model(INPUTS).detach()
    assert type(made + 0) is torch.Tensor
    assert torch.equal(made, expected)
    assert made.tolist() == expected.tolist()
    assert (made.numpy() == expected.numpy()).all()
    assert repr(made) == repr(expected)
    assert f"{made.sum():.3f}" == f"{expected.sum():.3f}"
    assert torch.equal(copy.deepcopy(made), expected)
    assert made.data_ptr()
    with remat(None, model=model):
        doubled = made * 2
    assert torch.equal(doubled, expected * 2)


def test_arguments_are_refused_before_a_log_is_begun(tmp_path):
    log = tmp_path / "a.jsonl"
    log.write_text("mine")
    with pytest.raises(DtrdiagError, match="dtrr"):
        remat(None, "dtrr", log=log, force=True)
    with pytest.raises(DtrdiagError, match="number of bytes"):
        remat("6MB", log=log, force=True)
    with pytest.raises(DtrdiagError, match="nowhere"):
        remat(None, trace="nowhere", log=log, force=True)
    assert log.read_text() == "mine"


def test_an_out_of_memory_error_names_its_log_and_what_reads_it(tmp_path):
    model, log = nn.Linear(64, 64), tmp_path / "a.jsonl"
    with pytest.raises(RematOutOfMemoryError, match=f"dtrdiag oom {log}"):
        with remat(2 * 4 * 64 * 65 + 64, model=model, log=log):
            model(torch.ones(8, 64)).sum().backward()


def test_a_sparse_tensor_from_before_is_refused_by_name():
    model, sparse = nn.Linear(4, 4), torch.eye(4).to_sparse()
    with pytest.raises(UnsupportedOpError, match="sparse"), remat(None, model=model):
        torch.sparse.mm(sparse, model(torch.ones(4, 4)))
