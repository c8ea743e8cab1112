"""Events per second: writing the full log of a run, reading it, replaying it, verifying it."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import JsonlWriter
from dtrdiag.log import Replay, open_log, verify
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, budget_from_ratio, simulate
from dtrdiag.trace.generators import generate

REPEAT = 5


def measure() -> None:
    """Print a table for one thrashing run of a generated trace, so that nothing else is needed."""
    trace = generate("recurrent", depth=64, width=64, batch=16)
    budget = budget_from_ratio(baseline_peak_bytes(trace), 0.7)
    config = RunConfig("lru", budget, overhead_limit=4)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"

        def run_and_write() -> None:
            hooks = Hooks()
            with JsonlWriter(path, force=True) as writer:
                hooks.subscribe(writer)
                simulate(trace, config, hooks)

        def write() -> None:
            with JsonlWriter(path, force=True) as writer:
                for event in events:
                    writer(event)

        def replay() -> None:
            state = Replay()
            for event in events:
                state.apply(event)

        run_and_write()
        events = list(open_log(str(path)))
        silent = _seconds(lambda: simulate(trace, config))
        rows: list[tuple[str, Callable[[], object], float]] = [
            ("simulate and write the log", run_and_write, 0.0),
            ("the same, less the simulation alone", run_and_write, silent),
            ("write events that are there", write, 0.0),
            ("read", lambda: sum(1 for _ in open_log(str(path))), 0.0),
            ("replay", replay, 0.0),
            ("verify", lambda: verify(events), 0.0),
        ]
        size = path.stat().st_size
        run = f"{trace.name} of {trace.ops} ops, {config.policy}, {events[-1].outcome}"
        print(f"{run}: {len(events)} events, {size} bytes, plain JSONL, median of {REPEAT}")
        for label, action, less in rows:
            rate = len(events) / max(1e-9, _seconds(action) - less)
            print(f"{label:40} {rate:12,.0f} events/s")


def _seconds(action: Callable[[], object]) -> float:
    """Median of a few runs."""
    taken = []
    for _ in range(REPEAT):
        started = time.perf_counter()
        action()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)
