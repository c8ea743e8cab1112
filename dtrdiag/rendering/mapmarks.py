"""What does a chart of a map point out: inversions by number, and the worst cliff?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtrdiag.analyses.budget_map import Cliff, MapSummary, Segment
from dtrdiag.units import short_bytes

LABEL_PIXELS = 44
"""Numbers of inversions closer together than this are one label."""
LANE_PIXELS = 14
"""From one line of labels to the next."""
BYTES_A_PIXEL = "(domain[1] - domain[0]) / width"
"""An expression of the chart."""


def summary_marks(summary: MapSummary, range_bytes: tuple[int, int]) -> dict[str, list[Any]]:
    """The places that a summary has to point out; see `place_marks`."""
    return place_marks(widest_first(summary.inversions), summary.worst_cliff, range_bytes)


def place_marks(
    inversions: Sequence[Segment], cliff: Cliff | None, range_bytes: tuple[int, int]
) -> dict[str, list[Any]]:
    """Places to point out: inversions, numbered from the widest, and the worst cliff.

    Args:
        inversions: widest first.
        cliff: the worst one.
        range_bytes: half-open; what has no upper end ends there.

    Returns:
        Columns `at`, `rank` (the least is written where several are close), `label`; empty where
        there is nothing to point out.
    """
    rows: list[tuple[float, int, str]] = []
    if cliff is not None:
        least = "at least " if cliff.censored else ""
        rows.append((cliff.high_bytes, 0, f"cliff, {least}{cliff.factor:.2f}x"))
    for rank, segment in enumerate(inversions, start=1):
        high = range_bytes[1] if segment.hi_bytes is None else segment.hi_bytes
        width = f": {short_bytes(high - segment.lo_bytes)}" if rank == 1 else ""
        name = "inversion 1" if rank == 1 else str(rank)
        rows.append(((segment.lo_bytes + high) / 2, rank, f"{name}{width}"))
    if not rows:
        return {}
    return dict(zip(("at", "rank", "label"), map(list, zip(*rows, strict=True)), strict=True))


def widest_first(segments: Sequence[Segment]) -> list[Segment]:
    """By width, those without an upper end first; of equal ones the lowest budgets first."""
    return sorted(
        segments, key=lambda s: (-(1 << 62 if s.width_bytes is None else s.width_bytes), s.lo_bytes)
    )


def label_pixels(marks: Mapping[str, Sequence[Any]]) -> int:
    """Height of the labels above the plot: numbers, the widest inversion, the cliff."""
    return LANE_PIXELS * len({min(rank, 2) for rank in marks.get("rank", ())})


def marks_layer(marks: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Labels above the plot, of the source `marks`; those that are close together are one."""
    lowest = min(max(marks["rank"]), 2)
    late = "datum.left > domain[0] + 0.7 * (domain[1] - domain[0])"
    return {
        "data": {"name": "marks"},
        "transform": [
            {"filter": "datum.at >= domain[0] && datum.at < domain[1]"},
            # The first inversion and the cliff have lines of their own.
            {
                "calculate": "datum.rank < 2 ? datum.rank - 2 : "
                f"floor((datum.at - domain[0]) / ({LABEL_PIXELS} * {BYTES_A_PIXEL}))",
                "as": "place",
            },
            {
                "aggregate": [
                    {"op": "argmin", "field": "rank", "as": "first"},
                    {"op": "count", "as": "number"},
                ],
                "groupby": ["place"],
            },
            {"calculate": "datum.first.at", "as": "left"},
            {
                "calculate": "datum.first.label"
                " + (datum.number > 1 ? ' +' + (datum.number - 1) : '')",
                "as": "label",
            },
            {
                "calculate": f"{late} ? datum.label + ' ▼' : '▼ ' + datum.label",
                "as": "text",
            },
            {
                "calculate": f"-7 - {LANE_PIXELS} * max(0, {lowest} - datum.first.rank)",
                "as": "high",
            },
        ],
        "mark": {
            "type": "text",
            "fontSize": 11,
            "clip": False,
            "align": {"expr": f"{late} ? 'right' : 'left'"},
            "dx": {"expr": f"{late} ? 5 : -5"},
        },
        "encoding": {
            "text": {"field": "text"},
            "y": {"field": "high", "type": "quantitative", "scale": None, "axis": None},
        },
    }
