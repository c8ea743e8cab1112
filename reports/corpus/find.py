"""Where does more memory do harm to a training step of today? Looks through the bundled recordings.

    python reports/corpus/find.py [-j 2] [--seconds 8] [--trace NAME ...]

For each recording and policy: budgets `STEP` of the peak apart from `HIGH` down to `LOW`, then
every change of outcome and every jump of the overhead by `JUMP` or more is narrowed down until its
two sides are neighbours. A cell stops when its processor time is up, and says how far down it came.
Writes `found.json` beside this file and prints a table in Markdown. Only what is found is exact:
islands between samples may be missed.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from dtrdiag.analyses import BudgetMap, Cliff, Segment, summarise_map
from dtrdiag.experiments.outcomes import Outcome, Outcomes
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, simulate
from dtrdiag.trace import Trace
from dtrdiag.trace.bundled import bundled_traces

POLICIES = ("dtr", "dtr-eq", "dtr-local", "lru", "size")
LIMIT = 10
HIGH, LOW, STEP = 0.95, 0.1, 0.0025
JUMP = 1.25
NARROWEST = 1e-5
"""Segments below this part of the peak are counted and not listed."""


def look(trace: Trace, policy: str, seconds: float) -> dict[str, Any]:
    """What is found for a trace and a policy in so much processor time."""
    peak = baseline_peak_bytes(trace)
    known = Outcomes()
    started = time.process_time()

    def at(budget_bytes: int) -> Outcome:
        found = known.find(budget_bytes)
        if found is None:
            config = RunConfig(policy, budget_bytes, overhead_limit=LIMIT, peak_bytes=peak)
            found = Outcome.of(simulate(trace, config))
            known.add(found)
        return found

    ratio = HIGH
    while ratio >= LOW and time.process_time() - started < 0.6 * seconds:
        at(int(peak * ratio))
        ratio -= STEP
    while time.process_time() - started < seconds:
        wanted = list(undecided(known))
        if not wanted:
            break
        for budget in wanted:
            at(budget)
            if time.process_time() - started > seconds:
                break
    ends = tuple(outcome.end for outcome in known)
    mapped = BudgetMap(next(iter(known)).header, ends, ends[0].interval_lo_bytes, int(peak * HIGH))
    return {"trace": trace.name, "policy": policy, "peak": peak} | document(mapped, peak, ratio)


def undecided(known: Outcomes) -> Iterator[int]:
    """The middle of each gap between neighbours that differ."""
    for lower, upper in pairwise(known):
        high, low = lower.end.interval_hi_bytes, upper.end.interval_lo_bytes
        if high is None or high >= low:
            continue
        if lower.end.outcome != upper.end.outcome or jump(lower, upper) >= JUMP:
            yield (high + low - 1) // 2


def jump(lower: Outcome, upper: Outcome) -> float:
    """By which factor overheads differ."""
    base = lower.header.baseline_cost_ns
    costs = [base + outcome.end.remat_cost_ns for outcome in (lower, upper)]
    return max(costs) / min(costs) if lower.end.outcome == "ok" else 1.0


def document(mapped: BudgetMap, peak: int, reached: float) -> dict[str, Any]:
    """The findings as plain JSON types."""
    summary = summarise_map(mapped, 1)
    cliffs = [cliff for a, b in pairwise(mapped.runs) if (cliff := cliff_of(mapped, a, b))]
    cliffs.sort(key=lambda cliff: -cliff.factor)
    return {
        "down_to": round(max(reached, LOW), 4),
        "intervals_seen": len(mapped.runs),
        "smallest_feasible": summary.smallest_feasible_bytes,
        "inversions": [segment_of(s, peak) for s in widest(summary.inversions, peak)],
        "stopped_above": [segment_of(s, peak) for s in widest(summary.stopped_above, peak)],
        "inversions_seen": len(summary.inversions),
        "stopped_seen": len(summary.stopped_above),
        "cliffs": [
            {
                "low": c.low_bytes,
                "high": c.high_bytes,
                "low_overhead": round(c.low_overhead, 4),
                "high_overhead": round(c.high_overhead, 4),
            }
            for c in cliffs[:5]
        ],
    }


def cliff_of(mapped: BudgetMap, a: Any, b: Any) -> Cliff | None:
    """Two neighbouring finished runs whose overheads differ."""
    if a.interval_hi_bytes != b.interval_lo_bytes or {a.outcome, b.outcome} != {"ok"}:
        return None
    base = mapped.header.baseline_cost_ns
    low, high = ((base + end.remat_cost_ns) / base for end in (a, b))
    factor = max(low, high) / min(low, high)
    border = b.interval_lo_bytes
    return Cliff(border - 1, border, low, high, factor, False) if factor >= JUMP else None


def widest(segments: tuple[Segment, ...], peak: int) -> list[Segment]:
    """Those that are worth listing, the widest first."""
    wide = [s for s in segments if (s.width_bytes or 0) >= NARROWEST * peak]
    return sorted(wide, key=lambda s: -(s.width_bytes or 0))[:5]


def segment_of(segment: Segment, peak: int) -> dict[str, Any]:
    """Its borders and its width."""
    width = segment.width_bytes or 0
    return {"lo": segment.lo_bytes, "hi": segment.hi_bytes, "width_ratio": round(width / peak, 5)}


def row(found: dict[str, Any]) -> str:
    """A line of the table."""
    peak, least = found["peak"], found["smallest_feasible"]
    cells = [
        found["trace"],
        found["policy"],
        f"{found['down_to']:.2f}",
        "-" if least is None else f"{least / peak:.3f}",
        f"{found['inversions_seen']}" + widest_words(found["inversions"], peak),
        f"{found['stopped_seen']}" + widest_words(found["stopped_above"], peak),
        cliff_words(found["cliffs"]),
    ]
    return "| " + " | ".join(cells) + " |"


def widest_words(segments: list[dict[str, Any]], peak: int) -> str:
    """Where the widest one is."""
    if not segments:
        return ""
    first = segments[0]
    return f"; {first['width_ratio']:.2%} at {first['lo'] / peak:.4f}"


def cliff_words(cliffs: list[dict[str, Any]]) -> str:
    """The steepest one."""
    if not cliffs:
        return "-"
    first = cliffs[0]
    return f"{first['low_overhead']:.2f} to {first['high_overhead']:.2f} at {first['high']:,}"


def cell(name: str, policy: str, seconds: float) -> dict[str, Any]:
    """`look` by name."""
    return look(bundled_traces()[name].load(), policy, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=8.0, help="processor time of a cell")
    parser.add_argument("--trace", action="append", help="only this one; repeatable")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent / "found.json")
    options = parser.parse_args()
    recorded = [entry.name for entry in bundled_traces().values() if entry.kind == "recorded"]
    cells = [(name, policy) for name in options.trace or recorded for policy in POLICIES]
    found = []
    print("| trace | policy | down to | least feasible | OOM above | stopped above | cliff |")
    print("|---|---|---|---|---|---|---|")
    with ProcessPoolExecutor(options.jobs) as pool:
        for each in pool.map(partial(cell, seconds=options.seconds), *zip(*cells, strict=True)):
            found.append(each)
            print(row(each), flush=True)
    options.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
