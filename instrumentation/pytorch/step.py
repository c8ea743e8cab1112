"""What is one training step: the model, what runs it forward and backward, and its optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs


@attrs.frozen(eq=False)
class Step:
    """A training step that can be taken again and again.

    `run()` computes the loss from the inputs, calls `backward()` on it and returns it. It neither
    clears gradients nor steps the optimizer: who takes the step does, so that one step serves
    recordings with and without an optimizer.
    """

    name: str
    """Short name, such as `resnet20`."""
    model: Any
    """The `torch.nn.Module` whose parameters and buffers persist between steps."""
    run: Callable[[], Any]
    """Forward and backward; returns the loss."""
    optimizer: Any = None
    """A `torch.optim.Optimizer` over the model's parameters, if there is one."""
    inputs: tuple[Any, ...] = ()
    """The tensors that the step reads besides parameters and buffers, targets included."""
    sizes: dict[str, Any] = attrs.field(factory=dict)
    """The sizes that it was made with, for the metadata of a recording."""
    taken: int = 0
    """How often it was taken in finding out that it is one; these count as steps before."""
