"""How does a live run leave a model? With plain tensors if it went well, else as before.

What a run writes to is safe by itself: it writes copies, and puts them back at its end. This takes
care of what the program *replaces*: bytes by an assignment to `.data`, gradients, parameters,
buffers and modules, entries and settings of an optimizer, the state of a generator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from dtrdiag.instrumentation.pytorch.describe import storage_id
from dtrdiag.instrumentation.pytorch.geometry import view_of
from dtrdiag.instrumentation.pytorch.kept import Settling, give_back, keep
from dtrdiag.instrumentation.pytorch.wrapper import RematTensor, has_memory

_TABLES = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")


class ModelState:
    """What a model and an optimizer refer to when a live run begins.

    Args:
        model: a `torch.nn.Module`, or None.
        modules: it and all modules in it.
        parameters: theirs, and those of the optimizer.
        optimizer: a `torch.optim.Optimizer`, or None.
        known: plain tensors of the program that the run comes to know, in order: a weak reference,
            the same tensor as it was then, and whether it was a leaf.
    """

    def __init__(
        self,
        model: Any,
        modules: Iterable[Any],
        parameters: Iterable[Any],
        optimizer: Any,
        known: Sequence[Any],
    ) -> None:
        self._model, self._optimizer, self._known = model, optimizer, known
        self._wanting = [(p, p.requires_grad) for p in parameters]
        self._modules = [vars(module) for module in modules]
        self._training = [(own, own["training"]) for own in self._modules if "training" in own]
        # What is scripted has tables of another kind, which a program cannot change.
        self._tables = [
            (own, name, table, table.copy() if table else ())
            for own in self._modules
            for name in _TABLES
            if isinstance(table := own.get(name), (dict, set))
        ]
        self._settings: Any = None
        if optimizer is not None:
            self._settings = keep([optimizer.state, optimizer.param_groups])
        self._random = _random_states()

    def is_lost(self) -> bool:
        """Whether a tensor that had bytes has none, by an assignment to `.data`."""
        # Of every tensor of the step: the usual case is all that may cost something.
        for reference, kept, _ in self._known:
            tensor = reference()
            if tensor is not None:
                tensor._fix_weakref()
                try:
                    if tensor.data_ptr():
                        continue
                except RuntimeError:
                    pass
                if not has_memory(tensor) and has_memory(kept):
                    return True
        return False

    def settle(self, leaves: Iterable[tuple[Any, Any]]) -> None:
        """The run went well: plain tensors take the places of those that stand for them.

        Args:
            leaves: tensors that want gradients, with those from before.
        """
        settling = Settling()
        for leaf, _ in leaves:
            if type(leaf.grad) is RematTensor:
                leaf.grad = settling.plain(leaf.grad)
        for own in self._modules_now():
            for table in (own.get("_parameters"), own.get("_buffers")):
                if table and RematTensor in map(type, table.values()):
                    for key, tensor in table.items():
                        table[key] = settling.plain(tensor)
        if self._optimizer is not None:
            settling.settle(self._optimizer.state)
            settling.settle(self._optimizer.param_groups)

    def restore(self, leaves: Iterable[tuple[Any, Any]]) -> None:
        """The run failed: everything is as it was; the arguments are those of `settle`."""
        self._restore_tensors()
        for leaf, gradient in leaves:
            leaf.grad = gradient
        for parameter, wanted in self._wanting:
            if parameter.requires_grad is not wanted:
                parameter.requires_grad_(wanted)
        for own, name, table, kept in self._tables:
            own[name] = table
            table.clear()
            table.update(kept)
        for own, training in self._training:
            own["training"] = training
        if self._optimizer is not None:
            self._optimizer.state, self._optimizer.param_groups = give_back(self._settings)
        for generator, state in self._random:
            generator.set_state(state)

    def _restore_tensors(self) -> None:
        # The last first: one that was moved and used there is known twice, first as it was.
        for reference, kept, was_leaf in reversed(self._known):
            tensor = reference()
            if tensor is None:
                continue
            tensor._fix_weakref()
            if storage_id(tensor) != storage_id(kept) or view_of(tensor) != view_of(kept):
                tensor.data = kept
            if was_leaf and not tensor.is_leaf:
                tensor.detach_()  # written to with a history, which is of the run

    def _modules_now(self) -> list[dict[str, Any]]:
        for own, name, table, kept in self._tables:
            if name == "_modules" and (own[name] is not table or table != (kept or {})):
                return [vars(module) for module in self._model.modules()]
        return self._modules


def parameters_in(modules: Iterable[Any]) -> list[Any]:
    """Their parameters, each once, in the order of `torch.nn.Module.parameters`."""
    tables = (module._parameters.values() for module in modules)
    return list({id(p): p for table in tables for p in table if p is not None}.values())


def _random_states() -> list[tuple[Any, Any]]:
    """The generators that operators draw from unless they are given one, with their states."""
    generators = [torch.default_generator]
    if torch.cuda.is_initialized():
        generators += torch.cuda.default_generators
    return [(generator, generator.get_state()) for generator in generators]
