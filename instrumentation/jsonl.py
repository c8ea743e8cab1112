"""Writing the events of a run to a file, one JSON object a line, by way of structlog.

The file is written in place and handed to the operating system every 64 KiB, so that whatever stops
the program leaves a log that reads up to that point. The same events give the same bytes: no times,
no file names, and compressors with fixed settings.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol, cast

import orjson
import structlog
import zstandard
from structlog.typing import EventDict, Processor, WrappedLogger

from dtrdiag.errors import OutputError
from dtrdiag.events import Event, encode

FLUSH_BYTES = 64 << 10
"""So much uncompressed text is held back at most, and lost if the program is killed."""
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3


class JsonlWriter:
    """A subscriber that writes every event it is called with.

    A context manager that closes the log, also when the block raises: the log then reads up to the
    last event, and is reported as incomplete.

    Args:
        path: the log; a name ending in `.gz` or `.zst` is compressed.
        force: replace a file that is there. It stays as it is if it cannot be opened for writing.
        processors: structlog processors that see each event as a dict before it is rendered, for
            example to add fields. They must keep the fields of the schema and drop no event.

    Raises:
        OutputError: here, the file exists, is a directory, or cannot be created; when called or
            closed, the disk is full or an event has no JSON form.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        processors: Sequence[Processor] = (),
    ) -> None:
        self.path = os.fspath(path)
        self._file = _LogFile(self.path, force=force)
        self._logger = _EventLogger(
            _LineLogger(cast(BinaryIO, self._file)), [*processors, render], {}
        )

    def __call__(self, event: Event) -> None:
        """Write one event.

        Raises:
            OutputError: see the class.
            LogError: a field holds nan.
        """
        try:
            self._logger.write(encode(event))
        except (orjson.JSONEncodeError, UnicodeError) as error:
            raise OutputError(
                f"event {event.seq} ({event.kind}) has no JSON form: {error}", path=self.path
            ) from None

    def close(self) -> None:
        """Write what is held back and close the file; again: nothing.

        Raises:
            OutputError: the rest could not be written.
        """
        self._file.close()

    def __enter__(self) -> JsonlWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except OutputError:
            # What stopped the block says more than the tail that could not be written.
            if error is None:
                raise


def render(logger: WrappedLogger, name: str, event_dict: EventDict) -> bytes:
    """A structlog processor, the last of a chain: the event as one line of JSON."""
    return orjson.dumps(event_dict)


class _LineLogger(structlog.BytesLogger):
    """structlog's bytes logger without its lock and its flush per line: one run, one thread."""

    def msg(self, message: bytes) -> None:
        self._write(message + b"\n")


class _EventLogger(structlog.BoundLoggerBase):
    """Runs the processors on a dict that is the event already.

    structlog's own methods first copy a context and keywords into a new dict, with `event` at its
    end; here nothing is bound, `event` stands in front, and a run has millions of events.
    """

    def write(self, fields: EventDict) -> None:
        line: Any = fields
        for processor in self._processors:
            line = processor(self._logger, "msg", line)
        self._logger.msg(line)


class _Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self, mode: int = ..., /) -> bytes: ...


class _Plain:
    """The compressor that does not compress."""

    def compress(self, data: bytes, /) -> bytes:
        return data

    def flush(self, mode: int = 0, /) -> bytes:
        return b""


def _compressor(path: str) -> tuple[_Compressor, int, int]:
    """A compressor, and its modes for `flush` between blocks and at the end."""
    if path.endswith(".gz"):
        # zlib's own gzip header names no file and has time 0. 31: largest window, gzip wrapper.
        gzip = cast(_Compressor, zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, 31))
        return gzip, zlib.Z_SYNC_FLUSH, zlib.Z_FINISH
    if path.endswith(".zst"):
        zstd = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True).compressobj()
        return (
            cast(_Compressor, zstd),
            zstandard.COMPRESSOBJ_FLUSH_BLOCK,
            zstandard.COMPRESSOBJ_FLUSH_FINISH,
        )
    return _Plain(), 0, 0


class _LogFile:
    """A file that structlog writes to: collects lines and passes them on in blocks.

    After a failed write it takes no more, and closing it raises nothing.
    """

    def __init__(self, path: str, *, force: bool) -> None:
        self._path = path
        self._compressor, self._block_mode, self._end_mode = _compressor(path)
        self._lines: list[bytes] = []
        self._held_bytes = 0
        self._raw: FileIO | None = _create(path, force=force)

    def write(self, line: bytes) -> int:
        if self._raw is None:
            raise OutputError("the log is closed", path=self._path)
        self._lines.append(line)
        self._held_bytes += len(line)
        if self._held_bytes >= FLUSH_BYTES:
            self._pass_on(self._block_mode)
        return len(line)

    def flush(self) -> None:
        """Nothing: lines are passed on in blocks."""

    def close(self) -> None:
        if self._raw is not None:
            self._pass_on(self._end_mode)
            self._close_raw()

    def _pass_on(self, mode: int) -> None:
        data = self._compressor.compress(b"".join(self._lines)) + self._compressor.flush(mode)
        self._lines.clear()
        self._held_bytes = 0
        try:
            self._write_all(data)
        except OSError as error:
            self._close_raw()
            raise OutputError(
                f"cannot be written: {error.strerror or error}", path=self._path
            ) from None

    def _write_all(self, data: bytes) -> None:
        view = memoryview(data)
        while self._raw is not None and view:
            view = view[self._raw.write(view) :]

    def _close_raw(self) -> None:
        raw, self._raw = self._raw, None
        # structlog keeps every file it ever wrote to in a table; what is large goes here.
        self._compressor = _Plain()
        if raw is not None:
            try:
                raw.close()
            except OSError as error:
                raise OutputError(
                    f"cannot be written: {error.strerror or error}", path=self._path
                ) from None


def _create(path: str, *, force: bool) -> FileIO:
    if Path(path).is_dir():
        raise OutputError("is a directory, not a file", path=path)
    try:
        return FileIO(path, "wb" if force else "xb")
    except FileExistsError:
        raise OutputError("exists already; --force replaces it", path=path) from None
    except FileNotFoundError:
        raise OutputError("the folder does not exist", path=path) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OutputError(f"cannot be created: {reason}", path=path) from None
