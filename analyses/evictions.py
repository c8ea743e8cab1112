"""How often was each storage evicted?

A storage that is evicted again and again is one that the run cannot do without: each time its chain
of producers is computed anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from dtrdiag.analyses.reading import split_header
from dtrdiag.errors import AnalysisError
from dtrdiag.events.columns import COLUMNS
from dtrdiag.events.records import Event, Evict
from dtrdiag.ids import StorageId
from dtrdiag.log.parquet import ParquetReader
from dtrdiag.log.state import CAUSES


def eviction_counts(events: Iterable[Event], cause: str | None = None) -> dict[StorageId, int]:
    """Evictions of each storage that was evicted, the most frequent victim first, then by id.

    One pass; memory in proportion to the storages evicted. A Parquet log is read in columns.

    Args:
        events: the events of a run, header first.
        cause: only evictions for this cause; None: for any.

    Raises:
        AnalysisError: the events do not begin with a header, or there is no such cause.
    """
    if cause is not None and cause not in CAUSES:
        raise AnalysisError(f"no evictions have the cause {cause!r}; causes: {', '.join(CAUSES)}")
    counts: Counter[StorageId] = Counter()
    if isinstance(events, ParquetReader):
        _count_columns(events, cause, counts)
    else:
        _, rest = split_header(events)
        for event in rest:
            if isinstance(event, Evict) and cause in (None, event.cause):
                counts[event.storage] += 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _count_columns(log: ParquetReader, cause: str | None, counts: Counter[StorageId]) -> None:
    for columns in log.batches(("storage", "cause")):
        victims = columns.of("evict", "storage").values
        if cause is not None:
            code = (COLUMNS["cause"].words or ()).index(cause)
            victims = victims[columns.column("cause").codes == code]
        storages, numbers = np.unique(victims, return_counts=True)
        for storage, number in zip(storages.tolist(), numbers.tolist(), strict=True):
            counts[StorageId(storage)] += number
