"""Which optimizers steps are made with: torch's own, in each of its implementations."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from dtrdiag.errors import UsageError
from dtrdiag.suggestions import no_such, quoted

OPTIMIZERS: dict[str, tuple[Any, float]] = {
    "sgd": (torch.optim.SGD, 1e-2),
    "adam": (torch.optim.Adam, 1e-3),
}
"""Class and default learning rate by name."""

IMPLEMENTATIONS: dict[str, dict[str, bool]] = {
    "loop": {"foreach": False, "fused": False},
    "foreach": {"foreach": True, "fused": False},
    "fused": {"foreach": False, "fused": True},
}
"""What tells torch which implementation to take: one parameter at a time (its default on a CPU),
lists of parameters in one operator, or the whole update in one operator."""


def optimizer_over(
    network: nn.Module, name: str, implementation: str = "loop", learning_rate: float | None = None
) -> Any:
    """An optimizer over all parameters of a network; it has no state before its first step.

    Args:
        network: whose parameters to train.
        name: a key of `OPTIMIZERS`.
        implementation: a key of `IMPLEMENTATIONS`.
        learning_rate: if not the default.

    Raises:
        UsageError: unknown name or implementation, or a negative learning rate.
    """
    if name not in OPTIMIZERS:
        raise UsageError(no_such("optimizer", name, OPTIMIZERS))
    if implementation not in IMPLEMENTATIONS:
        raise UsageError(no_such("implementation", implementation, IMPLEMENTATIONS))
    kind, usual = OPTIMIZERS[name]
    rate = usual if learning_rate is None else learning_rate
    if not rate >= 0:
        raise UsageError(f"learning_rate is {quoted(rate)}; it is at least 0")
    return kind(network.parameters(), lr=rate, **IMPLEMENTATIONS[implementation])
