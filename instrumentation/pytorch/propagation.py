"""What will an operator make, before its kernel runs? Told by fake twins of its arguments, once.

Operators with equal arguments, tensors compared by geometry, size and which of them share a
storage, have equal plans; a training step repeats itself, so most plans are there already.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from operator import ne
from typing import Any

import attrs
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
)

from dtrdiag.instrumentation.pytorch.costs import CostModel, Roofline
from dtrdiag.instrumentation.pytorch.describe import (
    Arguments,
    Plan,
    arguments_of,
    facts_of,
    plan_of,
    storage_id,
)
from dtrdiag.instrumentation.pytorch.errors import UnsupportedOpError
from dtrdiag.instrumentation.pytorch.geometry import View, view_of
from dtrdiag.instrumentation.pytorch.masks import mask_of, masked
from dtrdiag.instrumentation.pytorch.wrapper import looking_at

Seen = tuple[int, int, View, Any]
"""A tensor argument: number of its storage, bytes of that, geometry, device."""


_FAKE_LOG = logging.getLogger("torch._subclasses.fake_tensor")

_NO_FAKE = "There was no fake impl registered"
"""What PyTorch says of an operator of one's own without one; it has no class for that error."""

RESHAPING = frozenset(
    f"aten.{name}"
    for name in (
        "squeeze_.default", "squeeze_.dim", "squeeze_.dims", "swapaxes_.default",
        "swapdims_.default", "t_.default", "transpose_.default", "unsqueeze_.default",
    )
)  # fmt: skip
"""Operators that change how a tensor looks at its storage, and stay within what it saw of it."""
_UNTOLD = {
    "aten.mkldnn_rnn_layer.default": "the size of its workspace cannot be told before it runs; "
    "run it without mkldnn, under torch.backends.mkldnn.flags(enabled=False)",
}
"""Operators whose fake kernels are wrong about what the real ones make, with what to do."""


def _batch_norm(args: Any, result: Any) -> Any:
    """Statistics have the type of the parameters, also where the input is of lower precision."""
    like = next((each for each in args[1:5] if each is not None), args[0])
    out, *statistics = result
    if args[0].device.type == "cpu":
        statistics = [each.to(like.dtype) for each in statistics]
    return (out, *statistics)


_CORRECTED = {"aten.native_batch_norm.default": _batch_norm}
"""Corrections of what fake kernels say."""


@attrs.define(eq=False)
class LivePlan:
    """What an operator will do, and what its call is to return."""

    plan: Plan
    """Put right by an execution, where kernels choose other strides than fake ones."""
    result: Any
    """The structure of the result, each tensor replaced by a `Result`."""
    devices: tuple[Any, ...]
    """[fresh storages] where they will be."""


@attrs.frozen
class Result:
    """A tensor in the result of a call."""

    output: int
    """Index into the plan's outputs."""
    argument: int | None
    """The tensor argument that is returned itself, as operators in place do."""


@attrs.frozen(eq=False)
class Slot:
    """The place of a tensor argument; there is one object for each position."""

    position: int


