"""Kernels that leave a small result in a larger storage: fake tensors are told of it."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch._subclasses.fake_tensor import FakeTensorMode

from dtrdiag.instrumentation.pytorch import record, remat

LOSSES = {
    "mse_loss": F.mse_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "soft_margin_loss": F.soft_margin_loss,
    "binary_cross_entropy": lambda a, b, **how: F.binary_cross_entropy(
        a.sigmoid(), b.sigmoid(), **how
    ),
    "l1_loss": F.l1_loss,
    "huber_loss": F.huber_loss,
}


def a_step(loss, how):
    model = torch.nn.Linear(8, 6)
    inputs, wanted = torch.ones(4, 8), torch.ones(4, 6)
    return model, lambda: loss(model(inputs), wanted, reduction=how).sum().backward()


@pytest.mark.parametrize("how", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_fake_and_real_recordings_of_a_loss_are_the_same_bytes(name, how):
    model, step = a_step(LOSSES[name], how)
    with record(None, model) as real:
        step()
    with FakeTensorMode():
        model, step = a_step(LOSSES[name], how)
        with record(None, model) as fake:
            step()
    assert fake.content == real.content


@pytest.mark.parametrize("name", ["mse_loss", "binary_cross_entropy"])
def test_a_live_run_counts_the_larger_storage(name):
    model, step = a_step(LOSSES[name], "mean")
    with record(None, model) as recorded:
        step()
    model.zero_grad(set_to_none=True)
    with remat(None, model=model) as run:
        step()
    assert run.result.end.max_memory_bytes == recorded.peak_bytes
