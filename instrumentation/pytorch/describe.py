"""What does one dispatched operator read, write, make and alias? The same answer for everyone.

The recorder asks it of operators that ran, on real or on fake tensors; a live run asks it of fake
twins before the real kernel runs. What it cannot answer it refuses: a log is never silently wrong.

Tensors are told apart by the storage they lie in, and within a storage by their geometry, since
autograd hands saved tensors back as new objects and since views need not be declared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import attrs
import torch
from torch._subclasses.fake_tensor import FakeTensor

from dtrdiag.instrumentation.pytorch.errors import UnsupportedOpError
from dtrdiag.instrumentation.pytorch.geometry import View, same_place, view_of
from dtrdiag.instrumentation.pytorch.kernels import is_lazy
from dtrdiag.instrumentation.pytorch.masks import mask_of, mask_place
from dtrdiag.instrumentation.pytorch.oversized import enlarged_bytes
from dtrdiag.instrumentation.pytorch.traffic import moved_bytes
from dtrdiag.instrumentation.pytorch.undeclared import undeclared_writes

SKIPPED_NAMESPACES = frozenset({"prim", "profiler"})
"""Operators that compute nothing: bookkeeping of autograd and of profilers."""

_NEW_STORAGE = frozenset(
    ("aten::set_", "aten::resize_", "aten::resize_as_", "aten::_resize_output_")
)
"""Operators that give a tensor another storage, or a storage another size."""
_WITHOUT_MEMORY = "aten::_efficientzerotensor"
_RECEIVES = torch.ops.aten.set_.source_Storage_storage_offset
_RECEIVED_SO = (
    " (as when a worker process of a DataLoader sends a batch: take it out of the loader before)"
)
_OF_OTHERS = frozenset(("c10d", "_c10d_functional", "_c10d_functional_autograd", "symm_mem"))
"""Namespaces of operators whose results depend on other processes."""
_TOLD_WRONG = {
    "aten.mkldnn_rnn_layer.default": (
        "fake tensors do not tell the size of its workspace; switch mkldnn off, with "
        "torch.backends.mkldnn.flags(enabled=False)"
    ),
}
"""Operators about which fake tensors are wrong, and what to do about it."""
LIFTS = frozenset(("aten.lift_fresh.default", "aten.lift.default"))
"""What PyTorch calls on tensors that it made of Python values or of another library's memory."""
_QUANTIZED = frozenset((torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4))
_QUANTIZING = ("aten::quantize_per_", "aten::dequantize", "aten::_make_per_")
"""Their fake kernels give plain tensors of other sizes."""
_BY_MASK = frozenset({"aten.index.Tensor", "aten._unsafe_index.Tensor"})
"""Operators whose results have sizes that depend on data only where they are given a mask."""
_MASKS = (torch.bool, torch.uint8)


@attrs.frozen
class OpFacts:
    """What an operator's schema and tags say, whatever its arguments are."""

    name: str
    """Overload name, such as `aten.add.Tensor`."""
    skipped: bool
    """It computes nothing that a run could repeat."""
    random: bool
    """It draws from a generator."""
    reads_value: bool
    """Its result is a plain number that depends on data."""
    changes_view: bool
    """It changes how its argument looks at a storage, and not the storage."""
    written: frozenset[str]
    """Names of the arguments that the schema says are written."""
    arguments: tuple[str, ...]
    """Names of all arguments in order."""
    mask: int | None
    """Which of these says what results are asked for, if one does."""


Place = tuple[str, int, View | None]
"""What a result of an operator is: `fresh` k, `alias` or `version` of storage k, and geometry."""
Results = tuple[Sequence[Place], Sequence[int], Sequence[int]]
"""What an operator makes: places, sizes in bytes, and indices of the arguments aliased, or -1."""


