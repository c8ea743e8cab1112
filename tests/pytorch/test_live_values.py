"""Programs whose values a live run, or a recording, could get wrong without noticing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn
from torch.backends import mkldnn, nnpack

from dtrdiag.instrumentation.pytorch import record, remat
from dtrdiag.instrumentation.pytorch.errors import LiveRunError, UnsupportedOpError
from dtrdiag.simulator import RunConfig, simulate


@pytest.fixture(autouse=True)
def default_dtype() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


def evicted_once(make: Callable[[], Any]) -> tuple[Any, Any, Any]:
    """What `make` gives, with its result evicted and made again."""
    with remat(None) as rt:
        make()
    assert rt.result is not None
    peak = rt.result.end.max_memory_bytes
    with remat(peak + 4000) as rt:
        made = make()
        hog = torch.zeros(peak + 4000, dtype=torch.uint8)
        del hog
        again = made + 0
    return made, again, rt.result


@pytest.mark.parametrize(
    "draw",
    [
        lambda g: torch.poisson(torch.full((64,), 5.0), generator=g),
        lambda g: torch.binomial(torch.full((64,), 9.0), torch.full((64,), 0.5), generator=g),
        lambda g: torch._standard_gamma(torch.full((64,), 5.0), generator=g),
        lambda g: torch.rand(64, generator=g),
    ],
)
def test_a_generator_is_found_wherever_it_is_given(draw: Callable[[Any], Any]) -> None:
    plain = torch.Generator().manual_seed(5)
    expected, after = draw(plain), torch.rand(2, generator=plain)
    generator: list[Any] = []

    def make() -> Any:
        generator[:] = [torch.Generator().manual_seed(5)]
        return draw(generator[0])

    _made, again, result = evicted_once(make)
    assert result.end.remats
    assert torch.equal(again.plain(), expected)
    assert torch.equal(torch.rand(2, generator=generator[0]), after)


def test_kernels_that_conjugate_in_between_are_right() -> None:
    x = torch.rand(5, 5, dtype=torch.complex64)
    expected = torch.pinverse(x)
    with remat(None):
        live = torch.pinverse(x)
    with record():
        recorded = torch.pinverse(x)
    assert torch.equal(live.plain(), expected)
    assert torch.equal(recorded, expected)


def test_the_default_type_is_what_it_was_when_an_operator_was_called() -> None:
    for dtype in (torch.float64, torch.float32):
        torch.set_default_dtype(dtype)
        with remat(None):
            ones = torch.ones(300) * 1
        assert ones.plain().dtype == dtype

    def make() -> Any:
        torch.set_default_dtype(torch.float64)
        made = torch.ones(300)
        torch.set_default_dtype(torch.float32)
        return made

    made, again, result = evicted_once(make)
    assert result.end.remats
    assert made.dtype == again.dtype == torch.float64
    assert torch.get_default_dtype() == torch.float32


@torch.library.custom_op("dtrdiag_tests::in_force", mutates_args=())
def in_force(like: torch.Tensor) -> torch.Tensor:
    """What of the settings a kernel sees."""
    flushes = 5e-324 * 1.0 == 0.0
    seen = [torch.get_num_threads(), mkldnn.enabled, mkldnn.deterministic, flushes]
    seen += [torch.are_deterministic_algorithms_enabled(), torch._C._get_nnpack_enabled()]
    seen += [torch.is_deterministic_algorithms_warn_only_enabled()]
    return torch.tensor(seen, dtype=torch.int64, device=like.device)


@in_force.register_fake
def _(like: torch.Tensor) -> torch.Tensor:
    return like.new_empty(7, dtype=torch.int64)


@contextmanager
def other_settings() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    torch.set_flush_denormal(True)
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with (
            mkldnn.flags(enabled=False, deterministic=True, allow_tf32=None),
            nnpack.flags(enabled=False),
        ):
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(False)
        torch.use_deterministic_algorithms(False)


def test_settings_are_what_they_were_when_an_operator_was_called() -> None:
    like = torch.zeros(1)
    with other_settings():
        expected = in_force(like)
    usual = in_force(like)
    assert (expected != usual).all()

    def make() -> Any:
        with other_settings():
            return in_force(torch.zeros(1))

    made, again, result = evicted_once(make)
    assert result.end.remats
    assert torch.equal(made.plain(), expected)
    assert torch.equal(again.plain(), expected)
    assert torch.equal(in_force(like), usual)


def test_an_error_of_a_kernel_that_runs_again_leaves_the_settings() -> None:
    calls = []

    @torch.library.custom_op("dtrdiag_tests::twice_wrong", mutates_args=())
    def twice_wrong(like: torch.Tensor) -> torch.Tensor:
        calls.append(mkldnn.enabled)
        if len(calls) > 1:
            raise ValueError("not again")
        return torch.ones_like(like)

    @twice_wrong.register_fake
    def _(like: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(like)

    def step() -> None:
        with mkldnn.flags(enabled=False, allow_tf32=None):
            made = twice_wrong(torch.zeros(64))
        hog = torch.zeros(4500, dtype=torch.uint8)
        del hog
        made + 0

    with pytest.raises(ValueError, match="not again"), remat(4600):
        step()
    assert calls == [False, False]
    assert mkldnn.enabled


def test_strides_that_mean_nothing_may_differ_from_what_was_told() -> None:
    x = torch.rand(1, 5)
    with remat(None):
        y = x.t() + 1
    assert torch.equal(y.plain(), x.t() + 1)


class Turns(nn.Module):  # type: ignore[misc]
    """Changes shapes in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        y.unsqueeze_(0)
        z = y * 2
        z.transpose_(1, 2)
        return (z.squeeze_(0).t_() * y.squeeze(0)).sum()


