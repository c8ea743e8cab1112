"""How does a timeline look: memory against the budget, evictions, rematerialisations, pending ops?

Charts of one timeline lie under each other, share x, and are zoomed together. Sizes along y are in
the unit that suits the largest; what is read off a bucket is exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dtrdiag.analyses.frontier import Frontier
from dtrdiag.analyses.onset import Spell
from dtrdiag.analyses.timeline import STEP, Timeline
from dtrdiag.rendering.pages.parts import Chart, Reading
from dtrdiag.rendering.palette import REMAT_COLOUR, look
from dtrdiag.rendering.timelineparts import BYTES, Layer, Rows, TimelineParts, Unit
from dtrdiag.rendering.timelinestrips import TimelineStrips
from dtrdiag.units import short_bytes

STATES = ("pinned", "locked", "evictable")
"""From below."""
STATE_WORDS = {
    "pinned": "pinned",
    "locked": "locked",
    "evictable": "evictable",
    "thrash": "thrashing",
}
HEIGHT = 240
_SPELLS = 20
_HEADROOM = 1.18
_FAR = 3
"""A budget of more than this many times what was in use is not drawn: memory would be a line."""
_STEP_READING = Reading("step", "step of the schedule", template="{step:,}")


def timeline_charts(
    found: Timeline,
    frontier: Frontier | None = None,
    spells: Sequence[Spell] = (),
    prefix: str = "",
) -> tuple[Chart, ...]:
    """The charts of a timeline; those of which there is nothing to be seen are left out.

    Args:
        found: a timeline of at least one bucket.
        frontier: the run's out-of-memory stop, if it had one.
        spells: where it thrashes.
        prefix: of the charts' ids and of their group, where a page has several timelines.
    """
    parts = TimelineParts(found, prefix)
    strips = TimelineStrips(parts)
    charts = [_Memory(parts).chart(frontier, spells)]
    if any(counts.any() for counts in found.evictions.values()):
        charts.append(strips.evictions())
    if found.remats.any():
        charts.append(strips.remats())
    if found.depth.max() > 1:
        charts.append(strips.depth())
    return tuple(charts)


class _Memory:
    """The chart of memory of one timeline."""

    def __init__(self, parts: TimelineParts) -> None:
        self._parts = parts
        self._thrashes = False

    def chart(self, frontier: Frontier | None, spells: Sequence[Spell]) -> Chart:
        """Resident bytes by state, the budget, and where the run stopped."""
        found = self._parts.found
        most = max(int(found.high_bytes.max()), int(found.in_use_bytes.max()), 1)
        budget = found.header.budget_bytes
        tops = [most, *([frontier.passes_at_bytes] if frontier else [])]
        near = budget is not None and budget <= _FAR * most
        if budget is not None and near:
            tops.append(budget)
        unit = Unit.of(max(tops), BYTES)
        columns = self._memory_columns(unit)
        more: dict[str, Rows] = {}
        self._thrashes = bool(spells)
        layers = [*self._bands(spells, more), *map(self._area, reversed(STATES))]
        if found.width > 1:
            layers.append(self._parts.line("low", strokeWidth=0.8, opacity=0.75))
        layers += self._budget(unit, near, more) + self._request(frontier, unit, more)
        spec = {
            "height": HEIGHT,
            "layer": layers,
            "encoding": {
                "y": {
                    "type": "quantitative",
                    "scale": {"domain": [0, max(tops) / unit.size * _HEADROOM]},
                    "axis": {"title": f"in memory, {unit.name}"},
                }
            },
        }
        readings = [
            Reading("place", self._parts.texts.place_label),
            *([] if self._parts.found.axis == STEP else [_STEP_READING]),
            Reading("high_text", "most in memory"),
            *(Reading(f"{state}_text", f"of that {state}") for state in STATES),
            *([Reading("low_text", "least in memory")] if found.width > 1 else []),
            *([Reading("room_text", "room left")] if budget is not None else []),
            Reading("seq", "after event", template="{seq:,}"),
        ]
        return self._parts.chart(
            "memory", "Memory", self._memory_words(near), spec,
            columns=columns, readings=tuple(readings), more=more,
        )  # fmt: skip

    def _memory_columns(self, unit: Unit) -> Rows:
        found, texts = self._parts.found, self._parts.texts
        locked = found.pinned_bytes + found.locked_bytes
        columns: Rows = {
            "pinned": unit.figures(found.pinned_bytes),
            "locked": unit.figures(locked),
            "evictable": unit.figures(found.high_bytes),
            "place": texts.places(),
            "high_text": texts.sizes(found.high_bytes),
            "pinned_text": texts.short_sizes(found.pinned_bytes),
            "locked_text": texts.short_sizes(found.locked_bytes),
            "evictable_text": texts.short_sizes(found.evictable_bytes),
            "seq": found.high_seq.tolist(),
            "step": found.step.tolist(),
        }
        if found.width > 1:
            columns["low"] = unit.figures(found.low_bytes)
            columns["low_text"] = texts.short_sizes(found.low_bytes)
        budget = found.header.budget_bytes
        if budget is not None:
            columns["room_text"] = texts.short_sizes(budget - found.in_use_bytes)
        return columns

    def _memory_words(self, near: bool) -> str:
        budget = self._parts.found.header.budget_bytes
        words = (
            "What is resident, from below: pinned (inputs, parameters, outputs: kept for good), "
            "locked (held by ops that are being executed or wait), evictable"
        )
        if self._parts.found.width > 1:
            words += ", each bucket at its fullest; the thin line is its least"
        if self._thrashes:
            words += ". The strip along the top is where the run thrashes"
        if budget is None:
            return words + ". The run has no budget."
        if not near:
            return words + f". The budget, {short_bytes(budget)}, is far above."
        return words + ". The dashed line is the budget."

    def _area(self, state: str) -> Layer:
        below = STATES[STATES.index(state) - 1] if state != STATES[0] else None
        return {
            "mark": {
                "type": "area",
                "interpolate": "step-after",
                # Whatever is narrower than a pixel is seen by its outline, that below over that
                # above: what holds memory matters more.
                "stroke": look(state).fill,
                "strokeWidth": 0.75,
                "opacity": 1,
            },
            "encoding": {
                "x": self._parts.x_encoding(),
                "y": {"field": state, "type": "quantitative", "stack": None},
                "y2": {"field": below} if below else {"datum": 0},
                "color": self._colour(state),
            },
        }

    def _colour(self, word: str) -> Layer:
        shown = [*STATES, *(["thrash"] if self._thrashes else [])]
        fills = {
            **{state: look(state).fill for state in STATES},
            "thrash": REMAT_COLOUR,
        }
        return {
            "datum": STATE_WORDS[word],
            "type": "nominal",
            "title": None,
            "legend": {"symbolStrokeWidth": 0},
            "scale": {
                "domain": [STATE_WORDS[each] for each in shown],
                "range": [fills[each] for each in shown],
            },
        }

    def _budget(self, unit: Unit, near: bool, more: dict[str, Rows]) -> list[Layer]:
        budget = self._parts.found.header.budget_bytes
        if budget is None or not near:
            return []
        more["budget"] = {"y": [budget / unit.size], "text": [f"budget {unit.text(budget)}"]}
        y = {"field": "y", "type": "quantitative"}
        text = {"type": "text", "align": "left", "baseline": "bottom", "dx": 4, "dy": -3}
        return [
            {
                "data": {"name": "budget"},
                "mark": {"type": "rule", "strokeDash": [6, 3], "strokeWidth": 1.5},
                "encoding": {"y": y},
            },
            {
                "data": {"name": "budget"},
                "mark": {**text, "fontWeight": 600},
                "encoding": {"y": y, "x": {"value": 0}, "text": {"field": "text"}},
            },
        ]

    def _request(self, frontier: Frontier | None, unit: Unit, more: dict[str, Rows]) -> list[Layer]:
        if frontier is None:
            return []
        more["stop"] = {
            "x": [self._parts.domain[1]],
            "y": [frontier.resident_bytes / unit.size],
            "y2": [frontier.passes_at_bytes / unit.size],
            "text": [f"out of memory: {unit.text(frontier.shortfall_bytes)} too little"],
        }
        x = self._parts.x_encoding()
        y = {"field": "y", "type": "quantitative"}
        # Zoomed in, the stop may be at either side of what is shown.
        early = "datum.x < domain[0] + 0.4 * (domain[1] - domain[0])"
        text = {
            "type": "text",
            "align": {"expr": f"{early} ? 'left' : 'right'"},
            "baseline": "bottom",
            "dx": {"expr": f"{early} ? 6 : -4"},
            "dy": -3,
        }
        return [
            {
                "data": {"name": "stop"},
                "mark": {
                    "type": "bar",
                    "orient": "vertical",
                    "width": 8,
                    "xOffset": -4,
                    "fill": look("requested").fill,
                    "stroke": "#000000",
                    "strokeWidth": 1,
                },
                "encoding": {"x": x, "y": y, "y2": {"field": "y2"}},
            },
            {
                "data": {"name": "stop"},
                "mark": {**text, "fontWeight": 600},
                "encoding": {
                    "x": x,
                    # Under the strip of thrash, and above whatever is said of the budget.
                    "y": {"value": 20},
                    "text": {"field": "text"},
                },
            },
        ]

    def _bands(self, spells: Sequence[Spell], more: dict[str, Rows]) -> list[Layer]:
        """Where the run thrashes: a strip along the top."""
        if not spells:
            return []
        found, ends = self._parts.found, []
        for spell in spells[:_SPELLS]:
            edges = np.searchsorted(found.step, (spell.first_step, spell.stop_step))
            first = max(0, int(edges[0]) - 1) if found.width > 1 else int(edges[0])
            last = max(int(edges[1]) - 1, first)
            ends.append(
                (
                    self._parts.x[min(first, len(self._parts.x) - 1)],
                    self._parts.x2[min(last, len(self._parts.x) - 1)],
                )
            )
        more["thrash"] = {"x": [end[0] for end in ends], "x2": [end[1] for end in ends]}
        return [
            {
                "data": {"name": "thrash"},
                "mark": {"type": "rect"},
                "encoding": {
                    "x": self._parts.x_encoding(),
                    "x2": {"field": "x2"},
                    "y": {"value": 0},
                    "y2": {"value": 7},
                    "color": self._colour("thrash"),
                },
            }
        ]
