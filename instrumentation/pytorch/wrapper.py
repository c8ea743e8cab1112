"""What does the program hold while it runs live? Tensors without memory that stand for storages.

A `RematTensor` has the shape, strides and dtype of a tensor and none of its bytes: these are in the
storage's only real tensor, or nowhere while the storage is evicted. All wrappers of one storage
share an `Owner`; when the last of them dies, in Python or C++, so does the owner, and the storage
has lost its last reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dtrdiag.instrumentation.pytorch.encoding import Held
from dtrdiag.instrumentation.pytorch.errors import (
    EscapedTensorError,
    LiveRunError,
    UnsupportedOpError,
)
from dtrdiag.instrumentation.pytorch.geometry import View

Values = dict[View, Any]
"""The real tensors that look at one storage, by geometry."""


class Owner:
    """What all wrappers of one storage share.

    Args:
        held: the storage.
        device: where its bytes are.
        home: what stands for the live run.
        dropped: called with `held` when the last wrapper died; None for a constant.
    """

    __slots__ = ("__weakref__", "device", "dropped", "held", "home", "settled", "why")

    def __init__(
        self, held: Held, device: Any, home: object, dropped: Callable[[Held], None] | None
    ) -> None:
        self.held = held
        self.home: object | None = home
        """The live run that it belongs to; None once that is over."""
        self.device = device
        self.dropped = dropped
        self.settled: Values | None = None
        """Its value, once the live run has ended with this storage as an output."""
        self.why: str | None = None
        """Why it has no value, once the live run has ended without it."""

    def close(self, why: str) -> None:
        """The live run is over."""
        self.home = self.dropped = None
        self.why = why

    def __del__(self) -> None:
        if self.dropped is not None:
            self.dropped(self.held)


class RematTensor(torch.Tensor):  # type: ignore[misc]
    """Stands for a tensor of a live run, whether its bytes are in memory or not.

    After the run, one that was an output has its value, and operators on it give plain tensors; any
    other raises `EscapedTensorError`. During the run its value is read by `item()`, and by what
    calls that, such as `float` and `if`; what would need its bytes raises `LiveRunError`.
    """

    owner: Owner
    view_key: View

    @staticmethod
    def __new__(cls, owner: Owner, view: View) -> RematTensor:
        """A tensor of a given geometry on the owner's storage."""
        dtype, shape, stride, offset, conjugate, negative = view
        made: RematTensor = torch.Tensor._make_wrapper_subclass(
            cls, shape, strides=stride, storage_offset=offset, dtype=dtype, device=owner.device
        )
        # With these bits PyTorch resolves both before an operator gets here, as for plain tensors.
        if conjugate:
            torch._C._set_conj(made, True)
        if negative:
            torch._C._set_neg(made, True)
        # What would read its bytes without an operator gets an error, and not address 0.
        torch._C._set_throw_on_mutable_data_ptr(made)
        made.owner = owner
        made.view_key = view
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """An operator outside the live run that made the tensor."""
        plain = _plain_in(args)
        return func(*plain, **{name: _plain_in(value) for name, value in (kwargs or {}).items()})

    def plain(self) -> Any:
        """Its value as a plain tensor, on the same bytes.

        Raises:
            EscapedTensorError: the live run that made it has no value of it.
        """
        owner = self.owner
        if owner.settled is None:
            why = owner.why or "the live run that made it is still going on in another context"
            raise EscapedTensorError(f"a tensor of shape {list(self.shape)} is used, but {why}")
        return tensor_in(owner.settled, self.view_key)

    @property
    def data(self) -> Any:
        """The same tensor, apart from its history: autograd does not see that it is written to."""
        if self.owner.home is None:
            return self.plain().data
        return RematTensor(self.owner, self.view_key)

    @data.setter
    def data(self, value: Any) -> None:
        # PyTorch would have this object look at other bytes without an operator that we could see.
        raise LiveRunError("`.data` of a tensor of a live run cannot be assigned; use copy_()")

    def tolist(self) -> Any:
        """Its values; after the run only."""
        return self._bytes_for("tolist()").tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """Its values; after the run only."""
        return self._bytes_for("numpy()").numpy(force=force)

    def apply_(self, function: Any) -> Any:
        """Its values, each put through a Python function; after the run only."""
        return self._bytes_for("apply_()").apply_(function)

    def map_(self, *others: Any) -> Any:
        """Likewise, with those of another tensor."""
        return self._bytes_for("map_()").map_(*map(_plain_in, others))

    def map2_(self, *others: Any) -> Any:
        """Likewise, with those of two others."""
        return self._bytes_for("map2_()").map2_(*map(_plain_in, others))

    def data_ptr(self) -> int:
        """Where its bytes are; after the run only."""
        return int(self._bytes_for("data_ptr()").data_ptr())

    def __dlpack__(self, **options: Any) -> Any:
        return self._bytes_for("dlpack").__dlpack__(**options)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = memo[id(self)] = self.detach().clone().requires_grad_(self.requires_grad)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._bytes_for("a pickle").__reduce_ex__(protocol)

    def __repr__(self, **options: Any) -> str:
        if self.owner.settled is not None:
            return repr(self.plain())
        if self.numel() == 1 and self.owner.home is not None:
            return f"tensor({self.item()})"
        return f"RematTensor(shape={list(self.shape)}, dtype={self.dtype}, device={self.device})"

    def __format__(self, spec: str) -> str:
        if self.dim() == 0 and (self.owner.home is not None or self.owner.settled is not None):
            return format(self.item(), spec)
        return format(repr(self), spec)

    def _bytes_for(self, what: str) -> Any:
        if self.owner.home is not None:
            raise LiveRunError(
                f"{what} needs the bytes of a tensor of a live run that is going on; within it "
                "values are read by item(), and all values are there after it"
            )
        return self.plain().detach()


def tensor_in(values: Values, view: View) -> Any:
    """The real tensor that looks at a storage in a given way, made where it is not there yet."""
    tensor = values.get(view)
    if tensor is None:
        some = next(iter(values.values()))
        tensor = values[view] = looking_at(some.untyped_storage(), view, some.device)
    return tensor


def looking_at(storage: Any, view: View, device: Any) -> Any:
    """A tensor of a given geometry on a storage."""
    dtype, shape, stride, offset, conjugate, negative = view
    tensor = torch.empty(0, dtype=dtype, device=device)
    tensor.set_(storage, offset, shape, stride)
    if conjugate:
        torch._C._set_conj(tensor, True)
    if negative:
        torch._C._set_neg(tensor, True)
    return tensor


def plainly(value: Any) -> Any:
    """A tensor that may stand for one of an ended run, as a plain one."""
    return value.plain() if type(value) is RematTensor else value


def check_memory(tensor: Any) -> None:
    """Refuse a tensor that claims bytes and has none, so that a live run cannot use it.

    Raises:
        UnsupportedOpError: it is on the device "meta", or its data was assigned from another.
    """
    if not has_memory(tensor):
        raise UnsupportedOpError(
            f"a tensor of shape {list(tensor.shape)} has no memory of its own: it is fake, or its "
            "`.data` was assigned a tensor of a live run"
        )


def has_memory(tensor: Any) -> bool:
    """Whether a plain tensor has bytes, which one on the device "meta" has not.

    Nor has one whose `.data` was assigned a tensor of a live run.
    """
    try:
        return not tensor.numel() or bool(tensor.data_ptr())
    except RuntimeError:
        return False


def _plain_in(value: Any) -> Any:
    if isinstance(value, RematTensor):
        return value.plain()
    if isinstance(value, (tuple, list)):
        return type(value)(_plain_in(part) for part in value)
    return value