@pytest.mark.parametrize(
    ("make", "shape", "fractions"),
    [
        (Turns, (6, 8), (1.0, 0.9)),
        (lambda: nn.GRU(8, 4, batch_first=True), (4, 6, 8), (1.0, 0.95)),
        (lambda: nn.RNN(8, 16, 2, batch_first=True), (4, 6, 8), (1.0, 0.9)),
    ],
)
def test_shapes_changed_in_place_are_those_of_plain_pytorch(
    make: Callable[[], Any], shape: tuple[int, ...], fractions: tuple[float, ...]
) -> None:
    model, x = make(), torch.rand(shape)

    def step() -> None:
        result = model(x)
        (result[0] if isinstance(result, tuple) else result).sum().backward()

    step()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    with record(None, model) as recorded:
        step()
    for fraction in fractions:
        model.zero_grad()
        budget = int(recorded.peak_bytes * fraction)
        with remat(budget, model=model) as rt:
            step()
        simulated = simulate(recorded.trace, RunConfig("dtr", budget))
        assert rt.result is not None
        assert rt.result.end.decisions_sha256 == simulated.end.decisions_sha256
        assert all(map(torch.equal, expected, (p.grad for p in model.parameters())))


def test_the_shape_of_a_tensor_from_before_is_not_changed() -> None:
    x = torch.rand(2, 3)
    with pytest.raises(UnsupportedOpError, match="from before the block"), remat(None):
        x.t_()
    assert x.shape == (2, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda y: y + torch.ops.aten._efficientzerotensor([4]),  # of forward-mode AD
        lambda y: nn.GRU(8, 8)(
            nn.utils.rnn.pack_padded_sequence(torch.rand(4, 4, 8), [4, 3, 2, 1])
        ),
    ],
)
def test_what_cannot_be_told_is_refused_by_name(call: Callable[[Any], Any]) -> None:
    with pytest.raises(UnsupportedOpError), remat(None):
        call(torch.rand(4))


@pytest.mark.parametrize(
    ("call", "writes"),
    [
        (lambda y: y.apply_(abs), True),
        (lambda y: y.map_(y, max), True),
        (torch.utils.dlpack.to_dlpack, False),
    ],
)
def test_nothing_reads_bytes_where_there_are_none(call: Callable[[Any], Any], writes: bool) -> None:
    with pytest.raises(LiveRunError), remat(None):
        call(torch.zeros(4) + 1)
    with remat(None):
        y = torch.zeros(4) - 1
    if writes:
        call(y)
        assert y.plain().tolist() in ([1.0] * 4, [-1.0] * 4)
