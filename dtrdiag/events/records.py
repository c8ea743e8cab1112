"""What can happen in a run: one immutable record per kind of event.

This module is the single definition of the event schema. The JSON Schema, the field tables of
`docs/events.md`, the reader and the writer are all derived from it. A record's fields appear in a
log under the same names; `seq` numbers the events of a run from 0 without gaps and is their total
order; `cause_seq` is the `seq` of the event that this one follows from; None: the schedule asked.

Sizes are in bytes, times in nanoseconds of simulated (or, for a live runtime, measured) operator
cost. `memory_bytes`, `clock_ns`, `locks` and `references` are values *after* the event unless the
field says otherwise.
"""

from __future__ import annotations

from typing import Any, ClassVar

import attrs

from dtrdiag.ids import OpId, StorageId, TensorId

SCHEMA_NAME = "dtrdiag.log"
SCHEMA_MAJOR = 1
SCHEMA_MINOR = 1
SCHEMA = f"{SCHEMA_NAME}/{SCHEMA_MAJOR}.{SCHEMA_MINOR}"

Score = float | int | None
Candidate = tuple[StorageId, Score]
Extra = dict[str, Any]


def _doc(
    text: str,
    *,
    choices: tuple[str, ...] | None = None,
    infinite: bool = False,
    default: Any = attrs.NOTHING,
) -> Any:
    metadata = {"doc": text, "choices": choices, "infinite": infinite}
    return attrs.field(default=default, metadata=metadata)


def _extra() -> Any:
    # Fields that a newer minor version added; kept so that rewriting a log loses nothing.
    return attrs.field(factory=dict, kw_only=True, repr=False, metadata={"extra": True})


@attrs.frozen
class RunHeader:
    """The first event: what was run, under which rules."""

    kind: ClassVar[str] = "run"
    seq: int = _doc("always 0")
    schema: str = _doc("`dtrdiag.log/MAJOR.MINOR`")
    runtime: str = _doc("the program that made the decisions, such as `dtrdiag`")
    runtime_version: str = _doc("version of that program")
    trace_name: str = _doc("name of the schedule that was run")
    trace_sha256: str | None = _doc("SHA-256 of the DTR log's uncompressed bytes, if there is one")
    trace_ops: int | None = _doc("number of ops in the schedule, if known")
    trace_tensors: int | None = _doc("number of tensors in the schedule, if known")
    policy: str = _doc("name of the eviction policy")
    dealloc: str = _doc(
        "what a release of the last external reference does", choices=("eager", "ignore", "banish")
    )
    semantics: str = _doc("the rules that decisions follow, such as `simrd`")
    budget_bytes: int | None = _doc("memory budget; null: unlimited")
    overhead_limit: float | int | None = _doc(
        "the run stops once remat cost exceeds baseline cost x (limit - 1); null: never"
    )
    seed: int = _doc("seed of a random policy")
    candidates: int = _doc("how many of the best losers each pressure eviction lists")
    baseline_cost_ns: int | None = _doc("cost of executing every op once")
    peak_bytes: int | None = _doc(
        "peak of an unlimited run that frees dead storages, the base of ratios", default=None
    )
    ratio: float | int | None = _doc(
        "the ratio of the peak that chose the budget, if one did", default=None
    )
    interventions: str | None = _doc(
        "what was changed on purpose, in the words of docs/interventions.md; null: nothing",
        default=None,
    )
    extra: Extra = _extra()


@attrs.frozen
class OpDefined:
    """The schedule calls an op for the first time; its outputs come into being, not yet computed.

    Each output adds one external reference to its storage.
    """

    kind: ClassVar[str] = "op"
    seq: int = _doc("position in the log")
    cause_seq: int | None = _doc("null: the schedule asks")
    step: int = _doc("position in the schedule, from 0")
    op: OpId = _doc("op id, counted from 0 in order of first execution")
    name: str = _doc("operator name; `constant` for model inputs and parameters")
    cost_ns: int = _doc("cost of one execution")
    inputs: tuple[TensorId, ...] = _doc("input tensors in order, repeated where used twice")
    outputs: tuple[TensorId, ...] = _doc("output tensors by index")
    storages: tuple[StorageId, ...] = _doc(
        "storage of each output; equal to the tensor's id for a fresh storage"
    )
    sizes_bytes: tuple[int, ...] = _doc("size of each output's fresh storage; 0 for an alias")
    extra: Extra = _extra()


@attrs.frozen
class OutputRequested:
    """The schedule asks for a tensor at the end of the step: make it defined, then pin it."""

    kind: ClassVar[str] = "output"
    seq: int = _doc("position in the log")
    cause_seq: int | None = _doc("null: the schedule asks")
    step: int = _doc("position in the schedule, from 0")
    tensor: TensorId = _doc("the tensor asked for")
    storage: StorageId = _doc("its storage")
    extra: Extra = _extra()


