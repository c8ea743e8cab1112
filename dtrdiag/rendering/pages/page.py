"""How does a page become one HTML file that opens anywhere and asks for nothing?

Text is escaped by Jinja2; data lies in script elements of type `application/json`, where nothing
can end the element. A policy in the page lets the browser run the page's own scripts, told by their
hashes, and fetch nothing from anywhere.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import importlib
import json
import re
import unicodedata
from collections.abc import Iterator
from importlib import resources
from typing import Any

import attrs

from dtrdiag.caching import keep, kept
from dtrdiag.errors import UsageError
from dtrdiag.rendering.pages.drawings import safe_svg
from dtrdiag.rendering.pages.parts import Chart, Drawing, Page, Part, Section
from dtrdiag.units import name_parts

NEEDED = "pages need jinja2 and vl-convert: pip install 'dtrdiag[report]'"
_SCRIPTS = ("basics", "specs", "charts", "drawings", "tables", "start")
_CODE = re.compile(r"`([^`\n]+)`")
_BEFORE_UNIT = re.compile(r"(?<=[0-9]) (?=(?:[KMGT]i)?B\b|%|[mun]?s\b)")
_WORDS = re.compile(r"(\s+)")
_LONG_WORD = 20
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cn", "Cs"})
"""Unicode categories of what is not seen, or turns round what is; written as escapes."""
_ESCAPES = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def page_html(page: Page) -> str:
    """A page as one HTML document; the same page gives the same text. O(n) in its data.

    Raises:
        UsageError: jinja2 or vl-convert is not installed, two parts have one id, a chart's columns
            differ in length, or a drawing's picture cannot be used.
        ValueError: a chart's numbers are not finite.
    """
    _check(page)
    charts = list(charts_of(page))
    holders: dict[int, str] = {}
    for chart in charts:
        holders.setdefault(id(chart.columns), chart.id)
    scripts = [_script()]
    if charts:
        scripts.insert(0, bundle())
    return str(
        _template().render(
            page=page,
            policy=_policy(scripts),
            style=_own("page.css"),
            scripts=scripts,
            first_chart=charts[0].id if charts else None,
            data={chart.id: chart_data(chart, holders[id(chart.columns)]) for chart in charts},
            details={
                part.id: as_json(part.details)
                for part in _parts(page)
                if isinstance(part, Drawing) and part.svg is not None
            },
        )
    )


def charts_of(page: Page) -> Iterator[Chart]:
    """The charts of a page, in order."""
    return (part for part in _parts(page) if isinstance(part, Chart))


def drawings_of(page: Page) -> Iterator[Drawing]:
    """The drawings of a page, in order."""
    return (part for part in _parts(page) if isinstance(part, Drawing))


def as_json(value: Any) -> str:
    r"""A value as JSON that can stand in a script element: in it, nothing looks like a tag.

    >>> as_json({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain)
    return text.translate(_ESCAPES)


def chart_data(chart: Chart, holder: str | None = None) -> str:
    """What the page's script needs of a chart, as JSON.

    Args:
        chart: the chart.
        holder: the chart of the page that holds the same columns, which are kept once; the chart
            itself, or None, where it holds its own.
    """
    fields = attrs.asdict(chart, recurse=False)
    if holder not in (None, chart.id):
        fields["columns"] = holder
    for unneeded in ("id", "heading", "words"):
        del fields[unneeded]
    fields["readings"] = [attrs.asdict(reading) for reading in chart.readings]
    return as_json(fields)


def check_libraries() -> None:
    """Refuse to make a page without what it takes.

    Raises:
        UsageError: jinja2 or vl-convert is not installed.
    """
    for name in ("jinja2", "vl_convert"):
        _load(name)


@functools.cache
def bundle() -> str:
    """Vega, Vega-Lite and vega-embed as one script.

    Raises:
        UsageError: vl-convert is not installed, or its script could end a script element.
    """
    maker = _load("vl_convert")
    name = f"vega-{maker.__version__}.js"
    # To put it together takes seconds. Its digest stands before it.
    digest, _, script = (kept(name) or b"").partition(b"\n")
    if script and digest == _digest(script):
        return script.decode()
    text: str = maker.javascript_bundle()
    if "</script" in text.lower() or "<!--" in text:
        raise UsageError("the script of this vl-convert cannot stand in a page")
    keep(name, b"%s\n%s" % (_digest(text.encode()), text.encode()))
    return text


def _digest(script: bytes) -> bytes:
    return hashlib.sha256(script).hexdigest().encode()


def seen(text: str) -> str:
    r"""Text with whatever is not seen written out, such as what turns the direction of reading.

    >>> seen("add\u202e(x)\n")
    'add\\u202e(x)\n'
    """
    return "".join(
        char if char == "\n" or unicodedata.category(char) not in _HIDDEN else _escaped(char)
        for char in text
    )


def _prose(text: str) -> str:
    """Text as HTML, in which what stands between backticks is code and figures keep their units."""
    pieces = [html.escape(seen(piece)) for piece in _CODE.split(text)]
    # Every second piece is what the pattern's group has matched.
    return "".join(
        f"<code>{each}</code>" if at % 2 else _BEFORE_UNIT.sub("&nbsp;", each)
        for at, each in enumerate(pieces)
    )


def _cell(text: str) -> str:
    """Text as HTML in which long names may break after their points, colons and underscores."""
    pieces = (
        [word] if len(word) <= _LONG_WORD else name_parts(word) for word in _WORDS.split(text)
    )
    return "".join("<wbr>".join(html.escape(seen(each)) for each in piece) for piece in pieces)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()


def _parts(page: Page) -> Iterator[Part]:
    return (part for section in page.sections for part in section.parts)


def _check(page: Page) -> None:
    named: list[Section | Chart | Drawing] = [*page.sections, *charts_of(page), *drawings_of(page)]
    ids = [each.id for each in named]
    twice = sorted({each for each in ids if ids.count(each) > 1})
    if twice:
        raise UsageError(f"two parts of the page have the id {twice[0]!r}")
    for chart in charts_of(page):
        for rows in (chart.columns, *chart.more.values()):
            if len({len(values) for values in rows.values()}) > 1:
                raise UsageError(f"the columns of the chart {chart.id!r} differ in length")


def _plain(value: Any) -> Any:
    # What numpy holds.
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "keys"):
        return dict(value)
    raise TypeError(f"{type(value).__name__} in a chart's data")


def _policy(scripts: list[str]) -> str:
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        # Vega compiles the formulas of charts, which are ours; interpreted, they take much longer.
        f"default-src 'none'; script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


@functools.cache
def _script() -> str:
    """The page's own scripts, in a function, so that they leave no names behind."""
    sources = "\n".join(_own(f"{name}.js") for name in _SCRIPTS)
    return f'"use strict";\n(() => {{\n{sources}}})();\n'


def _own(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


@functools.cache
def _template() -> Any:
    jinja2 = _load("jinja2")
    markup = _load("markupsafe").Markup
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_own),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # All text goes through it, whoever writes the template.
        finalize=lambda value: seen(value) if type(value) is str else value,
    )
    environment.filters |= {
        "kind": lambda part: type(part).__name__,
        "picture": lambda drawing: markup(safe_svg(drawing)),
        "ours": markup,
        "cell": lambda text: markup(_cell(text)),
        "prose": lambda text: markup(_prose(text)),
    }
    return environment.get_template("page.html.j2")


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UsageError(NEEDED) from None
