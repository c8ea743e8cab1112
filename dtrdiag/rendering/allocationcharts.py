"""How does the memory of a device look over the history of a snapshot?"""

from __future__ import annotations

from typing import Any

import numpy as np

from dtrdiag.analyses.allocations import Allocations, Ints
from dtrdiag.rendering.pages.parts import Chart, Reading
from dtrdiag.rendering.palette import OUTCOME_COLOURS, look
from dtrdiag.rendering.timelineparts import BYTES, Rows, Unit, zoomed_x
from dtrdiag.units import both_bytes, short_bytes

MOST_ROWS = 2_000
HEIGHT = 260
_HEADROOM = 1.12
_BANDS = (
    ("reserved", "reserved", "#d9d9d9"),
    ("active", "waiting to be freed", look("locked").fill),
    ("allocated", "allocated", look("resident").fill),
)
"""Field, word and colour, from behind; what is in front covers what it is part of."""


def allocation_chart(found: Allocations) -> Chart:
    """Allocated and reserved bytes after each event; of what shares a row, the most is shown."""
    starts = _starts(found)
    tops = {
        "reserved": _most(found.reserved_bytes, starts),
        "active": _most(found.active_bytes, starts),
        "allocated": _most(found.allocated_bytes, starts),
    }
    largest = max(1, *(int(values.max()) for values in tops.values()))
    unit = Unit.of(largest, BYTES)
    columns: Rows = {"x": starts.tolist(), "x2": [*starts[1:].tolist(), found.events + 1]}
    for name, values in tops.items():
        columns[name] = unit.figures(values)
        text = both_bytes if name == "allocated" else short_bytes
        columns[f"{name}_text"] = [text(value) for value in values.tolist()]
    more = _marks(found, unit)
    y = {
        "type": "quantitative",
        "scale": {"domain": [0, largest / unit.size * _HEADROOM]},
        "axis": {"title": f"memory, {unit.name}"},
    }
    layers = [*(_band(*band) for band in _BANDS), *_peak(found), *_failed("oom" in more)]
    return Chart(
        id=f"device-{found.device}",
        heading=f"Memory of device {found.device}",
        words=_words(found, len(starts)),
        spec={"height": HEIGHT, "layer": layers, "encoding": {"y": y}},
        columns=columns,
        x="x",
        x2="x2",
        readings=(
            Reading("x", "after event", template="{x:,}"),
            Reading("allocated_text", "allocated"),
            Reading("active_text", "with what waits to be freed"),
            Reading("reserved_text", "reserved"),
        ),
        domain=(0.0, float(found.events)),
        group=f"device-{found.device}",
        more=more,
    )


def _marks(found: Allocations, unit: Unit) -> dict[str, Rows]:
    peak: Rows = {
        "x": [found.peak_at],
        "y": [found.peak_bytes / unit.size],
        "text": [f"peak {unit.text(found.peak_bytes)}"],
    }
    if not found.out_of_memory:
        return {"peak": peak}
    return {"peak": peak, "oom": {"x": [each.at for each in found.out_of_memory]}}


def _failed(any_failed: bool) -> list[dict[str, Any]]:
    mark = {"type": "rule", "color": OUTCOME_COLOURS["oom"], "strokeWidth": 1.5}
    return [{"data": {"name": "oom"}, "mark": mark, "encoding": {"x": _x()}}] * any_failed


def _starts(found: Allocations) -> Ints:
    """Where rows begin: each state for itself, or as many as a chart can show."""
    states = found.events + 1
    rows = min(states, MOST_ROWS)
    return np.arange(rows, dtype=np.int64) * states // rows


def _most(values: Ints, starts: Ints) -> Ints:
    return np.maximum.reduceat(values, starts)


def _x() -> dict[str, Any]:
    return zoomed_x({"title": "event of the allocator", "format": ",~f", "tickMinStep": 1})


def _band(field: str, word: str, colour: str) -> dict[str, Any]:
    return {
        "mark": {
            "type": "area",
            "interpolate": "step-after",
            "stroke": colour,
            "strokeWidth": 0.75,
            "opacity": 1,
        },
        "encoding": {
            "x": _x(),
            "y": {"field": field, "type": "quantitative", "stack": None},
            "y2": {"datum": 0},
            "color": {
                "datum": word,
                "type": "nominal",
                "title": None,
                "legend": {"symbolStrokeWidth": 0},
                "scale": {
                    "domain": [word for _, word, _ in reversed(_BANDS)],
                    "range": [colour for _, _, colour in reversed(_BANDS)],
                },
            },
        },
    }


def _peak(found: Allocations) -> list[dict[str, Any]]:
    y = {"field": "y", "type": "quantitative"}
    right = found.peak_at > found.events * 0.6
    return [
        {
            "data": {"name": "peak"},
            "mark": {"type": "point", "shape": "diamond", "size": 70, "filled": True,
                     "color": "#000000"},
            "encoding": {"x": _x(), "y": y},
        },
        {
            "data": {"name": "peak"},
            "mark": {"type": "text", "align": "right" if right else "left", "baseline": "bottom",
                     "dx": -6 if right else 6, "dy": -4, "fontWeight": 600},
            "encoding": {"x": _x(), "y": y, "text": {"field": "text"}},
        },
    ]  # fmt: skip


def _words(found: Allocations, rows: int) -> str:
    words = (
        "Bytes in use by tensors, those freed that wait for another stream, and what the allocator "
        "had reserved from the device, after each event. The diamond is the peak of what was "
        "allocated"
    )
    if found.out_of_memory:
        words += "; upright lines are allocations that failed"
    if rows < found.events + 1:
        words += f". Each of {rows:,} stretches is shown at its fullest"
    return words + "."
