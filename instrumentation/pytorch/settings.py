"""Which settings decide what a kernel computes, beside its arguments?

A program may change them between two operators. One that is executed again is to compute what it
computed at first, so what was in force then is put in force for it. They are read before each
kernel, so only those are here that are read in a fraction of a microsecond: not the precision of
float32 products and the flags of TF32 (see docs/live.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Settings = tuple[Any, ...]
"""Values of the settings, in order of `_WRITERS`."""

_DENORMAL = 5e-324


_dtype, _threads = torch.get_default_dtype, torch.get_num_threads
_mkldnn, _mkldnn_deterministic = torch._C._get_mkldnn_enabled, torch._C._get_mkldnn_deterministic
_nnpack, _deterministic = torch._C._get_nnpack_enabled, torch._C._get_deterministic_algorithms
_warns_only = torch._C._get_deterministic_algorithms_warn_only


def _set_deterministic(wanted: tuple[bool, bool]) -> None:
    torch._C._set_deterministic_algorithms(wanted[0], warn_only=wanted[1])


_WRITERS: tuple[Callable[[Any], object], ...] = (
    torch.set_default_dtype,
    torch.set_num_threads,
    torch._C._set_mkldnn_enabled,
    torch._C._set_mkldnn_deterministic,
    torch._C._set_nnpack_enabled,
    _set_deterministic,
    torch.set_flush_denormal,
)
_CUDNN: tuple[tuple[Callable[[], Any], Callable[[Any], object]], ...] = ()
if torch.version.cuda:
    _CUDNN = (
        (torch._C._get_cudnn_enabled, torch._C._set_cudnn_enabled),
        (torch._C._get_cudnn_benchmark, torch._C._set_cudnn_benchmark),
        (torch._C._get_cudnn_deterministic, torch._C._set_cudnn_deterministic),
    )
    _WRITERS += tuple(write for _, write in _CUDNN)


def settings_in_force() -> Settings:
    """What is set now."""
    found = (
        _dtype(),
        _threads(),
        _mkldnn(),
        _mkldnn_deterministic(),
        _nnpack(),
        (_deterministic(), _warns_only()),
        # PyTorch does not tell, but the processor flushes Python's own numbers as well.
        _DENORMAL * 1.0 == 0.0,
    )
    return (*found, *[read() for read, _ in _CUDNN]) if _CUDNN else found


def put_in_force(wanted: Settings, now: Settings) -> None:
    """Set what differs.

    Args:
        wanted: what is to be in force.
        now: what is.
    """
    for write, value, old in zip(_WRITERS, wanted, now, strict=True):
        if value != old:
            write(value)
