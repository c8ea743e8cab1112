"""How does a stream of described operators become instructions of a DTR log?

`Encoder` keeps, for every storage of the program, which tensor of the trace holds its content now
and under which geometries it is known. It speaks to a sink: the recorder's writes a log, a live
run's executes. So both see one and the same program, down to the order of releases.

Writes are functional: a written storage gets a *new version*, a fresh result of the operator that
wrote; the tensors of the old one are released. Views of the new version are derived from it when
they are used, by an alias without cost. A constant that is written keeps its old version, which is
pinned; with `writes = "sink"` it gets no new one, as if it had been overwritten in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import attrs
import torch

from dtrdiag.errors import UsageError
from dtrdiag.instrumentation.pytorch.describe import Place, Plan, Results
from dtrdiag.instrumentation.pytorch.geometry import View, same_place

WRITES = ("copy", "sink")
"""What a write to a constant is: a new version beside the old one, or nothing that takes memory."""
VIEW_NAME = "dtrdiag.view"
"""Operator name of an alias that the program did not dispatch itself."""

class Sink(Protocol):
    """What takes instructions. Tensors are numbered by whoever takes them."""

    def constant(self, size_bytes: int, label: str) -> int:
        """A storage that is there from the start; returns its tensor."""

    def call(
        self,
        name: str,
        inputs: Sequence[int],
        cost_ns: int,
        sizes_bytes: Sequence[int],
        aliases: Sequence[int],
        places: Sequence[Place],
        work: Any,
    ) -> Sequence[int]:
        """An operator; returns the tensors of its results.

        Args:
            name: operator name.
            inputs: tensors, in order of the arguments.
            cost_ns: cost of one execution.
            sizes_bytes: [results] sizes of fresh storages, 0 for an alias.
            aliases: [results] index of the argument that is aliased; -1 for fresh.
            places: [results] what each is; empty for an operator of no result.
            work: whatever came with the operator.
        """

    def release(self, tensor: int) -> None:
        """A name of a tensor goes."""


@attrs.define(eq=False, weakref_slot=True)
class Held:
    """What is known of one storage of the program.

    Attributes:
        root: tensor of the current version.
        root_view: geometry under which the root is known.
        names: tensors of the current version by `same_place` of geometries, the root among them.
        nbytes: size in bytes.
        constant: whether it was there before the step.
        versions: how often it was written.
        given: tensor of what was there before the step; -1: nothing was.
    """

    root: int
    root_view: View
    nbytes: int
    constant: bool
    names: dict[View, int] = attrs.field(factory=dict)
    versions: int = 0
    given: int = -1

    def begin(self, root: int) -> None:
        """A version begins, of which only the root is known."""
        self.root = root
        self.names = {same_place(self.root_view): root}


class Encoder:
    """Turns plans into instructions.

    Args:
        sink: takes the instructions.
        writes: one of `WRITES`.
    """

    def __init__(self, sink: Sink, writes: str = "copy") -> None:
        if writes not in WRITES:
            raise UsageError(f"writes must be one of {', '.join(WRITES)}, not {writes}")
        self._sink = sink
        self._in_place = writes == "sink"
        self._dead: list[Held] = []

    def constant(self, nbytes: int, view: View, label: str) -> Held:
        """A storage that was there before the step."""
        self.settle()
        held = Held(-1, view, nbytes, constant=True)
        held.given = self._sink.constant(nbytes, label)
        held.begin(held.given)
        return held

    def apply(self, plan: Plan, storages: Sequence[Held], work: Any = None) -> list[Held]:
        """An operator was, or is to be, executed.

        Args:
            plan: what it does.
            storages: the storages of its arguments, by the plan's numbers.
            work: handed on to the sink, which may put a plan into its `plan` that tells more.

        Returns:
            The storages that it makes, by the plan's numbers.
        """
        if self._dead:
            self.settle()
        inputs = []
        for position, number in enumerate(plan.input_storages):
            held = storages[number]
            tensor = held.names.get(plan.input_places[position])
            if tensor is None:
                tensor = self._alias(held, plan.input_views[position], plan.input_places[position])
            inputs.append(tensor)
        places, sizes, aliases = plan.fresh_results or self._results(plan, storages)
        if not places and plan.is_view:
            return []
        tensors = self._sink.call(
            plan.name, inputs, plan.cost_ns, sizes or [0], aliases or [-1], places, work
        )
        if work is not None and work.plan is not plan:
            plan = work.plan
            places, _, _ = plan.fresh_results or self._results(plan, storages)
        if not places:
            # Its only trace is that it ran: a token without a size stands for that.
            self._sink.release(tensors[0])
            return []
        return self._bind(plan, storages, places, tensors)

    def died(self, held: Held) -> None:
        """The program dropped its last tensor on a storage."""
        if torch._C._is_any_autocast_enabled():
            # Autocast drops the casts that it kept in an order that depends on addresses.
            self._dead.append(held)
            return
        if self._dead:
            self.settle()
        self._release(held)

    def settle(self) -> None:
        """Release what died under autocast since the last operator, in the order of its making."""
        dead, self._dead = sorted(self._dead, key=lambda held: held.root), []
        for held in dead:
            self._release(held)

    def _release(self, held: Held) -> None:
        # What was there before the step stays: it is wanted until the step is known to succeed, and
        # whatever was computed from it may have to be computed again.
        for tensor in held.names.values():
            if tensor != held.given:
                self._sink.release(tensor)

    def keep_root_only(self, held: Held) -> None:
        """Release the views of a storage that lives on after the step."""
        self.settle()
        for tensor in held.names.values():
            if tensor != held.root:
                self._sink.release(tensor)
        held.begin(held.root)

    def _results(self, plan: Plan, storages: Sequence[Held]) -> Results:
        places: list[Place] = []
        sizes: list[int] = []
        aliases: list[int] = []
        written = {number for number, _ in plan.writes}
        begun, aliased = set(), set()
        for number, view in plan.outputs:
            if number < 0:
                if number in begun:
                    continue
                begun.add(number)
                places.append(("fresh", ~number, view))
                sizes.append(plan.fresh_bytes[~number])
                aliases.append(-1)
            elif number not in written:
                place = same_place(view)
                if place in storages[number].names or (number, place) in aliased:
                    continue
                aliased.add((number, place))
                places.append(("alias", number, view))
                sizes.append(0)
                aliases.append(plan.input_storages.index(number))
        for number, nbytes in plan.writes:
            if not (self._in_place and storages[number].constant):
                places.append(("version", number, None))
                sizes.append(nbytes)
                aliases.append(-1)
        return places, sizes, aliases

    def _bind(
        self, plan: Plan, storages: Sequence[Held], places: Sequence[Place], tensors: Sequence[int]
    ) -> list[Held]:
        fresh = []
        for (kind, number, view), tensor in zip(places, tensors, strict=True):
            if view is None:
                held = storages[number]
                self._release(held)
                held.begin(tensor)
                held.versions += 1
                held.nbytes = dict(plan.writes)[number]
            elif kind == "fresh":
                names = {plan.fresh_places[number]: tensor}
                fresh.append(Held(tensor, view, plan.fresh_bytes[number], False, names))
            else:
                storages[number].names[same_place(view)] = tensor
        return fresh

    def _alias(self, held: Held, view: View, place: View) -> int:
        """The tensor that stands for a geometry of a storage from now on."""
        results: list[Place] = [("alias", 0, view)]
        tensor = self._sink.call(VIEW_NAME, [held.root], 0, [0], [0], results, None)[0]
        held.names[place] = tensor
        return tensor
