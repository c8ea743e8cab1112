"""Where are the bytes of a live run, and how is an operator executed on them, again and again?

`World` owns the only real tensor of every storage. The simulator's core tells it what to execute
and what to evict. An operator that writes gets copies of what it writes to; one that draws gets the
state of its generator as it was at first; views are made on the storage when they are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import attrs
import torch

from dtrdiag.instrumentation.pytorch.describe import Place, Plan, tensors_in
from dtrdiag.instrumentation.pytorch.errors import SizeMismatchError, UnsupportedOpError
from dtrdiag.instrumentation.pytorch.geometry import View, same_place, view_of
from dtrdiag.instrumentation.pytorch.kernels import call_resolving
from dtrdiag.instrumentation.pytorch.masks import masked
from dtrdiag.instrumentation.pytorch.propagation import Slot, filled
from dtrdiag.instrumentation.pytorch.settings import (
    Settings,
    put_in_force,
    settings_in_force,
)
from dtrdiag.instrumentation.pytorch.wrapper import Values, looking_at, tensor_in
from dtrdiag.simulator import LiveRun


@attrs.define(eq=False)
class Work:
    """How an op is executed; shared by all its executions."""

    func: Any
    args: Sequence[Any]
    """Positional arguments, tensors replaced by slots."""
    kwargs: dict[str, Any]
    plan: Plan
    """What it does; the first execution may tell more of it than was known beforehand."""
    generator: Any = None
    """The generator that it draws from, if it draws."""
    state: Any = None
    """What its generator was at the first execution, if it draws."""
    places: Sequence[Place] = ()
    settings: Settings | None = None
    """What was in force at the first execution."""
    version_views: Sequence[Any] = ()
    """Root geometry of each storage that is written, in order of the plan's writes."""


@attrs.define
class Times:
    """Time spent in kernels, and how often they ran, copies included."""

    first_ns: int = 0
    again_ns: int = 0
    first: int = 0
    again: int = 0


