"""How instructions become a trace: names are resolved, references counted, outputs found.

`TraceBuilder` takes instructions in the order of a DTR log, from the reader or from a generator,
and refuses whatever no runtime could execute. Names stay bound after a RELEASE, as in simrd: a
released tensor may still be an argument, and must then be rematerialised.
"""

from __future__ import annotations

import reprlib
from array import array
from collections.abc import Sequence

from dtrdiag.errors import TraceError
from dtrdiag.trace.model import CONSTANT_NAME, Instruction, Step, Trace, column

MAX_BYTES = 1 << 50
"""Largest size of one tensor (1 PiB). With fewer than 2**13 such tensors sums stay in 64 bits."""
MAX_COST_NS = 1 << 50
"""Largest cost of one op (13 days)."""
MAX_TOTAL = 1 << 62
"""Largest sum of all sizes, and of all costs."""


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother, _SHORT.maxlong = 2, 60, 60, 40
_SHORT.maxlist = _SHORT.maxdict = 3
MAX_SHOWN = 120


def shown(value: object) -> str:
    """A value for a message: short whatever a log says, and however deeply it is nested."""
    text = _SHORT.repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."


def _ints() -> array[int]:
    return array("q")


class TraceBuilder:
    """Collects instructions; `build` gives the immutable trace.

    Args:
        name: short name of the trace.
        path: where the instructions come from, for messages.
    """

    def __init__(self, name: str, path: str = "<generated>") -> None:
        self.name = name
        self.path = path
        self.line = 0
        """1-based line being read; the caller keeps it up to date."""
        self._tensor_of: dict[str, int] = {}
        self._name_id: dict[str, int] = {}
        self._names_per_tensor: list[int] = []
        self._references: dict[int, int] = {}
        self._op_name: list[str] = []
        self._op_cost = _ints()
        self._input_start = array("q", [0])
        self._input_tensor = _ints()
        self._input_name = _ints()
        self._output_start = array("q", [0])
        self._mutate_start = array("q", [0])
        self._mutate_index = _ints()
        self._tensor_name: list[str] = []
        self._alias = _ints()
        self._size = _ints()
        self._memory = _ints()
        self._storage = _ints()
        self._steps = (_ints(), _ints(), _ints())
        self._instructions = (_ints(), _ints(), _ints())
        self._total_bytes = 0
        self._total_cost = 0

    def constant(self, name: str, memory_bytes: int) -> None:
        """A model input or parameter: CONSTANT and its MEMORY line."""
        self._refuse_known(name)
        op = self._op(CONSTANT_NAME, (), 0, (name,), (memory_bytes,), (-1,))
        self._instruction(Instruction.CONSTANT, op)
        self._step(Step.CONSTANT, op)
        self._bind(name, self._output_start[op])

    def call(
        self,
        results: Sequence[str],
        name: str,
        args: Sequence[str],
        cost_ns: int,
        memory_bytes: Sequence[int],
        aliases: Sequence[int],
    ) -> None:
        """An operator: CALL and a MEMORY and ALIAS line per result.

        Args:
            results: [outputs] new names.
            name: operator name.
            args: [inputs] names of the arguments.
            cost_ns: cost of one execution.
            memory_bytes: [outputs] sizes; not counted for aliases.
            aliases: [outputs] -1, or the index of the argument that the result aliases.
        """
        if name == CONSTANT_NAME and not args:
            raise self.error(
                f"a CALL without arguments must not be named {shown(name)}: use CONSTANT"
            )
        if not results:
            raise self.error(f"CALL {shown(name)} has no results")
        for position, result in enumerate(results):
            self._refuse_known(result)
            if result in results[:position]:
                raise self.error(f"CALL {shown(name)} names result {shown(result)} twice")
        op = self._op(name, args, cost_ns, results, memory_bytes, aliases)
        self._instruction(Instruction.CALL, op)
        self._step(Step.CALL, op)
        for offset, result in enumerate(results):
            self._bind(result, self._output_start[op] + offset)

    def mutate(self, name: str, args: Sequence[str], mutated: Sequence[int], cost_ns: int) -> None:
        """An in-place operator, modelled functionally: MUTATE.

        Args:
            name: operator name.
            args: [inputs] names of the arguments.
            mutated: indices into `args` of what is overwritten, at least one.
            cost_ns: cost of one execution.
        """
        if not mutated:
            raise self.error(f"MUTATE {shown(name)} mutates nothing")
        for index in mutated:
            if not 0 <= index < len(args):
                raise self.error(
                    f"MUTATE index {shown(index)} out of range: {shown(name)} has {len(args)} "
                    "arguments"
                )
        inputs = [self._lookup(arg) for arg in args]
        sizes = [self._size[self._storage[inputs[index]]] for index in mutated]
        results = [f"{self._tensor_name[inputs[index]]}$" for index in mutated]
        op = self._op(name, args, cost_ns, results, sizes, [-1] * len(mutated), mutated)
        self._instruction(Instruction.MUTATE, op)
        self._step(Step.CALL, op)
        for offset, index in enumerate(mutated):
            old = self._tensor_of[args[index]]
            self._bind(args[index], self._output_start[op] + offset)
            self._release(old, args[index])

    def copy(self, dst: str, src: str) -> None:
        """A new name for the same tensor: COPY."""
        tensor = self._lookup(src)
        self._refuse_known(dst)
        self._instruction(Instruction.COPY, self._name(dst), self._name(src))
        self._retain(tensor, src)
        self._tensor_of[dst] = tensor

    def copy_from(self, dst: str, src: str) -> None:
        """An old name for another tensor: COPY_FROM."""
        tensor, old = self._lookup(src), self._lookup(dst)
        self._instruction(Instruction.COPY_FROM, self._name(dst), self._name(src))
        self._tensor_of[dst] = tensor
        self._release(old, dst)
        self._retain(tensor, src)

    def release(self, name: str) -> None:
        """One name less for a tensor: RELEASE. Ignored where the name was never defined."""
        self._instruction(Instruction.RELEASE, self._name(name))
        tensor = self._tensor_of.get(name)
        if tensor is not None:
            self._release(tensor, name)

    def annotate(self, label: str) -> None:
        """A label without effect: ANNOTATE."""
        self._instruction(Instruction.ANNOTATE, self._name(label))

    def build(self, sha256: str, preamble: Sequence[str] = ()) -> Trace:
        """The finished trace, with the outputs of the step at the end of its schedule.

        Args:
            sha256: digest of the DTR log's uncompressed bytes.
            preamble: lines up to and including ANNOTATE START, without line ends.
        """
        if not self._op_name:
            raise self.error("the trace has no instruction that creates a tensor")
        self.line += 1
        for tensor in self._tensor_of.values():
            if self._names_per_tensor[tensor] > 0:
                self._step(Step.OUTPUT, tensor)
        kinds, operands, lines = self._steps
        instructions, instruction_operands, instruction_sources = self._instructions
        return Trace(
            name=self.name,
            path=self.path,
            sha256=sha256,
            op_name=tuple(self._op_name),
            op_cost_ns=column(self._op_cost),
            input_start=column(self._input_start),
            input_tensor=column(self._input_tensor),
            output_start=column(self._output_start),
            tensor_name=tuple(self._tensor_name),
            tensor_alias=column(self._alias),
            tensor_size_bytes=column(self._size),
            tensor_memory_bytes=column(self._memory),
            tensor_storage=column(self._storage),
            step_kind=column(kinds),
            step_operand=column(operands),
            step_line=column(lines),
            preamble=tuple(preamble),
            instruction_kind=column(instructions),
            instruction_operand=column(instruction_operands),
            instruction_source=column(instruction_sources),
            input_name=column(self._input_name),
            mutate_start=column(self._mutate_start),
            mutate_index=column(self._mutate_index),
            names=tuple(self._name_id),
        )

    def check_memory(self, memory_bytes: int) -> None:
        """Refuse a size that no tensor can have."""
        self._check_number("MEMORY", memory_bytes, MAX_BYTES)

    def check_alias(self, name: str, alias: int, arguments: int) -> None:
        """Refuse an alias of an argument that is not there."""
        if not -1 <= alias < arguments:
            raise self.error(
                f"ALIAS {shown(alias)} of {shown(name)} out of range: "
                f"the call has {arguments} arguments"
            )

    def error(self, what: str) -> TraceError:
        """A `TraceError` that points at the current line."""
        return TraceError(what, path=self.path, line=self.line or None)

    def _op(
        self,
        name: str,
        args: Sequence[str],
        cost_ns: int,
        results: Sequence[str],
        memory_bytes: Sequence[int],
        aliases: Sequence[int],
        mutated: Sequence[int] = (),
    ) -> int:
        self._check_number("TIME", cost_ns, MAX_COST_NS)
        inputs = [self._lookup(arg) for arg in args]
        self._op_name.append(name)
        self._op_cost.append(cost_ns)
        self._total_cost += cost_ns
        self._input_tensor.extend(inputs)
        self._input_name.extend([self._name(arg) for arg in args])
        self._input_start.append(len(self._input_tensor))
        self._mutate_index.extend(mutated)
        self._mutate_start.append(len(self._mutate_index))
        for result, memory, alias in zip(results, memory_bytes, aliases, strict=True):
            self._tensor(result, memory, alias, inputs)
        self._output_start.append(len(self._tensor_name))
        if self._total_bytes > MAX_TOTAL or self._total_cost > MAX_TOTAL:
            raise self.error("the sizes or the costs add up to more than 2**62")
        return len(self._op_name) - 1

    def _tensor(self, name: str, memory: int, alias: int, inputs: Sequence[int]) -> None:
        self.check_memory(memory)
        self.check_alias(name, alias, len(inputs))
        tensor = len(self._tensor_name)
        storage = tensor if alias < 0 else self._storage[inputs[alias]]
        size = memory if alias < 0 else 0
        self._tensor_name.append(name)
        self._memory.append(memory)
        self._alias.append(alias)
        self._size.append(size)
        self._storage.append(storage)
        self._names_per_tensor.append(1)
        self._references[storage] = self._references.get(storage, 0) + 1
        self._total_bytes += size

    def _bind(self, name: str, tensor: int) -> None:
        self._name(name)
        self._tensor_of[name] = tensor

    def _retain(self, tensor: int, name: str) -> None:
        storage = self._storage[tensor]
        if not self._references[storage]:
            raise self.error(f"{shown(name)} is copied after its last reference was released")
        self._references[storage] += 1
        self._names_per_tensor[tensor] += 1
        self._step(Step.RETAIN, tensor)

    def _release(self, tensor: int, name: str) -> None:
        storage = self._storage[tensor]
        if not self._references[storage]:
            raise self.error(f"{shown(name)} is released more often than it is referenced")
        self._references[storage] -= 1
        self._names_per_tensor[tensor] -= 1
        self._step(Step.RELEASE, tensor)

    def _lookup(self, name: str) -> int:
        try:
            return self._tensor_of[name]
        except KeyError:
            raise self.error(f"{shown(name)} is used but was never defined") from None

    def _refuse_known(self, name: str) -> None:
        if name in self._tensor_of:
            raise self.error(f"{shown(name)} is defined a second time")

    def _check_number(self, field: str, value: int, limit: int) -> None:
        if value < 0:
            raise self.error(f"{field} is negative: {shown(value)}")
        if value > limit:
            raise self.error(f"{field} is absurdly large: {shown(value)}, the limit is {limit}")

    def _name(self, name: str) -> int:
        return self._name_id.setdefault(name, len(self._name_id))

    def _step(self, kind: Step, operand: int) -> None:
        for part, value in zip(self._steps, (kind, operand, self.line), strict=True):
            part.append(value)

    def _instruction(self, kind: Instruction, operand: int, source: int = -1) -> None:
        for part, value in zip(self._instructions, (kind, operand, source), strict=True):
            part.append(value)
