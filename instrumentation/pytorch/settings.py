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
"""Values of the settings, in order of the table below."""

_DENORMAL = 5e-324


def _flushes() -> bool:
    # PyTorch does not tell, but the processor flushes Python's own numbers as well.
    return _DENORMAL * 1.0 == 0.0


def _determinism() -> bool | None:
    """Whether other kernels than deterministic ones are only warned of; None: nothing is asked."""
    core = torch._C
    return core._get_deterministic_algorithms_warn_only() if _is_deterministic() else None


def _set_determinism(wanted: bool | None) -> None:
    torch._C._set_deterministic_algorithms(wanted is not None, warn_only=bool(wanted))


_is_deterministic = torch._C._get_deterministic_algorithms
_Setting = tuple[Callable[[], Any], Callable[[Any], object]]
_TABLE: tuple[_Setting, ...] = (
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_num_threads, torch.set_num_threads),
    (torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled),
    (torch._C._get_mkldnn_deterministic, torch._C._set_mkldnn_deterministic),
    (torch._C._get_nnpack_enabled, torch._C._set_nnpack_enabled),
    (_determinism, _set_determinism),
    (_flushes, torch.set_flush_denormal),
)
if torch.version.cuda:
    _TABLE += (
        (torch._C._get_cudnn_enabled, torch._C._set_cudnn_enabled),
        (torch._C._get_cudnn_benchmark, torch._C._set_cudnn_benchmark),
        (torch._C._get_cudnn_deterministic, torch._C._set_cudnn_deterministic),
    )
_READERS = tuple(read for read, _ in _TABLE)


def settings_in_force() -> Settings:
    """What is set now."""
    return tuple([read() for read in _READERS])


def put_in_force(wanted: Settings, now: Settings) -> None:
    """Set what differs.

    Args:
        wanted: what is to be in force.
        now: what is.
    """
    for (_, write), value, old in zip(_TABLE, wanted, now, strict=True):
        if value != old:
            write(value)
