"""A block that fails leaves no trace of what it replaced; else there are plain tensors after it."""

# ruff: noqa: PT012, SIM117 - what a context does at its end is what is tested

import pytest
import torch
from torch import nn

from dtrdiag.errors import UsageError
from dtrdiag.instrumentation.pytorch import remat
from dtrdiag.instrumentation.pytorch.errors import LiveRunError, UnsupportedOpError
from dtrdiag.instrumentation.pytorch.wrapper import RematTensor

INPUTS = torch.linspace(-1, 1, 32).reshape(4, 8)


def net():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
    model(INPUTS).square().sum().backward()
    return model


def entries(value):
    """What containers hold at any depth, tensors as copies."""
    if isinstance(value, dict):
        return [each for pair in value.items() for part in pair for each in entries(part)]
    if isinstance(value, (list, tuple)):
        return [each for part in value for each in entries(part)]
    if isinstance(value, torch.Tensor):
        assert type(value) is not RematTensor
        return [value.detach().clone()]
    return [value]


def state_of(model, optimizer=None):
    named = [*model.named_parameters(), *model.named_buffers()]
    gradients = [(p.requires_grad, p.grad) for p in model.parameters()]
    modes = [(name, module.training) for name, module in model.named_modules()]
    optimizing = [] if optimizer is None else [optimizer.state, optimizer.param_groups]
    keys = list(model.state_dict())
    return entries([named, gradients, modes, keys, optimizing, torch.get_rng_state()])