@attrs.frozen
class ReferenceChanged:
    """The model takes or drops an external reference (creation is part of `op`)."""

    kind: ClassVar[str] = "reference"
    seq: int = _doc("position in the log")
    cause_seq: int | None = _doc("null: the schedule asks")
    step: int = _doc("position in the schedule, from 0")
    tensor: TensorId = _doc("the tensor whose name came or went")
    storage: StorageId = _doc("its storage")
    delta: int = _doc("+1 or -1")
    references: int = _doc("external references of the storage afterwards")
    extra: Extra = _extra()


@attrs.frozen
class Materialise:
    """An op enters the pending stack, to be executed once its inputs are there and it fits.

    It leaves the stack after its `compute` or `rematerialise` and the unlocks that follow.
    """

    kind: ClassVar[str] = "materialise"
    seq: int = _doc("position in the log")
    cause_seq: int = _doc(
        "the `op` event (first execution), the `materialise` event of the op that needs the "
        "tensor, or the `output` event"
    )
    op: OpId = _doc("the op to execute")
    tensor: TensorId = _doc("the output that is wanted")
    reason: str = _doc("first execution or rematerialisation", choices=("first", "remat"))
    for_op: OpId | None = _doc("the op that asked for the tensor; null: the model")
    depth: int = _doc("size of the pending stack including this op, so at least 1")
    extra: Extra = _extra()


@attrs.frozen
class Lock:
    """A pending op takes a lock on an input's storage, which leaves the pool of evictables."""

    kind: ClassVar[str] = "lock"
    seq: int = _doc("position in the log")
    cause_seq: int = _doc("the `materialise` event of the op that takes the lock")
    storage: StorageId = _doc("the storage")
    op: OpId = _doc("the op that holds the lock")
    locks: int = _doc("locks on the storage afterwards, a pin counting as one")
    extra: Extra = _extra()


@attrs.frozen
class Unlock:
    """An executed op gives a lock back; at 0 the storage joins the pool at its end."""

    kind: ClassVar[str] = "unlock"
    seq: int = _doc("position in the log")
    cause_seq: int = _doc("the `compute` or `rematerialise` event of the op")
    storage: StorageId = _doc("the storage")
    op: OpId = _doc("the op that held the lock")
    locks: int = _doc("locks on the storage afterwards")
    extra: Extra = _extra()


@attrs.frozen
class FitCheck:
    """The one question that the budget answers: does the op's output fit now?"""

    kind: ClassVar[str] = "fit"
    seq: int = _doc("position in the log")
    cause_seq: int = _doc("the `materialise` event of the op")
    op: OpId = _doc("the op that wants room")
    memory_bytes: int = _doc("memory in use at the check")
    requested_bytes: int = _doc("sum of the op's output sizes")
    fits: bool = _doc("whether memory_bytes + requested_bytes <= budget")
    extra: Extra = _extra()


@attrs.frozen
class Evict:
    """A storage leaves memory and all its tensors become undefined."""

    kind: ClassVar[str] = "evict"
    seq: int = _doc("position in the log")
    cause_seq: int = _doc(
        "pressure: the `fit` event that failed; release: the `reference` event; banish: the "
        "`reference` or `unlock` event that made the storage dead"
    )
    storage: StorageId = _doc("the victim")
    size_bytes: int = _doc("its size")
    cause: str = _doc(
        "why: room was needed, the last reference went, or it is freed for good",
        choices=("pressure", "release", "banish"),
    )
    op: OpId | None = _doc("pressure: the op that room is made for; otherwise null")
    score: Score = _doc("pressure: the policy's score of the victim, if it has one", infinite=True)
    pool_size: int | None = _doc("pressure: evictable storages to choose from, victim included")
    candidates: tuple[Candidate, ...] = _doc(
        "pressure: the best losers as [storage, score], best first, as many as the header says",
        infinite=True,
    )
    memory_bytes: int = _doc("memory in use afterwards")
    clock_ns: int = _doc("clock at the eviction")
    extra: Extra = _extra()


@attrs.frozen
class Compute:
    """The first execution of an op, asked by the schedule."""

    kind: ClassVar[str] = "compute"
    seq: int = _doc("position in the log")
    cause_seq: int = _doc("the `materialise` event of the op")
    op: OpId = _doc("the op executed")
    tensor: TensorId = _doc("the output that was wanted")
    cost_ns: int = _doc("cost of this execution")
    defined: tuple[TensorId, ...] = _doc(
        "tensors that became defined: the wanted one, then siblings by index"
    )
    resident: tuple[StorageId, ...] = _doc(
        "storages that became resident, in the order in which they join the pool"
    )
    freed_bytes: int = _doc("outputs computed twice and freed at once, because already defined")
    memory_bytes: int = _doc("memory in use afterwards; during execution it was more by freed")
    clock_ns: int = _doc("clock afterwards")
    extra: Extra = _extra()


