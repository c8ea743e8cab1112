"""How long does the replay in a terminal take to open a log, and to step and jump in it?

    python benchmarks/tui.py                   a log of about 100,000 events, of a generated trace
    python benchmarks/tui.py LOG               another one

Opening is until the first screen has been drawn, in memory; a step is from the key to the drawn
screen. Loading dtrdiag and textual comes on top and is given apart. Figures are wall time, and in
brackets processor time, which says more on a machine that is busy with other things.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SIZE = (120, 40)
STEPS = 200


def measure(path: str) -> None:
    """Print a table for one log."""
    started = _now()
    from dtrdiag.cli.tui.app import ReplayApp
    from dtrdiag.cli.tui.cursor import Cursor
    from dtrdiag.cli.tui.eventfile import EventFile

    _say("load dtrdiag and textual", [_since(started)])

    async def drive() -> None:
        started = _now()
        app = ReplayApp((Cursor(EventFile(path)),))
        async with app.run_test(size=SIZE) as pilot:
            await pilot.pause()
            _say("open, first screen", [_since(started)])
            await _keys(app, pilot)

    asyncio.run(drive())


async def _keys(app: Any, pilot: Any) -> None:
    started = _now()
    await pilot.press("o", "o")
    _say("to the end, as soon as open", [_since(started)])
    cursor = app.cursor
    print(f"{path_words(cursor)}")
    for label, key, start in (
        ("step back, at the end", "left", len(cursor) - 1),
        ("step, at the end", "right", len(cursor) - 1 - STEPS),
        ("step, in the middle", "right", len(cursor) // 2),
        ("step back, in the middle", "left", len(cursor) // 2),
        ("next eviction", "e", 0),
        ("previous eviction, from the end", "E", len(cursor) - 1),
        ("next rematerialisation", "r", 0),
        ("details of a storage, and back", "s", len(cursor) // 2),
    ):
        cursor.seek(start)
        taken = []
        for _ in range(STEPS):
            started = _now()
            await pilot.press(*([key, "escape"] if key == "s" else [key]))
            taken.append(_since(started))
        _say(label, taken)


def path_words(cursor: Any) -> str:
    """How large the log is, and what checkpoints take."""
    reading = cursor.reading
    return f"({len(cursor):,} events, a checkpoint each {reading.apart})"


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _since(started: tuple[float, float]) -> tuple[float, float]:
    wall, processor = _now()
    return wall - started[0], processor - started[1]


def _say(label: str, taken: list[tuple[float, float]]) -> None:
    wall, processor = (statistics.median(column) * 1e3 for column in zip(*taken, strict=True))
    worst = max(seconds for seconds, _ in taken) * 1e3
    more = f", worst {worst:.0f} ms" if len(taken) > 1 else ""
    print(f"{label:36} {wall:9.1f} ms ({processor:.1f}){more}")


def main() -> None:
    if len(sys.argv) > 1:
        measure(sys.argv[1])
        return
    from dtrdiag.cli.sources import record
    from dtrdiag.simulator import RunConfig, baseline_peak_bytes, budget_from_ratio
    from dtrdiag.trace.generators import generate

    trace = generate("recurrent", depth=64, width=64, batch=16)
    budget = budget_from_ratio(baseline_peak_bytes(trace), 0.7)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        record(trace, RunConfig("dtr-eq", budget, overhead_limit=4), path)
        measure(str(path))


if __name__ == "__main__":
    main()
