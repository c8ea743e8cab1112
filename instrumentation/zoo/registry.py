"""Which models there are, and a training step of one of them at given sizes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs
import torch
from torch import nn

from dtrdiag.errors import UsageError
from dtrdiag.instrumentation.pytorch.step import Step
from dtrdiag.instrumentation.zoo.optimizers import optimizer_over
from dtrdiag.suggestions import no_such, quoted

Build = Callable[..., Step]
"""Makes a step of given sizes, each a keyword with a default."""

SIZES = ("full", "small")


@attrs.frozen(slots=True)
class Model:
    """A registered model."""

    name: str
    build: Build = attrs.field(repr=False)
    description: str
    """What it is, in one line."""
    full: dict[str, Any]
    """Its sizes as published, or as large as such models are trained."""
    small: dict[str, Any]
    """Sizes at which a step on a CPU takes well below a second."""


MODELS: dict[str, Model] = {}
"""Registered models by name, in order of registration."""


def model(name: str, *, small: Mapping[str, Any]) -> Callable[[Build], Build]:
    """Register a function that builds a model; its docstring's first line describes it.

    The defaults of its arguments are the full sizes. What is returned in its place takes `seed=`
    besides: parameters and inputs depend on that alone, and the global random state is left as it
    was. It also fills in the name and the sizes of the step.

    Args:
        name: key in `MODELS`.
        small: the sizes that differ when the model is small.

    Raises:
        UsageError: the name is taken, or `small` names what is no size.
    """

    def register(build: Build) -> Build:
        if name in MODELS:
            raise UsageError(f"model {name!r} is registered a second time")
        parameters = inspect.signature(build).parameters.values()
        full = {parameter.name: parameter.default for parameter in parameters}
        for size in small:
            if size not in full:
                raise UsageError(no_such(f"size of {name}", size, full))

        @functools.wraps(build)
        def seeded(*, seed: int = 0, **sizes: Any) -> Step:
            with _seeded(seed):
                step = build(**sizes)
            return attrs.evolve(step, name=name, sizes={**full, **sizes})

        description = (build.__doc__ or "").strip().partition("\n")[0]
        MODELS[name] = Model(name, seeded, description, full, {**full, **small})
        return seeded

    return register


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Random numbers begin at the seed, and go on afterwards as if none had been drawn."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def make(
    name: str,
    size: str = "full",
    *,
    optimizer: str | None = None,
    implementation: str = "loop",
    learning_rate: float | None = None,
    seed: int = 0,
    **overrides: Any,
) -> Step:
    """A training step of a model, on the default device; the same arguments give the same tensors.

    Under a `FakeTensorMode` all of it is fake, and takes no memory at any size.

    Args:
        name: a key of `MODELS`.
        size: which sizes to begin with, `full` or `small`.
        optimizer: `sgd`, `adam`, or None for a step without one.
        implementation: of the optimizer: `loop` over parameters, `foreach` or `fused`.
        learning_rate: of the optimizer; by default 0.01 for SGD and 0.001 for Adam.
        seed: of parameters and inputs.
        overrides: sizes that differ, by name.

    Raises:
        UsageError: unknown model, size or optimizer; a value that cannot be used.
    """
    if name not in MODELS:
        raise UsageError(no_such("model", name, MODELS))
    if size not in SIZES:
        raise UsageError(no_such("size", size, SIZES))
    entry = MODELS[name]
    for key, value in overrides.items():
        if key not in entry.full:
            raise UsageError(no_such(f"size of {name}", key, entry.full))
        _check(f"{key} of {name}", value, entry.full[key])
    step = entry.build(seed=seed, **{**getattr(entry, size), **overrides})
    if optimizer is None:
        return step
    made = optimizer_over(step.model, optimizer, implementation, learning_rate)
    return attrs.evolve(step, optimizer=made)


def _check(what: str, value: object, like: object) -> None:
    """Raise UsageError unless the value is of the kind of the default that it replaces."""
    if isinstance(like, float):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
            raise UsageError(f"{what} is {quoted(value)}; it is at least 0 and less than 1")
    elif isinstance(like, int):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UsageError(f"{what} is {quoted(value)}; it is a whole number from 1")
    elif not isinstance(value, str):
        raise UsageError(f"{what} is {quoted(value)}; it is a name")


def multiple(what: str, value: int, divisor: int) -> None:
    """Raise UsageError unless a size can be divided.

    Args:
        what: the size's name.
        value: the size.
        divisor: what it is to be a multiple of.
    """
    if value % divisor:
        raise UsageError(f"{what} {value} is no multiple of {divisor}")


def training_step(network: nn.Module, loss: Callable[..., Any], *inputs: Any) -> Step:
    """The step that computes a loss from inputs and calls `backward()` on it.

    Args:
        network: holds the parameters and buffers.
        loss: from the inputs, in their order, to a tensor of one element.
        inputs: tensors, targets included.
    """

    def run() -> Any:
        value = loss(*inputs)
        value.backward()
        return value

    return Step(name=type(network).__name__, model=network, run=run, inputs=inputs)
