"""How many bytes does an op read and write: views of storages, each byte once a direction?

Only shapes, strides and storages are looked at, so that fake tensors count as real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from dtrdiag.instrumentation.pytorch.errors import UnsupportedOpError


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors in an argument, or in a list, tuple or mapping of arguments, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors_in(each)


def storage_key(tensor: Any) -> int:
    """What is the same for tensors on one storage, as long as both live.

    Raises:
        UnsupportedOpError: the tensor has no storage, as sparse ones have none.
    """
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError) as error:
        raise UnsupportedOpError(f"a tensor of layout {tensor.layout} has no storage") from error


def _extent(tensor: Any) -> tuple[int, int, int]:
    """First byte, byte after the last, and number of distinct bytes of a view on its storage."""
    item = tensor.element_size()
    low = tensor.storage_offset() * item
    if tensor.is_contiguous():
        size = tensor.numel() * item
        return (low, low + size, size) if size else (0, 0, 0)
    count = span = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if size == 0:
            return 0, 0, 0
        if stride:
            count *= size
            span += (size - 1) * stride
    return low, low + span * item, min(count, span) * item


def view_bytes(tensor: Any) -> int:
    """Distinct bytes of its storage that a tensor shows; expanded dimensions count once.

    Raises:
        UnsupportedOpError: it has no storage.
    """
    storage_key(tensor)
    return _extent(tensor)[2]


def views_bytes(tensors: Iterable[Any]) -> int:
    """Distinct bytes that some tensors show, together; bytes that two of them show count once.

    Of views that overlap, the bytes between the first and the last are taken for shown: an upper
    bound, which never exceeds the sum over the views.

    Raises:
        UnsupportedOpError: one has no storage.
    """
    by_storage: dict[int, set[tuple[int, int, int]]] = {}
    for tensor in tensors:
        by_storage.setdefault(storage_key(tensor), set()).add(_extent(tensor))
    return sum(
        next(iter(views))[2] if len(views) == 1 else _union(views) for views in by_storage.values()
    )


def _union(views: Iterable[tuple[int, int, int]]) -> int:
    total = end = 0
    by_size = 0  # less than what they span where views interleave, as columns do
    for low, high, size in sorted(views):
        by_size += size
        total += max(0, high - max(low, end))
        end = max(end, high)
    return min(total, by_size)


def moved_bytes(inputs: Iterable[Any], outputs: Iterable[Any]) -> int:
    """Bytes read plus bytes written, by an op that reads all of its arguments.

    Args:
        inputs: every tensor among its arguments.
        outputs: its fresh results, and the arguments that it writes to.

    Raises:
        UnsupportedOpError: one has no storage.
    """
    return views_bytes(inputs) + views_bytes(outputs)


def untouched_bytes(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[Any]
) -> int:
    """What `moved_bytes` counts of an op's arguments and results, but the op does not move.

    An op that fills a tensor does not read it first; one that looks rows up reads these alone; one
    that scatters into a tensor touches what it scatters to.
    """
    name = str(func._schema.name).partition("::")[2]
    positions = [at for at in _UNREAD.get(name, ()) if at < len(args)]
    unread = sum(views_bytes(tensors_in(args[at])) for at in positions)
    if "out" in kwargs:
        unread += views_bytes(tensors_in(kwargs["out"]))
    if (partly := _PARTLY.get(name)) is not None:
        unread += partly(args, outputs)
    return unread


def _looked_up(args: Sequence[Any], outputs: Sequence[Any]) -> int:
    return max(0, view_bytes(args[0]) - views_bytes(outputs))


def _picked(args: Sequence[Any], outputs: Sequence[Any]) -> int:
    # One element of the first argument for each of the second.
    return max(0, view_bytes(args[0]) - int(args[1].numel()) * int(args[0].element_size()))


def _scattered(at: int) -> Callable[[Sequence[Any], Sequence[Any]], int]:
    def untouched(args: Sequence[Any], outputs: Sequence[Any]) -> int:
        values = args[at] if at < len(args) else None
        if not isinstance(values, torch.Tensor):  # one number for all: as many as there are indices
            values = args[2] if len(args) > 2 else None
        if not isinstance(values, torch.Tensor):
            return 0
        size = int(values.numel()) * int(args[0].element_size())
        return 2 * max(0, view_bytes(args[0]) - size)

    return untouched


_FILLED = (
    "fill_", "zero_", "copy_", "normal_", "uniform_", "exponential_", "random_", "bernoulli_",
    "log_normal_", "geometric_", "cauchy_", "zeros_like", "ones_like", "full_like", "rand_like",
    "randn_like", "randint_like", "new_zeros", "new_ones", "new_full", "_foreach_zero_",
    "_foreach_copy_",
)  # fmt: skip
_SIZE_ALONE = (
    "nll_loss_backward", "nll_loss2d_backward", "max_pool2d_with_indices_backward",
    "max_pool3d_with_indices_backward", "avg_pool2d_backward", "avg_pool3d_backward",
    "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward",
    "adaptive_max_pool2d_backward",
)  # fmt: skip
_UNREAD: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(_FILLED, (0,)),
    **dict.fromkeys(_SIZE_ALONE, (1,)),
}
"""Positions of arguments whose sizes alone matter, or that are overwritten."""
_PARTLY: dict[str, Callable[[Sequence[Any], Sequence[Any]], int]] = {
    **dict.fromkeys(
        ("embedding", "index_select", "gather", "index", "_unsafe_index", "take"), _looked_up
    ),
    **dict.fromkeys(("nll_loss_forward", "nll_loss2d_forward"), _picked),
    **dict.fromkeys(("index_put_", "_index_put_impl_"), _scattered(2)),
    **dict.fromkeys(
        ("index_add_", "index_copy_", "index_fill_", "scatter_", "scatter_add_", "scatter_reduce_"),
        _scattered(3),
    ),
}
