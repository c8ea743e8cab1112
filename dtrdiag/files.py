"""Where bytes come from: plain, .gz and .zst files and members of .zip archives, safely.

Everything that decompresses goes through here, so that a small file cannot fill the memory.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

import zstandard

from dtrdiag.errors import InputError
from dtrdiag.suggestions import close_files, no_such

ARCHIVE_SEPARATOR = "::"
"""Between an archive and its member, as in `dtr-logs.zip::resnet32`."""
MAX_RATIO = 200
"""Refuse what decompresses to more than this many times its size, once past `FREE_BYTES`.

DTR logs, the most repetitive included, compress 10 to 60 times.
"""
FREE_BYTES = 16 << 20
MAX_BYTES = 1 << 30
"""Refuse to hold more than this of one file; the largest public log has 9 MiB."""
_CHUNK = 1 << 20
_ZSTD_PIECE = 1 << 12
_LINE_PIECE = 1 << 16


def read_bytes(source: str) -> bytes:
    """The uncompressed content of a file or of one member of an archive.

    Args:
        source: a path; `.gz` and `.zst` are decompressed; `archive.zip::PART` is the one member
            whose path is PART, whose file name begins with it, or whose path contains it.

    Raises:
        InputError: missing, a directory, unreadable, corrupt, or suspiciously compressed.
    """
    content = io.BytesIO()  # hands its buffer over at the end, where joining pieces copies them
    total = 0
    with _open_strict(source) as (stream, compressed_bytes):
        try:
            for chunk in stream:
                total += len(chunk)
                _check_size(source, total, compressed_bytes)
                content.write(chunk)
        except (EOFError, OSError) as error:
            raise InputError(f"cannot decompress: {error}", path=source) from error
    return content.getvalue()


def read_first_line(source: str, limit_bytes: int) -> bytes:
    """The first line of what `read_bytes` takes, without its newline; up to a cut, if there is one.

    Args:
        source: see `read_bytes`.
        limit_bytes: no more is read than this and one piece; a longer line is returned in part.

    Raises:
        InputError: see `read_bytes`.
    """
    line = bytearray()
    with open_source(source) as (stream, _):
        # read1 returns what is there; read would lose it when the stream is cut further on.
        try:
            while (
                b"\n" not in line
                and len(line) < limit_bytes
                and (piece := stream.read1(_LINE_PIECE))
            ):
                line += piece
        except EOFError:
            return bytes(line.partition(b"\n")[0])
        except OSError as error:
            raise InputError(f"cannot decompress: {error}", path=source) from error
    return bytes(line.partition(b"\n")[0])


@contextmanager
def _open_strict(source: str) -> Iterator[tuple[Iterator[bytes], int | None]]:
    if source.endswith(".zst") and (ARCHIVE_SEPARATOR not in source or os.path.exists(source)):
        with open_file(source) as raw:
            yield _zstd_chunks(raw), os.fstat(raw.fileno()).st_size
    else:
        with open_source(source) as (stream, compressed_bytes):
            yield iter(lambda: stream.read(_CHUNK), b""), compressed_bytes


def _zstd_chunks(raw: BinaryIO) -> Iterator[bytes]:
    """The frames of a file; a stream reader would take a cut file for a whole one."""
    frame = None
    # A few bytes of zstd can stand for 128 KiB: small pieces keep each result small.
    while data := _guarded(raw.read, _ZSTD_PIECE):
        while data:
            frame = frame or zstandard.ZstdDecompressor().decompressobj()
            yield _guarded(frame.decompress, data)
            data = b""
            if frame.eof:
                data, frame = frame.unused_data, None
    if frame is not None:
        raise EOFError("the file ends in the middle of a frame")


@contextmanager
def open_source(source: str) -> Iterator[tuple[_Stream, int | None]]:
    """A stream of uncompressed bytes, and the compressed size (None: not compressed).

    A .zst file that was cut reads up to the cut, as a log of a run that was killed should. Reading
    raises `OSError` for whatever is wrong with the content, and `EOFError` at a cut of other kinds.
    """
    if ARCHIVE_SEPARATOR in source and not os.path.exists(source):
        archive, _, part = source.partition(ARCHIVE_SEPARATOR)
        with _open_archive(archive) as bundle:
            member = _find_member(bundle, archive, part)
            with _open_member(bundle, archive, member) as stream:
                yield _Stream(stream), member.compress_size
        return
    with open_file(source) as raw:
        size = os.fstat(raw.fileno()).st_size
        if source.endswith(".gz"):
            with gzip.GzipFile(fileobj=raw) as stream:
                yield _Stream(stream), size
        elif source.endswith(".zst"):
            with zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True) as stream:
                yield _Stream(stream), size
        else:
            yield _Stream(raw), None


class _Stream:
    """What is read from, whatever packed it, with one kind of error for all that may be wrong."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, as many as there are."""
        return _guarded(self._raw.read, size)

    def read1(self, size: int = -1) -> bytes:
        """Up to `size` bytes, as many as come in one piece."""
        return _guarded(self._raw.read1, size)


