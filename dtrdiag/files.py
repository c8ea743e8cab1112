"""Where bytes come from: plain, .gz and .zst files and members of .zip archives, safely.

Everything that decompresses goes through here, so that a small file cannot fill the memory.
"""

from __future__ import annotations

import gzip
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

import zstandard

from dtrdiag.errors import InputError

ARCHIVE_SEPARATOR = "::"
"""Between an archive and its member, as in `dtr-logs.zip::resnet32`."""
MAX_RATIO = 200
"""Refuse what decompresses to more than this many times its size, once past `FREE_BYTES`.

DTR logs, the most repetitive included, compress 10 to 60 times.
"""
FREE_BYTES = 16 << 20
MAX_BYTES = 8 << 30
_CHUNK = 1 << 20
_ZSTD_PIECE = 1 << 12


def read_bytes(source: str) -> bytes:
    """The uncompressed content of a file or of one member of an archive.

    Args:
        source: a path; `.gz` and `.zst` are decompressed; `archive.zip::PART` is the one member
            whose path is PART, whose file name begins with it, or whose path contains it.

    Raises:
        InputError: missing, a directory, unreadable, corrupt, or suspiciously compressed.
    """
    chunks = []
    with _open_strict(source) as (stream, compressed_bytes):
        total = 0
        try:
            for chunk in stream:
                total += len(chunk)
                _check_size(source, total, compressed_bytes)
                chunks.append(chunk)
        except (EOFError, OSError, zlib.error, zipfile.BadZipFile, zstandard.ZstdError) as error:
            raise InputError(f"cannot decompress: {error}", path=source) from error
    return b"".join(chunks)


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
    while data := raw.read(_ZSTD_PIECE):
        while data:
            frame = frame or zstandard.ZstdDecompressor().decompressobj()
            yield frame.decompress(data)
            data = b""
            if frame.eof:
                data, frame = frame.unused_data, None
    if frame is not None:
        raise EOFError("the file ends in the middle of a frame")


@contextmanager
def open_source(source: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """A stream of uncompressed bytes, and the compressed size (None: not compressed).

    A .zst file that was cut reads up to the cut, as a log of a run that was killed should.
    """
    if ARCHIVE_SEPARATOR in source and not os.path.exists(source):
        archive, _, part = source.partition(ARCHIVE_SEPARATOR)
        with _open_archive(archive) as bundle:
            member = _find_member(bundle, archive, part)
            with _open_member(bundle, archive, member) as stream:
                yield stream, member.compress_size
        return
    with open_file(source) as raw:
        size = os.fstat(raw.fileno()).st_size
        if source.endswith(".gz"):
            with gzip.GzipFile(fileobj=raw) as stream:
                yield cast(BinaryIO, stream), size
        elif source.endswith(".zst"):
            with zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True) as stream:
                yield cast(BinaryIO, stream), size
        else:
            yield raw, None


@contextmanager
def open_file(path: str) -> Iterator[BinaryIO]:
    """A file's bytes; what the operating system refuses becomes an `InputError`."""
    try:
        raw = open(path, "rb")  # noqa: SIM115 - closed below; opening alone may raise InputError
    except FileNotFoundError:
        raise InputError("no such file", path=path) from None
    except IsADirectoryError:
        raise InputError("is a directory, not a file", path=path) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"cannot be opened: {reason}", path=path) from None
    with raw:
        yield raw


def _check_size(source: str, total: int, compressed_bytes: int | None) -> None:
    if total > MAX_BYTES:
        raise InputError(f"more than {MAX_BYTES >> 30} GiB uncompressed", path=source)
    if compressed_bytes is not None and total > max(FREE_BYTES, MAX_RATIO * compressed_bytes):
        raise InputError(
            f"decompresses to more than {MAX_RATIO} times its size, refused", path=source
        )


@contextmanager
def _open_archive(path: str) -> Iterator[zipfile.ZipFile]:
    with open_file(path) as raw:
        try:
            bundle = zipfile.ZipFile(raw)
        except (zipfile.BadZipFile, OSError, ValueError) as error:
            raise InputError(f"not a zip archive: {error}", path=path) from None
        with bundle:
            yield bundle


def _open_member(bundle: zipfile.ZipFile, archive: str, member: zipfile.ZipInfo) -> BinaryIO:
    try:
        return cast(BinaryIO, bundle.open(member))
    except (zipfile.BadZipFile, NotImplementedError, OSError, EOFError) as error:
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
        names = ", ".join(info.filename for info in members[:12]) or "none"
        raise InputError(f"no member matches {part!r}; members: {names}", path=archive)
    names = ", ".join(info.filename for info in found[:6])
    raise InputError(f"{part!r} matches {len(found)} members: {names}", path=archive)
