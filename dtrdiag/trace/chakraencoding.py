"""How do the operators of an execution trace become the instructions of a trace?

First the storages are told apart (`Storages`): the number of one that is gone is given to another,
so an operator that hands back a storage which is none of its arguments' has made it. Then operators
become calls (`encode`), views aliases, and writes new versions of what they write; each name is
released after its last use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from dtrdiag.trace.builder import TraceBuilder
from dtrdiag.trace.chakranodes import Node, TensorRef


@attrs.define(slots=True, eq=False)
class Storage:
    """One storage, from when it is made.

    Attributes:
        name: of its first tensor.
        size_bytes: how far the tensors that were seen reach into it.
        constant: nothing was seen to make it.
        gone: another has been given its number.
        itemsizes: of the tensors that operators have handed back of it.
    """

    name: str
    size_bytes: int = 0
    itemsizes: set[int] = attrs.field(factory=set)
    constant: bool = False
    gone: bool = False

    def can_hold(self, ref: TensorRef) -> bool:
        """Whether a tensor can be of it, and not of another that was given its number unseen."""
        known = ref.itemsize in self.itemsizes or not self.itemsizes
        return known and (self.constant or ref.reach_bytes <= self.size_bytes)

    def has(self, ref: TensorRef) -> None:
        """A tensor is of it."""
        self.size_bytes = max(self.size_bytes, ref.reach_bytes)
        self.itemsizes.add(ref.itemsize)


@attrs.frozen(slots=True, eq=False)
class Operator:
    """One operator with the storages of its arguments and results, in their order."""

    node: Node
    keeps_gradient: bool
    inputs: tuple[tuple[TensorRef, Storage], ...]
    outputs: tuple[tuple[TensorRef, Storage], ...]
    made: tuple[Storage, ...]
    written: tuple[Storage, ...]

    @property
    def does_nothing(self) -> bool:
        """Whether it hands back what it was given, as `to` does where nothing is to be done."""
        given = {(ref.tensor, storage) for ref, storage in self.inputs}
        return not (self.made or self.written) and all(
            (ref.tensor, storage) in given for ref, storage in self.outputs
        )


@attrs.define(slots=True)
class Counts:
    """What was met on the way, for whoever has to know what a trace is worth."""

    operators: int = 0
    views: int = 0
    in_place: int = 0
    constant_writes: int = 0
    kept: int = 0


def tell_apart(taken: Iterable[tuple[Node, bool]]) -> tuple[list[Operator], list[Storage]]:
    """The operators that do something, and the constants in the order of their first use."""
    current: dict[int, Storage] = {}
    generations: dict[int, int] = {}
    operators, constants = [], []

    def begin(number: int) -> Storage:
        if number in current:
            current[number].gone = True
        generation = generations[number] = generations.get(number, 0) + 1
        name = f"s{number}" if generation == 1 else f"s{number}.{generation}"
        current[number] = Storage(name)
        return current[number]

    for node, keeps in taken:
        made: dict[int, Storage] = {}
        for ref in node.inputs:
            if ref.storage in node.made_by_out and ref.storage not in current:
                made[ref.storage] = begin(ref.storage)
            elif ref.storage not in current or not current[ref.storage].can_hold(ref):
                constants.append(begin(ref.storage))
                constants[-1].constant = True
            if current[ref.storage].constant:
                current[ref.storage].has(ref)
        inputs = tuple((ref, current[ref.storage]) for ref in node.inputs)
        for number in dict.fromkeys(ref.storage for ref in node.outputs):
            if number in node.fresh:
                made[number] = begin(number)
        outputs = tuple((ref, current[ref.storage]) for ref in node.outputs)
        for ref, storage in outputs:
            storage.has(ref)
        written = dict.fromkeys(s for ref, s in inputs if ref.storage in node.written)
        for storage in made.values():
            written.pop(storage, None)
        inputs = tuple(pair for pair in inputs if pair[1] not in made.values())
        operator = Operator(node, keeps, inputs, outputs, tuple(made.values()), tuple(written))
        if not operator.does_nothing:
            operators.append(operator)
    return operators, constants


@attrs.define(slots=True)
class _Line:
    """One instruction to be, and the names that it mentions."""

    operator: Operator
    args: list[str]
    results: list[str] = attrs.field(factory=list)
    sizes: list[int] = attrs.field(factory=list)
    aliases: list[int] = attrs.field(factory=list)
    mutated: list[int] = attrs.field(factory=list)
    moved: list[tuple[str, str]] = attrs.field(factory=list)
    """Old names that go over to new versions among the results."""

    def add(self, name: str, size_bytes: int, alias: int = -1) -> None:
        self.results.append(name)
        self.sizes.append(size_bytes)
        self.aliases.append(alias)


class Encoder:
    """Turns operators into instructions.

    Args:
        operators: from `tell_apart`.
        constants: the same.
        costs_ns: of each operator, by the id of its node.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        constants: Sequence[Storage],
        costs_ns: Mapping[int, int],
    ) -> None:
        self.counts = Counts()
        self._constants = constants
        self._costs_ns = costs_ns
        self._views: dict[Storage, dict[int, str]] = {}
        self._numbered = 0
        self._gradients: set[str] = set()
        self._last: dict[str, int] = {}
        # Names that the last operator which mentions a storage has handed back.
        self._final: dict[Storage, list[str]] = {}
        self._lines: list[_Line] = []
        for operator in operators:
            self._lines.append(self._line(operator))

    def encode(self, builder: TraceBuilder) -> None:
        """Give the instructions to a builder."""
        for storage in self._constants:
            builder.constant(storage.name, storage.size_bytes)
        kept = self._kept()
        self.counts.kept = len(kept)
        for at, line in enumerate(self._lines):
            cost_ns = self._costs_ns[line.operator.node.id]
            name = line.operator.node.name
            if line.mutated:
                builder.mutate(name, line.args, line.mutated, cost_ns)
            else:
                builder.call(line.results, name, line.args, cost_ns, line.sizes, line.aliases)
            for old, new in line.moved:
                builder.copy_from(old, new)
                builder.release(new)
            gone = kept | {new for _, new in line.moved}
            for each in dict.fromkeys((*line.args, *line.results)):
                if self._last[each] == at and each not in gone:
                    builder.release(each)

    def _kept(self) -> set[str]:
        """Names that are never released: of constants, gradients, and what is handed back last."""
        kept = self._gradients | {storage.name for storage in self._constants}
        for storage, names in self._final.items():
            if not storage.gone:
                kept.update(names)
        return kept

    def _line(self, operator: Operator) -> _Line:
        self.counts.operators += 1
        writes = [storage for storage in operator.written if not storage.constant]
        self.counts.constant_writes += len(operator.written) - len(writes)
        self.counts.in_place += len(writes)
        args = [self._name(ref, storage, storage in writes) for ref, storage in operator.inputs]
        line = _Line(operator, args)
        for storage in dict.fromkeys(storage for _, storage in operator.inputs):
            self._final[storage] = []
        self._add_results(line, writes)
        for storage in writes:
            # A new version: views of the old one are views of it no more.
            self._views[storage] = {}
            if line.results:
                name = self._new_name(f"{storage.name}w")
                line.add(name, storage.size_bytes)
                line.moved.append((storage.name, name))
            self._final[storage] = [storage.name]
        if operator.keeps_gradient:
            self._gradients.update(line.results)
        if writes and not line.moved:
            line.mutated = [args.index(storage.name) for storage in writes]
        elif not line.results:
            line.add(self._new_name("token"), 0)
        for name in (*args, *line.results):
            self._last[name] = len(self._lines)
        return line

    def _add_results(self, line: _Line, writes: Sequence[Storage]) -> None:
        """What an operator hands back: storages that it has made, and views."""
        operator = line.operator
        fresh = dict.fromkeys(operator.made)
        given = [storage for _, storage in operator.inputs]
        tensors = {(ref.tensor, storage) for ref, storage in operator.inputs}
        for ref, storage in operator.outputs:
            if storage in fresh:
                del fresh[storage]
                self._views[storage] = {ref.tensor: storage.name}
                self._make(line, storage)
            elif (
                storage in given and storage not in writes and (ref.tensor, storage) not in tensors
            ):
                name = self._new_name(f"{storage.name}v")
                line.add(name, ref.reach_bytes, given.index(storage))
                self._views.setdefault(storage, {})[ref.tensor] = name
                self._final[storage].append(name)
                self.counts.views += 1
        for storage in fresh:  # the destination of an `out=` that is not handed back
            self._make(line, storage)

    def _make(self, line: _Line, storage: Storage) -> None:
        line.add(storage.name, storage.size_bytes)
        self._final[storage] = [storage.name]

    def _name(self, ref: TensorRef, storage: Storage, whole: bool) -> str:
        return storage.name if whole else self._views.get(storage, {}).get(ref.tensor, storage.name)

    def _new_name(self, stem: str) -> str:
        self._numbered += 1
        return f"{stem}{self._numbered}"
