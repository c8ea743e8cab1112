"""How the archive of public traces gets into the cache: pinned by its digest, all or nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from dtrdiag.caching import cache_dir
from dtrdiag.errors import InputError, OutputError
from dtrdiag.trace.public import ARCHIVE_NAME, ARCHIVE_SHA256, ARCHIVE_URL

_REMOTE = ("http://", "https://")


def fetch(source: str | os.PathLike[str] | None = None, *, force: bool = False) -> Path:
    """Put the archive of public traces into the cache.

    Nothing is downloaded when the cache has it already. A source with another digest leaves the
    cache as it was.

    Args:
        source: a local file or an http(s) URL; by default where the archive is published.
        force: get it even if the cache has it.

    Returns:
        Path of the archive in the cache.

    Raises:
        InputError: the source cannot be read, or is not the archive.
        OutputError: the cache cannot be written.
    """
    import pooch  # only here: it takes longer to import than most commands to run

    origin = ARCHIVE_URL if source is None else os.fspath(source)
    cache = cache_dir()
    target = cache / ARCHIVE_NAME
    if not force and target.is_file() and pooch.file_hash(str(target)) == ARCHIVE_SHA256:
        return target
    # At its default level pooch tells standard error about every step.
    pooch.get_logger().setLevel("WARNING")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        # A folder of its own on the same file system: what fails vanishes with it, and the
        # archive appears in one step.
        with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as staging:
            got = pooch.retrieve(
                origin,
                known_hash=f"sha256:{ARCHIVE_SHA256}",
                fname=ARCHIVE_NAME,
                path=staging,
                downloader=_get,
            )
            os.replace(got, target)
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror or error}", path=cache) from error
    return target


def _get(origin: str, output: str, _pooch: Any) -> None:
    import pooch

    try:
        if origin.lower().startswith(_REMOTE):
            pooch.HTTPDownloader()(origin, output, None)
        else:
            shutil.copyfile(Path(origin).expanduser(), output)
    except IsADirectoryError:
        raise InputError("is a directory, not an archive", path=origin) from None
    except OSError as error:  # requests' errors are among them
        advice = "; --from FILE takes a copy, and DTRDIAG_TRACES may name one"
        why = _why(error) + (advice if origin.lower().startswith(_REMOTE) else "")
        raise InputError(f"cannot get the public traces: {why}", path=origin) from error
    found = pooch.file_hash(output)
    if found != ARCHIVE_SHA256:
        raise InputError(
            f"not the archive of public traces: SHA-256 {found}, expected {ARCHIVE_SHA256}",
            path=origin,
        )


def _why(error: OSError) -> str:
    text = str(error.strerror or error)
    # A failed connection is told over several lines of nested causes.
    return text if len(text) <= 120 else type(error).__name__
