"""How does a tensor lie in its storage, and when do two lie in the same place?"""

from __future__ import annotations

from typing import Any

View = tuple[Any, ...]
"""How a tensor lies in its storage: dtype, shape, stride, offset, conjugate bit, negative bit."""


def view_of(tensor: Any) -> View:
    """The geometry of a tensor."""
    return (
        tensor.dtype,
        tuple(tensor.shape),
        tensor.stride(),
        tensor.storage_offset(),
        tensor.is_conj(),
        tensor.is_neg(),
    )


def same_place(view: View) -> View:
    """A geometry without the strides that mean nothing: where a dimension has but one index.

    Kernels and fake kernels choose them differently.
    """
    dtype, shape, stride, *rest = view
    if 0 in shape:
        return (dtype, shape, (0,) * len(shape), *rest)
    if 1 not in shape:
        return view
    stride = tuple(0 if length == 1 else step for length, step in zip(shape, stride, strict=True))
    return (dtype, shape, stride, *rest)
