"""Which event stands at a position of a log? Answered for any position, in no particular order.

JSON lines are found again by their offsets in the file, or in an unpacked copy without a name; a
Parquet log is held in columns. Opening one looks at each event's kind and at nothing else, so what
is wrong inside an event comes out when that event is read.
"""

from __future__ import annotations

import os
import re
import tempfile
import weakref
from collections import OrderedDict
from typing import IO, Protocol

import numpy as np
import numpy.typing as npt
import orjson

from dtrdiag.errors import DtrdiagError, LogError, UsageError
from dtrdiag.events.codec import decode, header_version
from dtrdiag.events.columns import COLUMNS, KIND_CODES, EventColumns
from dtrdiag.events.conversion import events_of
from dtrdiag.events.records import SCHEMA_MINOR, Event
from dtrdiag.files import ARCHIVE_SEPARATOR
from dtrdiag.log import LogReader, ParquetReader, open_log
from dtrdiag.log.reader import read_lines

MAX_EVENTS = 20_000_000
"""A longer log of JSON lines is refused: finding its lines alone takes a minute."""
MAX_PARQUET_EVENTS = 4_000_000
"""A longer Parquet log is refused, as its columns would take more than a gigabyte of memory."""
BLOCK = 256
_BLOCKS = 64
_KIND = re.compile(rb'\s*\{\s*"event"\s*:\s*"([a-z_]+)"')
_PRESSURE = re.compile(rb'"cause"\s*:\s*"pressure"')
_EVICT, _END = KIND_CODES["evict"], KIND_CODES["end"]
_UNKNOWN = 255


class _Events(Protocol):
    kinds: npt.NDArray[np.uint8]
    pressure: npt.NDArray[np.bool_]
    problem: str | None

    def read(self, start: int, stop: int) -> list[Event]: ...


class EventFile:
    """The events of one log by position, from 0. Positions are `seq` in a log without gaps.

    Attributes:
        path: the log.
        header: its first event.
        kinds: uint8[n], the kind of each event as its index in `KINDS`.
        pressure: bool[n], which events are evictions to make room.
        problem: where and why the log ends early, to put after "it"; None where it does not, or
            where that has not come out yet.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Find the events of the log. O(bytes of the log).

        Raises:
            InputError, LogError, UsageError: as `open_log`; or the log is too long.
        """
        reader = open_log(path)
        self.path = reader.path
        self.header = reader.header
        self._events: _Events
        self._events = _Columns(reader) if isinstance(reader, ParquetReader) else _Lines(reader)
        self.kinds, self.pressure = self._events.kinds, self._events.pressure
        self.problem = self._events.problem
        self._blocks: OrderedDict[int, list[Event]] = OrderedDict()
        if self.problem is None and self.kinds[-1] != _END:
            last = f"the event with seq {self.event(len(self) - 1).seq}"
            self.problem = f"ends after {last}, without an end event"

    def __len__(self) -> int:
        return len(self.kinds)

    def event(self, position: int) -> Event:
        """The event at a position. O(1) near those asked for lately, else O(`BLOCK`).

        Raises:
            LogError: it is no event of the schema.
        """
        number, row = divmod(position, BLOCK)
        block = self._blocks.get(number)
        if block is None:
            start = number * BLOCK
            try:
                block = self._events.read(start, min(start + BLOCK, len(self)))
            except LogError:
                return self._events.read(position, position + 1)[0]
            self._blocks[number] = block
            if len(self._blocks) > _BLOCKS:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(number)
        return block[row]

    def position_of(self, seq: int) -> int | None:
        """Where the event with a `seq` stands; None if there is none. O(log n)."""
        low, high = 0, len(self)
        if 0 <= seq < high and self.event(seq).seq == seq:
            return seq
        while low < high:
            middle = (low + high) // 2
            if self.event(middle).seq < seq:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and self.event(low).seq == seq else None

    def cut(self, position: int, problem: str) -> None:
        """Let the log end before a position, where it turned out to be unusable."""
        self.kinds, self.pressure = self.kinds[:position], self.pressure[:position]
        self.problem = problem
        self._blocks = OrderedDict(
            (number, block[: max(0, position - number * BLOCK)])
            for number, block in self._blocks.items()
        )


