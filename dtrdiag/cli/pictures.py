"""How do graphs become files: DOT, SVG through graphviz's program, GraphML?"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from dtrdiag.cli.output import check_outputs, note, write_file
from dtrdiag.rendering.dot import write_picture

DOT_PROGRAM = "dot"
GET_PICTURES = "install graphviz (Debian: apt install graphviz) to get pictures"


def has_dot() -> bool:
    """Whether the program that draws pictures is there."""
    return shutil.which(DOT_PROGRAM) is not None


def picture_target(path: str) -> str:
    """The file to write for a picture: DOT text beside it where there is no program to draw it."""
    return path if has_dot() else str(Path(path).with_suffix(".dot"))


def check_pictures(dot: str | None, svg: str | None, graphml: str | None, force: bool) -> None:
    """Refuse files that exist, before anything is computed; see `check_outputs`.

    Raises:
        OutputError: one of the files cannot be written.
    """
    target = None if svg is None else picture_target(svg)
    check_outputs([dot, graphml, None if target == dot else target], force)


def write_svg(dot_source: str, path: str) -> str:
    """Draw DOT source as SVG, or else write it as text and say how to get pictures.

    Returns:
        The file written.

    Raises:
        OutputError: the file cannot be written, or the program failed.
    """
    target, content = draw_svg(dot_source, path)
    write_file(target, content)
    note_missing(path)
    return target


def draw_svg(dot_source: str, path: str) -> tuple[str, bytes]:
    """What `write_svg` would write, and into which file.

    Raises:
        OutputError: the program failed.
    """
    target = picture_target(path)
    if target != path:
        return target, dot_source.encode()
    with tempfile.TemporaryDirectory(prefix="dtrdiag-") as folder:
        drawn = write_picture(dot_source, Path(folder) / "picture.svg")
        return path, drawn.path.read_bytes()


def note_missing(path: str) -> None:
    """Say what was written instead of a picture, if it was, and how to get pictures."""
    target = picture_target(path)
    if target != path:
        note(f"dtrdiag: no program `{DOT_PROGRAM}`: wrote {target}; {GET_PICTURES}")
