"""How do the outcomes of several maps look side by side, on one axis of budgets?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtrdiag.analyses.budget_map import OK, OOM, THRASHED, UNKNOWN, Segment
from dtrdiag.rendering.mapcharts import (
    LEAST_PIXELS,
    colour,
    drawn_transform,
    only,
    x_axis,
)
from dtrdiag.rendering.maprows import WORDS, shared_stretches
from dtrdiag.rendering.pages.parts import Chart, Reading

HEIGHTS = {UNKNOWN: 0.05, OK: 0.16, THRASHED: 0.5, OOM: 0.86}
"""How much of its line the bar of an outcome takes: told apart without colour. The highest
are drawn last, so that the narrowest of them are seen."""
STRIP_LEGEND = {
    OK: "finishes (low)",
    OOM: "out of memory (full height)",
    THRASHED: "stopped by the limit (half)",
    UNKNOWN: "not looked at (thin)",
}
LINE_PIXELS = 34


def strip_chart(
    names: Sequence[str],
    segments: Sequence[Sequence[Segment]],
    *,
    domain: tuple[int, int],
    peak_bytes: int | None,
) -> Chart:
    """Outcomes of several maps on one axis, a line for each.

    Args:
        names: of the maps, each once.
        segments: of each map, ascending.
        domain: the range, half-open.
        peak_bytes: of the trace; None: not known.
    """
    there = {each.outcome for mine in segments for each in mine}
    kinds = [outcome for outcome in STRIP_LEGEND if outcome in there]
    return Chart(
        id="outcomes",
        heading="Outcomes side by side",
        words="One line for each map, on one axis. What is pointed at is read of all of them.",
        spec={
            "height": LINE_PIXELS * len(names),
            "layer": [
                _layer(outcome, kinds, names, peak_bytes) for outcome in HEIGHTS if outcome in kinds
            ],
        },
        columns=_columns(segments, domain),
        x="lo",
        x2="hi",
        readings=(
            Reading("lo", "budgets", template="[{lo:,}, {hi:,}) B"),
            *(Reading(f"map{at}", name) for at, name in enumerate(names)),
        ),
        domain=domain,
        group="budget",
        more={"strips": _strips(names, segments, domain[1])},
    )


def _strips(
    names: Sequence[str], segments: Sequence[Sequence[Segment]], after: int
) -> dict[str, list[Any]]:
    every = [(name, each) for name, mine in zip(names, segments, strict=True) for each in mine]
    return {
        "name": [name for name, _ in every],
        "lo": [each.lo_bytes for _, each in every],
        "hi": [after if each.hi_bytes is None else each.hi_bytes for _, each in every],
        "outcome": [WORDS[each.outcome] for _, each in every],
    }


def _columns(
    segments: Sequence[Sequence[Segment]], domain: tuple[int, int]
) -> dict[str, list[Any]]:
    """A row for each stretch on which nothing changes, with what each map says of it."""
    stretches = shared_stretches(segments, domain[0], domain[1] - 1)
    columns: dict[str, list[Any]] = {
        "lo": [low for low, _, _ in stretches],
        "hi": [high for _, high, _ in stretches],
    }
    for at, _ in enumerate(segments):
        columns[f"map{at}"] = [_segment_words(here[at]) for _, _, here in stretches]
    return columns


def _layer(
    outcome: str, kinds: Sequence[str], names: Sequence[str], peak_bytes: int | None
) -> dict[str, Any]:
    order = list(names)
    return {
        "data": {"name": "strips"},
        "transform": [only(outcome), *drawn_transform(["name", "outcome"], LEAST_PIXELS, None)],
        "mark": {"type": "bar", "height": {"band": HEIGHTS[outcome]}},
        "encoding": {
            "x": x_axis(peak_bytes),
            "x2": {"field": "right"},
            "y": {
                "field": "name",
                "type": "nominal",
                "sort": order,
                "title": "map",
                "scale": {"domain": order},
                "axis": {"labelLimit": 130},
            },
            "color": colour(kinds, STRIP_LEGEND),
        },
    }


def _segment_words(segment: Segment | None) -> str:
    if segment is None:
        return "not in this map's range"
    least, most = segment.least_overhead, segment.most_overhead
    if least is None or most is None or segment.outcome == OOM:
        return WORDS[segment.outcome]
    low, high = f"{least:.4f}", f"{most:.4f}"
    overheads = f"{low}x" if low == high else f"{low}x to {high}x"
    at = "at " if segment.outcome == THRASHED else ""
    return f"{WORDS[segment.outcome]}, {at}{overheads}"
