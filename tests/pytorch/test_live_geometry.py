"""Kernels that lay out their results in another way than fake ones tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from dtrdiag.instrumentation.pytorch import record, remat
from dtrdiag.instrumentation.pytorch.witness import Witness
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace import read_trace


def turned(*shape: int, dtype: Any = torch.float32) -> Any:
    """A tensor whose last dimension is not the one whose elements are neighbours."""
    return torch.randn(*reversed(shape), dtype=dtype).permute(*reversed(range(len(shape))))


PROGRAMS = {
    "norm before a convolution": (
        nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Flatten(0, 0)),
        lambda net, x: nn.functional.conv1d(net(x).transpose(1, 2), torch.ones(3, 8, 3)),
    ),
    "batch norm": (nn.BatchNorm1d(6), lambda net, x: net(x.transpose(1, 2)[:, :6])),
    "instance norm of constants": (
        nn.InstanceNorm1d(8, affine=True, track_running_stats=True),
        lambda net, x: net(x.transpose(1, 2)),
    ),
    "log softmax": (
        nn.Linear(8, 8),
        lambda net, x: nn.functional.log_softmax(net(x).transpose(0, 2), 0),
    ),
    "frozen weight, trained bias": (
        nn.Conv1d(6, 6, 3).requires_grad_(False),
        lambda net, x: net(x) * 1,
    ),
}


def results(net: Any, program: Callable[[Any, Any], Any], x: Any, more_bytes: int) -> list[Any]:
    net.zero_grad()
    if isinstance(net, nn.Conv1d):
        net.bias.requires_grad_()
    out = program(net, x)
    torch.zeros(more_bytes, dtype=torch.uint8)
    (out * out).sum().backward()
    return [out.detach(), *(p.grad for p in net.parameters() if p.grad is not None)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_strides_are_those_of_plain_execution(name: str) -> None:
    torch.manual_seed(0)
    net, program = PROGRAMS[name]
    x = torch.randn(8, 6, 8)
    expected = results(net, program, x, 1)
    assert len(expected) > 1
    # Hardly anything but constants stays beside so much.
    there = sum(each.nbytes for each in [*net.state_dict().values(), x])
    for more_bytes, left_bytes in ((1, 20_000), (20_000, 1000)):
        with remat(there + more_bytes + left_bytes, "lru", model=net) as rt:
            live = results(net, program, x, more_bytes)
        assert rt.result is not None
        assert bool(rt.result.end.remats) == (more_bytes > 1)
        live[0] = live[0].plain()
        assert all(map(torch.equal, live, expected))
        assert live[0].stride() == expected[0].stride()


def test_strides_are_learned_at_the_first_execution_and_kept() -> None:
    x = turned(4, 5)
    expected = torch.div(x, turned(4, 5).abs() + 1, rounding_mode="floor")
    with remat(None):
        twice = [torch.div(x * 1, turned(4, 5).abs() + 1, rounding_mode="floor") for _ in range(2)]
        strides = [each.stride() for each in twice]
        reshaped = twice[0].flatten()
    assert strides == [expected.stride()] * 2
    assert reshaped.plain().tolist() == twice[0].plain().flatten().tolist()


@pytest.mark.parametrize("knows_model", [False, True])
def test_gradients_from_before_count_from_the_first_use_of_their_tensors(
    knows_model: bool, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Linear(16, 16) for _ in range(4)))
    x = torch.randn(64, 16)
    net(x).sum().backward()
    model = net if knows_model else None

    def step() -> Any:
        loss = net(x).sum()
        loss.backward()
        return loss

    budget = 32_000
    with Witness() as witness, remat(budget, model=model) as rt:
        loss = step()
    assert loss.item()
    assert rt.result is not None
    assert witness.peak_bytes == rt.result.end.max_memory_bytes <= budget
    with record(tmp_path / "step.log", model):
        loss = step()
    recorded = simulate(read_trace(tmp_path / "step.log"), RunConfig("dtr", budget_bytes=budget))
    assert recorded.end.decisions_sha256 == rt.result.end.decisions_sha256


@pytest.mark.parametrize("wanted", [(True, False), (False, True), (False, False)])
def test_results_that_nobody_asks_for_are_not_recorded(
    wanted: tuple[bool, bool], tmp_path: Path
) -> None:
    def step(name: str) -> bytes:
        x = torch.randn(2, 4, 6, requires_grad=wanted[0])
        norm, conv = nn.BatchNorm1d(4), nn.Conv1d(4, 4, 3)
        norm.weight.requires_grad_(wanted[1])
        conv.weight.requires_grad_(wanted[1])
        path = tmp_path / name
        with record(path):
            y = norm(x)
            (y * 2).sum().backward()
            (conv(x) * 2).sum().backward()
        return path.read_bytes()

    real = step("real.log")
    with FakeTensorMode():
        fake = step("fake.log")
    assert real == fake
