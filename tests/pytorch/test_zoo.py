"""Each model of the zoo is a training step that learns, repeats, and has a fake twin."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from dtrdiag.errors import UsageError
from dtrdiag.instrumentation.zoo import MODELS, make, model
from dtrdiag.instrumentation.zoo.moe import Experts
from dtrdiag.instrumentation.zoo.treelstm import random_merges

PAGE = Path(__file__).parents[2] / "docs" / "zoo.md"
EVERY_MODEL = pytest.mark.parametrize("name", MODELS)
KNOWN_PARAMETERS = {
    "gpt2": ({}, 124_439_808),
    "gpt2-xl": ({}, 1_557_611_200),
    "resnet-20": ({}, 269_722),  # 0.27M in He et al. 2016, table 6
    "resnet-32": ({}, 464_154),  # 0.46M there
    "diffusion": ({}, 35_746_307),  # 35.7M in Ho et al. 2020, appendix B
    "mamba": ({"layers": 24}, 129_135_360),  # Mamba-130M as published
}
READS_VALUES = {"_local_scalar_dense", "nonzero", "item", "equal", "masked_select", "unique"}


class Operators(TorchDispatchMode):  # type: ignore[misc]
    """Keeps the names of the operators that are called under it."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def gradients(step):
    return {name: parameter.grad for name, parameter in step.model.named_parameters()}


