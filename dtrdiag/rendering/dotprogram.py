"""How does DOT source become a picture? By graphviz's program `dot`, if that is installed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import attrs

from dtrdiag.errors import OutputError
from dtrdiag.units import plain_name

PICTURE_FORMATS = ("svg", "png")
DOT_SECONDS = 60
"""How long `dot` may take."""


@attrs.frozen
class Picture:
    """What `write_picture` wrote, and why it is text instead of what was asked, if it is."""

    path: Path
    message: str | None


def write_picture(
    dot_source: str, path: str | Path, picture_format: str = "svg", force: bool = False
) -> Picture:
    """Draw DOT source into a file with graphviz's `dot`.

    Without that program, or if it takes more than `DOT_SECONDS`, the source itself is written
    beside it, under the same name with the suffix `.dot`, and the picture's `message` says why.

    Args:
        dot_source: as `frontier_dot` and `graph_dot` return it.
        path: the file to write.
        picture_format: one of `PICTURE_FORMATS`.
        force: replace a file that exists.

    Raises:
        OutputError: an unknown format, a file that exists or cannot be written, or `dot` failed.
    """
    path = Path(path)
    if picture_format not in PICTURE_FORMATS:
        known = ", ".join(PICTURE_FORMATS)
        raise OutputError(f"no picture format {picture_format!r}; there are {known}")
    _refuse_existing(path, force)
    try:
        picture = run_dot(dot_source, picture_format)
    except NotDrawn as why:
        text_path = path.with_suffix(".dot")
        write_dot(dot_source, text_path, force)
        return Picture(text_path, str(why))
    except OutputError as error:
        raise OutputError(error.what, path=path) from error
    _write(path, picture)
    return Picture(path, None)


class NotDrawn(Exception):  # noqa: N818 - no error by itself: text may do instead
    """Why the program drew nothing: it is missing, or takes too long."""


def run_dot(dot_source: str, picture_format: str, *options: str) -> bytes:
    """DOT source as a picture, by the program.

    Args:
        dot_source: what to draw.
        picture_format: as `dot -T` knows it.
        options: of the program, besides.

    Raises:
        NotDrawn: there is no such program, or it did not finish within `DOT_SECONDS`.
        OutputError: it failed.
    """
    # Not graphviz.pipe, which cannot give up.
    command = ["dot", f"-T{picture_format}", *options]
    try:
        done = subprocess.run(
            command,
            input=dot_source.encode(),
            capture_output=True,
            timeout=DOT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise NotDrawn("the program `dot` is missing (Debian: apt install graphviz)") from None
    except subprocess.TimeoutExpired:
        raise NotDrawn(f"the program `dot` did not finish within {DOT_SECONDS} s") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        why = said[0] if said else f"exit status {done.returncode}"
        raise OutputError(f"`dot` failed: {plain_name(why, width=200)}")
    return done.stdout


def write_dot(dot_source: str, path: str | Path, force: bool = False) -> Path:
    """Write DOT source to a file, UTF-8; a file that already holds just that is left as it is.

    Raises:
        OutputError: the file exists with other content (unless `force`) or cannot be written.
    """
    path = Path(path)
    content = dot_source.encode()
    if path.is_file() and path.read_bytes() == content:
        return path
    _refuse_existing(path, force)
    _write(path, content)
    return path


def _refuse_existing(path: Path, force: bool) -> None:
    if path.exists() and not force:
        raise OutputError("the file exists; --force replaces it", path=path)


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror or error}", path=path) from error
