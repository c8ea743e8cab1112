"""Who executed, evicted and asked what, in one run, side by side as numpy arrays?

What the analyses of chains share: they sort and join millions of events, which takes arrays. Ids
are replaced by *indices* into the arrays that describe ops, tensors and storages; `asks`, `runs`
and `evictions` refer to each other by index too, with -1 for none.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from dtrdiag.errors import LogError
from dtrdiag.events.packed import sum_exactly
from dtrdiag.events.records import RunHeader

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Exact = npt.NDArray[Any]
"""int64, or Python integers where a sum might not fit into 64 bits."""

NONE = -1
OP, OUTPUT, REFERENCE = 0, 1, 2
STEP_KINDS = ("op", "output", "reference")


def summable(values: Ints) -> Exact:
    """The same numbers, such that no sum of some of them overflows."""
    return values if abs(sum_exactly(np.abs(values))) < 2**62 else values.astype(object)


def total_of(values: Exact) -> int:
    """Their exact sum."""
    return sum(values.tolist()) if values.dtype == object else sum_exactly(values)


def totals_by(groups: npt.NDArray[Any], values: Exact, size: int) -> Exact:
    """The sum of the values of each group 0 to `size` (not included)."""
    totals = np.zeros(size, values.dtype)
    np.add.at(totals, groups, values)
    return totals


class Ids:
    """Ids of a log, and their indices in ascending order."""

    def __init__(self, what: str, values: Ints) -> None:
        self.what = what
        self.values = np.unique(values)

    def __len__(self) -> int:
        return len(self.values)

    def of(self, ids: Ints) -> Ints:
        """The index of each id.

        Raises:
            LogError: one is not among them.
        """
        if not len(ids):
            return np.empty(0, np.int64)
        found = np.searchsorted(self.values, ids)
        wrong = found == len(self.values)
        if not wrong.all():
            wrong |= self.values[np.where(wrong, 0, found)] != ids
        if wrong.any():
            name = int(ids[np.flatnonzero(wrong)[0]])
            raise LogError(f"the log names {self.what} {name}, which no op event introduced")
        return found.astype(np.int64)


@attrs.frozen(eq=False)
class Ops:
    """The ops by ascending id: ids, names, and the step that calls each (its index)."""

    ids: Ints
    names: tuple[str, ...]
    output_bytes: Exact


@attrs.frozen(eq=False)
class Tensors:
    """The tensors by ascending id.

    Attributes:
        op: index of the op that makes it.
        storage: index of its storage.
        size_bytes: of its fresh storage; 0 for an alias.
    """

    ids: Ints
    op: Ints
    storage: Ints
    size_bytes: Ints


@attrs.frozen(eq=False)
class Storages:
    """The storages by ascending id: ids, sizes, and the op that makes each (its index)."""

    ids: Ints
    size_bytes: Exact
    op: Ints


@attrs.frozen(eq=False)
class Steps:
    """The steps of the schedule that the log shows, in order; see `STEP_KINDS`.

    Attributes:
        at: position of its first event in the log.
        number: its `step`.
        op: index of the op that it calls, or NONE.
    """

    at: Ints
    number: Ints
    kind: Ints
    op: Ints

    def __len__(self) -> int:
        return len(self.at)


@attrs.frozen(eq=False)
class Asks:
    """The `materialise` events.

    Attributes:
        first: whether for a first execution.
        model: whether the model asked, not an op.
        parent: the ask of the op that asked, or NONE.
    """

    at: Ints
    op: Ints
    tensor: Ints
    first: Bools
    model: Bools
    parent: Ints
    depth: Ints


@attrs.frozen(eq=False)
class Runs:
    """The executions, first ones and rematerialisations, in order.

    Attributes:
        storage: that of the tensor that was wanted.
        remat: whether a rematerialisation.
        clock_ns: clock afterwards.
        ask: the `materialise` event that it answers, or NONE.
        decision: its index among all decisions (executions and evictions).
        step: index of the step that was being served.
    """

    at: Ints
    op: Ints
    tensor: Ints
    storage: Ints
    remat: Bools
    cost_ns: Exact
    clock_ns: Ints
    freed_bytes: Exact
    ask: Ints
    decision: Ints
    step: Ints


@attrs.frozen(eq=False)
class Arrivals:
    """Storages that became resident: the execution that did it, and the storage."""

    run: Ints
    storage: Ints


@attrs.frozen(eq=False)
class Evictions:
    """The evictions in order.

    Attributes:
        cause: index in `dtrdiag.log.state.CAUSES`.
        ask: for pressure, the ask of the op that room was made for; else NONE.
        decision, step: as for `Runs`.
    """

    at: Ints
    storage: Ints
    size_bytes: Exact
    cause: Ints
    clock_ns: Ints
    ask: Ints
    decision: Ints
    step: Ints


@attrs.frozen(eq=False)
class WorkingSets:
    """What steps held and touched; see `dtrdiag.analyses.workingsets`.

    Attributes:
        held_bytes: int[steps], the most that was locked or pinned, plus requested, at a fit check.
        touched_bytes: int[steps], the sizes of all storages pinned, locked or made resident.
    """

    held_bytes: Exact
    touched_bytes: Exact


@attrs.frozen(eq=False)
class RunTable:
    """One run. `events` is their number, `stated` what `end` says, None if the log is cut."""

    header: RunHeader
    events: int
    ops: Ops
    tensors: Tensors
    storages: Storages
    steps: Steps
    asks: Asks
    runs: Runs
    arrivals: Arrivals
    evictions: Evictions
    working_sets: WorkingSets
    stated: dict[str, Any] | None

    def op_name(self, op: int) -> str:
        """The name of an op by its index."""
        return self.ops.names[op]

    def storage_name(self, storage: int) -> str:
        """The name of the op that makes a storage, by the storage's index."""
        return self.ops.names[int(self.storages.op[storage])]

    def keys(self, storage: Ints, at: Ints) -> Ints:
        """Numbers that sort by storage, then by position in the log."""
        keys: Ints = storage * (self.events + 1) + at
        return keys


def step_name(table: RunTable, at: int) -> str:
    """What a step calls, by its index: the op's name, or the step's kind."""
    op = int(table.steps.op[at])
    return table.op_name(op) if op >= 0 else STEP_KINDS[int(table.steps.kind[at])]