@attrs.frozen
class Rematerialise:
    """A repeated execution of an op, asked by an op that needs an output, or by the model."""

    kind: ClassVar[str] = "rematerialise"
    seq: int = _doc("position in the log")
    cause_seq: int = _doc("the `materialise` event of the op")
    op: OpId = _doc("the op executed")
    tensor: TensorId = _doc("the output that was wanted")
    cost_ns: int = _doc("cost of this execution")
    defined: tuple[TensorId, ...] = _doc(
        "tensors that became defined: the wanted one, then siblings by index"
    )
    resident: tuple[StorageId, ...] = _doc(
        "storages that became resident, in the order in which they join the pool"
    )
    freed_bytes: int = _doc("outputs computed twice and freed at once, because already defined")
    memory_bytes: int = _doc("memory in use afterwards; during execution it was more by freed")
    clock_ns: int = _doc("clock afterwards")
    extra: Extra = _extra()


@attrs.frozen
class Pin:
    """A storage is locked for good."""

    kind: ClassVar[str] = "pin"
    seq: int = _doc("position in the log")
    cause_seq: int = _doc(
        "constant, intervention: the `compute` event; output: the `output` event; banish: the "
        "`banish` event"
    )
    storage: StorageId = _doc("the storage")
    reason: str = _doc(
        "a model input or parameter, an output of the step, a dependent of a banished storage, or "
        "somebody's intervention",
        choices=("constant", "output", "banish", "intervention"),
    )
    locks: int = _doc("locks on the storage afterwards")
    extra: Extra = _extra()


@attrs.frozen
class Banish:
    """A dead storage is freed for good: its locks are dropped, its edges are cut."""

    kind: ClassVar[str] = "banish"
    seq: int = _doc("position in the log")
    cause_seq: int = _doc("the `reference` or `unlock` event that made the storage dead")
    storage: StorageId = _doc("the storage")
    extra: Extra = _extra()


@attrs.frozen
class OutOfMemory:
    """The run stops: an op does not fit and nothing is evictable."""

    kind: ClassVar[str] = "oom"
    seq: int = _doc("position in the log")
    cause_seq: int = _doc("the `fit` event that failed")
    op: OpId = _doc("the op that did not fit")
    requested_bytes: int = _doc("sum of the op's output sizes")
    memory_bytes: int = _doc("memory in use")
    budget_bytes: int = _doc("the budget")
    depth: int = _doc("size of the pending stack")
    extra: Extra = _extra()


@attrs.frozen
class Thrashed:
    """The run stops: rematerialisation cost exceeded the overhead limit."""

    kind: ClassVar[str] = "thrashed"
    seq: int = _doc("position in the log")
    cause_seq: int = _doc("the execution that crossed the limit")
    remat_cost_ns: int = _doc("accumulated cost of rematerialisations")
    limit_ns: float | int = _doc("baseline cost x (overhead limit - 1)")
    extra: Extra = _extra()


@attrs.frozen
class End:
    """The last event of a complete log: outcome, counts, and the digest of the decisions."""

    kind: ClassVar[str] = "end"
    seq: int = _doc("position in the log, so the number of events before it")
    outcome: str = _doc("how the run ended", choices=("ok", "oom", "thrashed"))
    computes: int = _doc("first executions")
    remats: int = _doc("rematerialisations")
    remat_cost_ns: int = _doc("accumulated cost of rematerialisations")
    evictions_pressure: int = _doc("evictions to make room")
    evictions_release: int = _doc("evictions on release of the last reference")
    evictions_banish: int = _doc("evictions of storages freed for good")
    distinct_evicted: int = _doc("distinct storages evicted, for any cause")
    distinct_pressure: int = _doc("distinct storages evicted to make room")
    distinct_release: int = _doc("distinct storages evicted on release")
    distinct_banish: int = _doc("distinct storages freed for good")
    max_memory_bytes: int = _doc("largest memory in use during any execution")
    memory_bytes: int = _doc("memory in use at the end")
    clock_ns: int = _doc("clock at the end")
    interval_lo_bytes: int = _doc(
        "every budget in [lo, hi) gives the same decisions: the largest memory + request that fit"
    )
    interval_hi_bytes: int | None = _doc(
        "the smallest memory + request that did not fit; null: all did"
    )
    decisions_sha256: str = _doc(
        "SHA-256 of one line `C OP`, `R OP` or `E STORAGE` per first execution, "
        "rematerialisation and eviction in order, each ended by a newline"
    )
    extra: Extra = _extra()


Event = (
    RunHeader
    | OpDefined
    | OutputRequested
    | ReferenceChanged
    | Materialise
    | Lock
    | Unlock
    | FitCheck
    | Evict
    | Compute
    | Rematerialise
    | Pin
    | Banish
    | OutOfMemory
    | Thrashed
    | End
)

EVENT_TYPES: dict[str, type[Any]] = {
    record.kind: record
    for record in (
        RunHeader,
        OpDefined,
        OutputRequested,
        ReferenceChanged,
        Materialise,
        Lock,
        Unlock,
        FitCheck,
        Evict,
        Compute,
        Rematerialise,
        Pin,
        Banish,
        OutOfMemory,
        Thrashed,
        End,
    )
}
"""Every kind of event by the name it has in a log's `event` field."""
