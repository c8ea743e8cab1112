"""How do charts and graphs become files: SVG, PNG, PDF, and of graphs DOT and GraphML?"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import attrs
import typer

from dtrdiag.cli.output import Pathlike, check_outputs, note, write_file
from dtrdiag.errors import UsageError
from dtrdiag.rendering.dotprogram import write_picture
from dtrdiag.rendering.pictures import check_converter, dot_picture

DOT_PROGRAM = "dot"
GET_PICTURES = "install graphviz (Debian: apt install graphviz) to get pictures"
FORMATS = {
    "--dot": ("DOT", (".dot", ".gv", ".txt")),
    "--svg": ("SVG", (".svg", ".xml")),
    "--png": ("PNG", (".png",)),
    "--pdf": ("PDF", (".pdf",)),
    "--graphml": ("GraphML", (".graphml", ".xml")),
    "--csv": ("CSV", (".csv", ".txt")),
}
"""What each option writes, and the suffixes that suit it."""
OTHER_SUFFIXES = (
    ".png", ".jpg", ".jpeg", ".gif", ".pdf", ".ps", ".eps", ".html", ".json", ".jsonl", ".csv",
    ".gz", ".zst", ".zip", ".parquet",
)  # fmt: skip


def _option(name: str, what: str) -> Any:
    return typer.Option(name, metavar="FILE", help=f"Draw it as {what}.", show_default=False)


Svg = Annotated[str | None, _option("--svg", "SVG")]
Png = Annotated[str | None, _option("--png", "PNG")]
Pdf = Annotated[str | None, _option("--pdf", "PDF")]


@attrs.frozen
class PictureFiles:
    """Where pictures go, as given on the command line; None: nowhere."""

    svg: str | None = None
    png: str | None = None
    pdf: str | None = None

    def given(self) -> dict[str, str]:
        """The files that were given, by kind of picture."""
        kinds = (("svg", self.svg), ("png", self.png), ("pdf", self.pdf))
        return {kind: path for kind, path in kinds if path is not None}

    def check(self, force: bool) -> None:
        """Refuse files for a chart that cannot be, before anything is computed.

        Raises:
            UsageError: a suffix contradicts the format, or what draws charts is not installed.
            OutputError: one of the files cannot be written; see `check_outputs`.
        """
        given = self.given()
        for kind, path in given.items():
            check_suffix(f"--{kind}", path)
        check_outputs(given.values(), force)
        if given:
            check_converter()

    def written(self) -> str:
        """A sentence on the files that were given."""
        return f"Wrote {', '.join(self.given().values())}."

    def contents(self, draw: Callable[[str], bytes]) -> dict[Pathlike, bytes]:
        """What goes into each file, from a function that draws a kind of picture."""
        return {path: draw(kind) for kind, path in self.given().items()}


def has_dot() -> bool:
    """Whether the program that draws pictures is there."""
    return shutil.which(DOT_PROGRAM) is not None


def text_target(path: str) -> str:
    """The file that takes a picture's DOT text where the picture cannot be drawn."""
    return str(Path(path).with_suffix(".dot"))


def picture_target(path: str) -> str:
    """The file to write for a picture: DOT text beside it where there is no program to draw it."""
    return path if has_dot() else text_target(path)


def check_pictures(
    dot: str | None,
    graphml: str | None,
    files: PictureFiles,
    force: bool,
    csv: str | None = None,
) -> None:
    """Refuse files for a graph that cannot be, before anything is computed.

    Raises:
        UsageError: a suffix contradicts the format, or PNG or PDF is asked for without `dot`.
        OutputError: one of the files cannot be written; see `check_outputs`.
    """
    pictures = files.given()
    named = {"--dot": dot, "--graphml": graphml, "--csv": csv}
    for option, path in (named | {f"--{kind}": path for kind, path in pictures.items()}).items():
        if path is not None:
            check_suffix(option, path)
    svg = pictures.pop("svg", None)
    if pictures:
        check_dot(f"--{next(iter(pictures))}")
    target = None if svg is None else picture_target(svg)
    outputs = [dot, graphml, csv, None if target == dot else target, *pictures.values()]
    check_outputs(outputs, force)


def check_dot(option: str) -> None:
    """Refuse a picture for which there is no text instead.

    Raises:
        UsageError: the program that draws graphs is missing.
    """
    if not has_dot():
        raise UsageError(f"{option}: there is no program `{DOT_PROGRAM}`; {GET_PICTURES}")


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


def graph_contents(
    dot_source: str, files: PictureFiles, force: bool
) -> tuple[dict[Pathlike, bytes], Drawing | None]:
    """What goes into each file for a graph; DOT text where an SVG cannot be drawn.

    Returns:
        The contents by file, and what stands for the SVG, if one is asked for.

    Raises:
        OutputError: the program failed, or the text's file holds something else (unless `force`).
    """
    contents: dict[Pathlike, bytes] = {}
    drawing = None
    for kind, path in files.given().items():
        if kind == "svg":
            drawing = draw_svg(dot_source, path, force)
            contents[drawing.path] = drawing.content
        else:
            contents[path] = dot_picture(dot_source, kind)
    return contents, drawing


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
