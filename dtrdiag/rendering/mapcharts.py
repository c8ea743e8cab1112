"""How does a map of budgets look: outcome and overhead as steps over the budget, to the byte?

What is drawn is put together by the chart itself, from all rows, for the part that is shown: narrow
stretches that fall into two pixels become one mark that keeps their extremes and is never narrower
than that, so no sliver is lost, and whoever zooms in far enough sees each by itself. Outcomes are
told apart by their marks as well as by colour: a line, a solid column, a striped one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtrdiag.analyses.budget_map import (
    OK,
    OOM,
    THRASHED,
    UNKNOWN,
    BudgetMap,
    MapSummary,
    Segment,
)
from dtrdiag.rendering.commands import rules_words, run_command
from dtrdiag.rendering.mapmarks import BYTES_A_PIXEL, label_pixels, marks_layer, summary_marks
from dtrdiag.rendering.maprows import WORDS, largest_overhead, map_rows, row_columns
from dtrdiag.rendering.pages.parts import Chart, Reading
from dtrdiag.rendering.palette import OUTCOME_COLOURS, UNKNOWN_COLOUR
from dtrdiag.units import changes_words, plain_name

COLOURS = OUTCOME_COLOURS | {UNKNOWN: UNKNOWN_COLOUR}
LEGEND = {
    OK: "finishes (line)",
    OOM: "out of memory (solid)",
    THRASHED: "stopped by the limit (striped)",
    UNKNOWN: "not looked at (thin lines)",
}
"""What the legend says of each outcome, in order; also how it looks."""
LEAST_PIXELS = 2
"""No stretch is drawn narrower than this."""
STEP_HEIGHT = 240
_DASHES = {THRASHED: [3, 4], UNKNOWN: [1, 9]}
"""Pixels of a stripe, and from one to the next."""
_ZOOMED = {"domain": [{"expr": "domain[0]"}, {"expr": "domain[1]"}], "nice": False, "zero": False}


def step_chart(
    chart_id: str,
    heading: str,
    budget_map: BudgetMap,
    columns: Mapping[str, Sequence[Any]],
    *,
    summary: MapSummary,
    domain: tuple[int, int],
    top: float,
    log: bool,
) -> Chart:
    """Outcome and overhead over the budget.

    Args:
        chart_id: of the chart.
        heading: its title.
        budget_map: what is known.
        columns: its rows, as `row_columns` gives them.
        summary: what the map comes to: its segments, and what is to be pointed out.
        domain: the range that is shown at first, half-open.
        top: the largest overhead to be seen.
        log: whether the overhead's axis is logarithmic.
    """
    marks = summary_marks(summary, domain)
    others = [segment for segment in summary.segments if segment.outcome != OK]
    kinds = [outcome for outcome in LEGEND if WORDS[outcome] in columns["outcome"]]
    steps = _overhead_layer("most" in columns, top, log)
    layers = _layers(kinds, steps, marks, budget_map.header.peak_bytes)
    more = {"others": _segment_columns(others, domain[1]), "marks": marks}
    return Chart(
        id=chart_id,
        heading=heading,
        words=_words(kinds, any(marks.get("rank", ()))),
        spec={"height": STEP_HEIGHT, "layer": layers},
        columns=columns,
        x="lo",
        x2="hi",
        readings=readings(budget_map, columns),
        domain=domain,
        group="budget",
        more={name: source for name, source in more.items() if source},
    )


def map_chart(budget_map: BudgetMap, summary: MapSummary) -> Chart:
    """A map by itself, with a logarithmic axis of overheads, as it stands in a paper."""
    header = budget_map.header
    rules = rules_words(header) + changes_words(None, header.interventions)
    return step_chart(
        "map",
        f"{plain_name(header.trace_name)} under {plain_name(header.policy)}{rules}",
        budget_map,
        row_columns(map_rows(budget_map), budget_map.to_bytes),
        summary=summary,
        domain=(budget_map.from_bytes, budget_map.to_bytes + 1),
        top=largest_overhead([budget_map]),
        log=True,
    )


def _layers(
    kinds: Sequence[str],
    steps: dict[str, Any],
    marks: Mapping[str, Sequence[Any]],
    peak_bytes: int | None,
) -> list[dict[str, Any]]:
    layers = [*_other_layers([outcome for outcome in kinds if outcome != OK]), steps]
    shared = {"x": x_axis(peak_bytes), "color": colour(kinds, above=label_pixels(marks))}
    if marks:
        layers.append(marks_layer(marks))
    for layer in layers:
        layer["encoding"] = shared | layer["encoding"]
    if marks:
        del layers[-1]["encoding"]["color"]
    return layers


def _segment_columns(segments: Sequence[Segment], after: int) -> dict[str, list[Any]]:
    if not segments:
        return {}
    return {
        "lo": [segment.lo_bytes for segment in segments],
        "hi": [after if s.hi_bytes is None else s.hi_bytes for s in segments],
        "outcome": [WORDS[segment.outcome] for segment in segments],
    }


def x_axis(peak_bytes: int | None) -> dict[str, Any]:
    """The axis of budgets: bytes to the byte, and under them the ratio of the peak."""
    label = "format(datum.value, ',d')"
    title = "budget (B)"
    if peak_bytes:
        # As many digits as tell the ticks apart, however far in.
        digits = f"max(6, ceil(log({peak_bytes} / (domain[1] - domain[0])) / LN10) + 2)"
        label = f"[{label}, format(datum.value / {peak_bytes}, '.' + {digits} + '~f')]"
        title = "budget (B), and as a ratio of the peak"
    axis = {
        "title": title,
        "labelExpr": label,
        "tickMinStep": 1,
        "tickCount": {"expr": "max(2, floor(width / 150))"},
        "grid": False,
    }
    return {"field": "left", "type": "quantitative", "scale": _ZOOMED, "axis": axis}


def colour(
    outcomes: Sequence[str], legend: Mapping[str, str] = LEGEND, above: int = 0
) -> dict[str, Any]:
    """Colours of outcomes, with a legend that says how each looks besides.

    Args:
        outcomes: those that there are.
        legend: what it says of each.
        above: pixels between the plot and the legend, for labels.
    """
    words = [WORDS[outcome] for outcome in outcomes]
    says = " : ".join(f"datum.value === '{WORDS[each]}' ? '{legend[each]}'" for each in outcomes)
    return {
        "field": "outcome",
        "type": "nominal",
        "scale": {"domain": words, "range": [COLOURS[outcome] for outcome in outcomes]},
        "legend": {
            "title": None,
            "labelExpr": f"{says} : datum.value",
            "symbolType": "square",
            "symbolOpacity": 1,
            "symbolStrokeWidth": 0,
            "offset": 8 + above,
        },
    }


def drawn_transform(keep: Sequence[str], pixels: int, most: str | None) -> list[dict[str, Any]]:
    """From rows `lo`, `hi` to marks `left`, `right`, within `domain`.

    Args:
        keep: fields by which marks are told apart.
        pixels: no mark is narrower.
        most: an expression; with it, marks have the extremes of `overhead` and of it, `bottom` and
            `top`.
    """
    least = f"{pixels} * {BYTES_A_PIXEL}"
    kept = [
        {"op": "min", "field": "lo", "as": "from"},
        {"op": "max", "field": "hi", "as": "to"},
    ]
    if most is not None:
        kept.append({"op": "min", "field": "overhead", "as": "bottom"})
        kept.append({"op": "max", "field": "highest", "as": "top"})
    return [
        {"filter": "datum.hi > domain[0] && datum.lo < domain[1]"},
        # Each wide one by itself; narrow ones by the pixels in which they begin.
        {
            "calculate": f"datum.hi - datum.lo >= {least} ? datum.lo"
            f" : -1 - floor((datum.lo - domain[0]) / ({least}))",
            "as": "mark",
        },
        *([] if most is None else [{"calculate": most, "as": "highest"}]),
        {"aggregate": kept, "groupby": [*keep, "mark"]},
        {"calculate": "max(datum.from, domain[0])", "as": "left"},
        {"calculate": f"min(max(datum.to, datum.left + {least}), domain[1])", "as": "right"},
    ]


def only(outcome: str) -> dict[str, Any]:
    """The rows of an outcome."""
    return {"filter": f"datum.outcome === '{WORDS[outcome]}'"}


def _other_layers(outcomes: Sequence[str]) -> list[dict[str, Any]]:
    """Columns over the whole height for whatever does not finish, each kind in its way."""
    drawn = drawn_transform(["outcome"], LEAST_PIXELS, None)
    layers: list[dict[str, Any]] = []
    for outcome in outcomes:
        base = {"data": {"name": "others"}}
        transform = [only(outcome), *drawn]
        layers.append(
            base
            | {
                "transform": transform,
                "mark": {"type": "rect", "opacity": 1 if outcome == OOM else 0.15},
                "encoding": {"x2": {"field": "right"}},
            }
        )
        if outcome != OOM:
            layers.append(base | _striped(transform, _DASHES[outcome]))
    return layers


def _striped(transform: Sequence[Any], dashes: Sequence[int]) -> dict[str, Any]:
    """Stripes over a stretch: a line from top to bottom, as wide as it, with gaps."""
    return {
        "transform": [
            *transform,
            {"calculate": f"(datum.right - datum.left) / ({BYTES_A_PIXEL})", "as": "pixels"},
            {"calculate": "(datum.left + datum.right) / 2", "as": "left"},
        ],
        "mark": {"type": "rule", "strokeDash": dashes, "strokeCap": "butt"},
        "encoding": {
            "strokeWidth": {
                "field": "pixels",
                "type": "quantitative",
                "scale": None,
                "legend": None,
            }
        },
    }


def _overhead_layer(folded: bool, top: float, log: bool) -> dict[str, Any]:
    highest = "isValid(datum.most) ? datum.most : datum.overhead" if folded else "datum.overhead"
    most = max(top, 1.02) ** 1.04 if log else 1 + (max(top, 1.02) - 1) * 1.04
    scale = {"domain": [1, most], "nice": False} | ({"type": "log"} if log else {"zero": False})
    axis = {"title": "overhead (x baseline cost)", "tickCount": 6, "format": "~f"}
    return {
        "transform": [only(OK), *drawn_transform(["outcome"], 1, highest)],
        "mark": {"type": "rect", "stroke": COLOURS[OK], "strokeWidth": 2},
        "encoding": {
            "x2": {"field": "right"},
            "y": {"field": "bottom", "type": "quantitative", "scale": scale, "axis": axis},
            "y2": {"field": "top"},
        },
    }


def readings(budget_map: BudgetMap, columns: Mapping[str, Sequence[Any]]) -> tuple[Reading, ...]:
    """What is read off a row: the interval to the byte, what happens there, and how to see it."""
    stopped = WORDS[THRASHED] in columns["outcome"]
    overhead = "overhead (of a stopped run: at its stop)" if stopped else "overhead"
    found = [
        Reading("lo", "budgets", template="[{lo:,}, {hi:,}) B"),
        Reading("width", "width", template="{width:,} B"),
        Reading("outcome", "outcome"),
        Reading("overhead", overhead, template="{overhead}x"),
        Reading("evictions", "evictions to make room", template="{evictions:,}"),
        Reading("remats", "rematerialisations", template="{remats:,}"),
    ]
    if "most" in columns:
        more = "{intervals:,} intervals; overheads up to {most}x, counts of the first"
        found.append(Reading("intervals", "put together", template=more))
    if "above" in columns:
        found.append(Reading("above", "above"))
    command = run_command(budget_map.header, "{lo}")
    found.append(Reading("lo", "the same run", code=True, template=command))
    return tuple(found)


def _words(outcomes: Sequence[str], marked: bool) -> str:
    said = {
        OK: "The line is the overhead where the run finishes.",
        OOM: "Solid columns run out of memory.",
        THRASHED: "Striped columns were stopped by the overhead limit: their overhead is more.",
        UNKNOWN: "Where thin grey lines go across, nothing was looked at.",
    }
    parts = [said[outcome] for outcome in outcomes]
    if marked:
        parts.append(
            "Numbers are feasibility inversions (out of memory, although a smaller budget "
            "finishes), the widest first, as in the table below."
        )
    parts.append("However narrow, nothing is left out: zoom in to part what is close.")
    return " ".join(parts)
