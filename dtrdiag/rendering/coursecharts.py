"""How do two runs drift apart after they have parted, step by step of the schedule?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dtrdiag.analyses.diff import RunDiff
from dtrdiag.analyses.trajectory import Trajectory
from dtrdiag.errors import UsageError
from dtrdiag.rendering.pages.parts import Chart, Reading
from dtrdiag.units import plain_name, short_bytes

PIECES = 720
"""Of a longer course, the first, least, largest and last value of each piece are drawn."""
STORAGES, BYTES = "by storages", "by bytes"
COLOURS = {STORAGES: "#0072b2", BYTES: "#d55e00"}
UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns"))
"""Of time, with their nanoseconds."""
HEIGHT = 150


def why_no_course(diff: RunDiff) -> str | None:
    """Why there is nothing for `course_chart` to draw; None where there is something."""
    if diff.trajectory is None:
        return "the two runs make the same decisions: there is nothing to draw"
    if not len(diff.trajectory.steps):
        return "a run stops in the step in which they part: there is nothing to draw"
    return None


def course_chart(diff: RunDiff) -> Chart:
    """What b paid beyond a, and how alike their resident sets are, after each step.

    Raises:
        UsageError: the runs do not part, or no step is completed by both afterwards.
    """
    found, why = diff.trajectory, why_no_course(diff)
    if found is None or why is not None:
        raise UsageError(why or "there is nothing to draw")
    columns, unit = course_columns(found)
    names = f"{_name(diff, 0)} (a), {_name(diff, 1)} (b)"
    return Chart(
        id="course",
        heading=f"{plain_name(diff.a.header.trace_name)}: {names}",
        words="Above, the cost of rematerialisation that b paid beyond a up to each step of the "
        "schedule; below, the Jaccard index of what is resident in a and in b after it.",
        spec={
            "vconcat": [_extra_view(unit), _alike_view()],
            "resolve": {"scale": {"x": "shared"}},
            "spacing": 24,
        },
        columns=columns,
        x="step",
        readings=(
            Reading("step", "step"),
            Reading("extra", f"b beyond a ({unit})"),
            Reading("storages", "Jaccard by storages"),
            Reading("bytes", "Jaccard by bytes"),
        ),
        more={"alike": _alike(columns)},
    )


def course_columns(found: Trajectory) -> tuple[dict[str, list[Any]], str]:
    """Columns `step`, `extra`, `storages` and `bytes` (Jaccard) of the drawn steps.

    Returns:
        The columns, and the unit of `extra`.
    """
    most = int(np.abs(found.extra_ns).max())
    scale, unit = next((each for each in UNITS if most >= each[0]), UNITS[-1])
    kept = kept_places([found.extra_ns, found.jaccard, found.jaccard_bytes])
    columns = {
        "step": found.steps[kept].tolist(),
        "extra": (found.extra_ns[kept] / scale).tolist(),
        "storages": found.jaccard[kept].tolist(),
        "bytes": found.jaccard_bytes[kept].tolist(),
    }
    return columns, unit


def kept_places(courses: Sequence[npt.NDArray[Any]], pieces: int = PIECES) -> npt.NDArray[np.intp]:
    """Places of the first, least, largest and last value of each piece, of each course. O(n).

    Args:
        courses: arrays of one length.
        pieces: into so many each is cut; all places are kept if there are no more than four each.
    """
    length = len(courses[0])
    if length <= 4 * pieces:
        return np.arange(length)
    kept = {0, length - 1}
    for part in np.array_split(np.arange(length), pieces):
        kept |= {int(part[0]), int(part[-1])}
        for course in courses:
            piece = course[part]
            kept |= {int(part[piece.argmin()]), int(part[piece.argmax()])}
    return np.array(sorted(kept))


def _name(diff: RunDiff, which: int) -> str:
    header = (diff.a, diff.b)[which].header
    budget = header.budget_bytes
    if budget is None:
        return f"{plain_name(header.policy)} without a budget"
    at = short_bytes(budget) if header.ratio is None else f"{header.ratio:.6g}"
    one, other = diff.a.header.budget_bytes, diff.b.header.budget_bytes
    if one is not None and other is not None and one != other and abs(one - other) < 1 << 20:
        at = f"{budget:,} B"
    return f"{plain_name(header.policy)} {at}"


def _x(title: str | None) -> dict[str, Any]:
    scale = {"nice": False, "zero": False}
    axis = {"title": title, "grid": False, "format": ",d", "tickMinStep": 1}
    return {"field": "step", "type": "quantitative", "scale": scale, "axis": axis}


def _extra_view(unit: str) -> dict[str, Any]:
    return {
        "height": HEIGHT,
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5},
        "encoding": {
            "x": _x(None),
            "y": {"field": "extra", "type": "quantitative", "title": f"b beyond a ({unit})"},
            "color": {"value": COLOURS[STORAGES]},
        },
    }


def _alike_view() -> dict[str, Any]:
    order = list(COLOURS)
    return {
        "height": HEIGHT,
        "data": {"name": "alike"},
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5},
        "encoding": {
            "x": _x("step of the schedule"),
            "y": {
                "field": "jaccard",
                "type": "quantitative",
                "title": "Jaccard of resident sets",
                "scale": {"domain": [0, 1]},
            },
            "color": {
                "field": "of",
                "type": "nominal",
                "scale": {"domain": order, "range": list(COLOURS.values())},
                "title": None,
            },
            "strokeDash": {
                "field": "of",
                "type": "nominal",
                "scale": {"domain": order, "range": [[1, 0], [5, 3]]},
                "title": None,
            },
        },
    }


def _alike(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    steps = columns["step"]
    return {
        "step": [*steps, *steps],
        "jaccard": [*columns["storages"], *columns["bytes"]],
        "of": [STORAGES] * len(steps) + [BYTES] * len(steps),
    }
