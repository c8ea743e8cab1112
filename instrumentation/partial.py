"""A file that is worthless until it is finished: written under another name, then renamed.

It grows as `NAME.partial`, so that a program that is killed leaves that and nothing else, and the
next one that writes to NAME takes its place.
"""

from __future__ import annotations

import importlib
import os
import shutil
from contextlib import suppress
from typing import Any, BinaryIO

from dtrdiag.errors import OutputError

# Elsewhere two writers at a time are not told apart.
fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None

SUFFIX = ".partial"


class PartialFile:
    """The file that is to become `path`.

    Args:
        path: its final name; a symbolic link is followed.
        force: replace what is there, when finished.

    Attributes:
        stream: where to write.
        replaces: whether something was there at the start.

    Raises:
        OutputError: the file exists, is a directory, cannot be created, or is being written by
            another program.
    """

    def __init__(self, path: str, *, force: bool) -> None:
        self._path = path
        self._force = force
        try:
            self._target = os.path.realpath(path)
            self.replaces = os.path.lexists(self._target)
            self._refuse_target()
            self._partial = self._target + SUFFIX
            self.stream: BinaryIO = self._open()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise OutputError(f"cannot be created: {reason}", path=path) from None

    def publish(self) -> None:
        """Finish: the file takes its name. Whatever was there before is gone then.

        Raises:
            OutputError: the rest cannot be written, or in the meantime somebody else has made a
                file of that name; nothing of this one is left.
        """
        try:
            self.stream.flush()
            if self.replaces:
                shutil.copymode(self._target, self._partial)
            if fcntl is None:
                self.stream.close()
            if not self._force:
                self._refuse_target()
            os.replace(self._partial, self._target)
            # Not before: the lock on it ends here.
            self.stream.close()
        except OSError as error:
            self.discard()
            what = f"cannot be written: {error.strerror or error}"
            raise OutputError(what, path=self._path) from None
        except OutputError:
            self.discard()
            raise

    def discard(self) -> None:
        """Leave nothing; what was there before stays."""
        with suppress(OSError):
            os.unlink(self._partial)
        with suppress(OSError):
            self.stream.close()

    def _refuse_target(self) -> None:
        if os.path.isdir(self._target):
            raise OutputError("is a directory, not a file", path=self._path)
        if os.path.lexists(self._target):
            if not self._force:
                raise OutputError("exists already; --force replaces it", path=self._path)
            if not os.path.isfile(self._target):
                raise OutputError("is no plain file", path=self._path)
        folder = os.path.dirname(self._target)
        if not os.path.exists(folder):
            raise OutputError("the folder does not exist", path=self._path)

    def _open(self) -> BinaryIO:
        while True:
            handle = os.open(self._partial, os.O_RDWR | os.O_CREAT, 0o666)
            if fcntl is not None:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    os.close(handle)
                    what = "is being written by another program"
                    raise OutputError(what, path=self._path) from None
            # Between the two calls its former writer may have renamed it.
            if _is(handle, self._partial):
                os.ftruncate(handle, 0)
                return os.fdopen(handle, "wb")
            os.close(handle)


def _is(handle: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
