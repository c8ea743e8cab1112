"""What operators do without saying so: found where it is planted, and nowhere in the zoo."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from dtrdiag.instrumentation.pytorch.detector import KNOWN_ALIASES, Finding, detect_writes
from dtrdiag.instrumentation.pytorch.errors import (
    RecordingError,
    UndeclaredWriteError,
    UnsupportedOpError,
)
from dtrdiag.instrumentation.pytorch.undeclared import UNDECLARED_WRITES
from dtrdiag.instrumentation.zoo import MODELS, make

ops = torch.ops.planted


@pytest.fixture(scope="module", autouse=True)
def planted():
    """Operators of our own that do what they do not say, and some that do."""
    library = torch.library.Library("planted", "DEF")
    seeded = (torch.Tag.nondeterministic_seeded,)

    def define(schema, kernel, tags=()):
        library.define(schema, tags=tags)
        library.impl(schema.partition("(")[0], kernel, "CPU")

    def write(x, y):
        y.add_(1)
        return x + 0

    def write_beyond(x):
        x.as_strided((), (), x.storage_offset() - 1).fill_(7.0)
        return x + 0

    def draw(x):
        return x + torch.rand(())

    def draw_from(x, generator=None):
        return x + torch.rand((), generator=generator)

    define("write(Tensor x, Tensor y) -> Tensor", write)
    define("write_said(Tensor x, Tensor(a!) y) -> Tensor", write)
    define("write_list(Tensor x, Tensor[] ys) -> Tensor", lambda x, ys: write(x, ys[1]))
    define("write_keyword(Tensor x, *, Tensor? y=None) -> Tensor", lambda x, y: write(x, y))
    define("write_beyond(Tensor x) -> Tensor", write_beyond)
    define("same(Tensor x) -> Tensor", lambda x: x.mul_(1.0) + 0)
    define("negate(Tensor x) -> Tensor", lambda x: x.neg_() + 0)
    define("grow(Tensor x) -> Tensor", lambda x: x.resize_(9) + 0)
    define("alias(Tensor x) -> Tensor", lambda x: x[1:])
    define("alias_said(Tensor(a) x) -> Tensor(a)", lambda x: x[1:])
    define("alias_second(Tensor x) -> (Tensor, Tensor[])", lambda x: (x + 0, [x + 1, x[:1]]))
    define("draw(Tensor x) -> Tensor", draw)
    define("draw_said(Tensor x) -> Tensor", draw, seeded)
    define("draw_from(Tensor x, *, Generator? generator=None) -> Tensor", draw_from)
    yield
    library._destroy()


def found(func, *args, **kwargs):
    with detect_writes() as mode:
        func(*args, **kwargs)
    assert sum(mode.operators.values()) == 1
    return [str(each).replace(" without saying so", "") for each in mode.findings]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x, y: found(ops.write, x, y), ["planted.write.default writes to y"]),
        (lambda x, y: found(ops.write, x=x, y=y), ["planted.write.default writes to y"]),
        (lambda x, y: found(ops.write_said, x, y), []),
        (
            lambda x, y: found(ops.write_list, x, [x, y]),
            ["planted.write_list.default writes to ys"],
        ),
        (
            lambda x, y: found(ops.write_keyword, x, y=y),
            ["planted.write_keyword.default writes to y"],
        ),
        # The whole storage is compared, not what the argument shows of it.
        (lambda x, y: found(ops.write_beyond, x[2:]), ["planted.write_beyond.default writes to x"]),
        (lambda x, y: found(ops.grow, x), ["planted.grow.default writes to x"]),
        # The same bytes again are no write that anyone could see.
        (lambda x, y: found(ops.same, x), []),
        (lambda x, y: found(ops.alias, x), ["planted.alias.default returns a view of x"]),
        (lambda x, y: found(ops.alias_said, x), []),
        (
            lambda x, y: found(ops.alias_second, x),
            ["planted.alias_second.default returns a view of x"],
        ),
        (
            lambda x, y: found(ops.draw, x),
            ["planted.draw.default draws from the global generator"],
        ),
        (lambda x, y: found(ops.draw_said, x), []),
        (
            lambda x, y: found(ops.draw_from, x, generator=torch.Generator()),
            ["planted.draw_from.default draws from generator"],
        ),
        (
            lambda x, y: found(ops.draw_from, x),
            ["planted.draw_from.default draws from the global generator"],
        ),
    ],
)
def test_what_is_planted_is_found_and_what_is_said_is_not(call, expected):
    assert call(torch.ones(4), torch.ones(4)) == expected


def test_bytes_are_compared_and_not_values():
    assert found(ops.negate, torch.zeros(2)) == ["planted.negate.default writes to x"]
    assert found(ops.same, torch.full((2,), float("nan"))) == []


def test_an_argument_that_may_be_written_covers_others_on_its_storage():
    x = torch.ones(4)
    assert found(ops.write_said, x[:2], x[2:]) == []


def test_findings_are_counted_and_refused_on_demand():
    x, y = torch.ones(4), torch.ones(4)
    mode = detect_writes()
    with mode:
        ops.alias(x)
    mode.check()
    with mode:
        ops.write(x, y)
        ops.write(x, y)
    assert mode.findings[Finding("write", "planted.write.default", "y")] == 2
    with pytest.raises(UndeclaredWriteError, match="writes to y without saying so"):
        mode.check()
    with detect_writes() as mode:
        ops.draw(x)
    with pytest.raises(RecordingError, match="draws from the global generator"):
        mode.check()


def test_a_table_of_ones_own_declares_writes():
    declared = {**UNDECLARED_WRITES, "planted.write.default": lambda arguments: frozenset({"y"})}
    with detect_writes(declared) as mode:
        ops.write(torch.ones(4), torch.ones(4))
    assert mode.findings == {}


def batch_norm(training=True):
    layer = nn.BatchNorm1d(3)
    layer.train(training)
    return lambda: layer(torch.rand(4, 3)).sum().backward()


def recurrent():
    layer = nn.LSTM(4, 6)
    return lambda: layer(torch.rand(5, 2, 4))[0].sum().backward()


@pytest.mark.parametrize(
    ("make_step", "writes"),
    [
        (
            batch_norm,
            ["aten.native_batch_norm.default running_mean",
             "aten.native_batch_norm.default running_var"],
        ),
        (lambda: batch_norm(training=False), []),
        (recurrent, ["aten.mkldnn_rnn_layer_backward.default workspace"]),
    ],
)  # fmt: skip
def test_the_table_names_what_is_found_without_it_and_no_more(make_step, writes):
    if "mkldnn" in "".join(writes) and not torch.backends.mkldnn.is_available():
        pytest.skip("this build of PyTorch has no mkldnn")
    step = make_step()
    with detect_writes(declared={}) as mode:
        step()
    assert [f"{each.op} {each.argument}" for each in mode.of_kind("write")] == writes
    with detect_writes() as mode:
        step()
    mode.check()


@pytest.mark.parametrize("name", MODELS)
def test_nothing_undeclared_happens_in_a_model_of_the_zoo(name):
    step = make(name, "small")
    with detect_writes() as mode:
        step.run()
    mode.check()
    assert {each.op for each in mode.findings} <= KNOWN_ALIASES
    assert sum(mode.operators.values()) > 100


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("implementation", ["loop", "foreach", "fused"])
def test_nothing_undeclared_happens_in_a_step_of_an_optimizer(optimizer, implementation):
    step = make("gpt2", "small", optimizer=optimizer, implementation=implementation)
    step.run()
    with detect_writes() as mode:
        step.optimizer.step()  # makes its state
        step.optimizer.step()
    mode.check()
    kinds = ("_fused_", "_foreach_", "add")
    kind = next(kind for kind in kinds if any(kind in op for op in mode.operators))
    assert kind == {"loop": "add", "foreach": "_foreach_", "fused": "_fused_"}[implementation]


def test_every_known_alias_is_met_in_the_zoo():
    with detect_writes() as mode:
        make("gpt2", "small").run()
        make("lstm", "small").run()
    assert {each.op for each in mode.of_kind("alias")} == KNOWN_ALIASES


def test_what_holds_nothing_to_compare_is_refused():
    with pytest.raises(RecordingError, match="use real tensors"), detect_writes():
        torch.ones(3, device="meta").add(1)
    with FakeTensorMode() as fake:
        x = fake.from_tensor(torch.ones(3))
        with pytest.raises(RecordingError, match="use real tensors"), detect_writes():
            x.add(1)
    with pytest.raises(UnsupportedOpError, match="layout"), detect_writes():
        torch.ones(3).to_sparse()
