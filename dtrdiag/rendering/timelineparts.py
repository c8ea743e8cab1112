"""What do the charts of one timeline have in common: units, the x axis, a group?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from dtrdiag.analyses.timeline import DECISION, STEP, Timeline
from dtrdiag.rendering.pages.parts import Chart
from dtrdiag.rendering.timelinetexts import TimelineTexts
from dtrdiag.units import short_bytes

BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))
TIMES = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns"))
"""Units with their size, the largest first."""

Rows = dict[str, list[Any]]
Layer = dict[str, Any]


def zoomed_x(axis: Layer) -> Layer:
    """Where a row lies along x, as far as the chart is zoomed."""
    return {
        "field": "x",
        "type": "quantitative",
        "scale": {
            "domain": [{"expr": "domain[0]"}, {"expr": "domain[1]"}],
            "nice": False,
            "zero": False,
            "padding": 0,
        },
        "axis": axis,
    }


@attrs.frozen
class Unit:
    """What figures along an axis are divided by, and what that is called."""

    size: int
    name: str

    @classmethod
    def of(cls, largest: int, units: Sequence[tuple[int, str]]) -> Unit:
        """The unit that suits a largest figure: of which it has two at least."""
        return next((cls(*unit) for unit in units if largest >= 2 * unit[0]), cls(*units[-1]))

    def text(self, value: int) -> str:
        """One value with the unit; smaller ones in a smaller unit."""
        if value < self.size / 10 or self.size == 1:
            return short_bytes(value)
        return f"{value / self.size:,.1f} {self.name}"

    def figures(self, values: Any) -> list[float]:
        """Values in this unit, with as many digits as a picture shows."""
        return [float(f"{value / self.size:.6g}") for value in np.asarray(values).tolist()]


class TimelineParts:
    """A timeline as charts; `prefix` begins their ids and that of their group."""

    def __init__(self, found: Timeline, prefix: str) -> None:
        self.found = found
        self.prefix = prefix
        self.texts = TimelineTexts(found)
        self.x, self.x2 = found.x.tolist(), found.x2.tolist()
        self.domain = (float(self.x[0]), float(self.x2[-1]))

    def chart(
        self, name: str, heading: str, words: str, spec: Mapping[str, Any], **parts: Any
    ) -> Chart:
        """A chart over the buckets; `parts` are its columns, readings and further sources."""
        columns = {"x": self.x, "x2": self.x2, **parts.pop("columns")}
        return Chart(
            id=f"{self.prefix}{name}",
            heading=heading,
            words=words,
            spec=spec,
            columns=columns,
            x="x",
            x2="x2",
            domain=self.domain,
            group=f"{self.prefix}timeline",
            **parts,
        )

    def line(self, field: str, **mark: Any) -> Layer:
        """A field as a line of steps."""
        return {
            "mark": {"type": "line", "interpolate": "step-after", "color": "#1f1f1f", **mark},
            "encoding": {"x": self.x_encoding(), "y": {"field": field, "type": "quantitative"}},
        }

    def x_encoding(self) -> Layer:
        """Where a row lies, on an axis that is zoomed."""
        return zoomed_x(self._x_axis())

    def _x_axis(self) -> dict[str, Any]:
        if self.found.axis == STEP:
            return {"title": "step of the schedule", "format": ",~f", "tickMinStep": 1}
        if self.found.axis == DECISION:
            return {"title": "decision", "format": ",~f", "tickMinStep": 1}
        unit = Unit.of(int(self.domain[1]), TIMES)
        return {
            "title": f"clock, {unit.name}",
            "labelExpr": f"format(datum.value / {unit.size}, ',.9~f')",
        }
