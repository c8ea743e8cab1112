"""How do two runs look side by side along the schedule: memory, likeness, extra cost?

All charts of a pair have the steps of the schedule as their x axis, and are zoomed together. The
step in which the runs part is marked in each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from dtrdiag.analyses.diff import RunDiff
from dtrdiag.analyses.frontier import Frontier
from dtrdiag.analyses.timeline import Timeline
from dtrdiag.analyses.trajectory import Trajectory
from dtrdiag.events.records import RunHeader
from dtrdiag.rendering.pages.parts import Chart, Reading
from dtrdiag.rendering.palette import REMAT_COLOUR
from dtrdiag.rendering.timelinecharts import timeline_charts
from dtrdiag.rendering.timelineparts import TIMES, Rows, TimelineParts, Unit
from dtrdiag.units import duration, plain_name, short_bytes

GROUP = "pair"
POINTS = 1500
"""At most so many steps are drawn of a trajectory; its extremes are among them."""
COLOURS = ("#0072b2", "#d55e00")
"""Of two lines in one chart, which also differ in their dashes; of Okabe and Ito."""
_HEIGHT = 130

Layer = dict[str, Any]


def pair_charts(
    found: RunDiff, timelines: Sequence[Timeline], frontiers: Sequence[Frontier | None]
) -> tuple[Chart, ...]:
    """The charts of a pair of runs.

    Args:
        found: of the two runs.
        timelines: of a and of b, along the steps of the schedule, each with a bucket at least.
        frontiers: the out-of-memory stop of a and of b; None: it has none.
    """
    parts = [TimelineParts(timeline, "") for timeline in timelines]
    whole = (min(each.domain[0] for each in parts), max(each.domain[1] for each in parts))
    parted = None if found.trajectory is None else found.trajectory.alignment.parted
    x = parts[0].x_encoding()
    memory = [
        _with_memory(name, timeline, frontier)
        for name, timeline, frontier in zip("ab", timelines, frontiers, strict=True)
    ]
    top = max(chart.spec["encoding"]["y"]["scale"]["domain"][1] for chart in memory)
    same_unit = len({chart.spec["encoding"]["y"]["axis"]["title"] for chart in memory}) == 1
    charts = [_of_height(chart, top) if same_unit else chart for chart in memory]
    if found.trajectory is not None and len(found.trajectory.steps):
        rows = _Rows.of(found.trajectory, int(whole[1]))
        charts += [_extra_chart(rows, x), _jaccard_chart(rows, x)]
    return tuple(_joined(chart, whole, parted, x) for chart in charts)


def _with_memory(name: str, timeline: Timeline, frontier: Frontier | None) -> Chart:
    chart = timeline_charts(timeline, frontier, prefix=f"{name}-")[0]
    return attrs.evolve(chart, heading=f"Memory of {name}: {_run_name(timeline.header)}")


def _run_name(header: RunHeader) -> str:
    if header.budget_bytes is None:
        return f"{plain_name(header.policy)}, without a budget"
    ratio = "" if header.ratio is None else f", {header.ratio:.6g} of the peak"
    return f"{plain_name(header.policy)}, {short_bytes(header.budget_bytes)}{ratio}"


def _of_height(chart: Chart, top: float) -> Chart:
    """The same chart with another end of its y axis, so that two can be compared by eye."""
    encoding = chart.spec["encoding"]
    y = {**encoding["y"], "scale": {**encoding["y"]["scale"], "domain": [0, top]}}
    return attrs.evolve(chart, spec={**chart.spec, "encoding": {**encoding, "y": y}})


def _joined(chart: Chart, whole: tuple[float, float], parted: int | None, x: Layer) -> Chart:
    """A chart in the group of the pair, with the step marked in which the runs part."""
    chart = attrs.evolve(chart, group=GROUP, domain=whole)
    if parted is None:
        return chart
    height = chart.spec["height"]
    marked: Layer = {"data": {"name": "parted"}, "encoding": {"x": {**x, "field": "x"}}}
    up = {"y": {"value": 0}, "y2": {"value": height}}
    # Over memory there is room at the top; a low chart has none where its lines are.
    place = 2 if height > _HEIGHT else _clear_of_zero(chart, height)
    text = {"y": {"value": place}, "text": {"field": "text"}}
    late = "datum.x > domain[0] + 0.85 * (domain[1] - domain[0])"
    layers = [
        {
            **marked,
            "mark": {"type": "rule", "strokeWidth": 2, "strokeDash": [5, 3]},
            "encoding": {**marked["encoding"], **up},
        },
        {
            **marked,
            "mark": {
                "type": "text",
                "align": {"expr": f"{late} ? 'right' : 'left'"},
                "baseline": "top",
                "dx": {"expr": f"{late} ? -5 : 5"},
                "fontWeight": 600,
            },
            "encoding": {**marked["encoding"], **text},
        },
    ]
    more: dict[str, Mapping[str, Sequence[Any]]] = {**chart.more}
    more["parted"] = {"x": [parted], "text": ["they part"]}
    spec = {**chart.spec, "layer": [*chart.spec["layer"], *layers]}
    return attrs.evolve(chart, spec=spec, more=more)


def _clear_of_zero(chart: Chart, height: float) -> float:
    """Where along y a label is not struck through: away from where the extra cost is nothing."""
    extra = chart.columns.get("extra") if chart.id == "extra" else None
    if not extra:
        return height / 2
    return height * (0.1 if max(extra) > -min(extra) else 0.75)


@attrs.frozen
class _Rows:
    """Points of a trajectory, after a row for all that the runs have in common."""

    columns: Mapping[str, list[Any]]
    unit: Unit

    @classmethod
    def of(cls, found: Trajectory, until: int) -> _Rows:
        at = found.points(POINTS)
        steps = found.steps[at].tolist()
        extra = found.extra_ns[at].tolist()
        costs = (found.cost_a_ns[at].tolist(), found.cost_b_ns[at].tolist())
        counted = zip(
            *(getattr(found.storages, name)[at].tolist() for name in ("a", "b", "both")),
            strict=True,
        )
        unit = Unit.of(max(map(abs, extra), default=0) or 1, TIMES)
        columns: Rows = {
            "x": steps,
            "x2": [*steps[1:], max(until, steps[-1] + 1)],
            "jaccard": [round(value, 6) for value in found.jaccard[at].tolist()],
            "jaccard_bytes": [round(value, 6) for value in found.jaccard_bytes[at].tolist()],
            "extra": unit.figures(extra),
            "place": [f"after step {step:,}" for step in steps],
            "held": [f"{a:,} in a, {b:,} in b, {both:,} in both" for a, b, both in counted],
            "extra_text": [_difference(each) for each in extra],
            "costs_text": [
                f"{duration(a)} in a, {duration(b)} in b" for a, b in zip(*costs, strict=True)
            ],
        }
        if steps[0] > 0:
            before = {
                "x": 0, "x2": steps[0], "jaccard": 1.0, "jaccard_bytes": 1.0, "extra": 0.0,
                "place": f"before step {steps[0]:,}", "held": "the same in both",
                "extra_text": _difference(0), "costs_text": "the same in both",
            }  # fmt: skip
            columns = {name: [before[name], *values] for name, values in columns.items()}
        return cls(columns, unit)


def _difference(extra_ns: int) -> str:
    if not extra_ns:
        return "none"
    dearer, other = ("b", "a") if extra_ns > 0 else ("a", "b")
    return f"{dearer} has paid {duration(abs(extra_ns))} more than {other}"


def _line(field: str, x: Layer, **mark: Any) -> Layer:
    return {
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.75, **mark},
        "encoding": {"x": x, "y": {"field": field, "type": "quantitative"}},
    }


def _extra_chart(rows: _Rows, x: Layer) -> Chart:
    zero = {"mark": {"type": "rule", "opacity": 0.6}, "encoding": {"y": {"datum": 0}}}
    area = {
        "mark": {
            "type": "area", "interpolate": "step-after", "color": REMAT_COLOUR, "opacity": 0.55,
            "line": {"color": REMAT_COLOUR, "strokeWidth": 1.75},
        },
        "encoding": {
            "x": x, "y": {"field": "extra", "type": "quantitative"}, "y2": {"datum": 0}
        },
    }  # fmt: skip
    y = {"type": "quantitative", "axis": {"title": f"b - a, {rows.unit.name}", "tickCount": 5}}
    return Chart(
        "extra",
        "Extra cost: what b has paid for rematerialisation beyond a",
        "Cost of recomputing in b minus that in a, up to each step of the schedule; below zero "
        "where a has paid more.",
        {"height": _HEIGHT, "layer": [area, zero], "encoding": {"y": y}},
        rows.columns,
        "x",
        "x2",
        (
            Reading("place", "step of the schedule"),
            Reading("extra_text", "extra cost so far"),
            Reading("costs_text", "cost of recomputing so far"),
        ),
    )


def _jaccard_chart(rows: _Rows, x: Layer) -> Chart:
    words = ("by storages", "by bytes")
    colour = {"type": "nominal", "title": None, "scale": {"domain": words, "range": COLOURS}}
    layers = []
    for field, word, dash in zip(
        ("jaccard", "jaccard_bytes"), words, ([1, 0], [5, 2]), strict=True
    ):
        layer = _line(field, x, strokeDash=dash)
        layer["encoding"]["color"] = {**colour, "datum": word}
        layers.append(layer)
    y = {
        "type": "quantitative", "scale": {"domain": [0, 1.05], "nice": False},
        "axis": {"title": "Jaccard index", "values": [0, 0.5, 1], "format": ".1f"},
    }  # fmt: skip
    return Chart(
        "jaccard",
        "How alike the resident sets are",
        "Storages resident in both runs, as a share of those resident in either (the Jaccard "
        "index): 1 where the same are in memory, 0 where none is in both. The dashed line counts "
        "bytes in place of storages.",
        {"height": _HEIGHT, "layer": layers, "encoding": {"y": y}},
        rows.columns,
        "x",
        "x2",
        (
            Reading("place", "step of the schedule"),
            Reading("jaccard", "Jaccard by storages"),
            Reading("jaccard_bytes", "Jaccard by bytes"),
            Reading("held", "resident storages"),
        ),
    )
