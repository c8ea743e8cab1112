"""How does a live run leave a model? With plain tensors if it went well, else as before.

What a run writes to is safe by itself: it writes copies, and puts them back at its end. This takes
care of what the program *replaces*: gradients, buffers, and entries of an optimizer's state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dtrdiag.instrumentation.pytorch.wrapper import RematTensor, has_memory, plainly


class ModelState:
    """What a model and an optimizer refer to when a live run begins.

    Args:
        model: a `torch.nn.Module`, or None.
        parameters: its parameters.
        optimizer: a `torch.optim.Optimizer`, or None.
    """

    def __init__(self, model: Any, parameters: Iterable[Any], optimizer: Any) -> None:
        self._optimizer = optimizer
        self._modules = [] if model is None else list(model.modules())
        self._parameters = [(p, p.detach()) for p in parameters]
        self._buffers = [dict(module._buffers) for module in self._modules]
        self._entries = {} if optimizer is None else _entries(optimizer)

    def restore_data(self) -> bool:
        """Give parameters their bytes back that lost them by an assignment to `.data`.

        Returns:
            Whether there were any.
        """
        lost = [(p, kept) for p, kept in self._parameters if not has_memory(p)]
        for parameter, kept in lost:
            parameter.data = kept
        return bool(lost)

    def settle(self, leaves: Iterable[tuple[Any, Any]]) -> None:
        """The run went well: plain tensors take the places of those that stand for them.

        Args:
            leaves: tensors that want gradients, with those from before.
        """
        for leaf, _ in leaves:
            if type(leaf.grad) is RematTensor:
                leaf.grad = leaf.grad.plain()
        for module in self._modules:
            for name, buffer in module._buffers.items():
                module._buffers[name] = plainly(buffer)
        if self._optimizer is not None:
            for entries in self._optimizer.state.values():
                for key, value in entries.items():
                    entries[key] = plainly(value)

    def restore(self, leaves: Iterable[tuple[Any, Any]]) -> None:
        """The run failed: everything is as it was; the arguments are those of `settle`."""
        self.restore_data()
        for leaf, gradient in leaves:
            leaf.grad = gradient
        for module, buffers in zip(self._modules, self._buffers, strict=True):
            module._buffers.clear()
            module._buffers.update(buffers)
        if self._optimizer is not None:
            state = self._optimizer.state
            state.clear()
            state.update({parameter: dict(kept) for parameter, kept in self._entries.items()})


def _entries(optimizer: Any) -> dict[Any, dict[str, Any]]:
    return {parameter: dict(entries) for parameter, entries in optimizer.state.items()}
