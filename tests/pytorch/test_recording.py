"""A recording is what the program did: the same each time, on real tensors or without values."""

import gc
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as fn
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from dtrdiag.instrumentation.pytorch import Roofline, record, record_step
from dtrdiag.instrumentation.pytorch.logsink import recording_of
from dtrdiag.instrumentation.zoo import make
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, simulate

from .livenet import Square
from .ownsteps import FLOAT, calls, lines, network, recorded, released, step_of

# --- the same bytes ---------------------------------------------------------------------------


IMPLEMENTATIONS = {
    "loop": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.SGD])
def test_optimizers_are_recorded_alike(optimizer, implementation):
    def made():
        how = IMPLEMENTATIONS[implementation]
        return step_of(lambda m, x: m(x).sum().backward(), None, lambda p: optimizer(p, 0.1, **how))

    real = recorded(made)
    assert real.content == recorded(made).content == recorded(made, fake=True).content
    assert real.metadata["optimizer"] == optimizer.__name__


def twice_differentiated(model, x):
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    gradient.pow(2).sum().backward()


def conjugated(model, x):
    z = torch.view_as_complex(x.view(6, 4, 2).contiguous())
    product = z.conj() @ z.T.mul(2).conj()
    model((product.conj().imag + product.real).repeat(1, 2)[:, :8]).sum().backward()


def split(model, x):
    y = x * 2
    parts = [*y.chunk(2), *y.split([1, 5]), *torch.unsafe_split(y, 3), y.unfold(0, 2, 1).sum(2)]
    model(torch.cat([part[:1] for part in (*parts, *y.unbind(0)[:1])[:6]])).sum().backward()


def scheduled(model, x):
    optimizer = torch.optim.Adam(model.parameters())
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for _ in range(2):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        scheduler.step()


def made_of_values(model, x):
    model(x * torch.tensor(2.0) + torch.tensor([1.0] * 8)).sum().backward()


BODIES = (
    twice_differentiated,
    lambda model, x: Square.apply(model(x)).sum().backward(),
    conjugated,
    split,
    scheduled,
    made_of_values,
    lambda model, x: torch.func.vmap(lambda row: model(row).sum())(x).sum().backward(),
)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_programs_are_recorded_alike(body):
    def made():
        return step_of(body)

    real = recorded(made)
    assert real.content == recorded(made).content == recorded(made, fake=True).content
    assert simulate(real.trace, RunConfig("dtr")).end.outcome == "ok"


AUTOCAST = """
from torch import nn
from dtrdiag.instrumentation.pytorch import record
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Linear(4, 4))
import torch
with record(None, model) as recorded, torch.autocast("cpu", dtype=torch.bfloat16):
    model(torch.ones(2, 4)).sum().backward()
said = recorded.trace.sha256
"""
"""Autocast drops its casts in an order that depends on addresses."""


