"""Ten million events as Parquet: written through both doors, read, and analysed.

The run is a thrashing one of a bundled trace, repeated until the log is long enough: the schedule
is called once, the same decisions follow again and again, and the last round ends out of memory.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dtrdiag.analyses import eviction_counts, eviction_sets, pinned_frontier
from dtrdiag.events import Event
from dtrdiag.events.columns import EventColumns, Ints
from dtrdiag.events.conversion import columns_of
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import EventRecorder, ParquetWriter
from dtrdiag.log import open_log
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, budget_from_ratio, simulate
from dtrdiag.trace.catalog import resolve

EVENTS = 10_000_000
BY_EVENT = 200_000


def recorded(ratio: float) -> list[Event]:
    trace = resolve("recurrent-16")
    hooks, recorder = Hooks(), EventRecorder()
    hooks.subscribe(recorder)
    budget = budget_from_ratio(baseline_peak_bytes(trace), ratio)
    simulate(trace, RunConfig("dtr", budget, overhead_limit=100), hooks)
    return recorder.events


def rounds(total: int) -> list[EventColumns]:
    """The parts of the log: the beginning, what repeats, and the end."""
    thrashing, failing = recorded(0.5), recorded(0.3)
    body = [e for e in thrashing[1:-1] if e.kind != "op"]
    last = [e for e in failing[1:] if e.kind != "op"]
    repeats = max(1, (total - len(thrashing) - len(last)) // len(body))
    many = columns_of(body)
    # Batches of about 200,000 events, as an engine might hand them over.
    group = max(1, 200_000 // len(body))
    batch = EventColumns.concat([many] * group)
    full, rest = divmod(repeats, group)
    begin = columns_of([failing[0], *thrashing[1:-1]])
    tail = [EventColumns.concat([many] * rest)] if rest else []
    return renumbered([begin, *([batch] * full), *tail, columns_of(last)])


def renumbered(parts: list[EventColumns]) -> list[EventColumns]:
    start, made = 0, []
    for part in parts:
        seq = np.arange(start, start + len(part))
        cause = part.column("cause_seq")
        # Any earlier event: causes are not what is measured here.
        causes = Ints(np.maximum(seq[part.rows("cause_seq")] - 3, 0), cause.valid)
        fields = {**part.fields, "seq": Ints(seq), "cause_seq": causes}
        made.append(EventColumns(part.kind, fields, part.extra))
        start += len(part)
    return made


def measure(total: int = EVENTS) -> None:
    parts = rounds(total)
    events = sum(map(len, parts))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.parquet"

        def write() -> None:
            with ParquetWriter(path, force=True) as writer:
                for part in parts:
                    writer.write_batch(part)

        def write_by_event() -> None:
            with ParquetWriter(Path(folder) / "small.parquet", force=True) as writer:
                for event in some:
                    writer(event)

        some = list(recorded(0.5) * (BY_EVENT // 7000))
        report("write, event by event", len(some), write_by_event)
        report("write, in column batches", events, write)
        print(f"{events:,} events in {path.stat().st_size:,} bytes")
        log = open_log(path)
        report("oom", events, lambda: pinned_frontier(log))
        report("sets of two runs", 2 * events, lambda: eviction_sets(log, log))
        report("evictions per storage", events, lambda: eviction_counts(log))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of all this, the batches included: {peak:,.0f} MiB")


def report(label: str, events: int, action: Callable[[], object]) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    rate = f"{events / wall:12,.0f} events/s ({events / cpu:12,.0f} per second of processor)"
    print(f"{label:28} {wall:7.2f} s {rate}")


if __name__ == "__main__":
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS)