class Propagation:
    """Gives plans; keeps those that it made.

    Args:
        costs: what executions cost.
    """

    def __init__(self, costs: CostModel) -> None:
        self._costs = costs
        self._fake_mode = FakeTensorMode(allow_non_fake_inputs=False)
        self._plans: dict[Any, LivePlan] = {}
        self._funcs: dict[int, Any] = {}

    def plan(
        self,
        func: Any,
        args: Any,
        kwargs: Mapping[str, Any],
        seen: Sequence[Seen],
        key: Sequence[Any],
    ) -> LivePlan:
        """The plan of a call.

        Args:
            func: the operator.
            args: positional arguments, tensors replaced by slots.
            kwargs: keyword arguments, likewise.
            seen: [tensors] what each slot holds.
            key: all that the plan depends on, but for the operator.

        Raises:
            UnsupportedOpError: what it does cannot be told before it runs.
        """
        full = (id(func), torch.get_default_dtype(), *key)
        try:
            known = self._plans.get(full)
        except TypeError:
            return self._make(func, args, kwargs, seen)
        if known is None:
            known = self._plans[full] = self._make(func, args, kwargs, seen)
            # Who has an id is to keep it.
            self._funcs[id(func)] = func
        return known

    def _make(
        self, func: Any, args: Any, kwargs: Mapping[str, Any], seen: Sequence[Seen]
    ) -> LivePlan:
        facts = facts_of(func)
        if facts.changes_view and facts.name not in RESHAPING:
            raise UnsupportedOpError(f"{func}: changes the shape of a tensor in place")
        twins = self._twins(seen)
        args = filled(args, twins)
        kwargs = {name: filled(value, twins) for name, value in kwargs.items()}
        given = arguments_of(func, args, kwargs, storage_id)
        if facts.name in _UNTOLD:
            raise UnsupportedOpError(f"{facts.name}: {_UNTOLD[facts.name]}")
        result = None if facts.reads_value else self._run(facts.name, func, args, kwargs)
        if facts.mask is not None:
            result = masked(result, mask_of(facts.mask, args, kwargs))
        if not facts.changes_view and any(map(ne, map(view_of, given.tensors), given.views)):
            raise UnsupportedOpError(f"{func}: changes the shape of what it writes to")
        plan = plan_of(func, args, kwargs, given, result, self._costs)
        for number, nbytes in plan.writes:
            if nbytes != next(s[1] for s in seen if s[0] == number) and seen:
                raise UnsupportedOpError(f"{func}: resizes what it writes to")
        return LivePlan(plan, *_structure(plan, given, result))

    def _run(self, name: str, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        # It logs what it raises; but a program may try out what PyTorch refuses.
        was_disabled, _FAKE_LOG.disabled = _FAKE_LOG.disabled, True
        try:
            with self._fake_mode:
                result = func(*args, **kwargs)
                return _CORRECTED[name](args, result) if name in _CORRECTED else result
        except (UnsupportedOperatorException, NotImplementedError) as error:
            what = f"{func}: what it makes cannot be told before it runs: {error}"
            raise UnsupportedOpError(what) from None
        except (DynamicOutputShapeException, DataDependentOutputException):
            raise UnsupportedOpError(f"{func}: the sizes of its results depend on data") from None
        except RuntimeError as error:
            if _NO_FAKE not in str(error):
                raise
            what = f"{func}: has no kernel for fake tensors (torch.library.register_fake)"
            raise UnsupportedOpError(what) from None
        finally:
            _FAKE_LOG.disabled = was_disabled

    def _twins(self, seen: Sequence[Seen]) -> list[Any]:
        storages: dict[int, Any] = {}
        twins = []
        for number, nbytes, view, device in seen:
            if number not in storages:
                bytes_ = torch.empty(nbytes, dtype=torch.uint8, device="meta")
                storages[number] = bytes_.untyped_storage()
            meta = looking_at(storages[number], view, "meta")
            twins.append(FakeTensor(self._fake_mode, meta, device))
        return twins


@cache
def default_costs() -> CostModel:
    """The roofline that serves where no costs are given; one object, so that plans are shared."""
    return Roofline()


@lru_cache(maxsize=8)
def propagation_for(costs: Any) -> Propagation:
    """The plans made under a cost model: a second step of the same program finds them there."""
    return Propagation(costs)


def filled(value: Any, tensors: Sequence[Any]) -> Any:
    """An argument with its slots filled."""
    kind = type(value)
    if kind is Slot:
        return tensors[value.position]
    if kind is list or kind is tuple:
        return kind([filled(part, tensors) for part in value])
    return value


def _structure(plan: Plan, given: Arguments, result: Any) -> tuple[Any, tuple[Any, ...]]:
    outputs = iter(enumerate(plan.outputs))
    devices: list[Any] = []
    return _templated(result, outputs, plan, given, devices), tuple(devices)


def _templated(
    value: Any,
    outputs: Iterator[tuple[int, tuple[int, View]]],
    plan: Plan,
    given: Arguments,
    devices: list[Any],
) -> Any:
    if isinstance(value, torch.Tensor):
        index, (number, view) = next(outputs)
        if number < 0 and ~number == len(devices):
            devices.append(value.device)
        if all(number != written for written, _ in plan.writes):
            return Result(index, None)
        places = zip(given.storages, given.views, strict=True)
        same = (i for i, place in enumerate(places) if place == (number, view))
        return Result(index, next(same, None))
    if isinstance(value, (list, tuple)):
        parts = [_templated(part, outputs, plan, given, devices) for part in value]
        return parts if isinstance(value, list) else tuple(parts)
    return value
