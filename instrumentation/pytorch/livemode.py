"""How does each operator of the program reach the core? Planned, encoded, executed, wrapped."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._mode_utils import no_dispatch

from dtrdiag.errors import DtrdiagError
from dtrdiag.instrumentation.pytorch.contexts import OwnMode, not_compiled, refuse_compiled
from dtrdiag.instrumentation.pytorch.costs import CostModel
from dtrdiag.instrumentation.pytorch.describe import OpFacts, check_plain, facts_of, storage_id
from dtrdiag.instrumentation.pytorch.encoding import Encoder, Held
from dtrdiag.instrumentation.pytorch.errors import LiveRunError, UnsupportedOpError
from dtrdiag.instrumentation.pytorch.geometry import View, view_of
from dtrdiag.instrumentation.pytorch.propagation import (
    LivePlan,
    Result,
    Seen,
    Slot,
    propagation_for,
)
from dtrdiag.instrumentation.pytorch.registering import gradient_of
from dtrdiag.instrumentation.pytorch.stops import stop_error
from dtrdiag.instrumentation.pytorch.world import Work, World, default_generator
from dtrdiag.instrumentation.pytorch.wrapper import Owner, RematTensor, check_memory, plainly
from dtrdiag.simulator import RunStoppedError


class _Unplanned(Exception):  # noqa: N818 - a way out, not an error
    """PyTorch refuses the arguments of a call."""


class LiveMode(OwnMode):
    """Sees every operator of the program and has it executed under the budget.

    Args:
        world: takes the instructions and executes.
        costs: what executions cost.

    Attributes:
        constants: plain tensors of the program by storage, with what is known of each.
        alive: owners of storages that the program still refers to, in order of their making.
        leaves: plain tensors that want gradients, with those from before.
        known: plain tensors of the program, each as it was when the run came to know it; see
            `ModelState`.
    """

    def __init__(self, world: World, costs: CostModel) -> None:
        super().__init__()
        self._world = world
        self._encoder = Encoder(world)
        told_by: Any = costs
        self._propagation = propagation_for(told_by)
        self._facts: dict[int, OpFacts] = {}
        self._inputs = 0
        self.over: str | None = None
        """Why no operator is taken any more."""
        self.failure: BaseException | None = None
        """What stopped the run."""
        self.constants: dict[int, tuple[Owner, Any]] = {}
        self.alive: dict[int, tuple[Held, weakref.ref[Owner]]] = {}
        self.leaves: dict[int, tuple[Any, Any]] = {}
        self.known: list[tuple[weakref.ref[Any], Any, bool]] = []
        self._seen: set[int] = set()
        """Identities of these."""

    def register(self, named: Sequence[tuple[str, Any]], parameters: Sequence[Any]) -> None:
        """Make constants of what there is before the step.

        Args:
            named: names and tensors, in the recorder's order.
            parameters: of the model and of the optimizer.
        """
        for name, tensor in named:
            plain = plainly(tensor)
            if storage_id(plain) not in self.constants:
                self._constant(plain, name)
            else:
                self._keep(plain)
        for parameter in parameters:
            if id(parameter) not in self._seen and parameter.layout is torch.strided:
                self._keep(parameter)
            self._leaf(parameter)

    def _leaf(self, tensor: Any) -> None:
        gradient = tensor.grad
        self.leaves[id(tensor)] = tensor, gradient
        kind = type(gradient)
        if kind is not type(None) and kind is not RematTensor and gradient.layout is torch.strided:
            self._keep(gradient)

    def _keep(self, tensor: Any) -> Any:
        kept = tensor.detach()
        self._seen.add(id(tensor))
        self.known.append((weakref.ref(tensor), kept, tensor.is_leaf))
        return kept

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if self.over is not None:
            if self.forked:
                return func(*args, **(kwargs or {}))
            raise LiveRunError(f"the live run is over: {self.over}")
        try:
            if self.is_compiling():
                return refuse_compiled(func, args, kwargs or {})
            # By identity: operators compute their hashes in Python.
            facts = self._facts.get(id(func))
            if facts is None:
                facts = self._facts[id(func)] = facts_of(func)
            if facts.skipped:
                return func(*args, **(kwargs or {}))
            if facts.changes_view:
                self._refuse_lasting(func, args[0])
            call, live, work = self._planned(func, facts, args, kwargs or {})
            result = self._executed(call, live, work)
            return _reshaped(func, args, kwargs or {}) if facts.changes_view else result
        except _Unplanned as error:
            # As in plain PyTorch, a call that is wrong does nothing, and the program may go on.
            raise error.__cause__ or error from None
        except RunStoppedError as error:
            stopped = stop_error(self._world.run, error)
            self._failed(stopped)
            raise stopped from None
        except BaseException as error:
            self._failed(error)
            raise

    def _planned(
        self, func: Any, facts: OpFacts, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[_Call, LivePlan, Work | None]:
        """What a call will do; the core knows nothing of it yet."""
        call = _Call(self, facts.arguments, args, kwargs)
        try:
            live = self._propagation.plan(func, call.slots, call.kwargs, call.seen, call.key)
        except DtrdiagError:
            raise
        except Exception as error:
            raise _Unplanned from error
        plan = live.plan
        if plan.is_view:
            return call, live, None
        written = [call.owners[number].held.root_view for number, _ in plan.writes]
        work = Work(func, call.slots, call.kwargs, plan, version_views=written)
        if plan.random:
            made = live.devices or [call.owners[number].device for number, _ in plan.writes]
            given = (*call.slots, *call.kwargs.values())
            generators = (value for value in given if isinstance(value, torch.Generator))
            work.generator = next(generators, None) or default_generator(made[0])
        return call, live, work

    def _executed(self, call: _Call, live: LivePlan, work: Work | None) -> Any:
        helds = [owner.held for owner in call.owners]
        fresh = self._encoder.apply(live.plan, helds, work)
        if work is not None:
            live.plan = work.plan  # for the calls to come, too
        if live.plan.reads_value:
            return self._world.value
        made = [self._owner(held, device) for held, device in zip(fresh, live.devices, strict=True)]
        return _filled(live.result, live.plan.outputs, call.owners, made, call.tensors)

    def _refuse_lasting(self, func: Any, tensor: Any) -> None:
        if type(tensor) is not RematTensor or tensor.owner.home is not self:
            raise UnsupportedOpError(
                f"{func}: changes the shape in place of a tensor from before the block"
            )

    def outputs(self) -> list[int]:
        """Drop the views of what the program refers to; the tensors that are left, in order.

        What was there before the step is among them, as it was.
        """
        helds = [owner.held for owner, _ in self.constants.values()]
        helds += [held for held, _ in self.alive.values()]
        for held in helds:
            self._encoder.keep_root_only(held)
        given = {held.given for held in helds if held.constant}
        return sorted(given.union(held.root for held in helds))

    def close(self, why: str) -> None:
        """Take no operator any more, and let nothing that dies from now on matter."""
        self.over = why
        for owner, tensor in self.constants.values():
            owner.settled = {view_of(tensor): tensor}
            owner.close(why)
        self.constants.clear()
        for _, reference in self.alive.values():
            kept = reference()
            if kept is not None:
                kept.close(why)

    def _owner(self, held: Held, device: Any) -> Owner:
        owner = Owner(held, device, self, self._dropped)
        self.alive[id(held)] = held, weakref.ref(owner)
        return owner

    def _dropped(self, held: Held) -> None:
        del self.alive[id(held)]
        if self.over is None:
            try:
                self._encoder.died(held)
            except BaseException as error:
                # Whatever dropped the tensor cannot be told: this is called out of a destructor.
                self._failed(error)

    def leave_behind(self) -> None:
        """In a forked process there is no live run."""
        super().leave_behind()
        self.over = "it goes on in another process"

    @not_compiled
    def _failed(self, error: BaseException) -> None:
        self.failure = error
        self.over = f"it stopped: {error!r}"

    def owner_of(self, tensor: Any) -> Owner:
        """The owner of a plain tensor's storage; a constant is made of one that is new."""
        check_plain(tensor)  # a sparse tensor has no storage to ask for
        known = self.constants.get(storage_id(tensor))
        if known is not None:
            if id(tensor) not in self._seen:
                _refuse_subclass(tensor)
                self._keep(tensor)
            return known[0]
        check_memory(tensor)
        _refuse_subclass(tensor)
        label = f"input{self._inputs}"
        self._inputs += 1
        owner = self._constant(tensor, label)
        gradient = gradient_of(tensor)
        if gradient is not None and type(gradient) is not RematTensor:
            self.owner_of(gradient)
        return owner

    def _constant(self, tensor: Any, label: str) -> Owner:
        self._world.give(tensor)
        nbytes = tensor.untyped_storage().nbytes()
        held = self._encoder.constant(nbytes, view_of(tensor), label)
        owner = Owner(held, tensor.device, self, None)
        self.constants[storage_id(tensor)] = owner, self._keep(tensor)
        return owner


