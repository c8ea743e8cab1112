"""Where is kept what can be had again, and how does a file there come about?

What is kept here only saves time: whoever cannot write it goes on without, and whoever finds
nothing makes it anew. A file is there as a whole or not at all.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

CACHE_VARIABLE = "DTRDIAG_CACHE"


def cache_dir() -> Path:
    """The folder for it: DTRDIAG_CACHE, or the user's cache folder for dtrdiag."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser()
    import platformdirs  # only here: with the variable it is not needed

    return Path(platformdirs.user_cache_dir("dtrdiag"))


def kept(name: str) -> bytes | None:
    """What a file in the folder holds; None where there is none that can be read."""
    try:
        return (cache_dir() / name).read_bytes()
    except OSError:
        return None


def keep(name: str, content: bytes) -> None:
    """Keep a file in the folder, in place of an older one; where that is impossible, do nothing."""
    path = cache_dir() / name
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.replace(temporary, path)
    except OSError:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
