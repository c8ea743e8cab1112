"""How do graphs become files: DOT, SVG through graphviz's program, GraphML?"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import attrs

from dtrdiag.cli.output import check_outputs, note, write_file
from dtrdiag.errors import UsageError
from dtrdiag.rendering.dot import write_picture

DOT_PROGRAM = "dot"
GET_PICTURES = "install graphviz (Debian: apt install graphviz) to get pictures"
FORMATS = {
    "--dot": ("DOT", (".dot", ".gv", ".txt")),
    "--svg": ("SVG", (".svg", ".xml")),
    "--graphml": ("GraphML", (".graphml", ".xml")),
    "--csv": ("CSV", (".csv", ".txt")),
}
"""What each option writes, and the suffixes that suit it."""
OTHER_SUFFIXES = (
    ".png", ".jpg", ".jpeg", ".gif", ".pdf", ".ps", ".eps", ".html", ".json", ".jsonl", ".csv",
    ".gz", ".zst", ".zip", ".parquet",
)  # fmt: skip


def has_dot() -> bool:
    """Whether the program that draws pictures is there."""
    return shutil.which(DOT_PROGRAM) is not None


def text_target(path: str) -> str:
    """The file that takes a picture's DOT text where the picture cannot be drawn."""
    return str(Path(path).with_suffix(".dot"))


def picture_target(path: str) -> str:
    """The file to write for a picture: DOT text beside it where there is no program to draw it."""
    return path if has_dot() else text_target(path)


def check_pictures(dot: str | None, svg: str | None, graphml: str | None, force: bool) -> None:
    """Refuse files that exist or are named after another format, before anything is computed.

    Raises:
        UsageError: a suffix contradicts the format.
        OutputError: one of the files cannot be written; see `check_outputs`.
    """
    for option, path in (("--dot", dot), ("--svg", svg), ("--graphml", graphml)):
        if path is not None:
            check_suffix(option, path)
    target = None if svg is None else picture_target(svg)
    check_outputs([dot, graphml, None if target == dot else target], force)


def check_suffix(option: str, path: str) -> None:
    """Refuse a file that is named after another format than the option writes.

    Raises:
        UsageError: its suffix says so.
    """
    known = {*OTHER_SUFFIXES, *(suffix for _, suffixes in FORMATS.values() for suffix in suffixes)}
    what, suffixes = FORMATS[option]
    suffix = Path(path).suffix.lower()
    # A name without a suffix, or with one that names no format, says nothing to the contrary.
    if suffix in known and suffix not in suffixes:
        raise UsageError(f"{option} writes {what}, which is not what {suffix} says", path=path)


@attrs.frozen
class Drawing:
    """What stands for a picture: the file, its content and, if it is text instead, one line why."""

    path: str
    content: bytes
    message: str | None = None


def draw_svg(dot_source: str, path: str, force: bool = False) -> Drawing:
    """DOT source drawn as SVG, or itself where it cannot be drawn; nothing is written yet.

    Args:
        dot_source: what to draw.
        path: the file for the picture; text goes beside it, with the suffix `.dot`.
        force: replace a text that exists; the picture itself is replaced in any case.

    Raises:
        OutputError: the program failed, or the text's file holds something else (unless `force`).
    """
    if not has_dot():
        return text_instead(
            dot_source, path, f"no program `{DOT_PROGRAM}`", f"; {GET_PICTURES}", force
        )
    with tempfile.TemporaryDirectory(prefix="dtrdiag-") as folder:
        drawn = write_picture(dot_source, Path(folder) / "picture.svg")
        if drawn.message is not None:
            return text_instead(dot_source, path, drawn.message, force=force)
        return Drawing(path, drawn.path.read_bytes())


def text_instead(
    dot_source: str, path: str, why: str, advice: str = "", force: bool = False
) -> Drawing:
    """DOT source in place of a picture; arguments and errors as for `draw_svg`."""
    target, content = text_target(path), dot_source.encode()
    if not (Path(target).is_file() and Path(target).read_bytes() == content):
        check_outputs([target], force)
    return Drawing(target, content, f"{why}: wrote {target}{advice}")


def note_drawing(drawing: Drawing | None) -> None:
    """Say in one line on standard error why there is text instead of a picture, if there is."""
    if drawing is not None and drawing.message is not None:
        note(f"dtrdiag: {drawing.message}")


def write_drawing(drawing: Drawing) -> str:
    """Write what stands for a picture, say so if it is text, and return its file.

    Raises:
        OutputError: the file cannot be written.
    """
    write_file(drawing.path, drawing.content)
    note_drawing(drawing)
    return drawing.path
