"""Which tensors are there before a step begins, and what is each called?

Parameters, buffers and the optimizer's state come first, in the order in which PyTorch lists them,
whatever the step touches first. So two recordings of one model number them alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from dtrdiag.instrumentation.pytorch.errors import RecordingError


def named_tensors(model: Any, optimizer: Any) -> Iterator[tuple[str, Any]]:
    """The tensors that persist between steps, with a name for each.

    Args:
        model: a `torch.nn.Module`, or None.
        optimizer: a `torch.optim.Optimizer`, or None.

    Raises:
        RecordingError: a parameter is not initialised.
    """
    names: dict[int, str] = {}
    if model is not None:
        parameters = list(model.named_parameters())
        for name, parameter in parameters:
            _refuse_lazy(name, parameter)
            names[id(parameter)] = name
            yield name, parameter
        for name, buffer in model.named_buffers():
            _refuse_lazy(name, buffer)
            yield name, buffer
        for name, parameter in parameters:
            if parameter.grad is not None:
                yield f"{name}.grad", parameter.grad
    if optimizer is not None:
        yield from _optimizer_tensors(optimizer, names)


def _refuse_lazy(name: str, tensor: Any) -> None:
    if is_lazy(tensor):
        raise RecordingError(f"{name} has no size yet: call the model once before")


def gradient_of(tensor: Any) -> Any:
    """The gradient that is there for a tensor of the program, if it is a strided one."""
    gradient = tensor.grad if tensor.requires_grad and tensor.is_leaf else None
    strided = gradient is not None and gradient.layout is torch.strided
    return gradient if strided else None


def _optimizer_tensors(optimizer: Any, names: dict[int, str]) -> Iterator[tuple[str, Any]]:
    for group, settings in enumerate(optimizer.param_groups):
        for key, value in settings.items():
            if isinstance(value, torch.Tensor):
                yield f"group{group}.{key}", value
        for position, parameter in enumerate(settings["params"]):
            name = names.get(id(parameter), f"group{group}.{position}")
            for key, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, torch.Tensor):
                    yield f"{name}.{key}", value


def step_counters(optimizer: Any) -> Iterator[Any]:
    """The scalar tensors in which an optimizer counts its steps."""
    if optimizer is not None:
        for state in optimizer.state.values():
            if isinstance(state.get("step"), torch.Tensor):
                yield state["step"]
