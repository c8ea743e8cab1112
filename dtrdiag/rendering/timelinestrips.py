"""How do evictions, rematerialisations and pending ops look along a timeline: in low charts?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dtrdiag.rendering.pages.parts import Chart, Reading
from dtrdiag.rendering.palette import CAUSE_COLOURS, REMAT_COLOUR
from dtrdiag.rendering.timelineparts import BYTES, Layer, Rows, TimelineParts, Unit
from dtrdiag.units import count

HEIGHT = 90
"""In pixels."""
LEGEND = {
    "pressure": "to make room (upwards)",
    "release": "on release (downwards)",
    "banish": "freed for good (downwards)",
}
"""What the legend says of each cause of evictions."""


def _round(most: float) -> float:
    """The largest of 1, 2, 5, 10, 20, ... that is at most a figure; 0 for 0."""
    if most <= 0:
        return 0.0
    power = float(10 ** math.floor(math.log10(most)))
    return next(digit * power for digit in (5, 2, 1) if digit * power <= most * (1 + 1e-9))


class TimelineStrips:
    """The low charts of a timeline."""

    def __init__(self, parts: TimelineParts) -> None:
        self._parts = parts
        self._found = parts.found
        self._texts = parts.texts

    def evictions(self) -> Chart:
        """Bytes evicted, for room upwards and for other causes downwards."""
        found = self._found
        sizes = found.evicted_bytes
        most_up = int(sizes["pressure"].max())
        most = max(int(sizes[cause].max()) for cause in sizes)
        unit = Unit.of(max(most, 1), BYTES)
        more: dict[str, Rows] = {}
        layers = []
        for cause, sign in (("pressure", 1), ("release", -1), ("banish", -1)):
            if found.evictions[cause].any():
                more[cause] = self._spikes(found.evictions[cause], sizes[cause], unit, sign)
                layers.append(self._spiked(cause, CAUSE_COLOURS[cause]))
        causes = [cause for cause in sizes if found.evictions[cause].any()]
        for layer in layers:
            layer["encoding"]["color"] = self._legend(layer["data"]["name"], causes)
        downwards = [int(sizes[cause].max()) for cause in ("release", "banish")]
        ticks = sorted({-_round(max(downwards) / unit.size), 0, _round(most_up / unit.size)})
        down = "freed on release" if "banish" not in more else "freed for good"
        words = "Bytes evicted in each bucket: upwards to make room"
        words += f", downwards {down}." if len(more) > 1 or "pressure" not in more else "."
        columns: Rows = {"place": self._texts.places()}
        for cause in causes:
            columns[cause] = self._texts.evictions(cause)
        names = {"pressure": "to make room", "release": "on release", "banish": "freed for good"}
        readings = [Reading(cause, f"evicted {names[cause]}") for cause in causes]
        return self._parts.chart(
            "evictions", "Evictions", words, self._strip(layers, f"evicted, {unit.name}", ticks),
            columns=columns, more=more,
            readings=(Reading("place", self._texts.place_label), *readings),
        )  # fmt: skip

    @staticmethod
    def _legend(cause: str, causes: Sequence[str]) -> Layer:
        """The colour of a cause, with a legend of those that there are."""
        return {
            "datum": LEGEND[cause],
            "type": "nominal",
            "title": None,
            "scale": {
                "domain": [LEGEND[each] for each in causes],
                "range": [CAUSE_COLOURS[each] for each in causes],
            },
        }

    def remats(self) -> Chart:
        """How many ops were executed again."""
        found = self._found
        more = {"again": self._spikes(found.remats, found.remats, Unit(1, ""), 1)}
        columns: Rows = {
            "place": self._texts.places(),
            "remats": self._texts.executions(found.remats, found.remat_ns),
            "computes": self._texts.executions(found.computes, found.compute_ns),
            "overhead": self._texts.overheads(),
        }
        readings = (
            Reading("place", self._texts.place_label),
            Reading("remats", "computed again"),
            Reading("computes", "computed for the first time"),
            Reading("overhead", "overhead up to here"),
        )
        return self._parts.chart(
            "remats", "Rematerialisations", "How many ops were computed again in each bucket.",
            self._strip(
                [self._spiked("again", REMAT_COLOUR)], "computed again", int(found.remats.max())
            ),
            columns=columns, more=more, readings=readings,
        )  # fmt: skip

    def depth(self) -> Chart:
        """How many ops were waiting for each other."""
        depth = self._found.depth.tolist()
        area = self._parts.line("depth")
        area["mark"] = {
            "type": "area", "interpolate": "step-after", "opacity": 1,
            "fill": REMAT_COLOUR, "fillOpacity": 0.45, "stroke": REMAT_COLOUR,
        }  # fmt: skip
        words = "The most ops that were pending at once, each waiting for an input from the next."
        return self._parts.chart(
            "depth", "Depth of recursion", words,
            self._strip([area], "ops pending", max(depth)),
            columns={
                "depth": depth,
                "place": self._texts.places(),
                "depth_text": [count(each, "op") for each in depth],
            },
            readings=(
                Reading("place", self._texts.place_label), Reading("depth_text", "pending at most")
            ),
        )  # fmt: skip

    def _strip(self, layers: list[Layer], title: str, most: int | list[float]) -> Layer:
        """A low chart of layers; `most` is the largest count along y, or the ticks of sizes."""
        axis: dict[str, Any] = {"title": title}
        if isinstance(most, list):
            # Downwards is no less than nothing.
            axis |= {
                "labelExpr": "format(abs(datum.value), ',~g')",
                "values": most,
                "labelOverlap": False,
            }
        else:
            axis |= {"format": ",d", "tickCount": max(1, min(3, most))}
        y = {"type": "quantitative", "axis": axis, "title": title}
        return {"height": HEIGHT, "layer": layers, "encoding": {"y": y}}

    def _spikes(self, counts: Any, values: Any, unit: Unit, sign: int) -> Rows:
        """A line that goes up at each bucket in which something happened, and no line between."""
        rows = np.flatnonzero(counts)
        heights = unit.figures(np.asarray(values)[rows])
        return {
            "x": np.repeat(self._found.x[rows], 3).tolist(),
            # The gap keeps the line from running along the axis.
            "y": [y for height in heights for y in (0, sign * height, None)],
        }

    def _spiked(self, source: str, colour: str) -> Layer:
        return {
            "data": {"name": source},
            "mark": {"type": "line", "strokeWidth": 1.2, "color": colour, "strokeJoin": "bevel"},
            "encoding": {
                "x": {**self._parts.x_encoding(), "sort": None},
                "y": {"field": "y", "type": "quantitative"},
            },
        }
