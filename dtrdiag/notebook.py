"""How does a result show at the end of a notebook's cell: as what HTML?

Notebooks ask a value for `_repr_html_`. What is here makes small tables and a strip of colours.
Everything is escaped, since names come from foreign files, and no text has a colour or background
of its own, so that it reads in a light and in a dark notebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from dtrdiag.events.records import RunHeader
from dtrdiag.units import (
    both_bytes,
    changes_words,
    duration,
    interval_words,
    overhead_words,
    plain_name,
)

OUTCOME_WORDS = {
    "ok": "finishes",
    "oom": "out of memory",
    "thrashed": "stopped by the overhead limit",
    "incomplete": "the log is incomplete",
    "unknown": "not known",
}
"""An outcome in words, by the name that events and analyses give it."""
OUTCOME_COLOURS = {"ok": "#5577ee", "oom": "#c2185b", "thrashed": "#aa8800"}
"""The colour of an outcome, as in charts."""
NAME_WIDTH = 60
"""Characters of a foreign name."""

_RULE = "1px solid rgba(128,128,128,.45)"
_CELL = f"padding:.15em .8em .15em 0;border:0;border-bottom:{_RULE};vertical-align:top"
_WIDTH, _HEIGHT = 640, 26
# Of an outcome's part of a strip: no two look alike without colours.
_HEIGHTS = {"ok": 0.4, "thrashed": 0.7, "oom": 1.0}

Span = tuple[str, int, int]


def page(*parts: str) -> str:
    """Parts one below the other, each HTML."""
    return f'<div style="max-width:56em;line-height:1.45">{"".join(parts)}</div>'


def heading(title: str, sentence: str = "") -> str:
    """A title, and a sentence after it."""
    more = f" {escape(sentence)}" if sentence else ""
    return f'<p style="margin:.4em 0"><strong>{escape(title)}</strong>{more}</p>'


def facts(rows: Iterable[tuple[str, str | None]]) -> str:
    """What things are called and what they are; without those that are None."""
    lines = (
        f'<tr><th scope="row" style="{_CELL};text-align:left;font-weight:normal;opacity:.75">'
        f'{escape(name)}</th><td style="{_CELL};text-align:left">{escape(value)}</td></tr>'
        for name, value in rows
        if value is not None
    )
    return f"{_TABLE}<tbody>{''.join(lines)}</tbody></table>"


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    caption: str,
    shown: int = 8,
    last: int = 0,
) -> str:
    """Rows under the names of their columns; numbers are to the right.

    Of more than `shown` rows the first ones are shown, or, `last` of them, the last ones.
    """
    cells = list(zip(*rows, strict=True)) or [()] * len(columns)
    numeric = [all(cell[:1].isdigit() or not cell for cell in column) for column in cells]
    sides = ["right" if number else "left" for number in numeric]
    head = "".join(
        f'<th scope="col" style="{_CELL};text-align:{side}">{escape(name)}</th>'
        for name, side in zip(columns, sides, strict=True)
    )
    kept = rows
    if len(rows) > shown:
        kept = [*rows[: shown - last], *rows[len(rows) - last :]]
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="{_CELL};text-align:{side}">{escape(cell)}</td>'
            for cell, side in zip(row, sides, strict=True)
        )
        + "</tr>"
        for row in kept
    )
    ends = f"{shown - last} and the last {last}" if last else f"{shown}"
    cut = f" (the first {ends} of {len(rows):,})" if len(rows) > shown else ""
    title = f'<caption style="text-align:left;opacity:.75">{escape(caption + cut)}</caption>'
    return f"{_TABLE}{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


_TABLE = '<table style="border-collapse:collapse;margin:.3em 0">'


def strip(spans: Sequence[Span], low: int, high: int, label: str) -> str:
    """Stretches of budgets side by side, as SVG.

    Taller is worse, so that it reads without colours; each stretch is at least a pixel wide, so
    that slivers are seen; of several that fall on one pixel the worst is drawn last.

    Args:
        spans: outcome, lowest budget, lowest budget above it; what is not known has no colour.
        low: the budget at the left end.
        high: the budget at the right end.
        label: what it shows, for those who cannot see it.
    """
    scale = _WIDTH / max(1, high - low)
    bars: dict[tuple[float, float, str], None] = {}
    for outcome, first, after in spans:
        if outcome in OUTCOME_COLOURS:
            # To a tenth of a pixel: a map may have a hundred thousand intervals.
            left = round((max(first, low) - low) * scale, 1)
            width = max(1.0, round((min(after, high) - low) * scale - left, 1))
            bars[min(left, _WIDTH - 1.0), width, outcome] = None
    drawn = "".join(
        _bar(*bar) for bar in sorted(bars, key=lambda bar: (_HEIGHTS[bar[2]], bar[0], bar[1]))
    )
    return (
        f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" style="max-width:100%;display:block" '
        f'shape-rendering="crispEdges" preserveAspectRatio="none">{drawn}'
        f'<path d="M0 {_HEIGHT - 0.5}H{_WIDTH}" '
        f'stroke="currentColor" stroke-opacity=".6"/></svg>'
    )


def _bar(left: float, width: float, outcome: str) -> str:
    tall = _HEIGHT * _HEIGHTS[outcome]
    return (
        f'<rect x="{left:g}" y="{_HEIGHT - tall:g}" width="{width:g}" height="{tall:g}" '
        f'fill="{OUTCOME_COLOURS[outcome]}"/>'
    )


def legend(outcomes: Iterable[str]) -> str:
    """What the colours and heights of a strip mean."""
    parts = []
    for outcome in outcomes:
        if outcome in OUTCOME_COLOURS:
            tall = 0.8 * _HEIGHTS[outcome]
            parts.append(
                f'<span style="display:inline-block;width:.8em;height:{tall:g}em;'
                f'background:{OUTCOME_COLOURS[outcome]};margin:0 .35em 0 0"></span>'
                f'<span style="margin-right:1.2em">{escape(OUTCOME_WORDS[outcome])}</span>'
            )
    return f'<p style="margin:.2em 0;font-size:90%">{"".join(parts)}</p>'


def name(text: str | None) -> str:
    """A name from a file on one line; not escaped yet."""
    return plain_name(text, NAME_WIDTH)


def run_title(header: RunHeader) -> str:
    """Trace, policy and what was changed."""
    changes = changes_words(header.semantics, header.interventions)
    return f"{name(header.trace_name)} under {name(header.policy)}{changes}"


_CAUSES = {
    "pressure": "to make room",
    "release": "after the last use",
    "banish": "freed for good",
}


def run_html(
    header: RunHeader,
    outcome: str,
    counts: Mapping[str, int],
    interval: tuple[int, int | None],
    overhead: float | None,
    made_by: str | None = None,
) -> str:
    """A run: what it was and what came of it.

    Args:
        header: of the run.
        outcome: how it ended.
        counts: `computes`, `remats`, `remat_cost_ns`, `pressure`, `release`, `banish` (evictions
            by cause), `max_memory_bytes`.
        interval: the half-open interval of budgets with the same decisions.
        overhead: cost over the baseline; None: not known.
        made_by: how, in words; None: not known.
    """
    budget = "unlimited" if header.budget_bytes is None else both_bytes(header.budget_bytes)
    if header.ratio is not None:
        budget += f", {header.ratio:.12g} of the peak"
    evictions = [
        f"{counts[cause]:,} {words}"
        for cause, words in _CAUSES.items()
        if counts[cause] or cause == "pressure"
    ]
    so_far = "" if outcome == "ok" else " until then"
    rows = [
        ("outcome", OUTCOME_WORDS.get(outcome, name(outcome))),
        ("budget", budget),
        ("overhead", overhead_words(overhead) + so_far),
        ("cost of rematerialisation", duration(counts["remat_cost_ns"])),
        ("executions", f"{counts['computes']:,} first, {counts['remats']:,} repeated"),
        ("evictions", ", ".join(evictions)),
        ("largest memory in use", both_bytes(counts["max_memory_bytes"])),
        ("same decisions for budgets", interval_words(*interval)),
        ("made by", made_by),
    ]
    return page(heading(run_title(header)), facts(rows))
