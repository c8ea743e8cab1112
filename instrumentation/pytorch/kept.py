"""What did lists, dicts and tuples hold, at any depth, and how do they get it back?

Containers keep their identity: what is given back is put into the same object, so that whoever
refers to it sees it too. Tensors are leaves here; nothing is copied but references to them.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import attrs
import torch

from dtrdiag.instrumentation.pytorch.wrapper import RematTensor

_CONTAINERS = (dict, list, tuple, deque)


@attrs.define(eq=False)
class Kept:
    """What a container held."""

    value: Any
    keys: list[Any] = attrs.Factory(list)
    """Of a dict, in order."""
    parts: list[Any] = attrs.Factory(list)
    """Containers as `Kept`, everything else as it is."""
    is_back: bool = False


def keep(value: Any, known: dict[int, Kept] | None = None) -> Any:
    """What a value holds now: a `Kept` of a container, anything else as it is.

    Args:
        value: dicts, lists, tuples and deques of anything, in cycles too.
        known: containers that have been seen, by identity.
    """
    if not isinstance(value, _CONTAINERS):
        return value
    if known is None:
        known = {}
    if id(value) in known:
        return known[id(value)]
    made = known[id(value)] = Kept(value)
    parts: Any = value
    if isinstance(value, dict):
        made.keys = list(value)
        parts = value.values()
    made.parts = [keep(part, known) if isinstance(part, _CONTAINERS) else part for part in parts]
    return made


def give_back(kept: Any) -> Any:
    """The value that `keep` was given, holding what it held; once for each `Kept`."""
    if type(kept) is not Kept:
        return kept
    value = kept.value
    if not kept.is_back:
        kept.is_back = True
        parts = [give_back(part) if type(part) is Kept else part for part in kept.parts]
        if isinstance(value, dict):
            value.clear()
            value.update(zip(kept.keys, parts, strict=True))
        elif isinstance(value, list):
            value[:] = parts
        elif isinstance(value, deque):
            value.clear()
            value.extend(parts)
    return value


class Settling:
    """Puts plain tensors in the places of those that stand for them.

    A leaf stays what it was: a parameter is one again, and its gradient is plain too. A tensor that
    stands in several places has one plain tensor for all.
    """

    def __init__(self) -> None:
        self._leaves: dict[int, tuple[Any, Any]] = {}
        self._seen: dict[int, Any] = {}

    def plain(self, value: Any) -> Any:
        """A plain tensor for one of the ended run; anything else as it is."""
        if type(value) is not RematTensor or value.owner.settled is None:
            return value
        if not (value.is_leaf and (value.requires_grad or isinstance(value, torch.nn.Parameter))):
            return value.plain()
        if id(value) not in self._leaves:
            made = value.plain().detach()
            if isinstance(value, torch.nn.Parameter):
                made = torch.nn.Parameter(made, requires_grad=value.requires_grad)
            else:
                made.requires_grad_()
            made.grad = self.plain(value.grad)
            self._leaves[id(value)] = value, made  # with the first, whose id is not to be reused
        return self._leaves[id(value)][1]

    def settle(self, value: Any) -> Any:
        """A value without tensors of the run at any depth; containers that can change stay."""
        if not isinstance(value, _CONTAINERS):
            return self.plain(value)
        if id(value) in self._seen:
            return value
        self._seen[id(value)] = value
        if isinstance(value, tuple):
            parts = [self.settle(part) for part in value]
            if all(new is old for new, old in zip(parts, value, strict=True)):
                return value
            return value._make(parts) if hasattr(value, "_make") else type(value)(parts)
        if isinstance(value, dict):
            self._settle_keys(value)
        for key, part in list(value.items() if isinstance(value, dict) else enumerate(value)):
            settled = self.settle(part)
            if settled is not part:
                value[key] = settled
        return value

    def _settle_keys(self, value: dict[Any, Any]) -> None:
        if any(type(key) is RematTensor for key in value):
            entries = [(self.plain(key), part) for key, part in value.items()]
            value.clear()
            value.update(entries)
