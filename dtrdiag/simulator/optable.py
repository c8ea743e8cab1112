"""What a machine knows of ops and their tensors, and who really computes them, if anyone does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from dtrdiag.trace.model import Trace


class OpTable:
    """Ops, tensors and storages, taken from a trace or grown op by op.

    Plain lists, which cost less to read than arrays do.

    Ids count from 0 in order of first execution; a storage's id is its root tensor's.
    """

    def __init__(self) -> None:
        self.name: list[str] = []
        """[ops] operator names."""
        self.cost_ns: list[int] = []
        """[ops] cost of one execution."""
        self.inputs: list[list[int]] = []
        """[ops] input tensors in argument order, repeated where an argument repeats."""
        self.outputs: list[range] = []
        """[ops] output tensors by index."""
        self.op_bytes: list[int] = []
        """[ops] sum of the sizes of the outputs."""
        self.op_of: list[int] = []
        """[tensors] the op that computes each."""
        self.tensor_bytes: list[int] = []
        """[tensors] size of the fresh storage; 0 for an alias."""
        self.storage: list[int] = []
        """[tensors] storage of each."""
        self.tensor_name: Sequence[str] = ()
        """[tensors] names for messages; empty where tensors have none."""
        self.path: str | None = None
        """The trace's file, for messages."""

    @classmethod
    def of(cls, trace: Trace) -> OpTable:
        """All ops of a trace."""
        table = cls()
        table.name = list(trace.op_name)
        table.cost_ns = trace.op_cost_ns.tolist()
        inputs = trace.input_tensor.tolist()
        table.inputs = [inputs[a:b] for a, b in pairwise(trace.input_start.tolist())]
        table.outputs = [range(a, b) for a, b in pairwise(trace.output_start.tolist())]
        table.tensor_bytes = sizes = trace.tensor_size_bytes.tolist()
        table.op_bytes = [sum(sizes[tensor] for tensor in outputs) for outputs in table.outputs]
        table.storage = trace.tensor_storage.tolist()
        table.op_of = [op for op, outputs in enumerate(table.outputs) for _ in outputs]
        table.tensor_name, table.path = trace.tensor_name, trace.path
        return table

    def add(
        self,
        name: str,
        inputs: Sequence[int],
        cost_ns: int,
        sizes_bytes: Sequence[int],
        aliases: Sequence[int],
    ) -> int:
        """One more op. Returns its id; `outputs` has those of its tensors.

        Args:
            name: operator name.
            inputs: [inputs] tensor ids that there are.
            cost_ns: cost of one execution.
            sizes_bytes: [outputs] sizes, at least one; not counted for aliases.
            aliases: [outputs] -1, or the index of the input whose storage the output has.
        """
        op, first = len(self.cost_ns), len(self.op_of)
        storage, op_bytes = self.storage, 0
        for size, alias in zip(sizes_bytes, aliases, strict=True):
            if alias < 0:
                storage.append(len(storage))
                self.tensor_bytes.append(size)
                op_bytes += size
            else:
                storage.append(storage[inputs[alias]])
                self.tensor_bytes.append(0)
            self.op_of.append(op)
        self.name.append(name)
        self.cost_ns.append(cost_ns)
        self.inputs.append(list(inputs))
        self.outputs.append(range(first, len(storage)))
        self.op_bytes.append(op_bytes)
        return op


class World(Protocol):
    """What really computes and holds tensors, if anything does."""

    def execute(self, op: int, defined: Sequence[int]) -> None:
        """Compute an op, for which there is room now, and keep these of its outputs."""

    def evict(self, storage: int) -> None:
        """Give up a storage that is in memory."""
