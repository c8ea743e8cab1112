"""What a trace is: the operators of one training step, and the schedule that calls them.

A trace is immutable and columnar: plain numpy arrays and tuples of strings, so that it loads fast
and is cheap to send to another process. Two views of the same run are kept together. The
*instructions* are the lines of the DTR log one for one, enough to write the log back byte for
byte. The *schedule* is what a runtime executes: a MUTATE, for example, is one instruction but a
call and a release for every mutated argument.
"""

from __future__ import annotations

import enum
from functools import cached_property
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

CONSTANT_NAME = "constant"
"""Operator name of model inputs and parameters."""


class Instruction(enum.IntEnum):
    """Kinds of lines in a DTR log (MEMORY and ALIAS lines belong to the call before them)."""

    CONSTANT = 0
    CALL = 1
    MUTATE = 2
    COPY = 3
    COPY_FROM = 4
    RELEASE = 5
    ANNOTATE = 6


class Step(enum.IntEnum):
    """Kinds of steps in a schedule."""

    CALL = 0
    """Execute an op for the first time; the operand is an op id."""
    CONSTANT = 1
    """The same for a zero-cost op without inputs, whose storage is pinned at once."""
    RETAIN = 2
    """One external reference more; the operand is a tensor id."""
    RELEASE = 3
    """One external reference less; the operand is a tensor id."""
    OUTPUT = 4
    """The tensor is wanted at the end: rematerialise it if undefined, then pin it."""


def column(values: npt.ArrayLike) -> Ints:
    """A read-only column of integers."""
    array = np.array(values, dtype=np.int64)
    array.flags.writeable = False
    return array


def _array_field() -> Any:
    return attrs.field(eq=attrs.cmp_using(eq=np.array_equal), repr=False)


def _tuple_field() -> Any:
    return attrs.field(repr=False)


@attrs.frozen(slots=False, hash=False)
class Trace:
    """One training step as recorded: `ops` operators, `tensors` outputs, and their schedule.

    Ragged columns are stored flat with row starts: row `i` of `x` is `x[x_start[i]:x_start[i+1]]`.
    Tensor ids are consecutive: the outputs of op `i` are `output_start[i]` to
    `output_start[i + 1]`, half-open.
    """

    name: str = attrs.field(eq=False)
    """Short name, such as `resnet32`, or the file name."""
    path: str = attrs.field(eq=False, repr=False)
    """Where it was read from, for messages."""
    sha256: str
    """SHA-256 of the DTR log's uncompressed bytes."""

    op_name: tuple[str, ...] = _tuple_field()
    """[ops] operator names."""
    op_cost_ns: Ints = _array_field()
    """[ops] cost of one execution."""
    input_start: Ints = _array_field()
    """[ops + 1] row starts of `input_tensor` and `input_name`."""
    input_tensor: Ints = _array_field()
    """[inputs] tensor ids in argument order, repeated where an argument repeats."""
    output_start: Ints = _array_field()
    """[ops + 1] row starts of the tensor columns."""

    tensor_name: tuple[str, ...] = _tuple_field()
    """[tensors] name under which the log created it."""
    tensor_alias: Ints = _array_field()
    """[tensors] index of the input that the tensor aliases; -1: it has a fresh storage."""
    tensor_size_bytes: Ints = _array_field()
    """[tensors] size of the fresh storage; 0 for an alias."""
    tensor_memory_bytes: Ints = _array_field()
    """[tensors] the MEMORY line as recorded, which an alias has too (it is not counted)."""
    tensor_storage: Ints = _array_field()
    """[tensors] storage id, that is, the id of the root tensor."""

    step_kind: Ints = _array_field()
    """[steps] `Step`."""
    step_operand: Ints = _array_field()
    """[steps] op id or tensor id."""
    step_line: Ints = _array_field()
    """[steps] 1-based line of the log; for outputs the line after the last."""

    preamble: tuple[str, ...] = _tuple_field()
    """Lines up to and including `ANNOTATE START`, as they stand; empty without such a line."""
    instruction_kind: Ints = _array_field()
    """[instructions] `Instruction`."""
    instruction_operand: Ints = _array_field()
    """[instructions] op id (CONSTANT, CALL, MUTATE), else an index into `names`."""
    instruction_source: Ints = _array_field()
    """[instructions] COPY, COPY_FROM: index into `names` of SRC; else -1."""
    input_name: Ints = _array_field()
    """[inputs] index into `names`: how the log names the argument (a MUTATE rebinds names)."""
    mutate_start: Ints = _array_field()
    """[ops + 1] row starts of `mutate_index`."""
    mutate_index: Ints = _array_field()
    """[mutated arguments] indices into the op's arguments."""
    names: tuple[str, ...] = _tuple_field()
    """[names] distinct names in order of first use."""

    @property
    def ops(self) -> int:
        """Number of operators."""
        return len(self.op_name)

    @property
    def tensors(self) -> int:
        """Number of tensors."""
        return len(self.tensor_name)

    @property
    def steps(self) -> int:
        """Number of schedule steps."""
        return len(self.step_kind)

    @cached_property
    def storages(self) -> int:
        """Number of storages (root tensors)."""
        return int(np.count_nonzero(self.tensor_alias < 0))

    @cached_property
    def baseline_cost_ns(self) -> int:
        """Cost of executing every op once."""
        return int(self.op_cost_ns.sum())

    @cached_property
    def constant_bytes(self) -> int:
        """Bytes of constants, which are never evicted."""
        ops = self.step_operand[self.step_kind == Step.CONSTANT]
        return int(self.tensor_size_bytes[self.output_start[ops]].sum())

    def inputs_of(self, op: int) -> Ints:
        """Input tensor ids of an op, in argument order."""
        return self.input_tensor[self.input_start[op] : self.input_start[op + 1]]

    def outputs_of(self, op: int) -> range:
        """Output tensor ids of an op."""
        return range(int(self.output_start[op]), int(self.output_start[op + 1]))