def taken(step):
    """Loss and gradients of a step, with the same random numbers each time."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return step.run(), gradients(step)


def shapes(tensors):
    return {name: (tensor.shape, tensor.dtype, tensor.stride()) for name, tensor in tensors.items()}


@EVERY_MODEL
def test_a_model_learns_its_inputs(name):
    step = make(name, "small", optimizer="adam", learning_rate=5e-3)
    losses = []
    with torch.random.fork_rng():
        torch.manual_seed(1)
        for _ in range(5):
            step.optimizer.zero_grad()
            losses.append(step.run().item())
            step.optimizer.step()
    assert losses[-1] < 0.93 * losses[0]


@EVERY_MODEL
def test_a_model_that_is_made_twice_is_the_same_to_the_bit(name):
    state = torch.get_rng_state()
    first = make(name, "small")
    second = make(name, "small")
    assert torch.equal(torch.get_rng_state(), state)
    assert first.inputs
    for one, other in zip(first.inputs, second.inputs, strict=True):
        assert torch.equal(one, other)
    loss, grads = taken(first)
    other_loss, other_grads = taken(second)
    assert torch.equal(loss, other_loss)
    for parameter, grad in grads.items():
        assert torch.equal(grad, other_grads[parameter]), parameter


@EVERY_MODEL
def test_a_fake_model_has_the_shapes_of_the_real_one_and_reads_no_values(name):
    state = torch.get_rng_state()
    with FakeTensorMode(), Operators() as seen:
        fake = make(name, "small")
        loss = fake.run()
    assert torch.equal(torch.get_rng_state(), state)
    assert isinstance(loss, FakeTensor)
    assert loss.shape == ()
    real = make(name, "small")
    real.run()
    assert shapes(gradients(fake)) == shapes(gradients(real))
    assert {k: v.shape for k, v in fake.model.named_buffers()} == {
        k: v.shape for k, v in real.model.named_buffers()
    }
    assert not READS_VALUES & set(seen.names)


@EVERY_MODEL
def test_a_step_says_what_it_is(name):
    step = make(name, "small")
    assert step.name == name
    assert step.sizes == MODELS[name].small
    assert step.optimizer is None
    assert MODELS[name].description
    assert all(tensor.dtype in (torch.float32, torch.int64) for tensor in step.inputs)


@pytest.mark.parametrize("name", KNOWN_PARAMETERS)
def test_numbers_of_parameters_are_the_published_ones(name):
    sizes, known = KNOWN_PARAMETERS[name]
    with FakeTensorMode():
        step = make(name, **sizes)
    assert sum(parameter.numel() for parameter in step.model.parameters()) == known


def test_another_seed_gives_other_parameters_and_inputs():
    first, second = make("lstm", "small"), make("lstm", "small", seed=1)
    assert not torch.equal(first.inputs[0], second.inputs[0])
    assert not torch.equal(*(next(step.model.parameters()) for step in (first, second)))


@pytest.mark.parametrize("name", ["gpt2", "transformer"])
def test_both_kinds_of_attention_compute_the_same(name):
    fused, eager = (
        make(name, "small", attention=attention, dropout=0) for attention in ("sdpa", "eager")
    )
    (loss, grads), (eager_loss, eager_grads) = taken(fused), taken(eager)
    torch.testing.assert_close(eager_loss, loss)
    for parameter, grad in grads.items():
        torch.testing.assert_close(eager_grads[parameter], grad)


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [({}, False), ({"dropout": 0.1}, True), ({"attention": "eager"}, True)],
    ids=["sdpa", "sdpa with dropout", "eager"],
)
def test_attention_in_one_operator_keeps_no_scores_unless_some_are_dropped(sizes, kept):
    with FakeTensorMode(), Operators() as seen:
        make("gpt2", "small", **sizes).run()
    assert any(name.endswith("softmax") and "log" not in name for name in seen.names) is kept
    assert ("_scaled_dot_product_flash_attention_for_cpu" in seen.names) is not kept


@pytest.mark.parametrize("name", ["gpt2", "mamba", "moe"])
def test_a_language_model_sees_no_later_token(name):
    step = make(name, "small")
    step.model.eval()
    tokens = step.inputs[0]
    changed = tokens.clone()
    changed[0, 9] = (changed[0, 9] + 1) % 100
    before, after = step.model(tokens)[0], step.model(changed)[0]
    assert torch.equal(before[:9], after[:9])
    assert not torch.equal(before[9], after[9])
    assert not torch.equal(before[10], after[10])


def test_experts_with_room_for_all_give_the_weighted_sum_of_those_chosen():
    torch.manual_seed(0)
    mixture = Experts(width=8, hidden=16, experts=4, chosen=2, capacity=12)
    tokens = torch.randn(2, 3, 8)
    odds = torch.softmax(mixture.router(tokens), -1)
    weights, choices = odds.topk(2, -1)
    expected = torch.zeros_like(tokens)
    for at in np.ndindex(2, 3, 2):
        expert = choices[at]
        made = functional.gelu(tokens[at[:2]] @ mixture.enter[expert]) @ mixture.leave[expert]
        expected[at[:2]] += weights[at] * made
    torch.testing.assert_close(mixture(tokens), expected)


def test_tokens_for_which_an_expert_has_no_room_pass_by():
    torch.manual_seed(0)
    mixture = Experts(width=8, hidden=16, experts=2, chosen=1, capacity=3)
    tokens = torch.randn(1, 9, 8)
    first_three = [(mixture.router(tokens)[0].argmax(-1) == e).nonzero()[:3] for e in (0, 1)]
    served = sorted(torch.cat(first_three).flatten().tolist())
    assert 3 < len(served) < 9
    assert mixture(tokens)[0].abs().sum(-1).nonzero().flatten().tolist() == served


@pytest.mark.parametrize("leaves", [1, 2, 7, 64])
def test_a_tree_joins_all_leaves_and_is_the_same_for_the_same_seed(leaves):
    merges = random_merges(leaves, 5)
    row = [[leaf] for leaf in range(leaves)]
    for at in merges:
        row[at : at + 2] = [row[at] + row[at + 1]]
    assert row == [list(range(leaves))]
    assert merges == random_merges(leaves, 5)
    assert leaves < 3 or merges != random_merges(leaves, 6)


def test_a_denoiser_is_fed_images_that_turn_into_noise():
    network = make("diffusion", "small").model
    images, noise = torch.ones(2, 3, 8, 8), torch.zeros(2, 3, 8, 8)
    early, late = network.noisy(images, noise, torch.tensor([0, 999]))[:, 0, 0, 0].tolist()
    assert early == pytest.approx(0.99995)
    assert 0 < late < 0.01


def test_dropout_draws_on_the_random_state_of_the_step_and_can_be_left_out():
    torch.manual_seed(0)
    dropping, plain = make("transformer", "small"), make("transformer", "small", dropout=0.0)
    assert dropping.run() != dropping.run()
    assert plain.run() == plain.run()


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_all_implementations_of_an_optimizer_take_the_same_step(optimizer):
    stepped = []
    for implementation in ("loop", "foreach", "fused"):
        step = make("lstm", "small", optimizer=optimizer, implementation=implementation)
        step.run()
        step.optimizer.step()
        stepped.append([parameter.detach() for parameter in step.model.parameters()])
    before = list(make("lstm", "small").model.parameters())
    for old, loop, foreach, fused in zip(before, *stepped, strict=True):
        assert not torch.equal(old, loop)
        torch.testing.assert_close(foreach, loop)
        torch.testing.assert_close(fused, loop)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "resnet32"}, 'no model "resnet32"; did you mean resnet-32'),
        ({"size": "tiny"}, 'no size "tiny"; there are full, small'),
        ({"optimizer": "adamw"}, 'no optimizer "adamw"; did you mean adam?'),
        ({"optimizer": "sgd", "implementation": "fuse"}, "did you mean fused?"),
        ({"optimizer": "sgd", "learning_rate": -1}, "learning_rate is -1; it is at least 0"),
        ({"batches": 3}, 'no size of gpt2 "batches"; did you mean batch?'),
        ({"batch": 0}, "batch of gpt2 is 0; it is a whole number from 1"),
        ({"batch": 2.0}, "batch of gpt2 is 2.0; it is a whole number from 1"),
        ({"batch": True}, "batch of gpt2 is True; it is a whole number from 1"),
        ({"dropout": 1.0}, "dropout of gpt2 is 1.0; it is at least 0 and less than 1"),
        ({"dropout": "0"}, 'dropout of gpt2 is "0"; it is at least 0 and less than 1'),
        ({"attention": 3}, "attention of gpt2 is 3; it is a name"),
        ({"attention": "flash"}, 'no attention "flash"; there are sdpa, eager'),
        ({"heads": 5}, "width 32 is no multiple of 5"),
        ({"name": "moe", "chosen": 5}, "chosen 5 is more than experts 4"),
        ({"name": "unet", "image": 18}, "image 18 is no multiple of 4"),
        ({"name": "diffusion", "image": 12}, "image 12 is no multiple of 8"),
        ({"name": "diffusion", "width": 6}, "width 6 is no multiple of 4"),
        ({"name": "diffusion", "groups": 5}, "width 16 is no multiple of 5"),
    ],
)
def test_what_cannot_be_made_is_refused_by_name(arguments, said):
    with pytest.raises(UsageError) as caught:
        make(**{"name": "gpt2", "size": "small", **arguments})
    assert said in str(caught.value)


def test_a_name_is_taken_once_and_small_sizes_are_sizes():
    with pytest.raises(UsageError, match="'gpt2' is registered a second time"):
        model("gpt2", small={})(lambda: None)
    with pytest.raises(UsageError, match='no size of mlp "widht"; did you mean width'):
        model("mlp", small={"widht": 3})(lambda width=5: None)
    assert "mlp" not in MODELS


def test_without_torch_the_zoo_says_what_to_install():
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from dtrdiag.instrumentation.pytorch.errors import TorchMissingError\n"
        "try:\n    from dtrdiag.instrumentation.zoo import make\n"
        "except TorchMissingError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install 'dtrdiag[torch]'" in done.stdout, done.stderr


def test_the_page_about_the_zoo_lists_every_model_and_shows_what_runs(capsys):
    page = PAGE.read_text()
    assert set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)) == set(MODELS)
    (shown,) = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names = {}
    exec(compile(shown, "docs/zoo.md", "exec"), names)  # noqa: S102 - our own docs
    assert capsys.readouterr().out.split() == list(MODELS)
    assert names["step"].sizes["batch"] == 2
    assert isinstance(next(names["full"].model.parameters()).grad, FakeTensor)
