"""How did a storage last leave memory: when, and to make room for which op?"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import attrs
import numpy as np

from dtrdiag.events.columns import KIND_CODES, EventColumns
from dtrdiag.events.records import Event, Evict, OpDefined, OutputRequested, ReferenceChanged, Score
from dtrdiag.ids import OpId, StorageId
from dtrdiag.log.parquet import ParquetReader

NAMES = frozenset({"step", "op", "storage", "cause", "score", "pool_size"})
"""The columns of a log that losses are found in."""

_FIELDS = ("seq", "cause", "op", "score", "pool_size")
_EVICT = KIND_CODES["evict"]
_PLACES = (OpDefined, OutputRequested, ReferenceChanged)


@attrs.frozen
class Loss:
    """A storage leaves memory.

    Attributes:
        seq: of the `evict` event.
        step: the step of the schedule that it served; 0 before the first.
        cause: `pressure`, `release` or `banish`.
        op: under pressure the op that room was made for; None: none, or the log does not say.
        score: the policy's score of it, if it has one.
        pool_size: under pressure how many storages could have gone, this one included; None: the
            log does not say.
    """

    seq: int
    step: int
    cause: str
    op: OpId | None
    score: Score
    pool_size: int | None


class LossReader:
    """The last loss of every storage, event by event. O(1) for an event."""

    def __init__(self) -> None:
        self.last: dict[StorageId, Loss] = {}
        self._step = 0

    def pass_over(self, event: Event) -> None:
        """Take in the next event of a run."""
        if isinstance(event, _PLACES):
            self._step = max(self._step, event.step)
        elif isinstance(event, Evict):
            self.last[event.storage] = Loss(
                event.seq, self._step, event.cause, event.op, event.score, event.pool_size
            )


def last_losses(
    log: ParquetReader, storages: Collection[StorageId], before: int
) -> dict[StorageId, Loss]:
    """The last loss of some storages before event `before`; those that had none are left out.

    O(n log k) in the events, of k storages; memory is that of a batch.
    """
    wanted = np.array(sorted(storages), np.int64)
    found: dict[StorageId, Loss] = {}
    step = 0
    for columns in log.batches(NAMES):
        steps = np.maximum.accumulate(np.append(step, columns.column("step").values))
        step = int(steps[-1])
        found |= _losses(columns, steps, wanted, before)
    return found


def _losses(columns: EventColumns, steps: Any, wanted: Any, before: int) -> dict[StorageId, Loss]:
    storages = columns.of("evict", "storage").values
    seqs = columns.of("evict", "seq").values
    asked = np.flatnonzero(np.isin(storages, wanted) & (seqs < before))
    last = dict(zip(storages[asked].tolist(), asked.tolist(), strict=True))
    at = np.array(list(last.values()), np.intp)
    fields = [columns.of("evict", name).take(at).tolist() for name in _FIELDS]
    served = steps[np.cumsum(columns.rows("step"))][np.flatnonzero(columns.kind == _EVICT)[at]]
    return {
        StorageId(storage): Loss(seq, place, cause, op, score, pool_size)
        for storage, place, seq, cause, op, score, pool_size in zip(
            last, served.tolist(), *fields, strict=True
        )
    }