@attrs.frozen(eq=False)
class Plan:
    """One execution of an operator, in terms of the distinct storages among its arguments.

    Storages of arguments are numbered from 0 in order of first appearance; fresh storages, which
    the operator makes, from 0 in order of the results.
    """

    name: str
    input_views: tuple[View, ...]
    """[tensor arguments] geometry, in order of the schema."""
    input_storages: tuple[int, ...]
    """[tensor arguments] which storage each lies in."""
    outputs: tuple[tuple[int, View], ...]
    """[tensor results] storage and geometry; `~k` for fresh storage `k`."""
    fresh_bytes: tuple[int, ...]
    """[fresh storages] sizes."""
    writes: tuple[tuple[int, int], ...]
    """Storages that are written, with their sizes in bytes afterwards, in order of arguments."""
    random: bool
    reads_value: bool
    cost_ns: int
    """Cost of one execution; 0 where nothing is computed."""
    mask: Sequence[bool] | None = None
    """[results] which are asked for; None: all."""

    is_view: bool = attrs.field(init=False)
    """Whether it makes nothing, writes nothing and reads nothing: results are views."""

    input_places: tuple[View, ...] = attrs.field(init=False)
    """[tensor arguments] `same_place` of their geometries."""
    fresh_results: Results | None = attrs.field(init=False)
    """What it makes, where that does not depend on what is known of its arguments."""
    fresh_places: tuple[View, ...] = attrs.field(init=False)
    """[fresh storages] `same_place` of the geometries of their roots."""

    is_lazy: bool = attrs.field(init=False)
    """Whether its kernel may conjugate or negate lazily."""

    @is_lazy.default
    def _is_lazy(self) -> bool:
        made = (view for _, view in self.outputs)
        return is_lazy(view[0] for view in (*self.input_views, *made))

    @is_view.default
    def _is_view(self) -> bool:
        return not (self.fresh_bytes or self.writes or self.reads_value) and bool(self.outputs)

    @input_places.default
    def _input_places(self) -> tuple[View, ...]:
        return tuple(map(same_place, self.input_views))

    @fresh_results.default
    def _fresh_results(self) -> Results | None:
        if self.writes or any(number >= 0 for number, _ in self.outputs):
            return None
        places = tuple(("fresh", k, view) for k, view in enumerate(self._roots()))
        return places, self.fresh_bytes, (-1,) * len(places)

    @fresh_places.default
    def _fresh_places(self) -> tuple[View, ...]:
        return tuple(map(same_place, self._roots()))

    def _roots(self) -> list[View]:
        """The first result in each fresh storage, by which it is known."""
        roots: dict[int, View] = {}
        for number, view in self.outputs:
            if number < 0:
                roots.setdefault(~number, view)
        return list(roots.values())


@cache
def facts_of(func: Any) -> OpFacts:
    """What is known of an operator from its schema.

    Raises:
        UnsupportedOpError: it is no plain operator, or the sizes of its results depend on data.
    """
    if not isinstance(func, torch._ops.OpOverload):
        raise UnsupportedOpError(f"{func} is not a plain operator of PyTorch and cannot be told")
    name = str(func)
    tags = set(func.tags)
    if torch.Tag.dynamic_output_shape in tags and name not in _BY_MASK:
        raise UnsupportedOpError(f"{name}: the sizes of its results depend on data")
    if func._schema.name in _NEW_STORAGE:
        how = _RECEIVED_SO if func is _RECEIVES else ""
        raise UnsupportedOpError(f"{name}: gives a tensor another storage or size{how}")
    if func._schema.name == _WITHOUT_MEMORY:
        raise UnsupportedOpError(
            f"{name}: zeros without memory, as forward-mode differentiation makes them"
        )
    if func.namespace == "quantized" or func._schema.name.startswith(_QUANTIZING):
        raise UnsupportedOpError(f"{name}: quantized tensors cannot be told")
    if func.namespace in _OF_OTHERS:
        raise UnsupportedOpError(f"{name}: exchanges data with other processes")
    changes_view = torch.Tag.inplace_view in tags
    arguments = func._schema.arguments
    names = tuple(argument.name for argument in arguments)
    written = () if changes_view else [a.name for a in arguments if _is_write(a)]
    return OpFacts(
        name,
        func.namespace in SKIPPED_NAMESPACES,
        torch.Tag.nondeterministic_seeded in tags,
        torch.Tag.data_dependent_output in tags,
        changes_view,
        frozenset(written),
        names,
        mask_place(names),
    )


def is_received(func: Any, args: Sequence[Any]) -> bool:
    """Whether a call makes a tensor of what another process sent: an empty one gets a storage.

    Args:
        func: the operator.
        args: its positional arguments.
    """
    return func is _RECEIVES and not args[0].untyped_storage().nbytes()


def _is_write(argument: Any) -> bool:
    return argument.alias_info is not None and bool(argument.alias_info.is_write)


@attrs.frozen(eq=False)
class Arguments:
    """The tensors among the arguments of one call, in order of the schema."""

    tensors: tuple[Any, ...]
    views: tuple[View, ...]
    """Geometry before the call."""
    storages: tuple[int, ...]
    """[tensors] number of the distinct storage."""
    distinct: tuple[Any, ...]
    """[storages] one tensor of each."""
    written: tuple[int, ...]
    """Numbers of the storages that the call writes, in order."""


def arguments_of(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], storage_key: Any
) -> Arguments:
    """The tensor arguments of a call, and which of their storages it writes.

    Args:
        func: the operator.
        args: its positional arguments.
        kwargs: its keyword arguments.
        storage_key: gives what tells the storage of a tensor apart, such as `storage_id`.

    Raises:
        UnsupportedOpError: an argument is sparse or otherwise not a plain strided tensor.
    """
    facts = facts_of(func)
    named = dict(zip(facts.arguments, args, strict=False))
    named.update(kwargs)
    if facts.name in _BY_MASK and any(t.dtype in _MASKS for t in tensors_in(named["indices"])):
        raise UnsupportedOpError(
            f"{facts.name} with a mask: the size of its result depends on data"
        )
    writes = facts.written | undeclared_writes(facts.name, named)
    tensors: list[Any] = []
    distinct: list[Any] = []
    views, storages, written = [], [], []
    numbers: dict[Any, int] = {}
    for name in facts.arguments:
        if name not in named:
            continue
        for tensor in tensors_in(named[name]):
            key = storage_key(tensor)
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(distinct)
                distinct.append(tensor)
            tensors.append(tensor)
            views.append(view_of(tensor))
            storages.append(number)
            if name in writes and number not in written:
                written.append(number)
    check_classes(facts.name, tensors)
    return Arguments(tuple(tensors), tuple(views), tuple(storages), tuple(distinct), tuple(written))


