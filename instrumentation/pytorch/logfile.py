"""How is a DTR log put into a file, whole or not at all?"""

from __future__ import annotations

import gzip
import os

import zstandard

from dtrdiag.errors import OutputError
from dtrdiag.instrumentation.partial import PartialFile

_ZSTD_LEVEL = 19
"""Logs are written once and kept; a long one takes seconds."""


def check_log_path(path: str, *, force: bool) -> None:
    """Refuse what `write_log` would refuse, before anything is computed for it.

    Raises:
        OutputError: see `write_log`.
    """
    PartialFile(path, force=force).discard()


def write_log(path: str, content: bytes, *, force: bool) -> None:
    """Write a log; a name ending in `.gz` or `.zst` is compressed, always to the same bytes.

    Raises:
        OutputError: the file exists (without `force`), or cannot be created or written.
    """
    if path.endswith(".gz"):
        content = gzip.compress(content, mtime=0)
    elif path.endswith(".zst"):
        content = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True).compress(content)
    file = PartialFile(path, force=force)
    try:
        file.stream.write(content)
    except OSError as error:
        file.discard()
        what = f"cannot be written: {error.strerror or error}"
        raise OutputError(what, path=os.fspath(path)) from None
    file.publish()