def test_another_process_writes_the_same_bytes():
    here = {}
    exec(AUTOCAST, here)  # noqa: S102 - ours
    done = subprocess.run(
        [sys.executable, "-c", f"{AUTOCAST}print(said)"],
        env={**os.environ, "PYTHONHASHSEED": "77"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == here["said"]


def test_gpt2_small_is_recorded_without_memory_for_it():
    with FakeTensorMode():
        found = record_step(make("gpt2"))
    assert found.trace.ops == 1_029
    assert found.trace.constant_bytes == 124_439_808 * FLOAT + 3 * 8 * 1024 * 8 - 7 * 1024 * 8
    assert calls(found).count("_scaled_dot_product_flash_attention_for_cpu") == 12


# --- what is written down ---------------------------------------------------------------------


def test_a_storage_is_released_when_its_last_owner_drops_it():
    with record() as found:
        x = torch.ones(4)
        y = x * 2
        z = y + 1
        del y
        w = z.exp()
        del x, z
        kept = w * 2
        del w
    assert released(found) == ["x1", "x0", "x2", "x3"]
    order = [line.split('"INSTRUCTION":"')[1][:4] for line in found.content.decode().splitlines()]
    call = ("CALL", "MEMO", "ALIA")
    assert order[2:] == [*call * 3, "RELE", *call, "RELE", "RELE", *call, "RELE"]
    assert kept.shape == (4,)
    assert [int(size) for size in found.trace.tensor_size_bytes] == [16] * 5
    assert found.peak_bytes == 48


def test_what_autograd_keeps_is_released_where_backward_drops_it():
    x = torch.ones(3, requires_grad=True)
    with record() as found:
        y = (x * 2).exp()
        loss = y.sum()
        del y
        assert released(found) == []
        loss.backward()
    made_by = dict(zip(found.trace.op_name[1:], range(99), strict=False))
    assert "aten.exp.default" in made_by
    assert found.trace.op_name.count("aten.mul.Tensor") == 3


def test_a_write_makes_a_version_of_which_views_are_derived_when_used():
    with record() as found:
        x = torch.zeros(4, 4)
        row = x[0]
        column = x.t()[1]
        row.add_(1)
        used = column * 2
    assert used.sum() == 2
    assert calls(found) == ["zeros", "select", "t", "select", "add_", "mul"]
    assert found.trace.op_name.count("dtrdiag.view") == 1
    assert found.peak_bytes == 64 + 16
    # The old version is there until the new one is.
    assert baseline_peak_bytes(found.trace) == 128


@pytest.mark.parametrize(("writes", "peak"), [("copy", 2 * 64), ("sink", 64)])
def test_writes_to_constants_are_new_versions_or_in_place(writes, peak):
    x = torch.zeros(4, 4)
    with record(writes=writes) as found:
        x[:2].mul_(3)
        x.add_(1)
    assert found.metadata["writes"] == writes
    assert calls(found) == ["slice", "mul_", "add_"]
    assert simulate(found.trace, RunConfig("dtr")).end.max_memory_bytes >= peak
    assert (baseline_peak_bytes(found.trace) > 64) == (writes == "copy")


def test_out_variants_write_to_what_they_are_given():
    with record() as found:
        x = torch.ones(4, 4)
        grown = torch.empty(0)
        torch.mm(x, x, out=grown)
        part = torch.empty(8, 4)[2:6]
        torch.add(x, grown, out=part)
        assert found.peak_bytes == 64 + 64 + 128
    assert calls(found) == ["ones", "empty", "mm", "empty", "slice", "add"]
    sizes = [int(size) for size in found.trace.tensor_size_bytes]
    # What has grown is looked at anew, and the slice is of the version before.
    assert sizes == [64, 0, 64, 128, 0, 0, 128]


def test_a_value_that_is_read_is_a_token_without_a_size():
    with record() as found:
        assert (torch.ones(3) * 2).sum().item() == 6
    assert calls(found)[-1] == "_local_scalar_dense"
    assert int(found.trace.tensor_size_bytes[-1]) == 0


def test_tied_weights_are_one_constant_and_inputs_are_told():
    model = network()
    model[2].weight = nn.Parameter(model[2].weight.detach())
    model.append(nn.Linear(16, 16))
    model[5].weight = model[2].weight
    tokens = torch.arange(6).view(1, 6)
    with record(None, model, sizes={"batch": 1}) as found:
        fn.one_hot(tokens, 8).float().sum()
    assert [line for line in lines(found, "CONSTANT") if "weight" in line] == [
        f'{{"INSTRUCTION":"CONSTANT","NAME":"{name}.weight"}}' for name in (0, 2, 4)
    ]
    assert found.metadata["inputs"] == [{"name": "input0", "shape": [1, 6], "dtype": "int64"}]
    assert found.constants == 7 + 1


def test_metadata_is_in_the_log():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).bfloat16()
    costs = Roofline("h100-sxm")
    with record(None, model, name="mine", sizes={"batch": 2}, costs=costs) as found:
        model(torch.ones(2, 4, dtype=torch.bfloat16))
    said = recording_of(found.trace.preamble)
    assert said == found.metadata
    assert said["name"] == "mine"
    assert said["model"] == "Sequential"
    assert said["sizes"] == {"batch": 2}
    assert said["parameter_dtypes"] == ["bfloat16"]
    assert said["torch"] == torch.__version__
    assert said["training"] is True
    assert said["costs"]["device"]["name"] == "h100-sxm"
    (draws,) = said["random"].values()
    assert [found.trace.op_name[op] for op in draws] == list(said["random"])
    assert "fake" not in found.content.decode()


def test_a_checked_recording_is_the_same():
    plain = recorded(lambda: make("resnet-20", "small", batch=2, image=8))
    checked = recorded(lambda: make("resnet-20", "small", batch=2, image=8), check=True)
    assert checked.content == plain.content


# --- what is left -----------------------------------------------------------------------------


def test_the_collector_stays_off_where_it_was_off():
    gc.disable()
    try:
        with record():
            torch.ones(3)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_compressed_logs_hold_the_same_bytes(tmp_path):
    found = set()
    for name in ("x.log", "x.log.gz", "x.log.zst"):
        with record(tmp_path / name, name="x") as recording:
            torch.ones(3) + 1
        from dtrdiag.files import read_bytes

        assert read_bytes(str(tmp_path / name)) == recording.content
        found.add(recording.content)
    assert len(found) == 1