class World:
    """The real side of a live run: a sink of instructions that drives the core, and its hooks.

    Attributes:
        run: the core, set by whoever makes both.
        values: the real tensors of each resident storage.
        times: time spent in kernels.
        value: what the last operator that reads a value returned.
    """

    replays_random_state = True
    copies_on_write = True
    drops_evicted = True

    def __init__(self) -> None:
        self.run: LiveRun
        self.values: dict[int, Values] = {}
        self.times = Times()
        self.value: Any = None
        self._work: dict[int, Work] = {}
        self._ops = 0
        self._given: Any = None
        self._settings: Settings = ()
        """What was in force at the last execution."""
        self._drawn: dict[int, tuple[Any, Any]] = {}
        """Generators that were drawn from, with their states before."""

    # --- what the encoder says ------------------------------------------------------------------

    def give(self, tensor: Any) -> None:
        """The next constant."""
        self._given = tensor

    def constant(self, size_bytes: int, label: str) -> int:
        """A storage that is there from the start."""
        self._ops += 1
        tensor = self.run.constant(size_bytes)
        given = self._given.detach()
        self.values[tensor] = {view_of(given): given}
        return tensor

    def call(
        self,
        name: str,
        inputs: Sequence[int],
        cost_ns: int,
        sizes_bytes: Sequence[int],
        aliases: Sequence[int],
        places: Sequence[Place],
        work: Work | None,
    ) -> Sequence[int]:
        """An operator: have the core execute it."""
        if work is not None:
            work.places = places
            self._work[self._ops] = work
        self._ops += 1
        return self.run.call(name, inputs, cost_ns, sizes_bytes, aliases)

    def release(self, tensor: int) -> None:
        """A name of a tensor goes."""
        self.run.release(tensor)

    # --- what the core says ---------------------------------------------------------------------

    def execute(self, op: int, defined: Sequence[int]) -> None:
        """Compute an op and keep the storages of `defined`."""
        work = self._work.get(op)
        if work is None:
            # An alias: whatever looks at a storage is made when it is asked for.
            return
        now = settings_in_force()
        if now == self._settings:
            now = self._settings  # one object for nearly all
        self._settings = now
        first = work.settings is None
        wanted = work.settings = work.settings or now
        started = perf_counter_ns()
        if wanted is now:
            self._execute(op, work, first, defined)
        else:
            put_in_force(wanted, now)
            try:
                self._execute(op, work, first, defined)
            finally:
                put_in_force(now, wanted)
        spent_ns = perf_counter_ns() - started
        if first:
            self.times.first_ns += spent_ns
            self.times.first += 1
        else:
            self.times.again_ns += spent_ns
            self.times.again += 1

    def evict(self, storage: int) -> None:
        """Give up the bytes of a storage."""
        if self.drops_evicted:
            del self.values[storage]

    def close(self) -> None:
        """Forget everything."""
        self.values.clear()
        self._work.clear()
        self._drawn.clear()
        self._given = self.value = None

    def restore_random_state(self) -> None:
        """Generators are as they were before the run drew from them."""
        for generator, state in self._drawn.values():
            generator.set_state(state)

    # --- executing ------------------------------------------------------------------------------

    def _execute(self, op: int, work: Work, first: bool, defined: Sequence[int]) -> None:
        plan = work.plan
        storage_of = self.run.storage_of
        copies: dict[int, Any] = {}
        values: Values = {}
        real: Any = None
        tensors = []
        written = plan.writes and [number for number, _ in plan.writes]
        inputs = self.run.inputs_of(op)
        for tensor, number, view in zip(inputs, plan.input_storages, plan.input_views, strict=True):
            values = self.values[storage_of(tensor)]
            if number not in written:
                real = values.get(view)
                tensors.append(tensor_in(values, view) if real is None else real)
                continue
            if number not in copies:
                whole = next(iter(values.values()))
                copies[number] = _copy(whole) if self.copies_on_write else whole
            copy = copies[number]
            tensors.append(looking_at(copy.untyped_storage(), view, copy.device))
        args = [
            tensors[value.position] if type(value) is Slot else filled(value, tensors)
            for value in work.args
        ]
        kwargs = work.kwargs
        if kwargs:
            kwargs = {name: filled(value, tensors) for name, value in kwargs.items()}
        try:
            if work.generator is not None:
                result = self._drawing(work, first, args, kwargs)
            elif plan.is_lazy:
                result = call_resolving(work.func, args, kwargs)
            else:
                result = work.func(*args, **kwargs)
        except BaseException:
            # The error keeps this frame, which is not to keep any bytes.
            del values, real, tensors, copies, args, kwargs
            raise
        if plan.mask is not None:
            result = masked(result, plan.mask)
        if plan.reads_value:
            self.value = result
        if not work.places:
            # The core has a token for it; there is nothing behind that.
            self.values[defined[0]] = {}
        self._keep(op, work, first, result, copies, defined)

    def _keep(
        self,
        op: int,
        work: Work,
        first: bool,
        result: Any,
        copies: dict[int, Any],
        defined: Sequence[int],
    ) -> None:
        results = (result,) if isinstance(result, torch.Tensor) else tuple(tensors_in(result))
        views = [view_of(tensor) for tensor in results]
        for (number, told), view in zip(work.plan.outputs, views, strict=True):
            # Strides that mean nothing are chosen in different ways.
            if view != told and same_place(view) != same_place(told):
                self._choose(work, first, number, told, view)
        plan = work.plan
        made: dict[int, Values] = {}
        for (number, view), tensor in zip(plan.outputs, results, strict=True):
            if number < 0:
                made.setdefault(~number, {})[view] = tensor
        outputs = self.run.outputs_of(op)
        versions = iter(work.version_views)
        for (kind, number, _), output in zip(work.places, outputs, strict=False):
            if kind == "fresh":
                values = self._fitting(plan, number, made[number])
            elif kind == "alias":
                continue
            else:
                copy = copies[number]
                view = next(versions)
                values = {view: looking_at(copy.untyped_storage(), view, copy.device)}
            if output in defined:
                self.values[output] = values

    def _choose(self, work: Work, first: bool, number: int, told: View, chosen: View) -> None:
        """A kernel has chosen another geometry for a result than its fake twin.

        That only strides differ is learned at its first execution; the core is not concerned.
        """
        plan = work.plan
        if not first or number >= 0 or told[:2] + told[3:] != chosen[:2] + chosen[3:]:
            raise SizeMismatchError(
                f"{plan.name}: its result has another geometry than was told beforehand: "
                f"{chosen} instead of {told}"
            )
        outputs = tuple((n, chosen if (n, v) == (number, told) else v) for n, v in plan.outputs)
        work.plan = attrs.evolve(plan, outputs=outputs)

    def _fitting(self, plan: Plan, number: int, values: Values) -> Values:
        """The result in a storage of the size that was accounted for.

        Some kernels leave a result at the beginning of a larger storage, their workspace; it is
        moved out of there at once.
        """
        nbytes, wanted = _nbytes(values), plan.fresh_bytes[number]
        if nbytes == wanted:
            return values
        if nbytes > wanted:
            values = {view: tensor.clone() for view, tensor in values.items()}
            nbytes = _nbytes(values)
        if nbytes != wanted or any(
            same_place(view_of(tensor)) != same_place(view) for view, tensor in values.items()
        ):
            raise SizeMismatchError(
                f"{plan.name}: made a storage of {nbytes} bytes, {wanted} were accounted for"
            )
        return values

    def _drawing(self, work: Work, first: bool, args: Any, kwargs: Any) -> Any:
        """Call a kernel that draws, from the same state each time."""
        source = work.generator
        now = None
        try:
            if first:
                work.state = source.get_state()
                self._drawn.setdefault(id(source), (source, work.state))
            elif self.replays_random_state:
                now = source.get_state()
                source.set_state(work.state)
            return work.func(*args, **kwargs)
        finally:
            del args, kwargs
            if now is not None:
                source.set_state(now)


def default_generator(device: Any) -> Any:
    """What operators on a device draw from, unless they are given a generator.

    Raises:
        UnsupportedOpError: nothing is known of such a device.
    """
    if device.type == "cpu":
        return torch.default_generator
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        return torch.cuda.default_generators[index]
    raise UnsupportedOpError(f"random numbers on a device of type {device.type} cannot be replayed")


def _nbytes(values: Values) -> int:
    return int(next(iter(values.values())).untyped_storage().nbytes())


def _copy(tensor: Any) -> Any:
    """A copy of a whole storage."""
    storage = tensor.untyped_storage()
    return looking_at(storage, _whole(storage.nbytes()), tensor.device).clone()


def _whole(nbytes: int) -> View:
    """The geometry of all bytes of a storage."""
    return (torch.uint8, (nbytes,), (1,), 0, False, False)


def write_back(old: Any, values: Values) -> None:
    """Overwrite a constant of the program by the last version of it."""
    new = next(iter(values.values())).untyped_storage()
    whole = _whole(new.nbytes())
    looking_at(old.untyped_storage(), whole, old.device).copy_(looking_at(new, whole, old.device))
