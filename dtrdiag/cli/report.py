"""``dtrdiag report``: what is there to be seen, on a page that opens anywhere?"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import attrs
import typer

from dtrdiag import __version__
from dtrdiag.cli.options import Force, Json, Rules, option_name, takes_rules
from dtrdiag.cli.output import (
    Pathlike,
    check_outputs,
    note,
    print_json,
    print_sentences,
    write_files,
)
from dtrdiag.cli.pictures import Pdf, PictureFiles, Png, Svg
from dtrdiag.cli.reported import asked_for
from dtrdiag.errors import UsageError
from dtrdiag.rendering.pages.page import charts_of, check_libraries, drawings_of, page_html
from dtrdiag.rendering.pages.parts import Chart, Drawing, Page
from dtrdiag.rendering.pictures import KINDS, chart_picture, drawing_picture
from dtrdiag.suggestions import no_such
from dtrdiag.units import short_bytes

REPORT_SCHEMA = "dtrdiag.report/1"
SUFFIXES = (".html", ".htm")


@takes_rules
def report(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN [RUN...]", help="Logs, a TRACE, maps, or a folder.")
    ],
    rules: Rules,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="F.html", help="The page to write.")
    ] = None,
    policies: Annotated[
        list[str] | None,
        typer.Option("-p", "--policy", metavar="POLICY", help="Policy (dtr); twice: of a, of b."),
    ] = None,
    ratios: Annotated[
        list[str] | None,
        typer.Option("-r", "--ratio", metavar="R", help="Ratio of the peak; twice: of a, of b."),
    ] = None,
    budgets: Annotated[
        list[str] | None,
        typer.Option("-b", "--budget", metavar="SIZE", help="Budget; twice: of a, of b."),
    ] = None,
    chart: Annotated[
        str | None,
        typer.Option(metavar="ID", help="A chart or graph of the page, as a picture."),
    ] = None,
    svg: Svg = None,
    png: Png = None,
    pdf: Pdf = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a page with charts: one HTML file that opens anywhere.

    About one run; two, which are logs or a TRACE with two budgets or policies; saved maps; a
    sweep's folder; what `dtrdiag reproduce -o DIR` wrote; a memory snapshot, also beside logs.
    """
    pictures = PictureFiles(svg, png, pdf)
    _check(output, chart, pictures)
    pictures.check(force)
    check_outputs([output, *pictures.given().values()], force, inputs=runs)
    asked = asked_for(runs, policies, ratios, budgets, rules)
    given = {"-p": policies, "-r": ratios, "-b": budgets}
    page = asked.page(_made_by(runs, given, rules))
    contents = _contents(page, output, chart, pictures)
    write_files(contents)
    _warn(page)
    if json:
        print_json(_document(page, asked.kind, output, contents))
        return
    print_sentences([*page.answer, "", *_written(contents, output)])


def _contents(
    page: Page, output: str | None, chart: str | None, pictures: PictureFiles
) -> dict[Pathlike, bytes]:
    contents = {} if chart is None else pictures.contents(partial(_drawn, page, chart))
    if output is not None:
        contents[output] = page_html(page).encode()
    return contents


def _check(output: str | None, chart: str | None, pictures: PictureFiles) -> None:
    files = pictures.given()
    if output is None and not files:
        raise UsageError("say where the page goes: -o F.html")
    if files and chart is None:
        raise UsageError(f"say of which chart of the page: --chart ID --{next(iter(files))} ...")
    if chart is not None and not files:
        options = ", ".join(f"--{kind} FILE" for kind in KINDS)
        raise UsageError(f"say what becomes of the chart: {options}")
    if output is not None:
        check_libraries()
        # A device, such as /dev/stdout, has no suffix.
        if Path(output).suffix.lower() not in ("", *SUFFIXES):
            raise UsageError(f"-o writes HTML: a name that ends in {SUFFIXES[0]}", path=output)


def _warn(page: Page) -> None:
    for words in page.warnings:
        note(f"dtrdiag: note: {words}")


def _made_by(runs: Sequence[str], given: Mapping[str, Sequence[str] | None], rules: Rules) -> str:
    """The command line as it was given, for a page of any name: two such pages are equal."""
    words = ["dtrdiag", "report", *runs]
    options = {**given, **{option_name(name): v for name, v in attrs.asdict(rules).items()}}
    for option, value in options.items():
        if value is not None:
            values = value if isinstance(value, list) else [str(value)]
            words += [word for each in values for word in (option, each)]
    return f"{shlex.join([*words, '-o', 'F.html'])} (dtrdiag {__version__})"


def _drawn(page: Page, chart: str, kind: str) -> bytes:
    """One chart or drawing of a page as a picture.

    Raises:
        UsageError: the page has no such one.
    """
    there = {part.id: part for part in _pictured(page)}
    if chart not in there:
        raise UsageError(no_such("chart of the page", chart, there))
    part = there[chart]
    return chart_picture(part, kind) if isinstance(part, Chart) else drawing_picture(part, kind)


def _pictured(page: Page) -> list[Chart | Drawing]:
    return [*charts_of(page), *drawings_of(page)]


def _document(
    page: Page, kind: str, output: str | None, contents: Mapping[Pathlike, bytes]
) -> dict[str, Any]:
    return {
        "schema": REPORT_SCHEMA,
        "file": output,
        "bytes": None if output is None else len(contents[output]),
        "kind": kind,
        "title": page.title,
        "charts": [part.id for part in _pictured(page)],
        "pictures": [file for file in contents if file != output],
    }


def _written(contents: Mapping[Pathlike, bytes], output: str | None) -> list[str]:
    return [
        f"Wrote {file} ({short_bytes(len(content))})"
        + (": open it in a browser." if file == output else ".")
        for file, content in contents.items()
    ]
