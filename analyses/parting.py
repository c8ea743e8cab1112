"""Where do two runs part? Found in columns, where both logs have them.

The checks and decisions of both are laid side by side as arrays. Only around the first difference
are events made of the columns again, for `dtrdiag.analyses.divergence` to judge and describe.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np
import numpy.typing as npt

from dtrdiag.analyses.divergence import Comparison, Walk, compare_walks
from dtrdiag.events.columns import KIND_CODES, EventColumns
from dtrdiag.events.conversion import events_of
from dtrdiag.events.records import Event, Materialise
from dtrdiag.ids import OpId
from dtrdiag.log.parquet import ParquetReader

NAMES = frozenset({"op", "storage", "fits"})
"""The columns of a log that the comparison needs."""

_RECORDS = 1 << 10
_COMPARED = ("compute", "rematerialise", "evict", "fit", "oom", "thrashed")
_DECISIONS = 3
"""How many of these kinds are decisions."""
_ITEMS = np.full(len(KIND_CODES), -1, np.int8)
_ITEMS[[KIND_CODES[kind] for kind in _COMPARED]] = range(len(_COMPARED))
_E, _F, _OOM, _THRASHED = map(_COMPARED.index, ("evict", "fit", "oom", "thrashed"))
_FITS = len(_COMPARED)
"""What is compared of a check that fits; one that fails keeps the code of its kind."""


@attrs.frozen(eq=False)
class Items:
    """The checks, decisions and stop of a run in order: int8[n] their kind, int64[n] of what."""

    kind: npt.NDArray[np.int8]
    subject: npt.NDArray[np.int64]


class ItemsBuilder:
    """Collects what is compared of a run, batch by batch."""

    def __init__(self) -> None:
        self._kinds: list[npt.NDArray[np.int8]] = [np.empty(0, np.int8)]
        self._subjects: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]

    def add_columns(self, columns: EventColumns) -> None:
        """Take in a batch that has the columns `NAMES`."""
        code = _ITEMS[columns.kind]
        rows = np.flatnonzero(code >= 0)
        kind = code[rows]
        storage = _spread(columns, "storage")[rows]
        subject = np.where(kind == _E, storage, _spread(columns, "op")[rows])
        subject[kind == _THRASHED] = 0
        kind[np.flatnonzero(kind == _F)[columns.column("fits").values]] = _FITS
        self._kinds.append(kind)
        self._subjects.append(subject)

    def items(self) -> Items:
        """All that were taken in; the builder keeps them no longer."""
        kinds, self._kinds = self._kinds, []
        subjects, self._subjects = self._subjects, []
        return Items(np.concatenate(kinds), np.concatenate(subjects))


def _spread(columns: EventColumns, name: str) -> npt.NDArray[np.int64]:
    spread = np.zeros(len(columns), np.int64)
    spread[columns.rows(name)] = columns.column(name).values
    return spread


def compare_items(
    log_a: ParquetReader, items_a: Items, log_b: ParquetReader, items_b: Items, following: int
) -> Comparison:
    """As `dtrdiag.analyses.divergence.compare_runs`, given what is compared of both runs.

    Reads both logs again, as far as the first difference.
    """
    shorter = min(len(items_a.kind), len(items_b.kind))
    kind_a, kind_b = items_a.kind[:shorter], items_b.kind[:shorter]
    differ = (kind_a != kind_b) | (items_a.subject[:shorter] != items_b.subject[:shorter])
    at = int(differ.argmax()) if differ.any() else shorter
    index = int(np.count_nonzero(kind_a[:at] < _DECISIONS))
    if at == len(items_a.kind) == len(items_b.kind):
        return Comparison(index, None)
    stopped = bool(np.isin(kind_a[:at], (_OOM, _THRASHED)).any())
    walk_a, walk_b = _walk(log_a, at, stopped), _walk(log_b, at, stopped)
    return compare_walks(walk_a, walk_b, index, following)


def _walk(log: ParquetReader, passed: int, stopped: bool) -> Walk:
    """A run right before one of its items."""
    # A reader of its own: the other one keeps what it has to say about the log's end.
    log = ParquetReader(log.path)
    walk = Walk(log.header, iter(()))
    walk.stopped = stopped
    walk.go_on(_events(log, passed, walk))
    return walk


def _events(log: ParquetReader, passed: int, walk: Walk) -> Iterator[Event]:
    """The events from an item on; what comes before moves the walk."""
    for columns in log.batches():
        rows = np.flatnonzero(_ITEMS[columns.kind] >= 0)
        if passed >= len(rows) and not _ends(columns):
            passed -= len(rows)
            _pass_over(columns, walk)
            continue
        at = int(rows[passed]) if passed < len(rows) else len(columns) - 1
        _pass_over(columns.slice(0, at), walk)
        for start in range(at, len(columns), _RECORDS):
            yield from events_of(columns.slice(start, min(len(columns), start + _RECORDS)))
        passed = 0


def _ends(columns: EventColumns) -> bool:
    return bool(columns.kind[-1] == KIND_CODES["end"])


def _pass_over(columns: EventColumns, walk: Walk) -> None:
    ops = columns.of("op", "op").values.tolist()
    for op, name in zip(ops, columns.of("op", "name").tolist(), strict=True):
        walk.names[OpId(op)] = name
        walk.called = OpId(op)
    rows = np.flatnonzero(columns.kind == KIND_CODES["materialise"])[::-1]
    depths = columns.of("materialise", "depth").values[::-1]
    _, last = np.unique(depths, return_index=True)
    for row in rows[last].tolist():
        (event,) = events_of(columns.slice(row, row + 1))
        if isinstance(event, Materialise):
            walk.asked[event.depth] = event
