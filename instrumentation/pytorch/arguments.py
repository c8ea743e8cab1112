"""Are the arguments of a live run what they have to be? Told before anything is touched."""

from __future__ import annotations

import os
from collections.abc import Hashable
from typing import Any

import attrs
import torch

from dtrdiag.errors import UsageError
from dtrdiag.hooks import Hooks
from dtrdiag.simulator import RunConfig, find_policy
from dtrdiag.suggestions import no_such
from dtrdiag.trace.model import Trace


def check_arguments(
    model: Any, optimizer: Any, trace: Any, costs: Any, log: Any, hooks: Any
) -> None:
    """Refuse arguments of another kind; None is one that is not given.

    Raises:
        UsageError: with the first of them.
    """
    path = (str, os.PathLike)
    _kind("model", model, torch.nn.Module, "a torch.nn.Module")
    _kind("optimizer", optimizer, torch.optim.Optimizer, "a torch.optim.Optimizer")
    _kind("trace", trace, (Trace, *path), "a trace, its name or its file")
    _kind("log", log, path, "the name of a file")
    _kind("hooks", hooks, Hooks, "a dtrdiag.hooks.Hooks")
    if costs is not None:
        tells = callable(getattr(costs, "cost_ns", None)) and isinstance(costs, Hashable)
        if not tells:
            raise UsageError(
                f"costs= has to be a model of costs, such as Roofline(), not {costs!r}"
            )


def config_of(policy: Any, budget_bytes: Any, **options: Any) -> RunConfig:
    """The rules of a run.

    Raises:
        UsageError: there is no such rule, or its value cannot be.
        PolicyError: there is no such policy.
    """
    if budget_bytes is not None and type(budget_bytes) is not int:
        raise UsageError(f"a budget is a number of bytes or None, not {budget_bytes!r}")
    if not isinstance(policy, str):
        raise UsageError(f"a policy is named by a text, not {policy!r}")
    rules = [field.name for field in attrs.fields(RunConfig)]
    for name in options:
        if name not in rules:
            raise UsageError(no_such("option", name, rules))
    try:
        config = RunConfig(policy, budget_bytes, **options)
    except TypeError as error:
        raise UsageError(f"an option has a value of the wrong kind: {error}") from None
    find_policy(policy)
    return config


def _kind(name: str, value: Any, kinds: Any, what: str) -> None:
    if value is not None and not isinstance(value, kinds):
        raise UsageError(f"{name}= has to be {what}, not {value!r}")
