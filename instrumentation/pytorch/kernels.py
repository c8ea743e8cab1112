"""How is a kernel called within a dispatch mode, so that it computes what it computes outside?

Within a mode PyTorch does not resolve lazy conjugation and negation. A kernel that is made of
others and conjugates in between, such as the pseudo-inverse's, then reads the wrong values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

_LAZY = (torch._C.DispatchKey.Conjugate, torch._C.DispatchKey.Negative)


def is_lazy(dtypes: Iterable[Any]) -> bool:
    """Whether tensors of these types may be conjugated or negated lazily."""
    return any(dtype.is_complex for dtype in dtypes)


def call_resolving(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a kernel that may conjugate or negate lazily in between."""
    excluded = [torch._C._dispatch_tls_is_dispatch_key_excluded(key) for key in _LAZY]
    for key in _LAZY:
        torch._C._dispatch_tls_set_dispatch_key_excluded(key, False)
    try:
        return func(*args, **kwargs)
    finally:
        del args, kwargs
        for key, was in zip(_LAZY, excluded, strict=True):
            torch._C._dispatch_tls_set_dispatch_key_excluded(key, was)
