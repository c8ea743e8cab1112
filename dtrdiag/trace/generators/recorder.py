"""How a generator writes down a network: operators over shapes, and when each name is dropped.

A generator calls operators in program order and marks what remains (the loss, the weight
gradients). Liveness is then computed, not written by hand: every other name is released right
after the last instruction that uses it, in the order in which the names were made. This is what a
model does that drops its variables, and autograd its saved tensors, as soon as it can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from dtrdiag.trace.builder import TraceBuilder
from dtrdiag.trace.dtrlog import parse_dtr_log, write_dtr_log
from dtrdiag.trace.generators.roofline import VIEW_NS, Shape, elements, kernel_ns, size_bytes
from dtrdiag.trace.model import Trace

BACKWARD = "BACKWARD"
"""Label between the forward and the backward pass; it has no effect."""
FRESH = -1
"""Alias index of a result with a storage of its own."""


@attrs.frozen(slots=True)
class Value:
    """A tensor of the network under its name."""

    name: str
    shape: Shape

    @property
    def size_bytes(self) -> int:
        """Bytes of the tensor, shared with its base if it is a view."""
        return size_bytes(self.shape)


@attrs.frozen(slots=True)
class _Instruction:
    apply: Callable[[TraceBuilder], None]
    names: tuple[str, ...]
    """Names made or used."""


class Recorder:
    """Collects the instructions of one training step; `finish` gives the trace."""

    def __init__(self) -> None:
        self._constants: list[_Instruction] = []
        self._instructions: list[_Instruction] = []
        self._kept: set[str] = set()
        self._made: dict[str, int] = {}
        self._gradients: dict[str, Value] = {}

    def constant(self, name: str, shape: Shape) -> Value:
        """A network input or a weight: it is there before the first operator, to the end."""
        value = self._make(name, shape)
        self._kept.add(name)
        size = value.size_bytes
        self._constants.append(_Instruction(lambda builder: builder.constant(name, size), (name,)))
        return value

    def call(
        self,
        op: str,
        args: Sequence[Value],
        results: Sequence[tuple[str, Shape]],
        *,
        flops: int,
        aliases: Sequence[int] | None = None,
        moved_bytes: int | None = None,
    ) -> list[Value]:
        """An operator with one or more results.

        Args:
            op: operator name.
            args: [inputs] arguments.
            results: [outputs] names and shapes.
            flops: floating-point operations.
            aliases: [outputs] `FRESH`, or the index of the argument that the result is a view of;
                by default all are fresh. An operator that makes views alone costs `VIEW_NS`.
            moved_bytes: memory traffic; by default every argument and every fresh result once.
        """
        values = [self._make(name, shape) for name, shape in results]
        views = [FRESH] * len(values) if aliases is None else list(aliases)
        if moved_bytes is None:
            fresh = (v for v, alias in zip(values, views, strict=True) if alias == FRESH)
            moved_bytes = _bytes(args) + _bytes(list(fresh))
        cost = VIEW_NS if FRESH not in views else kernel_ns(flops, moved_bytes)
        names = [value.name for value in values]
        arguments = [value.name for value in args]
        sizes = [value.size_bytes for value in values]
        self._add(
            lambda builder: builder.call(names, op, arguments, cost, sizes, views),
            [*args, *values],
        )
        return values

    def op(
        self, op: str, args: Sequence[Value], name: str, shape: Shape, *, flops: int | None = None
    ) -> Value:
        """An operator with one fresh result; by default one operation per element of it."""
        work = elements(shape) if flops is None else flops
        return self.call(op, args, [(name, shape)], flops=work)[0]

    def view(self, op: str, base: Value, name: str, shape: Shape) -> Value:
        """A view of a tensor: no bytes of its own."""
        return self.call(op, [base], [(name, shape)], flops=0, aliases=[0])[0]

    def mutate(self, op: str, target: Value, *others: Value) -> Value:
        """An in-place operator, one operation per element; the name stays."""
        args = [target, *others]
        cost = kernel_ns(elements(target.shape), _bytes(args) + target.size_bytes)
        names = [value.name for value in args]
        self._add(lambda builder: builder.mutate(op, names, [0], cost), args)
        return target

    def accumulate(self, weight: Value, contribution: Value) -> None:
        """Add to the gradient of a weight: the first contribution is it, later ones are added.

        The addition is in place (`add_`). The gradient remains at the end of the step.
        """
        gradient = self._gradients.get(weight.name)
        if gradient is None:
            self._gradients[weight.name] = contribution
            self.keep(contribution)
        else:
            self.mutate("add_", gradient, contribution)

    def keep(self, value: Value) -> None:
        """The step's caller wants this tensor: it is never released."""
        self._kept.add(value.name)

    def backward(self) -> None:
        """The backward pass begins here."""
        self._add(lambda builder: builder.annotate(BACKWARD), [])

    def finish(self, name: str, path: str) -> Trace:
        """The trace, read back from its DTR log, whose digest it carries."""
        builder = TraceBuilder(name, path)
        for constant in self._constants:
            constant.apply(builder)
        releases = self._releases()
        for position, instruction in enumerate(self._instructions):
            instruction.apply(builder)
            for dropped in releases.get(position, ()):
                builder.release(dropped)
        return parse_dtr_log(write_dtr_log(builder.build("")), name=name, path=path)

    def _releases(self) -> dict[int, list[str]]:
        last: dict[str, int] = {}
        for position, instruction in enumerate(self._instructions):
            last.update(dict.fromkeys(instruction.names, position))
        releases: dict[int, list[str]] = {}
        for name in sorted(last.keys() - self._kept, key=self._made.__getitem__):
            releases.setdefault(last[name], []).append(name)
        return releases

    def _make(self, name: str, shape: Shape) -> Value:
        self._made.setdefault(name, len(self._made))
        return Value(name, shape)

    def _add(self, apply: Callable[[TraceBuilder], None], values: Sequence[Value]) -> None:
        self._instructions.append(_Instruction(apply, tuple(value.name for value in values)))


def _bytes(values: Sequence[Value]) -> int:
    return sum(value.size_bytes for value in values)
