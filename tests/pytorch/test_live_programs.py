"""What a live run does not refuse comes to the values of plain PyTorch, and leaves its state."""

# ruff: noqa: PT012 - what a context does at its end is what is tested

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as fn
from torch.utils.checkpoint import checkpoint

from dtrdiag.instrumentation.pytorch import remat
from dtrdiag.instrumentation.pytorch.wrapper import RematTensor

from .livenet import INPUTS, Net, Square, alike, assert_usable, both, state_of, step, values_in


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


def written_unseen(model):
    made = model(INPUTS).exp()
    made.data.mul_(0.5)
    made.sum().backward()
    return made


def checked_gradients(model):
    x = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    return torch.tensor(torch.autograd.gradcheck(lambda x: (x * 2).sin(), (x,)))


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
    "a write that autograd does not see": written_unseen,
    "gradcheck": checked_gradients,
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
