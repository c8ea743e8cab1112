"""Small steps to record, and what is read out of a recording."""

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from dtrdiag.instrumentation.pytorch import record_step
from dtrdiag.instrumentation.pytorch.step import Step

FLOAT = 4


def network():
    torch.manual_seed(0)
    layers = (nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))
    return nn.Sequential(*layers)


def step_of(body, model=None, optimizer=None):
    """A step whose run calls `body(model, x)`."""
    model = network() if model is None else model
    x = torch.randn(6, 8)
    return Step("own", model, lambda: body(model, x), optimizer and optimizer(model.parameters()))


def recorded(make_step, fake=False, **how):
    if not fake:
        return record_step(make_step(), **how)
    with FakeTensorMode():
        return record_step(make_step(), **how)


def calls(recording):
    """Operators without `aten` and overload, in order."""
    trace = recording.trace
    return [name.split(".")[1] for name in trace.op_name if name.count(".") == 2]


def lines(recording, instruction):
    marks = (f'"INSTRUCTION":"{instruction}"', "START", "dtrdiag.recording")
    text = recording.content.decode().splitlines()[2:]
    return [line for line in text if marks[0] in line]


def released(recording):
    return [line.split('"NAME":"')[1].rstrip('"}') for line in lines(recording, "RELEASE")]
