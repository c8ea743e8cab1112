"""Which kernels leave a small result at the beginning of a larger storage?

They reduce into the storage of what they reduce and give that back under a smaller shape. Fake ones
do not: without this table a recording on fake tensors would know of less memory than is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

_NO_REDUCTION = 0
_REDUCES = {
    "aten.mse_loss.default": 2,
    "aten.smooth_l1_loss.default": 2,
    "aten.soft_margin_loss.default": 2,
    "aten.binary_cross_entropy.default": 3,
}
"""Losses whose CPU kernels do so, unless nothing is reduced, by the position of `reduction`."""
_MEAN = 1


def enlarged_bytes(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> int:
    """Size in bytes of the storage that the real kernel makes for a result; a fake one gets it.

    Args:
        name: of the operator.
        args: its positional arguments.
        kwargs: its keyword arguments.
        result: a result in a storage of its own, real or fake.
    """
    storage = result.untyped_storage()
    nbytes = int(storage.nbytes())
    position = _REDUCES.get(name)
    if position is None or result.device.type != "cpu":
        return nbytes
    reduction = args[position] if len(args) > position else kwargs.get("reduction", _MEAN)
    if reduction == _NO_REDUCTION:
        return nbytes
    shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
    larger = int(shape.numel() * result.element_size())
    if larger > nbytes:
        storage.resize_(larger)
    return max(nbytes, larger)