def _guarded(function: Callable[..., bytes], argument: int | bytes) -> bytes:
    """What a decompressor returns. Fed with garbage it may raise whatever it likes."""
    try:
        return function(argument)
    except (EOFError, OSError):
        raise
    except Exception as error:
        raise OSError(f"{error}" or type(error).__name__) from error


@contextmanager
def open_file(path: str) -> Iterator[BinaryIO]:
    """A regular file's bytes; what the operating system refuses becomes an `InputError`.

    Pipes and devices are refused before they are opened: one may wait, or never end.
    """
    try:
        if not stat.S_ISREG(mode := os.stat(path).st_mode):
            directory = stat.S_ISDIR(mode)
            what = "is a directory, not a file" if directory else "not a regular file"
            raise InputError(what, path=path)
        raw = open(path, "rb")  # noqa: SIM115 - closed below; opening alone may raise InputError
    except FileNotFoundError:
        close = "".join(f"; did you mean {found}?" for found in close_files(path))
        raise InputError(f"no such file{close}", path=path) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"cannot be opened: {reason}", path=path) from None
    with raw:
        yield raw


def _check_size(source: str, total: int, compressed_bytes: int | None) -> None:
    if total > MAX_BYTES:
        raise InputError(f"more than {MAX_BYTES >> 20:,} MiB uncompressed", path=source)
    if compressed_bytes is not None and total > max(FREE_BYTES, MAX_RATIO * compressed_bytes):
        raise InputError(
            f"decompresses to more than {MAX_RATIO} times its size, refused", path=source
        )


@contextmanager
def _open_archive(path: str) -> Iterator[zipfile.ZipFile]:
    with open_file(path) as raw:
        try:
            bundle = zipfile.ZipFile(raw)
        except Exception as error:  # struct.error, NotImplementedError and others, see _guarded
            raise InputError(f"not a zip archive: {error}", path=path) from None
        with bundle:
            yield bundle


def _open_member(bundle: zipfile.ZipFile, archive: str, member: zipfile.ZipInfo) -> BinaryIO:
    try:
        return cast(BinaryIO, bundle.open(member))
    except Exception as error:
        raise InputError(
            f"member {member.filename!r} cannot be read: {error}", path=archive
        ) from None


def _base(info: zipfile.ZipInfo) -> str:
    return info.filename.rpartition("/")[2]


def _find_member(bundle: zipfile.ZipFile, archive: str, part: str) -> zipfile.ZipInfo:
    members = [info for info in bundle.infolist() if not info.is_dir()]
    exact = [info for info in members if info.filename == part]
    # `lstm` is meant to be `logs/lstm-128.log` although `logs/treelstm-6.log` contains it too.
    starting = [info for info in members if part and _base(info).startswith(part)]
    containing = [info for info in members if part and part in info.filename]
    found = exact or (starting if len(starting) == 1 else containing)
    if len(found) == 1:
        if found[0].flag_bits & 1:
            raise InputError(f"member {found[0].filename!r} is encrypted", path=archive)
        return found[0]
    if not found:
        bases = [_base(info) for info in members]
        more = len(bases) - 12
        listed = f"there are {', '.join(bases[:12])} and {more:,} more" if more > 0 else None
        raise InputError(no_such("member", part, bases, listed), path=archive)
    names = ", ".join(info.filename for info in found[:6])
    raise InputError(f"{part!r} matches {len(found)} members: {names}", path=archive)
