"""When did some storages come into memory and leave it, and for whom?"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import attrs
import numpy as np

from dtrdiag.analyses.reading import in_columns
from dtrdiag.analyses.runtable import Bools, Ints
from dtrdiag.events.columns import COLUMNS, KIND_CODES, EventColumns
from dtrdiag.events.records import Event
from dtrdiag.ids import OpId, StorageId

COMPUTED, REMATERIALISED, EVICTED = "computed", "rematerialised", "evicted"
NAMES = frozenset({"step", "op", "storage", "cause", "resident"})
"""The columns of a log that histories are made from."""

_EVICT, _REMAT = KIND_CODES["evict"], KIND_CODES["rematerialise"]
_EXECUTES = [KIND_CODES["compute"], _REMAT]
_CAUSES = COLUMNS["cause"].words or ()


@attrs.frozen
class Move:
    """A storage comes into memory, or leaves it.

    Attributes:
        seq: of the event.
        step: the step of the schedule that it served; 0 before the first.
        what: `computed`, `rematerialised` or `evicted`.
        op: the op executed, or under pressure the one that room was made for; None: none.
        cause: of an eviction, else None.
    """

    seq: int
    step: int
    what: str
    op: OpId | None
    cause: str | None


@attrs.frozen
class History:
    """What befell a storage.

    Attributes:
        evictions: by cause.
        remats: how often it came back.
        moves: the last of its moves, in order.
    """

    evictions: dict[str, int]
    remats: int
    moves: tuple[Move, ...]


def storage_histories(
    events: Iterable[Event], storages: Collection[StorageId], most: int = 8
) -> dict[StorageId, History]:
    """The histories of some storages, in one pass.

    Time is linear in the events; memory in the moves of these storages.

    Args:
        events: the events of a run, header first.
        storages: those that are asked about.
        most: moves to keep of each, the last ones.

    Raises:
        AnalysisError: the events do not begin with a header.
    """
    wanted = np.array(sorted(storages), np.int64)
    step, parts = 0, []
    _, batches = in_columns(events, NAMES)
    for columns in batches:
        steps = np.maximum.accumulate(np.append(step, columns.column("step").values))
        step = int(steps[-1])
        parts.append(_moves(columns, steps, wanted))
    columns_of_moves = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return {storage: _history(columns_of_moves, storage, most) for storage in sorted(storages)}


def _moves(columns: EventColumns, steps: Ints, wanted: Ints) -> tuple[Ints, ...]:
    """Storage, `seq`, step, kind, op (-1: none) and cause (-1: none) of each move, in order."""
    kind = columns.kind
    op = _spread(columns, "op", columns.column("op").nulls())
    storage = np.zeros(len(columns), np.int64)
    storage[columns.rows("storage")] = columns.column("storage").values
    cause = np.full(len(columns), -1)
    cause[kind == _EVICT] = columns.column("cause").codes
    arrived = columns.column("resident")
    evicts, executes = np.flatnonzero(kind == _EVICT), np.flatnonzero(np.isin(kind, _EXECUTES))
    at = np.concatenate([evicts, np.repeat(executes, arrived.lengths())])
    moved = np.concatenate([storage[evicts], arrived.flat()])
    keep = np.flatnonzero(np.isin(moved, wanted))
    keep = keep[np.argsort(at[keep], kind="stable")]
    at, moved = at[keep], moved[keep]
    step = steps[np.cumsum(columns.rows("step"))]
    seq = columns.column("seq").values
    return moved, seq[at], step[at], kind[at].astype(np.int64), op[at], cause[at]


def _spread(columns: EventColumns, name: str, nulls: Bools | None) -> Ints:
    values = columns.column(name).values
    spread = np.full(len(columns), -1)
    spread[columns.rows(name)] = values if nulls is None else np.where(nulls, -1, values)
    return spread


def _history(columns: list[Any], storage: StorageId, most: int) -> History:
    rows = np.flatnonzero(columns[0] == storage)
    kind, cause = columns[3][rows], columns[5][rows]
    evictions = np.bincount(cause[kind == _EVICT], minlength=len(_CAUSES)).tolist()
    last = rows[max(0, len(rows) - most) :]
    return History(
        evictions=dict(zip(_CAUSES, evictions, strict=True)),
        remats=int((kind == _REMAT).sum()),
        moves=tuple(_move(*(column[row].item() for column in columns[1:])) for row in last),
    )


def _move(seq: int, step: int, kind: int, op: int, cause: int) -> Move:
    if kind == _EVICT:
        what = EVICTED
    else:
        what = REMATERIALISED if kind == _REMAT else COMPUTED
    return Move(
        seq=seq,
        step=step,
        what=what,
        op=None if op < 0 else OpId(op),
        cause=None if cause < 0 else _CAUSES[cause],
    )
