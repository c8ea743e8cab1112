"""What an operator costs on the machine that the generators assume.

A roofline in integers, so that a trace is the same on every platform: a kernel takes a fixed time
to launch, then as long as its arithmetic or its memory traffic, whichever is longer.

    cost_ns = LAUNCH_NS + max(ceil(flops / FLOPS_PER_NS), ceil(bytes / BYTES_PER_NS))

A view moves nothing and costs VIEW_NS. The figures are round ones of the order of a data-centre
accelerator of 2018 in float32; no machine was measured.
"""

from __future__ import annotations

FLOAT_BYTES = 4
"""Bytes of one element: all tensors are float32."""
LAUNCH_NS = 4_000
"""Fixed cost of a kernel."""
VIEW_NS = 500
"""Cost of an operator that only makes a view."""
FLOPS_PER_NS = 10_000
"""Floating-point operations per nanosecond: 10 Tflop/s."""
BYTES_PER_NS = 600
"""Bytes to and from memory per nanosecond: 600 GB/s."""

Shape = tuple[int, ...]


def elements(shape: Shape) -> int:
    """Number of elements of a shape; 1 for a scalar."""
    count = 1
    for extent in shape:
        count *= extent
    return count


def size_bytes(shape: Shape) -> int:
    """Bytes of a float32 tensor of that shape."""
    return FLOAT_BYTES * elements(shape)


def kernel_ns(flops: int, moved_bytes: int) -> int:
    """Cost of a kernel with that much arithmetic and memory traffic."""
    return LAUNCH_NS + max(-(-flops // FLOPS_PER_NS), -(-moved_bytes // BYTES_PER_NS))


def matmul_flops(rows: int, inner: int, columns: int) -> int:
    """Multiplications and additions of a (rows, inner) by (inner, columns) product."""
    return 2 * rows * inner * columns