def _refuse_subclass(tensor: Any) -> None:
    kind = type(tensor)
    if kind is torch.Tensor or kind.__torch_function__ is torch._C._disabled_torch_function_impl:
        return
    raise UnsupportedOpError(
        f"a tensor of class {kind.__name__}: what its functions do cannot be told; use "
        "as_subclass(torch.Tensor)"
    )


def _reshaped(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> RematTensor:
    """The first argument, which looks at its storage in another way from now on."""
    tensor: RematTensor = args[0]
    with no_dispatch():
        func(*args, **kwargs)
    tensor.view_key = view_of(tensor)
    return tensor


def _filled(
    value: Any,
    outputs: Sequence[tuple[int, View]],
    owners: list[Owner],
    made: list[Owner],
    tensors: list[Any],
) -> Any:
    """A result with its tensors. No closure: one that calls itself keeps them alive."""
    kind = type(value)
    if kind is Result:
        if value.argument is not None:
            return tensors[value.argument]
        number, view = outputs[value.output]
        return RematTensor(made[~number] if number < 0 else owners[number], view)
    if kind is tuple or kind is list:
        return kind([_filled(part, outputs, owners, made, tensors) for part in value])
    return value


class _Call:
    """The tensors among the arguments of one call, taken out in order of the schema."""

    __slots__ = ("_mode", "_numbers", "key", "kwargs", "owners", "seen", "slots", "tensors")

    def __init__(
        self, mode: LiveMode, names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        self._mode = mode
        self._numbers: dict[int, int] = {}
        self.tensors: list[Any] = []
        self.seen: list[Seen] = []
        self.owners: list[Owner] = []
        """By the number of the storage."""
        self.key: list[Any] = []
        """All that the plan of the call depends on, but for the operator."""
        self.slots: list[Any] = []
        """Positional arguments, slots in place of tensors."""
        for value in args:
            made = self._slot(value) if type(value) is RematTensor else self._slotted(value)
            self.slots.append(made)
        self.kwargs: dict[str, Any] = {}
        if kwargs:
            # In order of the schema, whatever the order of the call.
            for name in names:
                if name in kwargs:
                    self.key.append(name)
                    self.kwargs[name] = self._slotted(kwargs[name])

    def _slotted(self, value: Any) -> Any:
        kind = type(value)
        if kind in _SCALARS:
            # The kind too: 1, 1.0 and True are equal.
            self.key += (kind, value)
            return value
        if isinstance(value, torch.Tensor):
            return self._slot(value)
        if kind is list or kind is tuple:
            if {*map(type, value)} == _INTEGERS:
                self.key.append(tuple(value))
                return value
            self.key.append(len(value))
            return kind([self._slotted(part) for part in value])
        self.key += (kind, value)
        return value

    def _slot(self, tensor: Any) -> Slot:
        mode = self._mode
        if type(tensor) is RematTensor:
            owner, view = tensor.owner, tensor.view_key
            if owner.home is not mode:
                # Of a run that has ended: its value is a constant of this one.
                tensor = tensor.plain()
                owner = mode.owner_of(tensor)
        else:
            owner, view = mode.owner_of(tensor), view_of(tensor)
            if tensor.requires_grad and tensor.is_leaf and id(tensor) not in mode.leaves:
                mode._leaf(tensor)
        number = self._numbers.get(id(owner))
        if number is None:
            number = self._numbers[id(owner)] = len(self.owners)
            self.owners.append(owner)
        seen = (number, owner.held.nbytes, view, owner.device)
        self.seen.append(seen)
        self.key.append(seen)
        tensors = self.tensors
        position = len(tensors)
        tensors.append(tensor)
        return _SLOTS[position] if position < len(_SLOTS) else _more_slots(position)


_SCALARS = frozenset({int, float, bool, str, type(None), torch.dtype, torch.device})
_INTEGERS = {int}
_SLOTS: list[Slot] = []


def _more_slots(position: int) -> Slot:
    while position >= len(_SLOTS):
        _SLOTS.append(Slot(len(_SLOTS)))
    return _SLOTS[position]