def assert_alike(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert type(a) is type(b)
        if isinstance(a, torch.Tensor):
            assert a.dtype is b.dtype
            assert torch.equal(a, b)
        else:
            assert a == b


# --- a block that fails -------------------------------------------------------------------------

MINE = torch.ones(8, 8)
SEEDED = torch.Generator().manual_seed(9).get_state()


def moves(model):
    model[0].weight.data = MINE
    model(INPUTS)  # so that both places are known
    model[0].bias.data = torch.zeros(8, dtype=torch.float64)


def adds(model):
    model[0].register_parameter("scale", nn.Parameter(torch.ones(8)))
    model[0].register_buffer("shift", torch.ones(8), persistent=False)
    model.append(nn.Linear(8, 8))
    model(INPUTS).sum().backward()


def writes_with_history(model):
    model[1].running_mean.add_(model[0].bias)


REPLACING = {
    "a seed": lambda model: torch.manual_seed(5),
    "a seed, used": lambda model: (torch.manual_seed(5), torch.rand(3)),
    "a state of the generator": lambda model: torch.set_rng_state(SEEDED),
    "bytes": moves,
    "bytes of a buffer": lambda model: setattr(model[1].running_var, "data", torch.ones(8) * 2),
    "a gradient's bytes": lambda model: setattr(model[0].weight.grad, "data", MINE),
    "a gradient's bytes by live ones": lambda model: setattr(
        model[0].weight.grad, "data", model[0].weight.grad * 2
    ),
    "a parameter": lambda model: setattr(model[0], "weight", nn.Parameter(model[0].weight * 2)),
    "a module": lambda model: model.__setitem__(0, nn.Linear(8, 8)),
    "tables": adds,
    "a parameter is gone": lambda model: model[0].register_parameter("bias", None),
    "modes": lambda model: model.eval().requires_grad_(False),
    "history": writes_with_history,
    "all of its bytes": lambda model: model.double(),
}


@pytest.mark.parametrize("what", REPLACING)
def test_what_a_failing_block_replaced_is_as_before(what):
    model = net()
    before, known = state_of(model), [*model.parameters(), *model.buffers()]
    with pytest.raises(ValueError, match="stop"), remat(None, model=model):
        REPLACING[what](model)
        raise ValueError("stop")
    assert_alike(state_of(model), before)
    after = [*model.parameters(), *model.buffers()]
    assert all(one is other for one, other in zip(after, known, strict=True))
    assert all(t.is_leaf for t in after)


def anew(optimizer):
    optimizer.load_state_dict({"state": {}, "param_groups": optimizer.state_dict()["param_groups"]})


def scheduled(optimizer):
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    optimizer.step()
    scheduler.step()


OPTIMIZERS = {
    "adam": lambda given: torch.optim.Adam(given, lr=torch.tensor(0.1)),
    "sgd": lambda given: torch.optim.SGD(given, lr=0.1, momentum=0.9),
    "lbfgs": lambda given: torch.optim.LBFGS(given, max_iter=2),
}
STEPPING = {
    "steps": lambda optimizer: optimizer.step(),
    "a schedule": scheduled,
    "a group": lambda optimizer: optimizer.add_param_group({"params": [nn.Parameter(MINE)]}),
    "loads": anew,
}


def closed(model, optimizer):
    """The optimizer, with `step` calling its closure where it needs one."""

    def closure():
        optimizer.zero_grad()
        loss = model(INPUTS).square().sum()
        loss.backward()
        return loss

    step = optimizer.step
    if isinstance(optimizer, torch.optim.LBFGS):
        optimizer.step = lambda: step(closure)
    return optimizer


@pytest.mark.parametrize(("kind", "what"), [
    ("adam", "a schedule"), ("sgd", "loads"), ("sgd", "a schedule"), ("sgd", "a group"),
    ("lbfgs", "steps"),
])  # fmt: skip
def test_an_optimizer_has_its_entries_and_settings_back_at_any_depth(kind, what):
    model = net()
    optimizer = closed(model, OPTIMIZERS[kind](model.parameters()))
    optimizer.step()
    optimizer.step()
    before, groups = state_of(model, optimizer), optimizer.param_groups
    rates = [group["lr"] for group in groups]
    with pytest.raises(ValueError, match="stop"):
        with remat(None, model=model, optimizer=optimizer):
            STEPPING[what](optimizer)
            raise ValueError("stop")
    assert_alike(state_of(model, optimizer), before)
    assert optimizer.param_groups is groups
    assert all(group["lr"] is rate for group, rate in zip(groups, rates, strict=True))
    optimizer.step()


def test_gradients_of_parameters_that_only_the_optimizer_has_are_as_before():
    model = net()
    optimizer = torch.optim.SGD(model.parameters())
    before = state_of(model)
    with pytest.raises(ValueError, match="stop"), remat(None, optimizer=optimizer):
        optimizer.zero_grad()
        model(INPUTS).sum().backward()
        raise ValueError("stop")
    assert_alike(state_of(model), before)


# --- `.data` ------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["gradient", "input", "view", "buffer", "parameter"])
def test_live_bytes_for_a_tensor_from_before_are_refused_and_its_own_are_back(what):
    model, given = net(), INPUTS.clone()
    tensor = {
        "gradient": model[0].weight.grad,
        "input": given,
        "view": (view := given[:2]),
        "buffer": model[1].running_mean,
        "parameter": model[0].weight,
    }[what]
    before, where = [*state_of(model), given.clone()], tensor.data_ptr()
    with pytest.raises(LiveRunError, match=r"`.data` of a .*input was assigned"):
        with remat(None, model=model):
            (model(given).sum() + view.sum()).backward()
            tensor.data = tensor.detach() * 2
    assert_alike([*state_of(model), given], before)
    assert tensor.data_ptr() == where


def test_plain_bytes_for_a_parameter_stay_where_the_block_goes_well():
    model = net()
    with remat(None, model=model):
        model[0].weight.data = MINE
    assert model[0].weight.data_ptr() == MINE.data_ptr()


# --- a block that goes well ---------------------------------------------------------------------


def test_what_a_block_puts_into_a_model_and_an_optimizer_is_plain_afterwards():
    came = []
    for live in (False, True):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        run = remat(None, model=model, optimizer=optimizer)
        if live:
            run.__enter__()
        model[0].weight = nn.Parameter(model[0].weight.detach() * 2)
        with torch.no_grad():
            model.append(nn.Linear(8, 8, bias=False)).append(model[-1])
            model[-1].weight.copy_(MINE)
        model[-1].register_buffer("shift", torch.ones(8))
        optimizer.add_param_group({"params": [model[-1].weight, model[0].weight]})
        model(INPUTS).square().sum().backward()
        optimizer.step()
        if live:
            run.__exit__(None, None, None)
        assert all(type(p) is nn.Parameter for p in model.parameters())
        assert model[-1].weight is model[-2].weight is optimizer.param_groups[1]["params"][0]
        assert all(p in optimizer.state for p in optimizer.param_groups[1]["params"])
        with torch.random.fork_rng():
            model(INPUTS).square().sum().backward()
            optimizer.step()
            came.append(state_of(model, optimizer))
    came = [part[:-1] for part in came]  # the module that was made drew random numbers
    assert_alike(*came)


def test_lists_in_the_state_of_an_optimizer_are_plain_afterwards():
    came = []
    for live in (False, True):
        model = net()
        optimizer = closed(model, OPTIMIZERS["lbfgs"](model.parameters()))
        for _ in range(3):
            if live:
                with remat(None, model=model, optimizer=optimizer):
                    optimizer.step()
            else:
                optimizer.step()
        came.append(state_of(model, optimizer))
    assert_alike(*came)


def test_nothing_of_before_is_kept_by_the_run():
    model = net()
    with remat(None, model=model) as rt:
        model(INPUTS).sum().backward()
    gradient = model[0].weight.grad
    assert type(gradient) is torch.Tensor
    assert rt._state is None
    assert not rt._mode.leaves
    assert not rt._mode.known


# --- what is refused ----------------------------------------------------------------------------


def test_one_object_is_for_one_block():
    model = net()
    run = remat(None, model=model)
    with run:
        model(INPUTS).sum().backward()
    before = state_of(model)
    with pytest.raises(LiveRunError, match="of one block"), run:
        model.zero_grad()
    assert_alike(state_of(model), before)


@pytest.mark.parametrize("given", [
    {"model": 3}, {"optimizer": 3}, {"costs": 3}, {"trace": 3}, {"log": 3}, {"hooks": 3},
    {"foo": 1}, {"policy": 3}, {"overhead_limit": "x"}, {"seed": "x"},
], ids=str)  # fmt: skip
def test_an_argument_of_another_kind_is_refused_in_a_line(given):
    with pytest.raises(UsageError) as caught:
        remat(None, **given)
    assert "\n" not in str(caught.value)
    name = next(iter(given))
    assert name.split("_")[0] in str(caught.value) or "option" in str(caught.value)


def split(x):
    (x * 1).tensor_split(torch.tensor([1, 2]))


def masked(x):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 1).eval()
    with torch.no_grad():
        model(x[None], src_key_padding_mask=torch.arange(4)[None] > 2)


@pytest.mark.parametrize(("block", "error", "match"), [
    (split, LiveRunError, r"^split \(test_live_restored.py, .* needs the bytes"),
    (masked, UnsupportedOpError, r"^forward \(transformer.py, .*set_fastpath_enabled"),
])  # fmt: skip
def test_a_kernel_that_asks_for_memory_past_the_runtime_is_told_by_name(block, error, match):
    with pytest.raises(error, match=match) as caught, remat(None):
        block(INPUTS)
    assert type(caught.value.__cause__) is RuntimeError
