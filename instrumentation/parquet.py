"""Writing the events of a run to a Parquet file, for logs of millions of events.

The file is written in groups of `ROW_GROUP` events, so memory is bounded. Parquet cannot be read
before it is finished, so it grows under another name, `NAME.partial`; a program that is killed
leaves that alone, and nobody can read it. A log that has to survive this is written as `.jsonl`.
The same events give the same bytes under one version of pyarrow, however they were handed over.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

import numpy as np
import orjson

from dtrdiag.errors import LogError, OutputError, SimulationError
from dtrdiag.events import SCHEMA, Event, encode
from dtrdiag.events.columns import KIND_CODES, EventColumns, Ints, Texts
from dtrdiag.events.conversion import columns_of, events_of
from dtrdiag.events.parquet import (
    KIND,
    RUN_KEY,
    SCHEMA_KEY,
    STORED,
    TableMaker,
    load_pyarrow,
)
from dtrdiag.instrumentation.partial import PartialFile

ROW_GROUP = 1 << 18
"""Events of a row group."""
_HELD_EVENTS = 1 << 14

_FREE_TEXTS = [name for name, spec in STORED.items() if spec.form is Texts and spec.words is None]
_INTS = [name for name, spec in STORED.items() if spec.form is Ints]
# As measured: differences of integers are half as large as the integers, at no cost, and leave
# little to compress; dictionaries of numbers and statistics only cost time.
_OPTIONS: dict[str, Any] = {
    "compression": "snappy",
    "use_dictionary": [KIND, *(name for name, spec in STORED.items() if spec.form is Texts)],
    "column_encoding": dict.fromkeys(_INTS, "DELTA_BINARY_PACKED"),
    "write_statistics": ["seq"],
    "write_batch_size": 1 << 16,
    "data_page_size": 8 << 20,
}


class ParquetWriter:
    """A subscriber that writes every event it is called with, and takes whole batches as well.

    A context manager that finishes the log, also when the block raises: the log then reads up to
    the last event, and is reported as incomplete. Not kept are a log that has nothing beyond
    its header, one of a run that turned out to be impossible (`SimulationError`), and one that was
    to replace a file, which stays as it was.

    Args:
        path: the log.
        force: replace a file that is there, when the log is finished.

    Raises:
        UsageError: pyarrow is not installed.
        OutputError: here, the file exists, is a directory, cannot be created, or is being written
            by another program; when called or closed, the disk is full. The file is gone then, and
            what was there before is not.
    """

    def __init__(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        self._pa, self._parquet = load_pyarrow()
        self.path = os.fspath(path)
        self._maker = TableMaker(self._pa, ROW_GROUP)
        self._events: list[Event] = []
        self._batches: list[EventColumns] = []
        self._held = 0
        self._written = 0
        self._sink: _Sink | None = None
        self._file: Any = None
        self._partial: PartialFile | None = PartialFile(self.path, force=force)

    def __call__(self, event: Event) -> None:
        """Write one event. O(1), amortised; what is wrong with it may be told some events later.

        Raises:
            OutputError: see the class; or a field holds what its column cannot.
            LogError: a field holds nan.
        """
        self._require_open()
        self._events.append(event)
        if len(self._events) >= _HELD_EVENTS:
            self._convert()

    def write_batch(self, columns: EventColumns) -> None:
        """Write a batch of events, in order, after those that were written before. O(n).

        The batch is refused or taken as a whole. Its arrays must not change until it is written,
        so at best never.

        Raises:
            OutputError: see the class.
            LogError: the batch breaks the schema (`EventColumns.check`).
        """
        self._require_open()
        columns.check()
        self._convert()
        self._take(columns)

    def close(self) -> None:
        """Write what is held back and finish the file; again: nothing.

        Raises:
            OutputError: the rest could not be written.
            LogError: as when called.
        """
        if self._partial is None:
            return
        try:
            self._convert()
            if self._held or self._file is None:
                self._write_group()
            self._guarded(self._file.close)
        except BaseException:
            self._discard()
            raise
        partial, self._partial = self._partial, None
        if partial is not None:
            partial.publish()

    def __enter__(self) -> ParquetWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        events = self._written + self._held + len(self._events)
        worthless = events <= 1 or isinstance(error, SimulationError)
        if self._partial is not None and (self._partial.replaces or worthless):
            self._discard()
            return
        try:
            self.close()
        except (OutputError, LogError):
            # What stopped the block says more than the tail that could not be written.
            return

    def _require_open(self) -> None:
        if self._partial is None:
            raise OutputError("the log is closed", path=self.path)

    def _convert(self) -> None:
        events, self._events = self._events, []
        if not events:
            return
        try:
            columns = columns_of(events)
        except LogError as error:
            raise OutputError(error.what, path=self.path) from None
        columns.check()
        self._take(columns)

    def _take(self, columns: EventColumns) -> None:
        start = 0
        while start < len(columns):
            stop = min(len(columns), start + ROW_GROUP - self._held)
            self._batches.append(columns.slice(start, stop))
            self._held += stop - start
            start = stop
            if self._held == ROW_GROUP:
                self._write_group()

    def _write_group(self) -> None:
        columns = _canonical(EventColumns.concat(self._batches))
        self._batches.clear()
        self._held = 0
        if self._file is None:
            self._begin(columns)
        table = self._maker.table(columns)
        self._guarded(lambda: self._file.write_table(table, row_group_size=ROW_GROUP))
        self._written += len(columns)

    def _begin(self, columns: EventColumns) -> None:
        if self._partial is None:
            return
        metadata = {SCHEMA_KEY: SCHEMA.encode()}
        if len(columns) and columns.kind[0] == KIND_CODES["run"]:
            metadata[RUN_KEY] = orjson.dumps(encode(events_of(columns.slice(0, 1))[0]))
        sink = self._sink = _Sink(self._partial)
        schema = self._maker.schema.with_metadata(metadata)
        self._file = self._guarded(
            lambda: self._parquet.ParquetWriter(self._pa.PythonFile(sink, "w"), schema, **_OPTIONS)
        )

    def _guarded(self, action: Any) -> Any:
        try:
            return action()
        except (OSError, self._pa.ArrowException) as error:
            self._discard()
            reason = getattr(error, "strerror", None) or error
            raise OutputError(f"cannot be written: {reason}", path=self.path) from None

    def _discard(self) -> None:
        """Leave nothing of this log; what was there before it stays."""
        self._events, self._batches, self._held = [], [], 0
        partial, self._partial = self._partial, None
        if self._sink is not None:
            self._sink.broken = True
        if self._file is not None and self._file.is_open:
            # pyarrow would do so anyway once it is collected, and complain out of turn.
            self._file.close()
        if partial is not None:
            partial.discard()


def _canonical(columns: EventColumns) -> EventColumns:
    """The batch with its words in order of first use, whoever made it."""
    fields = dict(columns.fields)
    for name in _FREE_TEXTS:
        column = fields.get(name)
        if isinstance(column, Texts) and len(column):
            index: dict[str, int] = {}
            used, first = np.unique(column.codes, return_index=True)
            new = np.zeros(len(column.words), np.int32)
            for code in used[np.argsort(first)].tolist():
                new[code] = index.setdefault(column.words[code], len(index))
            fields[name] = Texts(new[column.codes], tuple(index), column.valid)
    return EventColumns(columns.kind, fields, columns.extra)


class _Sink:
    """The file that pyarrow writes to; once broken, it takes everything and keeps nothing."""

    def __init__(self, partial: PartialFile) -> None:
        self._stream = partial.stream
        self._written_bytes = 0
        self.broken = False
        self.closed = False

    def write(self, data: Any) -> int:
        """Write all of it."""
        if not self.broken:
            self._stream.write(data)
        self._written_bytes += len(data)
        return len(data)

    def tell(self) -> int:
        """Number of bytes so far."""
        return self._written_bytes

    def flush(self) -> None:
        """Hand everything to the operating system."""
        if not self.broken:
            self._stream.flush()

    def close(self) -> None:
        """Nothing: the file is closed by whoever opened it."""
        self.closed = True
