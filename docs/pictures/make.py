"""Draw the pictures of the README and the documentation, from bundled traces alone.

    python docs/pictures/make.py           # writes docs/pictures/*.svg
    python docs/pictures/make.py --check   # status 1 if one is not what it would write

Needs the extra `charts`. The same bytes each time with one version of vl-convert; with another one
pixels are compared, which needs pillow.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import attrs

from dtrdiag.analyses import BudgetMap, diff_runs, pinned_frontier, summarise_map
from dtrdiag.analyses.timeline import STEP, run_timeline
from dtrdiag.experiments.budget_map import Mapper
from dtrdiag.experiments.outcomes import Outcomes
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import EventRecorder
from dtrdiag.rendering.coursecharts import course_chart
from dtrdiag.rendering.mapcharts import map_chart
from dtrdiag.rendering.pictures import WIDTH, chart_picture
from dtrdiag.rendering.timelinecharts import timeline_charts
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, budget_from_ratio, simulate
from dtrdiag.trace.catalog import resolve

FOLDER = Path(__file__).parent
STOPPED = ("gpt2-dropout", "dtr", 5_539_814_504)
"""Trace, policy and budget of a run that is out of memory; with one byte less it finishes."""
MAPPED = ("resnet-20", "dtr-eq", 0.265, 0.266)
"""Trace, policy and range of ratios with an inversion."""
CLIFF = ("encoder-6", "dtr-eq", (688_847_127, 688_847_128))
"""Trace, policy and two budgets, one byte apart, with overheads of 1.77x and 9.94x."""
BUCKETS = WIDTH
"""Of the timeline: no more than there are pixels."""
SAME_PIXELS = 0.995
"""Of two pictures by different versions of vl-convert, as many must be alike."""


def record(name: str, policy: str, budget_bytes: int) -> EventRecorder:
    """The log of a run."""
    trace = resolve(name)
    hooks, events = Hooks(), EventRecorder()
    hooks.subscribe(events)
    simulate(trace, RunConfig(policy, budget_bytes, peak_bytes=baseline_peak_bytes(trace)), hooks)
    return events


def memory() -> bytes:
    """Memory of a run up to its out-of-memory stop."""
    events = record(*STOPPED)
    timeline = run_timeline(events, STEP, BUCKETS)
    chart = timeline_charts(timeline, pinned_frontier(events))[0]
    heading = f"{STOPPED[0]} under {STOPPED[1]}: memory of a run that stops"
    return chart_picture(attrs.evolve(chart, heading=heading), "svg")


def budgets() -> bytes:
    """Outcome and overhead at every budget of a range."""
    name, policy, *ratios = MAPPED
    trace, known = resolve(name), Outcomes()
    peak_bytes = baseline_peak_bytes(trace)
    low, high = (budget_from_ratio(peak_bytes, ratio) for ratio in ratios)
    Mapper(trace, RunConfig(policy, peak_bytes=peak_bytes), known).map_range(low, high)
    runs = list(known)
    found = BudgetMap(runs[0].header, tuple(run.end for run in runs), low, high)
    return chart_picture(map_chart(found, summarise_map(found, peak_bytes // 1000)), "svg")


def pair() -> bytes:
    """How two runs drift apart whose budgets differ by one byte."""
    name, policy, both = CLIFF
    return chart_picture(course_chart(diff_runs(*(record(name, policy, b) for b in both))), "svg")


PICTURES: dict[str, Callable[[], bytes]] = {
    "memory.svg": memory,
    "budgets.svg": budgets,
    "pair.svg": pair,
}


def same_picture(one: bytes, other: bytes) -> bool:
    """Whether two SVG are equal, to the byte or nearly to the pixel."""
    if one == other:
        return True
    try:
        import vl_convert
        from PIL import Image, ImageChops
    except ImportError:
        return False
    drawn = [
        Image.open(io.BytesIO(vl_convert.svg_to_png(svg.decode()))).convert("L")
        for svg in (one, other)
    ]
    if drawn[0].size != drawn[1].size:
        return False
    differences = ImageChops.difference(*drawn).histogram()
    return sum(differences[:32]) >= SAME_PIXELS * sum(differences)


def main(arguments: list[str]) -> int:
    """Write or check all pictures; the exit status."""
    if arguments not in ([], ["--check"]):
        print("usage: make.py [--check]", file=sys.stderr)
        return 2
    status = 0
    for name, draw in PICTURES.items():
        path, drawn = FOLDER / name, draw()
        if not arguments:
            path.write_bytes(drawn)
            print(f"{path} ({len(drawn):,} B)")
        elif not (path.is_file() and same_picture(path.read_bytes(), drawn)):
            print(f"{path} is not what this command draws", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
