"""How do maps, runs side by side and tables of measures look as charts, in SVG?

Charts are Vega-Lite specifications made with altair and drawn by vl-convert, which needs no browser
and gives the same bytes each time. Both come with the extra `charts`. Colours are those of
`palette`, and a chart never says a thing by colour alone.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from dtrdiag.analyses.budget_map import OK, OOM, THRASHED, BudgetMap
from dtrdiag.errors import UsageError
from dtrdiag.rendering.palette import OUTCOME_COLOURS

WIDTH, HEIGHT = 720, 220
"""Of the plotting area, in pixels."""
OUTCOME_WORDS = {OK: "finishes", OOM: "out of memory", THRASHED: "stopped by the limit"}


@attrs.frozen
class Column:
    """What a map says of the budgets that one column of a picture stands for.

    Attributes:
        low: lower end, as a ratio of the peak.
        high: upper end.
        least: least overhead of a finished run; None where none finishes.
        most: largest overhead of a finished run.
        stopped: largest overhead at which a run was stopped; None where none was.
        oom: whether a run is out of memory.
    """

    low: float
    high: float
    least: float | None
    most: float | None
    stopped: float | None
    oom: bool


def map_columns(budget_map: BudgetMap, columns: int = WIDTH) -> list[Column]:
    """The extremes of a map in columns of equal width, so that no sliver is lost. O(n + columns).

    Columns in which nothing is known are left out.

    Raises:
        UsageError: the peak is not known, so there are no ratios.
    """
    peak = budget_map.header.peak_bytes
    if not peak:
        raise UsageError("a chart of a map needs the peak of its trace")
    first, after = budget_map.from_bytes, budget_map.to_bytes + 1
    count = min(columns, after - first)
    found: dict[int, list[tuple[str, float | None]]] = {}
    for run in budget_map.runs:
        end = after if run.interval_hi_bytes is None else min(run.interval_hi_bytes, after)
        budgets = (max(run.interval_lo_bytes, first), end - 1)
        here = (run.outcome, budget_map.overhead(run))
        at, last = ((budget - first) * count // (after - first) for budget in budgets)
        for column in range(at, last + 1):
            found.setdefault(column, []).append(here)
    made = []
    for column in sorted(found):
        finished = [cost for outcome, cost in found[column] if outcome == OK and cost is not None]
        stopped = [cost for outcome, cost in found[column] if outcome == THRASHED and cost]
        low, high = (first + (after - first) * edge / count for edge in (column, column + 1))
        made.append(
            Column(
                low / peak,
                high / peak,
                min(finished, default=None),
                max(finished, default=None),
                max(stopped, default=None),
                any(outcome == OOM for outcome, _ in found[column]),
            )
        )
    return made


def map_chart(budget_map: BudgetMap, title: str) -> Any:
    """Overhead over the budget as a ratio of the peak, with whatever does not finish marked.

    Every column shows the range of overheads in it; one that holds any run out of memory has a bar
    over the whole height, however narrow the island is.
    """
    alt = _altair()
    columns = map_columns(budget_map)
    rows = [attrs.asdict(column) | {"middle": (column.low + column.high) / 2} for column in columns]
    top = max([c.most or 1 for c in columns] + [c.stopped or 1 for c in columns], default=1) * 1.05
    kinds = list(OUTCOME_WORDS.values())
    scale = alt.Scale(domain=kinds, range=list(OUTCOME_COLOURS.values()))
    colour = alt.Color("kind:N", scale=scale, title=None)
    ends = [budget_map.from_bytes, budget_map.to_bytes]
    peak = budget_map.header.peak_bytes or 1
    x = alt.X(
        "low:Q",
        title="budget / peak",
        scale=alt.Scale(domain=[end / peak for end in ends], nice=False, zero=False),
    )
    y_scale = alt.Scale(type="log", domain=[1, max(top, 1.1)], nice=False)
    layers = []
    for kind, keep, low, high in (
        (OOM, lambda row: row["oom"], None, None),
        (THRASHED, lambda row: row["stopped"] is not None, "stopped", None),
        (OK, lambda row: row["most"] is not None, "least", "most"),
    ):
        kept = [
            {
                "low": row["low"],
                "high": row["high"],
                "kind": OUTCOME_WORDS[kind],
                "bottom": row[low] if low else 1,
                # A line that is seen, where least and most are one.
                "top": row[high] * 1.012 if high else top,
            }
            for row in rows
            if keep(row)
        ]
        mark = alt.Chart(alt.Data(values=kept)).mark_rect()
        y = alt.Y("bottom:Q", title="overhead", scale=y_scale)
        layers.append(mark.encode(x=x, x2="high:Q", y=y, y2="top:Q", color=colour))
    return _sized(alt.layer(*layers), title)


def strip_chart(
    rows: Iterable[Mapping[str, Any]], title: str, row_names: Sequence[str], x_title: str
) -> Any:
    """Stretches by outcome, one line each for every name.

    Args:
        rows: with `name`, `low`, `high` (half-open) and `outcome`.
        title: of the chart.
        row_names: in order, from above.
        x_title: what `low` and `high` are.
    """
    alt = _altair()
    values = [{**row, "kind": OUTCOME_WORDS[row["outcome"]]} for row in rows]
    kinds = list(OUTCOME_WORDS.values())
    scale = alt.Scale(domain=kinds, range=list(OUTCOME_COLOURS.values()))
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_bar(height={"band": 0.8})
        .encode(
            x=alt.X("low:Q", title=x_title, scale=alt.Scale(nice=False, zero=False)),
            x2="high:Q",
            y=alt.Y("name:N", sort=list(row_names), title=None),
            color=alt.Color("kind:N", scale=scale, title=None),
        )
    )
    return _sized(chart, title, height=22 * len(row_names))


def dot_chart(
    rows: Iterable[Mapping[str, Any]], title: str, row_names: Sequence[str], x_title: str
) -> Any:
    """Figures on a logarithmic scale, one line for every name, told apart by series and shape.

    Args:
        rows: with `name`, `value` (positive), `series`, and `bound` (whether it is a lower bound).
        title: of the chart.
        row_names: in order, from above.
        x_title: what the values are.
    """
    alt = _altair()
    values = [{**row, "is": "at least" if row["bound"] else "exact"} for row in rows]
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_point(size=70, filled=False, strokeWidth=2)
        .encode(
            x=alt.X("value:Q", title=x_title, scale=alt.Scale(type="log")),
            y=alt.Y("name:N", sort=list(row_names), title=None),
            color=alt.Color("series:N", title=None, scale=alt.Scale(range=_SERIES)),
            shape=alt.Shape(
                "is:N",
                title=None,
                scale=alt.Scale(domain=["exact", "at least"], range=["circle", "triangle-right"]),
            ),
        )
    )
    return _sized(chart, title, height=18 * len(row_names))


def line_chart(
    rows: Iterable[Mapping[str, Any]], title: str, x_title: str, y_title: str, log: bool = False
) -> Any:
    """Lines over x, told apart by series and dashes.

    Args:
        rows: with `x`, `y` and `series`.
        title: of the chart.
        x_title: what x is.
        y_title: what y is.
        log: a logarithmic y axis.
    """
    alt = _altair()
    values = [row for row in rows if not log or (row["y"] > 0 and math.isfinite(row["y"]))]
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(
            x=alt.X("x:Q", title=x_title, scale=alt.Scale(nice=False, zero=False)),
            y=alt.Y("y:Q", title=y_title, scale=alt.Scale(type="log" if log else "linear")),
            color=alt.Color("series:N", title=None, scale=alt.Scale(range=_SERIES)),
            strokeDash=alt.StrokeDash("series:N", title=None),
        )
    )
    return _sized(chart, title)


def svg_text(chart: Any) -> str:
    """A chart as SVG.

    Raises:
        UsageError: vl-convert is not installed.
    """
    drawn: str = _load("vl_convert").vegalite_to_svg(chart.to_json())
    return drawn


_SERIES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"]


def _sized(chart: Any, title: str, height: int = HEIGHT) -> Any:
    return chart.properties(width=WIDTH, height=height, title=title, background="#ffffff")


def _altair() -> Any:
    return _load("altair")


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UsageError(
            "charts need altair and vl-convert: pip install 'dtrdiag[charts]'"
        ) from None
