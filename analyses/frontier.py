"""Why did a run stop out of memory although evicting is what the runtime is for?

At such a stop nothing is evictable: all that is resident is pinned, or locked by the ops that are
being rematerialised, each waiting for the next. This is the *pinned frontier*: the pending stack
from the op that the model asked for down to the one that did not fit, what each step of it locks,
and how many bytes that makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import attrs

from dtrdiag.analyses.losses import Loss, LossReader, last_losses
from dtrdiag.analyses.reading import introduced, split_header
from dtrdiag.analyses.summary import INCOMPLETE
from dtrdiag.errors import AnalysisError
from dtrdiag.events.fields import INFINITIES
from dtrdiag.events.records import End, Event, OutOfMemory, RunHeader, Score
from dtrdiag.ids import OpId, StorageId, TensorId
from dtrdiag.log.forward import NAMES, state_at_oom
from dtrdiag.log.held import Irregular
from dtrdiag.log.parquet import ParquetReader
from dtrdiag.log.replay import Replay
from dtrdiag.log.state import Frame

OOM_SCHEMA = "dtrdiag.oom/1"
OOM = "oom"


@attrs.frozen
class FrontierStep:
    """One pending op and what it keeps in memory.

    Attributes:
        kind: `first` (the schedule's own execution) or `remat`.
        tensor: the output that is wanted from the op.
        output_bytes: memory that the op needs for its outputs.
        locks: storages that it locks, each once, in the order taken.
        held_bytes: bytes of those that are resident and not pinned.
        added_bytes: the part of `held_bytes` that no step further out locks already. Summed over
            the stack this is `locked_bytes`, unless an op that has finished left locks behind.
        storage: that of `tensor`.
        loss: how that storage last left memory, so that the op runs again; None: it runs for the
            first time, or the log does not say.
    """

    op: OpId
    name: str
    kind: str
    tensor: TensorId
    output_bytes: int
    locks: tuple[StorageId, ...]
    held_bytes: int
    added_bytes: int
    storage: StorageId | None = None
    loss: Loss | None = None


@attrs.frozen
class FrontierStorage:
    """One resident storage at the stop.

    Attributes:
        name: name of the op that computes it.
        state: `pinned`, `locked` (and not pinned) or `evictable`.
        held_by: ops that lock it, pending ones outermost first, each once.
    """

    id: StorageId
    name: str
    bytes: int
    state: str
    held_by: tuple[OpId, ...]


@attrs.frozen
class Frontier:
    """The state of a run at its out-of-memory stop; all sizes in bytes.

    `pinned_bytes + locked_bytes + evictable_bytes + unaccounted_bytes == resident_bytes`, and
    `resident_bytes + requested_bytes == budget_bytes + shortfall_bytes`.

    Attributes:
        seq: `seq` of the `oom` event.
        op: the op that did not fit, the innermost of `stack`.
        evictable_bytes: resident, neither pinned nor locked; 0 unless the log is of a runtime that
            stops earlier.
        unaccounted_bytes: memory in use beyond the resident storages; 0 under simrd's rules.
        depth: size of the pending stack.
        budget_bytes: that of the check which failed: an intervention's if `budget_is_switched`.
        interval_lo_bytes: with `interval_hi_bytes`, every budget in [lo, hi) stops in this way. It
            is about the header's budget, interventions kept; hi None: without a bound, which only
            an intervention's budget brings about.
        stack: pending ops, outermost first.
        storages: resident storages by ascending id.
        room_for: names of the ops that room was made for when what the stack brings back was lost.
    """

    header: RunHeader
    seq: int
    op: OpId
    op_name: str
    requested_bytes: int
    budget_bytes: int
    resident_bytes: int
    pinned_bytes: int
    locked_bytes: int
    evictable_bytes: int
    unaccounted_bytes: int
    depth: int
    interval_lo_bytes: int
    interval_hi_bytes: int | None
    stack: tuple[FrontierStep, ...]
    storages: tuple[FrontierStorage, ...]
    budget_is_switched: bool = False
    room_for: Mapping[OpId, str] = attrs.field(factory=dict)

    def _repr_html_(self) -> str:
        from dtrdiag.analyses.notebook import frontier_html

        return frontier_html(self)

    @property
    def passes_at_bytes(self) -> int:
        """The smallest budget at this check under which this very request would have fitted."""
        return self.resident_bytes + self.requested_bytes

    @property
    def shortfall_bytes(self) -> int:
        """By how much the request exceeds the budget."""
        return self.passes_at_bytes - self.budget_bytes

    @property
    def next_change_is_here(self) -> bool:
        """Whether at the next budget that changes anything, this request is what changes.

        If not, an earlier eviction is what a larger budget avoids first. Under an intervention's
        budget it is not: no other budget of the header changes that one.
        """
        return not self.budget_is_switched and self.passes_at_bytes == self.interval_hi_bytes

    @property
    def origin(self) -> FrontierStep | None:
        """The outermost step: the first execution that the schedule asked for, as a rule, or else
        the rematerialisation of an output at the end of the schedule.
        """
        return self.stack[0] if self.stack else None

    @property
    def asked_back(self) -> FrontierStep | None:
        """The outermost rematerialisation: what was asked back first; None: nothing was."""
        return next((step for step in self.stack[:2] if step.kind != "first"), None)


def pinned_frontier(events: Iterable[Event]) -> Frontier:
    """The pinned frontier of a run that stopped out of memory.

    One pass, up to the `oom` event; time linear in the events, memory in the size of the graph.
    A Parquet log is read in columns, at a fraction of the time.

    Raises:
        AnalysisError: the run did not stop out of memory, the message says how it ended; or the
            events do not begin with a header.
        LogError: an event names something that the log did not introduce.
    """
    if isinstance(events, ParquetReader):
        with suppress(Irregular):
            return _by_columns(events)
    header, rest = split_header(events)
    replay, losses = Replay(), LossReader()
    replay.apply(header)
    outcome = INCOMPLETE
    for event in rest:
        replay.apply(event)
        losses.pass_over(event)
        if isinstance(event, OutOfMemory):
            with introduced():
                return _frontier(header, replay, event, losses.last)
        if isinstance(event, End):
            outcome = event.outcome
    raise _no_frontier(replay, outcome)


def _by_columns(log: ParquetReader) -> Frontier:
    """The same from whole columns, for logs of millions of events."""
    replay, oom = state_at_oom(log.batches(NAMES))
    if oom is None:
        raise _no_frontier(replay, INCOMPLETE if replay.end is None else replay.end.outcome)
    with introduced():
        wanted = {replay.storage_of[frame.tensor] for frame in replay.pending}
        return _frontier(log.header, replay, oom, last_losses(log, wanted, oom.seq))


def _no_frontier(replay: Replay, outcome: str) -> AnalysisError:
    if outcome == INCOMPLETE:
        stops = f"it stops at event {replay.seq} without `oom`"
        return AnalysisError(f"the log is incomplete: {stops}")
    what = f"the run did not stop out of memory: its outcome is {outcome}"
    return AnalysisError(f"{what}; what it spent on rematerialisation is told by `chains`")


def _frontier(
    header: RunHeader, replay: Replay, oom: OutOfMemory, losses: Mapping[StorageId, Loss]
) -> Frontier:
    order = {frame.op: depth for depth, frame in enumerate(replay.pending)}
    storages = tuple(_storage(replay, storage, order) for storage in sorted(replay.resident))
    held = dict.fromkeys(("pinned", "locked", "evictable"), 0)
    for storage in storages:
        held[storage.state] += storage.bytes
    high_bytes = replay.tally.interval_hi_bytes
    if high_bytes is None and not replay.budget_is_switched:
        # A foreign log may lack the `fit` events that say it.
        high_bytes = oom.memory_bytes + oom.requested_bytes
    steps = _steps(replay, storages, losses)
    return Frontier(
        header=header,
        seq=oom.seq,
        op=oom.op,
        op_name=_op_name(replay, oom.op),
        requested_bytes=oom.requested_bytes,
        budget_bytes=oom.budget_bytes,
        resident_bytes=oom.memory_bytes,
        pinned_bytes=held["pinned"],
        locked_bytes=held["locked"],
        evictable_bytes=held["evictable"],
        unaccounted_bytes=oom.memory_bytes - sum(held.values()),
        depth=oom.depth,
        interval_lo_bytes=replay.tally.interval_lo_bytes,
        interval_hi_bytes=high_bytes,
        stack=steps,
        storages=storages,
        budget_is_switched=replay.budget_is_switched,
        room_for=_room_for(replay, steps),
    )


def _room_for(replay: Replay, steps: Sequence[FrontierStep]) -> dict[OpId, str]:
    ops = (step.loss.op for step in steps if step.loss is not None)
    return {op: _op_name(replay, op) for op in ops if op in replay.ops}


def _op_name(replay: Replay, op: OpId) -> str:
    return replay.ops[op].name


def _storage(replay: Replay, storage: StorageId, order: dict[OpId, int]) -> FrontierStorage:
    holders = dict.fromkeys(replay.locks.get(storage, ()))
    if storage in replay.pins:
        state = "pinned"
    else:
        state = "locked" if holders else "evictable"
    return FrontierStorage(
        id=storage,
        name=_op_name(replay, replay.producer[TensorId(storage)]),
        bytes=replay.size_bytes[storage],
        state=state,
        held_by=tuple(sorted(holders, key=lambda op: order.get(op, len(order)))),
    )


def _steps(
    replay: Replay, storages: Sequence[FrontierStorage], losses: Mapping[StorageId, Loss]
) -> tuple[FrontierStep, ...]:
    unpinned = {storage.id: storage.bytes for storage in storages if storage.state == "locked"}
    counted: set[StorageId] = set()
    steps = []
    for frame in replay.pending:
        locks = tuple(dict.fromkeys(frame.locked))
        step = _step(replay, frame, locks, unpinned, counted)
        storage = replay.storage_of[frame.tensor]
        loss = None if frame.reason == "first" else losses.get(storage)
        steps.append(attrs.evolve(step, storage=storage, loss=loss))
        counted.update(locks)
    return tuple(steps)


def _step(
    replay: Replay,
    frame: Frame,
    locks: tuple[StorageId, ...],
    unpinned: dict[StorageId, int],
    counted: set[StorageId],
) -> FrontierStep:
    return FrontierStep(
        op=frame.op,
        name=_op_name(replay, frame.op),
        kind=frame.reason,
        tensor=frame.tensor,
        output_bytes=replay.requested_bytes[frame.op],
        locks=locks,
        held_bytes=sum(unpinned.get(storage, 0) for storage in locks),
        added_bytes=sum(unpinned.get(storage, 0) for storage in locks if storage not in counted),
    )


def frontier_document(frontier: Frontier) -> dict[str, Any]:
    """A frontier as a `dtrdiag.oom/1` document of plain JSON types."""
    return {
        "schema": OOM_SCHEMA,
        "outcome": OOM,
        "trace": frontier.header.trace_name,
        "policy": frontier.header.policy,
        "dealloc": frontier.header.dealloc,
        "semantics": frontier.header.semantics,
        "interventions": frontier.header.interventions,
        "ratio": frontier.header.ratio,
        "seq": frontier.seq,
        "op": frontier.op,
        "op_name": frontier.op_name,
        "requested_bytes": frontier.requested_bytes,
        "budget": frontier.budget_bytes,
        "header_budget": frontier.header.budget_bytes,
        "resident_bytes": frontier.resident_bytes,
        "shortfall_bytes": frontier.shortfall_bytes,
        "pinned_bytes": frontier.pinned_bytes,
        "locked_bytes": frontier.locked_bytes,
        "evictable_bytes": frontier.evictable_bytes,
        "unaccounted_bytes": frontier.unaccounted_bytes,
        "depth": frontier.depth,
        "passes_at": frontier.passes_at_bytes,
        "interval": [frontier.interval_lo_bytes, frontier.interval_hi_bytes],
        "asked_back": _asked_back_document(frontier),
        "stack": [_step_document(step) for step in frontier.stack],
        "storages": [
            {
                "id": storage.id,
                "name": storage.name,
                "bytes": storage.bytes,
                "state": storage.state,
                "held_by": list(storage.held_by),
            }
            for storage in frontier.storages
        ],
    }


def _asked_back_document(frontier: Frontier) -> dict[str, Any] | None:
    step = frontier.asked_back
    if step is None:
        return None
    origin, loss = frontier.stack[0], step.loss
    evicted = None
    if loss is not None:
        name = None if loss.op is None else frontier.room_for.get(loss.op)
        evicted = attrs.asdict(loss) | {"op_name": name, "score": _score(loss.score)}
    return {
        "by": None if step is origin else origin.op,
        "tensor": step.tensor,
        "storage": step.storage,
        "op": step.op,
        "op_name": step.name,
        "evicted": evicted,
    }


def _score(score: Score) -> Score | str:
    """A score in JSON, as in a log: which has no infinite numbers."""
    return next((word for word, each in INFINITIES.items() if each == score), score)


def _step_document(step: FrontierStep) -> dict[str, Any]:
    return {
        "op": step.op,
        "name": step.name,
        "kind": step.kind,
        "tensor": step.tensor,
        "output_bytes": step.output_bytes,
        "locks": list(step.locks),
        "held_bytes": step.held_bytes,
        "added_bytes": step.added_bytes,
    }
