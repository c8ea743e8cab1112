"""What trace it would be if its ops cost, or its storages took, something else.

Noise is drawn from `numpy.random.PCG64`, whose stream for a seed numpy guarantees, by integers
alone: the costs are noisy by the 64-bit draws of `PCG64([seed, 0])`, one for each op in order of
ids, and the sizes by those of `PCG64([seed, 1])`, one for each storage in order of ids. The high
53 bits k of a draw stand for u = k / 2**52 - 1 in [-1, 1).
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import numpy as np

from dtrdiag.errors import UsageError
from dtrdiag.trace.builder import MAX_BYTES, MAX_COST_NS, MAX_TOTAL
from dtrdiag.trace.model import Ints, Step, Trace, column

_COSTS, _SIZES = 0, 1
"""Which stream of a seed is drawn from."""


def changed_trace(
    trace: Trace,
    *,
    op_costs: Iterable[tuple[int, int]] = (),
    sizes: Iterable[tuple[int, int]] = (),
    cost_noise: tuple[float, int] | None = None,
    size_noise: tuple[float, int] | None = None,
) -> Trace:
    """The trace with other costs and sizes; name, digest and schedule stay.

    Args:
        trace: as recorded.
        op_costs: (op, cost in ns), applied after noise.
        sizes: (storage, size in bytes), applied after noise. A storage is named by its root tensor.
        cost_noise: (epsilon, seed): every cost x becomes the integer next to x (1 + epsilon u),
            halves to the even one, in double arithmetic. Constants cost 0 and go on to.
        size_noise: the same for the sizes of storages.

    Raises:
        UsageError: there is no such op or storage, the op is a constant, or a figure is larger
            than a DTR log may say.
    """
    costs = _noisy(trace.op_cost_ns, cost_noise, _COSTS)
    constants = set(trace.step_operand[trace.step_kind == Step.CONSTANT].tolist())
    for op, cost_ns in op_costs:
        if not 0 <= op < trace.ops:
            raise UsageError(f"cost {op}={cost_ns}: the trace has no op {op}, it has {trace.ops}")
        if op in constants:
            raise UsageError(f"cost {op}={cost_ns}: op {op} is a constant, which costs nothing")
        costs[op] = cost_ns
    roots = np.flatnonzero(trace.tensor_alias < 0)
    taken = trace.tensor_size_bytes.tolist()
    memory = trace.tensor_memory_bytes.tolist()
    noisy = _noisy(trace.tensor_size_bytes[roots], size_noise, _SIZES)
    changes = {**dict(zip(roots.tolist(), noisy, strict=True)), **_known(trace, sizes)}
    for storage, size_bytes in changes.items():
        taken[storage] = memory[storage] = size_bytes
    _refuse_large("costs", costs, MAX_COST_NS)
    _refuse_large("sizes", taken, MAX_BYTES)
    return attrs.evolve(
        trace,
        op_cost_ns=column(costs),
        tensor_size_bytes=column(taken),
        tensor_memory_bytes=column(memory),
    )


def refuse_unknown_storage(trace: Trace, storage: int, what: str) -> None:
    """Refuse a storage that a trace does not have.

    Raises:
        UsageError: no tensor has the id, or the tensor is an alias.
    """
    if not 0 <= storage < trace.tensors:
        raise UsageError(f"{what}: the trace has no storage {storage}")
    root = int(trace.tensor_storage[storage])
    if root != storage:
        raise UsageError(f"{what}: tensor {storage} is no storage, it is an alias in {root}")


def _known(trace: Trace, sizes: Iterable[tuple[int, int]]) -> dict[int, int]:
    changes = dict(sizes)
    for storage, size_bytes in changes.items():
        refuse_unknown_storage(trace, storage, f"size {storage}={size_bytes}")
    return changes


def _noisy(figures: Ints, noise: tuple[float, int] | None, stream: int) -> list[int]:
    """[figures] each moved by its own draw; unchanged without noise."""
    if noise is None:
        return [int(figure) for figure in figures]
    epsilon, seed = noise
    draws = np.random.PCG64([seed, stream]).random_raw(len(figures))
    u = (draws >> np.uint64(11)).astype(np.float64) / 2.0**52 - 1.0
    moved = np.rint(figures.astype(np.float64) * (1.0 + epsilon * u))
    return [max(0, int(figure)) for figure in moved]


def _refuse_large(what: str, figures: list[int], limit: int) -> None:
    if max(figures) > limit:
        raise UsageError(f"changed {what} go up to {max(figures)}, the limit is {limit}")
    if sum(figures) > MAX_TOTAL:
        raise UsageError(f"changed {what} add up to more than 2**62")
