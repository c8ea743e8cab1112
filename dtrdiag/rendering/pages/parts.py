"""What is a page made of? Plain records; `page` turns them into HTML and knows no analysis.

Whoever makes a page for a run, a pair, a map or a ledger says what is in it with these, and never
writes HTML: all text is escaped where the page is put together. A `Chart` serves a page and a
picture in a file alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

LEFT, RIGHT = "left", "right"


@attrs.frozen
class Reading:
    """One thing that is read off a chart where the pointer, or the keyboard's cursor, is.

    Attributes:
        field: of the chart's rows; its values are shown as they are, so numbers that need a unit
            or separators have a field of their own with the text.
        label: what it is called.
        code: whether it is a command or a path, shown to be copied.
        template: what is shown instead, with `{name}` for the value of a field and `{name:,}` for a
            whole number with separators; nothing is shown where the value of `field` is None. So
            that a text of which a number differs from row to row is kept once.
    """

    field: str
    label: str
    code: bool = False
    template: str | None = None


@attrs.frozen
class Chart:
    """A Vega-Lite chart over rows that lie in order along x.

    Attributes:
        id: unique in its page, letters, digits and `-`.
        heading: its title, one line.
        words: what is to be seen, for people who do not see it; also its caption.
        spec: Vega-Lite, without data, title, config and width: the data is the named source
            `rows`. Where the x axis can be zoomed, its scale's domain is
            `[{"expr": "domain[0]"}, {"expr": "domain[1]"}]`, and whoever shows the chart declares
            the parameter `domain`.
        columns: the rows, by field; all of one length. Values are JSON numbers, text or None. A
            mapping that several charts of a page have in common is kept in it once.
        x: the field with the left end of a row along x (numbers, ascending).
        x2: the field with its right end, exclusive; None where rows are points.
        readings: what is read off a row, in order.
        domain: first and last x that are shown at first; None where the chart is not zoomed.
        group: charts of one group are zoomed together and have one cursor; None: by itself.
        more: further named sources, by name and then by field, for marks and rules of few rows.
    """

    id: str
    heading: str
    words: str
    spec: Mapping[str, Any]
    columns: Mapping[str, Sequence[Any]]
    x: str
    x2: str | None = None
    readings: tuple[Reading, ...] = ()
    domain: tuple[float, float] | None = None
    group: str | None = None
    more: Mapping[str, Mapping[str, Sequence[Any]]] = attrs.field(factory=dict)


@attrs.frozen
class Column:
    """A column of a table; numbers stand at the right."""

    name: str
    align: str = LEFT
    code: bool = False


@attrs.frozen
class Table:
    """Rows of text under a caption; `note` says how many were left out, or what is counted."""

    caption: str
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[str]]
    note: str | None = None


@attrs.frozen
class Words:
    """Paragraphs of plain text, under a heading of their own if they have one."""

    paragraphs: tuple[str, ...]
    heading: str | None = None


@attrs.frozen
class Commands:
    """Command lines to copy, under a sentence that says what they do."""

    words: str
    lines: tuple[str, ...]


@attrs.frozen
class Drawing:
    """A graph drawn as SVG by graphviz, whose nodes can be chosen.

    Attributes:
        id: unique in its page.
        heading: its title.
        words: what is to be seen, for people who do not see it.
        svg: the picture; None where no program drew it, and then `source` is shown.
        source: its DOT text.
        details: what is said of a node when it is chosen: label and text, by the `id` attribute
            that the node has in the picture.
    """

    id: str
    heading: str
    words: str
    svg: str | None
    source: str
    details: Mapping[str, Sequence[tuple[str, str]]]


Part = Chart | Table | Words | Commands | Drawing


@attrs.frozen
class Section:
    """A heading and what stands under it; `id` is its anchor."""

    id: str
    heading: str
    parts: tuple[Part, ...]


@attrs.frozen
class Page:
    """One page.

    Attributes:
        title: of the window, and the page's first heading.
        answer: the answer to the page's question, in a sentence or few.
        facts: label and text, shown as a list under the answer.
        sections: in order.
        made_by: the command line that makes this page, and the version of dtrdiag.
        warnings: what is wrong with what the page is about, said before the answer.
    """

    title: str
    answer: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    made_by: str
    warnings: tuple[str, ...] = ()
