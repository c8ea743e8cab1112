"""What a live run cannot do it refuses by name; the model is left as before, and nothing leaks.

Bytes are counted by the witness, which the runtime tells nothing. Where a case is not refused, its
values and what it leaves in the model are those of plain PyTorch.
"""

# ruff: noqa: PT012, SIM117 - what a context does at its end is what is tested

import copy
import gc
import io
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as fn
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils.checkpoint import checkpoint

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

with torch.random.fork_rng():
    torch.manual_seed(11)
    INPUTS = torch.randn(32, 8)


NO_INDEX = torch.tensor([10])
NO_MEMORY = torch.zeros(8, device="meta")


class Net(nn.Module):  # type: ignore[misc]
    """Batch norm, so that buffers are written; drops out, so that random numbers are drawn."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.first = nn.Linear(8, 16)
            self.norm = nn.BatchNorm1d(16)
            self.last = nn.Linear(16, 8)
            self.table = nn.Embedding(10, 8)

    def forward(self, x):
        return self.last(fn.dropout(torch.relu(self.norm(self.first(x))), 0.2))


def step(model, inputs=INPUTS):
    loss = model(inputs).square().mean()
    loss.backward()
    return loss


def tensors(model):
    return [*model.parameters(), *model.buffers()]


def values_in(value):
    if isinstance(value, (tuple, list)):
        return [each for part in value for each in values_in(part)]
    if isinstance(value, torch.Tensor):
        value = value.plain() if isinstance(value, RematTensor) else value
        return [value.detach().resolve_conj().clone()]
    return [value]


def state_of(model):
    """Parameters, buffers, gradients and the random state."""
    gradients = [p.grad if p.grad is None else p.grad.clone() for p in model.parameters()]
    return [*(t.detach().clone() for t in tensors(model)), *gradients, torch.get_rng_state()]


def alike(one, other):
    return len(one) == len(other) and all(
        type(a) is type(b)
        and (torch.equal(a, b) and a.dtype is b.dtype if isinstance(a, torch.Tensor) else a == b)
        for a, b in zip(one, other, strict=True)
    )


def both(block, budget=None, **options):
    """What a block returns and leaves behind in plain PyTorch, and live."""
    came = []
    for live in (False, True):
        model = Net()
        with torch.random.fork_rng():
            torch.manual_seed(7)
            if live:
                with remat(budget, model=model, **options):
                    returned = block(model)
            else:
                returned = block(model)
            came.append([*values_in(returned), *state_of(model)])
    return came


def assert_usable(model, before):
    """A model is as it was, and a plain and a live step on it give what a fresh model gives."""
    assert alike(state_of(model), before)
    assert _get_current_dispatch_mode_stack() == []
    assert gc.isenabled()
    fresh = Net()
    fresh.load_state_dict(model.state_dict())
    for each, run in ((fresh, None), (model, None), (model, remat(None, model=model))):
        each.zero_grad()
        torch.manual_seed(5)
        state = {name: value.clone() for name, value in each.state_dict().items()}
        if run is None:
            loss = step(each)
        else:
            with run:
                loss = step(each)
        came = [*values_in(loss), *state_of(each)]
        each.load_state_dict(state)
        if each is fresh:
            expected = came
        assert alike(came, expected)


class Refused:
    """A block that fails; afterwards everything is as before, and none of its storages is alive."""

    def __init__(self, error, match=None, budget=None, **options):
        self.model = Net()
        step(self.model)  # gradients and statistics to lose
        self.error, self.match = error, match
        self.budget, self.options = budget, options

    def __call__(self, block):
        model = self.model
        before = state_of(model)
        known = [*tensors(model), *(p.grad for p in model.parameters() if p.grad is not None)]
        witness = Witness([*known, INPUTS, NO_INDEX])
        alive_bytes = witness.alive_bytes
        with pytest.raises(self.error, match=self.match) as caught, witness:
            with remat(self.budget, model=model, **self.options):
                block(model)
        # Also while the error is still there, with all frames that it came through.
        assert witness.kernels
        assert witness.alive_bytes == alive_bytes
        del caught, known
        assert_usable(model, before)


# --- what is refused ----------------------------------------------------------------------------


def changed(model, change):
    made = model(INPUTS).detach()
    change(made)


def assigned(model):
    model.first.weight.data = model.first.weight.data * 2


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


# --- what is right ------------------------------------------------------------------------------


class Square(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


def reads(model):
    loss = step(model)
    branch = loss * 2 if loss > 0 else loss
    value = loss.detach()
    return branch, loss.item(), float(value), f"{value:.4f}", str(value).startswith("tensor(")


def hooked(model):
    seen = []
    made = model.first(INPUTS)
    made.register_hook(lambda gradient: (seen.append(gradient.sum()), gradient * 2)[1])
    made.retain_grad()
    model.last(made).sum().backward()
    return made.grad, seen


def doubly(model):
    x = INPUTS.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(torch.tanh(model(x)).sum(), x, create_graph=True)
    gradient.square().sum().backward()
    return gradient, x.grad


def retained(model):
    loss = model(INPUTS).sum()
    loss.backward(retain_graph=True)
    loss.backward()


def autocast(model):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return step(model)


def unmasked(model):
    made = model(INPUTS).detach().clone()
    made[made > 0] = 0
    made[:, 2:4].mul_(2)
    flat = made.view(-1)
    flat[3] = 9
    return made, flat, torch.where(made > 0, made, 1)


def conjugates(model):
    made = torch.fft.rfft(model(INPUTS))
    (made * made.conj()).real.sum().backward()
    return made.conj(), made.imag, made * made.conj(), torch.view_as_real(made), made.conj().imag


def dead(model):
    values, places = model(INPUTS).sort(dim=1)
    most, where = values.max(1)
    del places, where
    (values.sum() + most.sum()).backward()
    return values


def frozen(model):
    model.first.weight.requires_grad_(False)
    loss = step(model)
    model.first.weight.requires_grad_(True)
    return loss


def evaluated(model):
    model.eval()
    loss = step(model)
    model.train()
    return loss


def drawn(model):
    generator = torch.Generator()
    generator.manual_seed(3)
    first = torch.rand(4, generator=generator)
    step(model)
    return first, torch.rand(4, generator=generator), torch.randperm(5), torch.randn(3)


def unwatched(model):
    with torch.no_grad():
        made = model(INPUTS)
        model.last.weight.mul_(2)
        model.norm.running_mean.add_(1)
    return made, made.detach().clone(), model(INPUTS)


def checkpointed(model):
    x = INPUTS.clone().requires_grad_()
    step(lambda x: checkpoint(model, x, use_reentrant=False), x)
    step(lambda x: checkpoint(model, x, use_reentrant=True), x)
    return x.grad


def clipped(model):
    step(model)
    return nn.utils.clip_grad_norm_(model.parameters(), 0.01)


def gated(model):
    torch.manual_seed(1)
    layer = nn.GRU(8, 8)
    layer(model(INPUTS))[0].sum().backward()
    return [p.grad for p in layer.parameters()]


def on_the_host(model):
    with torch.autograd.graph.save_on_cpu():
        return step(model)


def watched_for_anomalies(model):
    with torch.autograd.detect_anomaly():
        return step(model)


def made_inside(model):
    return torch.tensor([1.0, 2.0]) * 2, torch.arange(10).flip(0), torch.arange(3) > 1, model.table


RIGHT = {
    "values that are read": reads,
    "gradient accumulation": lambda model: [step(model), step(model, INPUTS + 1)],
    "gradients cleared between": lambda model: [step(model), model.zero_grad(), step(model)],
    "gradients zeroed between": lambda model: [step(model), model.zero_grad(False), step(model)],
    "hooks on a tensor": hooked,
    "retain_graph": retained,
    "autograd.grad": lambda model: torch.autograd.grad(model(INPUTS).sum(), model.first.weight),
    "double backward": doubly,
    "an autograd function": lambda model: step(lambda x: Square.apply(model(x))),
    "tied weights": lambda model: step(lambda x: fn.linear(model.first(x), model.first.weight.t())),
    "autocast": autocast,
    "a strided input": lambda model: step(model, INPUTS.t().contiguous().t()),
    "writes through views and masks": unmasked,
    "complex numbers": conjugates,
    "outputs that nobody wants": dead,
    "a frozen parameter": frozen,
    "evaluation": evaluated,
    "a generator": drawn,
    "writes without gradients": unwatched,
    "torch.utils.checkpoint": checkpointed,
    "clipping": clipped,
    "a recurrent layer": gated,
    "inference mode": lambda model: torch.inference_mode()(model)(INPUTS),
    "saved on the host": on_the_host,
    "detecting anomalies": watched_for_anomalies,
    "a functional call": lambda model: torch.func.functional_call(
        model, dict(model.named_parameters()), (INPUTS,)
    ),
    "forward mode": lambda model: torch.func.jvp(torch.sin, (INPUTS,), (INPUTS,)),
    "linear algebra": lambda model: torch.linalg.svd(model(INPUTS)[:4, :4] + 3 * torch.eye(4)),
    "copies": lambda model: copy.deepcopy(model(INPUTS).detach()),
    "a random seed": lambda model: [torch.manual_seed(5).seed and step(model) for _ in range(2)],
}


@pytest.mark.filterwarnings("ignore:Anomaly Detection", "ignore:`torch.jit.script`")
@pytest.mark.parametrize("what", RIGHT)
def test_what_is_not_refused_is_right(what):
    plain, live = both(RIGHT[what])
    assert alike(plain, live)


TIGHT = ("gradient accumulation", "double backward", "torch.utils.checkpoint", "retain_graph")


@pytest.mark.parametrize("what", TIGHT)
def test_it_is_also_right_under_pressure(what):
    model = Net()
    with remat(None, model=model) as rt:
        RIGHT[what](model)
    budget = int(rt.result.end.max_memory_bytes * 0.9)
    plain, live = both(RIGHT[what], budget)
    assert alike(plain, live)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_an_optimizer_may_step_inside_the_block(kind):
    came = []
    for live in (False, True):
        model = Net()
        optimizer = kind(model.parameters(), lr=0.1)
        with torch.random.fork_rng():
            torch.manual_seed(7)
            for _ in range(3):
                optimizer.zero_grad()
                if live:
                    with remat(None, model=model, optimizer=optimizer):
                        step(model)
                        optimizer.step()
                else:
                    step(model)
                    optimizer.step()
                entries = [v for each in optimizer.state.values() for v in each.values()]
                assert not any(type(value) is RematTensor for value in entries)
                came.append([*state_of(model), *values_in(entries)])
    assert all(alike(plain, lived) for plain, lived in zip(came[:3], came[3:], strict=True))


def test_a_step_that_fails_leaves_no_state_in_the_optimizer():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    before = state_of(model)
    with pytest.raises(ValueError, match="stop"), remat(None, model=model, optimizer=optimizer):
        step(model)
        optimizer.step()
        raise ValueError("stop")
    assert not optimizer.state
    assert_usable(model, before)


def test_a_buffer_that_is_replaced_is_plain_afterwards_and_as_before_after_a_failure():
    model = Net()
    before = model.norm.running_mean
    with pytest.raises(ValueError, match="stop"), remat(None, model=model):
        model.norm.running_mean = model.norm.running_mean + 1
        raise ValueError("stop")
    assert model.norm.running_mean is before
    with remat(None, model=model):
        model.norm.running_mean = model.norm.running_mean + 1
    assert type(model.norm.running_mean) is torch.Tensor
    assert torch.equal(model.norm.running_mean, before + 1)


def test_a_gradient_of_an_input_is_plain_afterwards_and_as_before_after_a_failure():
    model = Net()
    x = INPUTS.clone().requires_grad_()
    step(model, x)
    before = x.grad
    with pytest.raises(ValueError, match="stop"), remat(None, model=model):
        step(model, x)
        raise ValueError("stop")
    assert x.grad is before
    with remat(None, model=model):
        step(model, x)
    assert type(x.grad) is torch.Tensor


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
