"""Writing the events of a run to a file, one JSON object a line, by way of structlog.

The file is written in place and handed to the operating system every 64 KiB, so that whatever stops
the program leaves a log that reads up to that point. The same events give the same bytes: no times,
no file names, and compressors with fixed settings.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol, cast

import orjson
import structlog
import zstandard
from structlog.typing import EventDict, Processor, WrappedLogger

from dtrdiag.errors import OutputError, SimulationError
from dtrdiag.events import Event, encode

FLUSH_BYTES = 64 << 10
"""So much uncompressed text is held back at most, and lost if the program is killed."""
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3


class JsonlWriter:
    """A subscriber that writes every event it is called with.

    A context manager that closes the log, also when the block raises: the log then reads up to the
    last event, and is reported as incomplete. Not kept are a log that has nothing beyond
    its header, one of a run that turned out to be impossible (`SimulationError`), and one that was
    to replace a file, which stays as it was.

    Args:
        path: the log; a name ending in `.gz` or `.zst` is compressed.
        force: replace a file that is there. The log is written beside it, under a name that ends
            in `.partial`, and takes its place when it is closed.
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
        self._events = 0
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
            self._events += 1
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
        if error is None:
            self.close()
            return
        try:
            self._file.give_up(keep=self._events > 1 and not isinstance(error, SimulationError))
        except OutputError:
            # What stopped the block says more than the tail that could not be written.
            return


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

    After a failed write it takes no more, and closing it raises nothing. What was written until
    then stays, unless that is nothing or was to replace a file.
    """

    def __init__(self, path: str, *, force: bool) -> None:
        self._path = path
        self._compressor, self._block_mode, self._end_mode = _compressor(path)
        self._lines: list[bytes] = []
        self._held_bytes = 0
        self._written_bytes = 0
        self._header_bytes = 0
        self._temporary: str | None = None
        self._mine = not os.path.exists(path)
        self._raw: FileIO | None = self._open(force)

    def _open(self, force: bool) -> FileIO:
        if force and os.path.isfile(self._path):
            raw, self._temporary = _create_beside(self._path)
            return raw
        return _create(self._path, force=force)

    def write(self, line: bytes) -> int:
        if self._raw is None:
            raise OutputError("the log is closed", path=self._path)
        self._lines.append(line)
        self._held_bytes += len(line)
        if self._held_bytes >= FLUSH_BYTES:
            self._pass_on(self._block_mode)
        elif not self._header_bytes:
            # At once, so that a compressed log that is cut early still tells what was run.
            self._pass_on(self._block_mode)
            self._header_bytes = self._written_bytes
        return len(line)

    def flush(self) -> None:
        """Nothing: lines are passed on in blocks."""

    def close(self) -> None:
        if self._raw is not None:
            self._pass_on(self._end_mode)
            self._close_raw()
            self._publish()

    def give_up(self, keep: bool) -> None:
        """Close after an error: keep what was written, if it is a new file and worth keeping."""
        keep = keep and self._temporary is None
        try:
            if self._raw is not None and keep:
                self._pass_on(self._end_mode)
            self._close_raw()
        finally:
            if not keep:
                self._remove()

    def _publish(self) -> None:
        if self._temporary is None:
            return
        try:
            # Through a link, so that the file that it points at is replaced and not the link.
            shutil.copymode(self._path, self._temporary)
            os.replace(self._temporary, os.path.realpath(self._path))
        except OSError as error:
            self._remove()
            raise OutputError(
                f"cannot be written: {error.strerror or error}", path=self._path
            ) from None
        self._temporary = None

    def _remove(self) -> None:
        """Leave nothing of this log; what was there before it stays."""
        doomed = self._temporary or (self._path if self._mine else None)
        if doomed is not None and (self._temporary or os.path.isfile(doomed)):
            with suppress(OSError):
                os.unlink(doomed)
        self._temporary, self._mine = None, False

    def _pass_on(self, mode: int) -> None:
        data = self._compressor.compress(b"".join(self._lines)) + self._compressor.flush(mode)
        self._lines.clear()
        self._held_bytes = 0
        try:
            self._write_all(data)
        except OSError as error:
            with suppress(OutputError):
                self._close_raw()
            if self._temporary is not None or self._written_bytes <= self._header_bytes:
                self._remove()
            raise OutputError(
                f"cannot be written: {error.strerror or error}", path=self._path
            ) from None

    def _write_all(self, data: bytes) -> None:
        view = memoryview(data)
        while self._raw is not None and view:
            written = self._raw.write(view)
            self._written_bytes += written
            view = view[written:]

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


def _create_beside(path: str) -> tuple[FileIO, str]:
    """A new file in the folder of another one, and its name."""
    folder, name = os.path.split(os.path.realpath(path))
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(
            prefix=f".{name[:100]}.", suffix=".partial", dir=folder
        )
        os.close(handle)
        return FileIO(temporary, "wb"), temporary
    except OSError as error:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)
        raise OutputError(f"cannot be created: {error.strerror or error}", path=path) from None
