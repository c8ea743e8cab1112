"""What does one execution of a dispatched operator cost: by a roofline, in whole nanoseconds?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs
import torch

from dtrdiag.instrumentation.pytorch.devices import DEFAULT_DEVICE, Device, device_named
from dtrdiag.instrumentation.pytorch.flops import Formula, formula_of
from dtrdiag.instrumentation.pytorch.traffic import (
    moved_bytes,
    storage_key,
    tensors_in,
    untouched_bytes,
)

__all__ = ["CostModel", "Roofline", "costs_nothing", "moved_bytes"]

_NS = 10**9
_PRECISIONS: dict[Any, str] = {
    torch.float64: "fp64",
    torch.complex128: "fp64",
    torch.float32: "fp32",
    torch.complex64: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
}
"""Of tensors; any other dtype of floating point is narrower than these."""
_METADATA_NAMESPACES = ("prim", "prims", "profiler")
_METADATA = frozenset(
    (
        "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided",
        "resize_", "resize_as_", "set_", "_fused_sdp_choice", "is_same_size", "size", "stride",
        "numel", "dim", "sym_size", "sym_stride", "sym_numel", "sym_storage_offset",
        "storage_offset", "is_contiguous", "_version", "record_stream", "_reshape_alias",
        "is_pinned", "_nested_tensor_size", "_cudnn_init_dropout_state", "unsafe_chunk",
    )
)  # fmt: skip
"""Operators that look at or set sizes, or reserve memory, and launch nothing."""


class CostModel(Protocol):
    """What tells how long one execution of an operator takes."""

    name: str
    """For metadata: `roofline` or `measured`."""

    def describe(self) -> dict[str, Any]:
        """Metadata for a recording: the device, its figures, where they come from."""

    def cost_ns(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        outputs: Sequence[Any],
        moved_bytes: int,
    ) -> int:
        """Nanoseconds that one execution takes; 0 for views and whatever launches nothing.

        Args:
            func: the operator's overload, `torch._ops.OpOverload`.
            args: its positional arguments as dispatched; of tensors, only shapes, strides, dtypes
                and identities of storages are looked at.
            kwargs: its keyword arguments.
            outputs: its results as a flat list, and tensors that it writes to.
            moved_bytes: as `moved_bytes` counts them for all its inputs and these outputs.
        """


def costs_nothing(func: Any, args: Sequence[Any], outputs: Sequence[Any]) -> bool:
    """Does an operator make views alone, look at sizes, or reserve memory without writing it?

    An operator whose results all lie on storages of its arguments is a view, whether its schema
    says so or not, unless the schema says that it writes.
    """
    return _is_free(func) or (bool(outputs) and not _writes(func) and _only_aliases(args, outputs))


def _is_free(func: Any) -> bool:
    namespace, _, name = str(func._schema.name).partition("::")
    if namespace in _METADATA_NAMESPACES or torch.Tag.inplace_view in func.tags:
        return True
    return name in _METADATA or bool(func.is_view)


def _writes(func: Any) -> bool:
    return any(
        argument.alias_info is not None and argument.alias_info.is_write
        for argument in func._schema.arguments
    )


def _only_aliases(args: Sequence[Any], outputs: Sequence[Any]) -> bool:
    inputs = {storage_key(tensor) for tensor in tensors_in(args)}
    return bool(inputs) and all(storage_key(tensor) in inputs for tensor in outputs)


@attrs.frozen
class _Operator:
    """What is the same for every call of an overload."""

    free: bool
    writes: bool
    formula: Formula


def _up(amount: int, rate: int) -> int:
    """Nanoseconds for an amount at a rate per second, rounded up."""
    return -(-amount * _NS // rate)


class Roofline:
    """The longer of arithmetic at peak and traffic at full bandwidth, and a launch.

    All of it in integers, so that every machine and every version of Python gets the same costs.

    Args:
        device: one of `DEVICES` by name, or figures of your own.
        matmul_tf32: compute products of `float32` matrices in TF32, as after
            `torch.set_float32_matmul_precision("high")`. PyTorch does not by default.
        convolution_tf32: likewise for convolutions and recurrent layers of cuDNN. PyTorch does by
            default (`torch.backends.cudnn.allow_tf32`).

    The settings of the process are not read: a recording must not depend on them.

    Raises:
        UsageError: no device has that name.
    """

    name = "roofline"

    def __init__(
        self,
        device: str | Device = DEFAULT_DEVICE,
        *,
        matmul_tf32: bool = False,
        convolution_tf32: bool = True,
    ) -> None:
        self.device = device_named(device)
        self._tf32 = {"matrix": matmul_tf32, "convolution": convolution_tf32}
        self._operators: dict[Any, _Operator] = {}
        self._without_formula: set[str] = set()

    def describe(self) -> dict[str, Any]:
        """Metadata: the device with its figures, precisions, and operators without a formula.

        The last are those met so far, by name, sorted: they counted as one FLOP an element, which
        leaves them bound by bandwidth.
        """
        return {
            "model": self.name,
            "device": self.device.describe(),
            "matmul_tf32": self._tf32["matrix"],
            "convolution_tf32": self._tf32["convolution"],
            "one_flop_an_element": sorted(self._without_formula),
        }

    def cost_ns(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        outputs: Sequence[Any],
        moved_bytes: int,
    ) -> int:
        """See `CostModel`. Time linear in the number of arguments."""
        operator = self._operators.get(func)
        if operator is None:
            operator = _Operator(_is_free(func), _writes(func), formula_of(func))
            self._operators[func] = operator
        if operator.free:
            return 0
        if outputs and not operator.writes and _only_aliases(args, outputs):
            return 0
        if not operator.formula.known:
            self._without_formula.add(func.name())
        flops = operator.formula.count(args, kwargs, outputs)
        moved = max(0, moved_bytes - untouched_bytes(func, args, kwargs, outputs))
        arithmetic = _up(flops, self._peak(operator.formula.unit, args, outputs))
        traffic = _up(moved, self.device.bandwidth)
        return max(arithmetic, traffic) + self.device.launch_ns

    def _peak(self, unit: str, args: Sequence[Any], outputs: Sequence[Any]) -> int:
        precision = _precision(args, outputs)
        if unit == "vector":
            return self.device.vector_peak(precision)
        if precision == "fp32" and self._tf32[unit]:
            precision = "tf32"
        return self.device.matrix_peak(precision)


def _precision(args: Sequence[Any], outputs: Sequence[Any]) -> str:
    """Of the first tensor of floating point among arguments, or else results; else `fp32`."""
    for tensor in (*tensors_in(args), *outputs):
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
            return _PRECISIONS.get(tensor.dtype, "narrower")
    return "fp32"
