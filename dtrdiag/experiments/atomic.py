"""How is a file written so that, whatever stops the writer, the old file or the new one is there?

The content goes to a temporary file in the same folder, is flushed to the disk, and is then renamed
over the target, which is one step for whoever looks. A writer that is killed leaves its temporary
file behind; its name begins with a dot and ends in `TEMPORARY`, and no reader takes it for a
result.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from dtrdiag.errors import OutputError

TEMPORARY = ".dtrdiag-tmp"
"""How the names of unfinished files end."""


def replace_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file as a whole and durably: it holds `content` afterwards, or what it held before.

    The folder must exist. Mode as for a new file, or that of the file replaced.

    Raises:
        OutputError: it cannot be written (a full disk, say); what was there before still is, and
            nothing temporary stays.
    """
    target = Path(path)
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(TEMPORARY, f".{target.name[:100]}.", target.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
            _set_mode(target, temporary)
        os.replace(temporary, target)
        temporary = None
        _flush_folder(target.parent)
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror or error}", path=path) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Remove what killed writers left in a folder; what cannot be removed is left.

    Only for a caller who knows that nobody writes there now.
    """
    try:
        for path in folder.iterdir():
            if path.name.startswith(".") and path.name.endswith(TEMPORARY):
                path.unlink(missing_ok=True)
    except OSError:
        return


def _set_mode(target: Path, temporary: str) -> None:
    # mkstemp makes files for their owner alone.
    try:
        mode = target.stat().st_mode & 0o7777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    os.chmod(temporary, mode)


def _flush_folder(folder: Path) -> None:
    """Make a rename durable where the system can: the folder itself is flushed."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return  # not every system opens folders
    try:
        os.fsync(handle)
    except OSError:
        return  # nor flushes them; the file itself is on the disk
    finally:
        os.close(handle)
