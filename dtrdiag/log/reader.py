"""Which events a log holds, read one at a time, and whether the log is whole.

A log may be cut anywhere, since the program that writes it may be killed at any moment. What was
written whole is read, and `LogReader.complete` and `LogReader.problem` say what is missing. What
no cut explains is an error that names file and line.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, cast

import orjson
import zstandard

from dtrdiag.errors import LogError
from dtrdiag.events.codec import decode, header_version, is_unknown_kind
from dtrdiag.events.records import SCHEMA_MINOR, End, Event, RunHeader
from dtrdiag.files import open_source
from dtrdiag.jsontext import encoding_problem
from dtrdiag.units import changes_words, exact_bytes, plain_name

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from dtrdiag.events.columns import EventColumns

MAX_LINE_BYTES = 16 << 20
"""A longer line is refused: no event is that long, and a line is held in memory whole."""
_CHUNK = 1 << 18


class LogReader:
    """The events of one log in order, as often as asked; each iteration reads the file anew.

    This one reads JSON lines, plain or compressed. It holds one chunk and one line at a time,
    whatever the size of the log.

    Iterating raises `LogError` with file and line for a line that is no event of the schema, and
    for anything after the `end` event. Events of a kind that a newer minor version added are
    passed over (see `dtrdiag.events.codec`).

    Attributes:
        path: the file.
        header: the first event.
        complete: whether the last iteration that ran to its end saw the `end` event; False before.
        problem: where the log is cut, in a sentence; None if it is complete or was not read yet.
        passed_over: how many events of unknown kinds the last iteration passed over.
        watch: is told now and then how many events an iteration has read so far.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.complete = False
        self.problem: str | None = None
        self.passed_over = 0
        self.watch: Callable[[int], None] = _unwatched
        self.header: RunHeader = self._read_header()

    def __repr__(self) -> str:
        header, budget = self.header, self.header.budget_bytes
        room = "no budget" if budget is None else f"budget {exact_bytes(budget)}"
        changed = changes_words(header.semantics, header.interventions)
        return (
            f"<{type(self).__name__} {plain_name(self.path, 200)}: "
            f"{plain_name(header.trace_name)} under {plain_name(header.policy)}{changed}, {room}>"
        )

    def __iter__(self) -> Iterator[Event]:
        """Events from the header to `end` or the cut.

        Raises:
            LogError: see the class.
        """
        self.complete, self.problem, self.passed_over = False, None, 0
        newer = header_version({"schema": self.header.schema})[1] > SCHEMA_MINOR
        last: Event | None = None
        last_seq = -1
        number = 0
        for lines, whole in read_lines(self.path):
            for number, line in enumerate(lines, number + 1):  # noqa: B020 - goes on counting
                if type(last) is End:
                    raise self._error("something follows the end event", number)
                try:
                    fields = orjson.loads(line)
                except orjson.JSONDecodeError as error:
                    if whole:
                        raise self._error(f"not JSON: {error}", number) from None
                    self.problem = f"cut in line {number}, after the event with seq {last_seq}"
                    return
                try:
                    last = decode(fields)
                except LogError as error:
                    if not (newer and is_unknown_kind(fields)):
                        raise self._at(error, number) from None
                    last_seq = self._pass_over(fields, last_seq, number)
                    continue
                last_seq = last.seq
                yield last
            self.watch(number)
        self.complete = type(last) is End
        if not self.complete:
            self.problem = (
                f"ends after line {number}, the event with seq {last_seq}, without an end event"
            )

    def to_arrow(self, columns: Collection[str] | None = None) -> pa.Table:
        """The log as a `pyarrow.Table`: a row per event, with the columns of docs/events.md.

        `event` is the kind, and fields have their names, units in them. Scores have two columns,
        `score` for fractions and `score_int` for whole numbers. What only the first event, the
        stop and the end have is a JSON object in `rest`. Time is linear; the table is in memory,
        at most some 300 bytes an event, and besides it one batch of events.

        Args:
            columns: the columns to keep, in this order; None: all. Ten columns of numbers take
                about 80 bytes an event.

        Raises:
            UsageError: pyarrow is not installed, or there is no such column.
            LogError: as iterating does; or a number does not fit into 64 bits.
        """
        from dtrdiag.log.tables import arrow_table

        return arrow_table(self._in_columns(), columns)

    def to_pandas(self, columns: Collection[str] | None = None) -> pd.DataFrame:
        """The log as a DataFrame; arguments, columns and errors as `to_arrow`.

        Whole numbers stay whole where some are missing (`Int64`), flags are `boolean`, words
        categories. Lists are objects, which take a hundred bytes each and more: leave the columns
        out that are not needed.
        """
        from dtrdiag.log.tables import pandas_frame

        return pandas_frame(self.to_arrow(columns))

    def _in_columns(self) -> Iterator[EventColumns]:
        from dtrdiag.log.tables import columns_in_batches

        return columns_in_batches(self)

    def _read_header(self) -> RunHeader:
        for (line, *_), whole in read_lines(self.path):
            try:
                fields = orjson.loads(line)
            except orjson.JSONDecodeError:
                what = "not an event log: line 1 is not JSON" if whole else "cut in the run header"
                raise self._error(encoding_problem(line) or what, 1) from None
            if isinstance(fields, dict) and "INSTRUCTION" in fields and "event" not in fields:
                raise self._error("a DTR log (a trace), not an event log", 1)
            try:
                header = decode(fields)
            except LogError as error:
                raise self._at(error, 1) from None
            if not isinstance(header, RunHeader):
                raise self._error(f"begins with a {header.kind!r} event, not with 'run'", 1)
            return header
        if os.path.getsize(self.path):
            raise self._error("cut before the end of the run header", 1)
        raise self._error("an empty file, not an event log", None)

    def _pass_over(self, fields: dict[str, Any], last_seq: int, number: int) -> int:
        seq = fields.get("seq")
        if type(seq) is not int or seq != last_seq + 1:
            kind = str(fields["event"])[:40]
            raise self._error(
                f"event of unknown kind {kind!r}: field 'seq' must be {last_seq + 1}", number
            )
        self.passed_over += 1
        return seq

    def _error(self, what: str, line: int | None) -> LogError:
        return LogError(what, path=self.path, line=line)

    def _at(self, error: LogError, line: int) -> LogError:
        return type(error)(error.what, path=self.path, line=line)