class _Lines:
    """JSON lines by their offsets."""

    def __init__(self, reader: LogReader) -> None:
        self._path = reader.path
        self._newer = header_version({"schema": reader.header.schema})[1] > SCHEMA_MINOR
        self.problem: str | None = None
        member = ARCHIVE_SEPARATOR in self._path and not os.path.exists(self._path)
        self._unpacked = member or self._path.endswith((".gz", ".zst"))
        self._file: IO[bytes] = (
            tempfile.TemporaryFile() if self._unpacked else open(self._path, "rb")  # noqa: SIM115
        )
        weakref.finalize(self, self._file.close)
        self._find()

    def _find(self) -> None:
        """Offsets, kinds and line numbers of the events."""
        offsets, kinds, numbers = [np.zeros(1, np.int64)], bytearray(), 0
        pressure: list[int] = []
        try:
            for lines, whole in read_lines(self._path):
                if len(kinds) > MAX_EVENTS:
                    break
                taken = self._take(lines, whole, kinds, pressure)
                lengths = np.fromiter(map(len, lines[:taken]), np.int64, taken)
                offsets.append(offsets[-1][-1] + np.cumsum(lengths + 1))
                if self._unpacked:
                    self._file.write(b"\n".join(lines[:taken]) + b"\n")
                numbers += taken
                if self.problem is not None:
                    break
        except DtrdiagError as error:
            self.problem = f"cannot be read after line {numbers}: {error.what}"
        if len(kinds) > MAX_EVENTS:
            raise UsageError(
                f"more than {MAX_EVENTS:,} events are too many to step through: list some of them "
                "with replay --from SEQ --to SEQ",
                path=self._path,
            )
        self._file.flush()
        every = np.frombuffer(bytes(kinds), np.uint8)
        known = np.flatnonzero(every != _UNKNOWN)
        self._offsets = np.concatenate(offsets)
        self._rows = known
        self.kinds = every[known]
        hit = np.zeros(len(every), np.bool_)
        hit[pressure] = True
        self.pressure = hit[known]

    def _take(self, lines: list[bytes], whole: bool, kinds: bytearray, pressure: list[int]) -> int:
        """How many of the lines are events; sets `problem` where one is not."""
        match, codes, searched = _KIND.match, KIND_CODES, _PRESSURE.search
        for taken, line in enumerate(lines):
            found = match(line)
            number = len(kinds) + 1
            if kinds and kinds[-1] == _END:
                self.problem = f"goes on after its end event, in line {number}"
                return taken
            code = codes.get(found[1].decode()) if found else None
            if code is None or not whole:
                code = self._slow(line, whole, number)
                if code is None:
                    return taken
            if code == _EVICT and searched(line):
                pressure.append(len(kinds))
            kinds.append(code)
        return len(lines)

    def _slow(self, line: bytes, whole: bool, number: int) -> int | None:
        """The kind of a line that does not look like others; None, with a `problem`, for none."""
        try:
            fields = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            self.problem = (
                f"cannot be read after line {number - 1}: not JSON: {error}"
                if whole
                else f"cut in line {number}"
            )
            return None
        kind = fields.get("event") if isinstance(fields, dict) else None
        if isinstance(kind, str) and kind in KIND_CODES:
            return KIND_CODES[kind]
        if isinstance(kind, str) and self._newer:
            return _UNKNOWN
        self.problem = f"cannot be read after line {number - 1}: no event of a known kind"
        return None

    def read(self, start: int, stop: int) -> list[Event]:
        rows = self._rows[start:stop].tolist()
        first = int(self._offsets[rows[0]])
        self._file.seek(first)
        text = self._file.read(int(self._offsets[rows[-1] + 1]) - first)
        events = []
        for row in rows:
            line = text[int(self._offsets[row]) - first : int(self._offsets[row + 1]) - first]
            try:
                events.append(decode(orjson.loads(line)))
            except orjson.JSONDecodeError as error:
                raise LogError(f"not JSON: {error}", path=self._path, line=row + 1) from None
            except LogError as error:
                raise type(error)(error.what, path=self._path, line=row + 1) from None
        return events


class _Columns:
    """A Parquet log, whole and in columns."""

    def __init__(self, reader: ParquetReader) -> None:
        self.problem: str | None = None
        self._batches: list[EventColumns] = []
        self._starts = [0]
        try:
            for columns in reader.batches():
                self._batches.append(columns)
                self._starts.append(self._starts[-1] + len(columns))
                if self._starts[-1] > MAX_PARQUET_EVENTS:
                    raise UsageError(
                        f"more than {MAX_PARQUET_EVENTS:,} events of a Parquet log are too many to "
                        "step through: list some of them with replay --from SEQ --to SEQ",
                        path=reader.path,
                    )
        except LogError as error:
            if not self._batches:
                raise
            self.problem = f"cannot be read after event {self._starts[-1] - 1}: {error.what}"
        self.kinds = np.concatenate([columns.kind for columns in self._batches])
        self.pressure = np.zeros(len(self.kinds), np.bool_)
        words = COLUMNS["cause"].words or ()
        for start, columns in zip(self._starts, self._batches, strict=False):
            causes = columns.of("evict", "cause").codes == words.index("pressure")
            self.pressure[start + np.flatnonzero(columns.kind == _EVICT)[causes]] = True

    def read(self, start: int, stop: int) -> list[Event]:
        events: list[Event] = []
        for first, columns in zip(self._starts, self._batches, strict=False):
            low, high = max(start - first, 0), min(stop - first, len(columns))
            if low < high:
                events += events_of(columns.slice(low, high))
        return events
