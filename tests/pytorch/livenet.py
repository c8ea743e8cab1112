"""A model for live runs, and what a run must leave of it whether it ends well or not.

Bytes are counted by the witness, which the runtime tells nothing.
"""

# ruff: noqa: SIM117 - what a context does at its end is what is tested

import gc

import pytest
import torch
from torch import nn
from torch.nn import functional as fn
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from dtrdiag.instrumentation.pytorch import remat
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


class Square(torch.autograd.Function):  # type: ignore[misc]
    """Of a program's own, with a tensor that it saves."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


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