def _unwatched(events: int) -> None:
    """Nobody wants to know."""


def read_lines(path: str) -> Iterator[tuple[list[bytes], bool]]:
    """One or more lines without their newlines, and whether they had one; all but the last do.

    Raises:
        LogError: a line beyond `MAX_LINE_BYTES`, or content that cannot be read.
    """
    number = 1
    rest = b""
    for chunk in _chunks(path):
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        if lines:
            number += len(lines)
            yield lines, True
        if len(rest) > MAX_LINE_BYTES:
            what = f"a line longer than {MAX_LINE_BYTES >> 20} MiB"
            raise LogError(what, path=path, line=number)
    if rest:
        yield [rest], False


def _chunks(path: str) -> Iterator[bytes]:
    """The uncompressed content in pieces, up to where a cut compressed stream can be read."""
    with open_source(path) as (stream, _):
        # read1 returns what is there; read would lose it when the stream is cut further on.
        read = cast(Any, stream).read1
        while chunk := _read(path, read):
            yield chunk


def _read(path: str, read: Any) -> bytes:
    try:
        return cast(bytes, read(_CHUNK))
    except EOFError:
        return b""
    except (OSError, zlib.error, zipfile.BadZipFile, zstandard.ZstdError) as error:
        raise LogError(f"cannot be read further: {error}", path=path) from None
