"""The events of a Parquet log, as records or in columns, a bounded number at a time."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import orjson

from dtrdiag.errors import DtrdiagError, LogError, UsageError
from dtrdiag.events.codec import decode, header_version
from dtrdiag.events.columns import COLUMNS, KIND_CODES, KINDS, EventColumns
from dtrdiag.events.conversion import events_of
from dtrdiag.events.gathering import Gatherer
from dtrdiag.events.parquet import MAGIC, RUN_KEY, SCHEMA_KEY, SUFFIX, load_pyarrow
from dtrdiag.events.records import SCHEMA_MINOR, Event, RunHeader
from dtrdiag.log.reader import LogReader
from dtrdiag.suggestions import no_such

BATCH = 1 << 18
"""How many events are in memory in columns at a time."""
_RECORDS = 1 << 12
"""How many of them as records."""
_END = KIND_CODES["end"]


def is_parquet(path: str) -> bool:
    """Whether a plain file is Parquet, or is named as if it were."""
    if not os.path.isfile(path):
        # A pipe, say, would wait for somebody to write to it.
        return False
    try:
        with open(path, "rb") as stream:
            return stream.read(len(MAGIC)) == MAGIC or path.endswith(SUFFIX)
    except OSError:
        # Whoever reads it will say what is wrong.
        return False


def is_parquet_log(path: str) -> bool:
    """Whether a Parquet file says that it is an event log; False also where nobody can tell."""
    try:
        _, parquet = load_pyarrow()
        metadata = parquet.read_metadata(path).metadata or {}
    except (UsageError, OSError, ValueError):
        return False
    return RUN_KEY in metadata


class ParquetReader(LogReader):
    """The events of one Parquet log in order, as often as asked; see `LogReader`.

    Raises:
        UsageError: pyarrow is not installed.
        LogError: the file is no whole Parquet file, or no event log.
        LogVersionError: the log has a major version that this reader does not know.
    """

    def __init__(self, path: str) -> None:
        self._pa, self._parquet = load_pyarrow()
        super().__init__(path)

    def __iter__(self) -> Iterator[Event]:
        """Events from the header to `end`, or to where the log ends without one.

        Raises:
            LogError: the file is damaged, or holds what is no event.
        """
        for columns in self.batches():
            for start in range(0, len(columns), _RECORDS):
                part = columns.slice(start, min(len(columns), start + _RECORDS))
                yield from events_of(part)

    def batches(self, names: Collection[str] | None = None) -> Iterator[EventColumns]:
        """The events in columns, at most `BATCH` at a time.

        Args:
            names: the columns to read, `seq` besides; None: all, and fields that the schema does
                not know.

        Raises:
            UsageError: there is no such column.
            LogError: the file is damaged, or holds what is no event.
        """
        self.complete, self.problem, self.passed_over = False, None, 0
        unknown = [name for name in names or () if name not in COLUMNS]
        if unknown:
            raise UsageError(no_such("column of a log", unknown[0], COLUMNS))
        done, last_seq = 0, -1
        try:
            for columns in self._batches(names, None if names is None else {*names, "seq"}):
                if self.complete:
                    raise LogError("something follows the end event")
                if not done and len(columns) and columns.kind[0] != KIND_CODES["run"]:
                    first = KINDS[columns.kind[0]]
                    raise LogError(f"begins with a {first!r} event, not with 'run'")
                ends = np.flatnonzero(columns.kind == _END)
                if len(ends) and ends[0] + 1 < len(columns):
                    raise LogError("something follows the end event")
                self.complete = len(ends) > 0
                done += len(columns)
                if len(columns):
                    last_seq = int(columns.column("seq").values[-1])
                    yield columns
                self.watch(done)
        except (OSError, UnicodeError, self._pa.ArrowException) as error:
            what = f"cannot be read further after row {done}: {error}"
            raise LogError(what, path=self.path) from None
        except LogError as error:
            if error.path is not None:
                raise
            what = f"rows {done} to {done + BATCH}: {error.what}" if done else error.what
            raise type(error)(what, path=self.path) from None
        if not self.complete:
            self.problem = (
                f"ends after row {done}, the event with seq {last_seq}, without an end event"
            )

    def _in_columns(self) -> Iterator[EventColumns]:
        return self.batches()

    def _batches(
        self, names: Collection[str] | None, wanted: Collection[str] | None
    ) -> Iterator[EventColumns]:
        newer = header_version({"schema": self.header.schema})[1] > SCHEMA_MINOR
        with self._opened() as file:
            gatherer = Gatherer(self._pa, file.schema_arrow, wanted)
            seq = -1
            for batch in file.iter_batches(BATCH, columns=gatherer.wanted):
                if newer:
                    batch = self._known(gatherer, batch, seq)
                columns = gatherer.batch(batch)
                columns.check() if names is None else columns.check(set(wanted or ()))
                if len(columns):
                    seq = int(columns.column("seq").values[-1])
                yield columns

    def _known(self, gatherer: Gatherer, batch: Any, last_seq: int) -> Any:
        """The events of known kinds; `seq` must count on over the others."""
        codes, words = gatherer.kinds(batch)
        known = np.array([word in KIND_CODES for word in words] or [True])[codes]
        if known.all():
            return batch
        seqs = batch.column("seq").to_numpy()
        gaps = np.diff(seqs, prepend=last_seq) != 1
        wrong = np.flatnonzero(~known & gaps)
        if len(wrong):
            kind = str(words[codes[wrong[0]]])[:40]
            raise LogError(f"event of unknown kind {kind!r}: field 'seq' does not count on")
        self.passed_over += int((~known).sum())
        return batch.filter(self._pa.array(known))

    def _opened(self) -> Any:
        try:
            size = os.path.getsize(self.path)
            with open(self.path, "rb") as stream:
                first = stream.read(len(MAGIC))
                stream.seek(max(0, size - len(MAGIC)))
                last = stream.read()
            if first != MAGIC:
                raise self._error("not a Parquet file, as its name says", None)
            if last != MAGIC or size < 12:
                raise self._error("a Parquet file without its end: cut, or never finished", None)
            return self._parquet.ParquetFile(self.path)
        except (OSError, UnicodeError, self._pa.ArrowException) as error:
            raise self._error(f"a damaged Parquet file: {error}", None) from None

    def _read_header(self) -> RunHeader:
        with self._opened() as file:
            metadata = file.metadata.metadata or {}
        if SCHEMA_KEY not in metadata:
            raise self._error("a Parquet file, but not an event log", None)
        try:
            header_version({"schema": metadata[SCHEMA_KEY].decode(errors="replace")})
            if RUN_KEY not in metadata:
                raise LogError("an event log without a run header")
            header = decode(orjson.loads(metadata[RUN_KEY]))
        except orjson.JSONDecodeError as error:
            raise self._error(f"the run header is not JSON: {error}", None) from None
        except DtrdiagError as error:
            raise type(error)(error.what, path=self.path) from None
        if not isinstance(header, RunHeader):
            raise self._error(f"its run header is a {header.kind!r} event", None)
        return header