def storage_id(tensor: Any) -> int:
    """What tells the storage of a tensor apart from others that are alive."""
    return int(tensor.untyped_storage()._cdata)


def plan_of(
    func: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    given: Arguments,
    result: Any,
    costs: Any,
) -> Plan:
    """Describe a call that was executed, on real or on fake tensors.

    Args:
        func: the operator.
        args: its positional arguments.
        kwargs: its keyword arguments.
        given: `arguments_of` the call, taken before it was executed.
        result: what it returned, `masked`.
        costs: has `cost_ns(func, args, kwargs, outputs, moved_bytes)`.

    Raises:
        UnsupportedOpError: a result is not a plain strided tensor.
    """
    facts = facts_of(func)
    _refuse_told_wrong(facts.name, given.tensors)
    numbers = {storage_id(tensor): number for number, tensor in enumerate(given.distinct)}
    outputs: list[tuple[int, View]] = []
    fresh_bytes: list[int] = []
    results = list(tensors_in(result, facts.name))
    check_classes(facts.name, results)
    for tensor in results:
        key = storage_id(tensor)
        if key not in numbers:
            numbers[key] = ~len(fresh_bytes)
            fresh_bytes.append(enlarged_bytes(facts.name, args, kwargs, tensor))
        outputs.append((numbers[key], view_of(tensor)))
    writes = tuple((n, given.distinct[n].untyped_storage().nbytes()) for n in given.written)
    computes = fresh_bytes or writes or facts.reads_value
    moved = _moved_bytes(given, results, outputs) if computes else 0
    cost_ns = costs.cost_ns(func, args, kwargs, results, moved) if computes else 0
    return Plan(
        facts.name, given.views, given.storages,
        outputs=tuple(outputs),
        fresh_bytes=tuple(fresh_bytes),
        writes=writes,
        random=facts.random,
        reads_value=facts.reads_value,
        cost_ns=cost_ns,
        mask=None if facts.mask is None else mask_of(facts.mask, args, kwargs),
    )  # fmt: skip


def _refuse_told_wrong(name: str, tensors: Sequence[Any]) -> None:
    if name in _TOLD_WRONG and any(type(tensor) is FakeTensor for tensor in tensors):
        raise UnsupportedOpError(f"{name}: {_TOLD_WRONG[name]}")


def _moved_bytes(
    given: Arguments, results: Sequence[Any], outputs: Sequence[tuple[int, View]]
) -> int:
    """Of all arguments, of results in fresh storages, and of what is written."""
    made = [tensor for tensor, (number, _) in zip(results, outputs, strict=True) if number < 0]
    places = zip(given.tensors, given.storages, strict=True)
    made += [tensor for tensor, number in places if number in given.written]
    return moved_bytes(given.tensors, made)


def tensors_in(value: Any, where: str = "") -> Iterator[Any]:
    """All tensors in an argument or a result, in order.

    Raises:
        UnsupportedOpError: one of them is not a plain strided tensor.
    """
    if isinstance(value, torch.Tensor):
        check_plain(value, where)
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors_in(part, where)


def check_plain(tensor: Any, where: str = "") -> None:
    """Refuse a tensor that is not one strided view of one storage of bytes.

    Raises:
        UnsupportedOpError: it is sparse, nested, quantized or on the device "meta".
    """
    what = f"{where}: " if where else ""
    if tensor.layout is not torch.strided:
        raise UnsupportedOpError(f"{what}a tensor of layout {tensor.layout} cannot be told")
    if tensor.dtype in _QUANTIZED or tensor.is_nested:
        raise UnsupportedOpError(f"{what}quantized and nested tensors cannot be told")
    if tensor.device.type == "meta":
        raise UnsupportedOpError(
            f'{what}a tensor on the device "meta" has no bytes: use real tensors'
        )


def check_classes(func: Any, tensors: Sequence[Any]) -> None:
    """Refuse tensors of a class that has operators do something else, such as `DTensor`.

    Raises:
        UnsupportedOpError: there is one.
    """
    for kind in {type(tensor) for tensor in tensors}:
        if kind in (FakeTensor, torch.Tensor, torch.nn.Parameter):
            continue
        if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
            raise UnsupportedOpError(
                f"{func}: what operators do on tensors of class {kind.__name__} cannot be told"
            )
