"""How does a chart or a graph of a page become a picture in a file: SVG, PNG or PDF?

Charts are drawn by vl-convert, which needs no browser and comes with the extra `charts`; graphs by
graphviz's `dot`. The same chart gives the same bytes each time, in each format.
"""

from __future__ import annotations

import importlib
import json
import re
from typing import Any

from dtrdiag.errors import UsageError
from dtrdiag.rendering.dotprogram import NotDrawn, run_dot
from dtrdiag.rendering.pages.parts import Chart, Drawing
from dtrdiag.rendering.pdffiles import same_pdf

KINDS = ("svg", "png", "pdf")
WIDTH, HEIGHT = 720, 220
"""Of the plotting area, in pixels; the height where a chart has none of its own."""
SCALE = 2.0
"""Pixels of a PNG for each pixel of a chart, so that text is sharp in print."""
_INK, _FAINT, _GRID = "#1f1f1f", "#595959", "#e3e3e3"
CONFIG: dict[str, Any] = {
    "font": "sans-serif",
    "view": {"stroke": None},
    "title": {"anchor": "start", "fontSize": 14, "fontWeight": 600, "color": _INK, "offset": 10},
    "axis": {
        "domainColor": _FAINT, "tickColor": _FAINT, "gridColor": _GRID,
        "labelColor": _INK, "titleColor": _INK,
        "labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal",
    },
    "legend": {
        "labelColor": _INK, "titleColor": _INK, "labelFontSize": 11, "titleFontSize": 12,
        "titleFontWeight": "normal", "orient": "top", "labelLimit": 320,
    },
}  # fmt: skip
"""How charts look on white paper."""


def chart_picture(chart: Chart, kind: str) -> bytes:
    """A chart of a page as a picture on white, with its heading, zoomed as the page shows it first.

    Args:
        chart: what to draw.
        kind: one of `KINDS`.

    Raises:
        UsageError: there is no such kind, or vl-convert is not installed.
    """
    _check(kind)
    converter = _converter()
    drawn = _renumbered(converter.vegalite_to_svg(json.dumps(chart_spec(chart), allow_nan=False)))
    if kind == "svg":
        return drawn.encode()
    if kind == "png":
        return bytes(converter.svg_to_png(drawn, scale=SCALE))
    return same_pdf(bytes(converter.svg_to_pdf(drawn)))


def chart_spec(chart: Chart) -> dict[str, Any]:
    """A chart as Vega-Lite that stands by itself: with its data, title, size and colours."""
    sources = {"rows": chart.columns, **chart.more}
    domain = [] if chart.domain is None else [{"name": "domain", "value": list(chart.domain)}]
    views = chart.spec.get("vconcat")
    sized: dict[str, Any] = {"height": HEIGHT, **chart.spec, "width": WIDTH}
    if views is not None:
        sized = {**chart.spec, "vconcat": [{"height": HEIGHT, **v, "width": WIDTH} for v in views]}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        **sized,
        "title": chart.heading,
        "background": "#ffffff",
        "config": CONFIG,
        "params": [*domain, *chart.spec.get("params", ())],
        "data": {"name": "rows"},
        "datasets": {
            name: [
                dict(zip(columns, row, strict=True))
                for row in zip(*columns.values(), strict=True)
            ]
            for name, columns in sources.items()
        },
    }  # fmt: skip


def drawing_picture(drawing: Drawing, kind: str) -> bytes:
    """A graph of a page as a picture.

    The SVG is the one that the page shows, where it shows one; the others are drawn by graphviz,
    which measures text with the fonts that it then draws with, so that labels fit their boxes.

    Args:
        drawing: what to draw.
        kind: one of `KINDS`.

    Raises:
        UsageError: there is no such kind, or no program `dot`, or it does not finish in time.
        OutputError: `dot` failed.
    """
    _check(kind)
    if kind == "svg" and drawing.svg is not None:
        return drawing.svg.encode()
    return dot_picture(drawing.source, kind)


def dot_picture(dot_source: str, kind: str) -> bytes:
    """DOT text as a picture drawn by graphviz; arguments and errors as for `drawing_picture`."""
    _check(kind)
    try:
        drawn = run_dot(dot_source, kind, *(["-Gdpi=144"] if kind == "png" else []))
    except NotDrawn as why:
        raise UsageError(f"graphs are drawn by graphviz, and {why}") from None
    return same_pdf(drawn) if kind == "pdf" else drawn


def check_converter() -> None:
    """Find out early whether charts can be drawn.

    Raises:
        UsageError: vl-convert is not installed; says what to install.
    """
    _converter()


def _check(kind: str) -> None:
    if kind not in KINDS:
        raise UsageError(f"no kind of picture {kind!r}; there are {', '.join(KINDS)}")


def _converter() -> Any:
    try:
        return importlib.import_module("vl_convert")
    except ImportError:
        raise UsageError("pictures need vl-convert: pip install 'dtrdiag[charts]'") from None


_TAG = re.compile(r"<[^>]*>")
_OWN_ID = re.compile(
    r'(?<= id=")(clip|gradient_)(\d+)(?=")|(?<="url\(#)(clip|gradient_)(\d+)(?=\)")'
)


def _renumbered(svg: str) -> str:
    """With the ids of clips and gradients counted from 1, not from what this process drew before.

    Within tags only, where quotes of foreign names are written as entities.
    """
    seen: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        return seen.setdefault(found[0], f"{found[1] or found[3]}{len(seen) + 1}")

    return _TAG.sub(lambda tag: _OWN_ID.sub(number, tag[0]), svg)
