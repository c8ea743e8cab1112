"""Make the atlas: how unstable are runs, over traces, policies and semantics?

    python reports/atlas/make.py WORK_DIR -j 2          run what is missing in WORK_DIR, then write
    python reports/atlas/make.py WORK_DIR --only-write  write from what is there

A cell is a trace under a policy and semantics. It gets an *overview* (budgets sampled at equal
distances) and a *window* (every interval of a narrow range above the lowest feasible sample). Both
stop when their processor time is up, and the report says how far they came. Needs the extras
`charts` and `parquet`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import attrs

from dtrdiag.analyses import BudgetMap, map_segments, summarise_map
from dtrdiag.analyses.instability import instability_document, measure_instability
from dtrdiag.errors import DtrdiagError
from dtrdiag.experiments.outcomes import Outcome, Outcomes
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, runs_between
from dtrdiag.trace.catalog import resolve

PUBLIC = (
    "resnet32", "transformer", "unet", "inceptionv4", "tv_densenet121", "treelstm", "lstm",
    "unroll_gan",
)  # fmt: skip
BUNDLED = ("chain-64", "residual-12", "recurrent-16", "tree-4")
POLICIES = ("dtr", "dtr-eq", "dtr-local", "msps", "lru", "size")
SEMANTICS = ("simrd", "repaired")
LIMIT = 10
OVERVIEW = (0.05, 1.0, 0.01)
"""From, to and distance of the samples, as shares of the peak."""
WINDOW = 0.02
"""Width of the window as a share of the peak."""
WITHIN = 0.001
"""Distance of the two budgets of a cliff, as a share of the peak."""


@attrs.frozen
class Cell:
    """What is measured together."""

    trace: str
    policy: str
    semantics: str

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.trace}.{self.policy}.{self.semantics}"


def cells() -> list[Cell]:
    """All of them, the cheap traces first."""
    return [
        Cell(trace, policy, semantics)
        for trace in BUNDLED + PUBLIC
        for policy in POLICIES
        for semantics in SEMANTICS
    ]


def measure(cell: Cell, seconds: float) -> dict[str, Any]:
    """A cell's results as plain JSON types; each part gets `seconds` of processor time at most."""
    trace = resolve(cell.trace)
    peak = baseline_peak_bytes(trace)
    rules = RunConfig(cell.policy, overhead_limit=LIMIT, semantics=cell.semantics, peak_bytes=peak)
    first, last, step = OVERVIEW
    started = time.process_time()
    samples = Outcomes()
    asked = [int(peak * (first + step * i)) for i in range(round((last - first) / step) + 1)]
    for budget in _spread(asked):
        if samples.find(budget) is None:
            samples.add(Outcome.of(next(iter(runs_between(trace, rules, budget, budget)))))
        if time.process_time() - started > seconds:
            break
    overview_seconds = time.process_time() - started
    feasible = [b for b in asked if (o := samples.find(b)) and o.end.outcome == "ok"]
    known = Outcomes()
    started = time.process_time()
    low = _window_low(samples, asked, feasible[0] if feasible else asked[-1])
    high = low + int(peak * WINDOW)
    complete = False
    for result in runs_between(trace, rules, low, high):
        known.add(Outcome.of(result))
        hi = result.end.interval_hi_bytes
        complete = hi is None or hi > high
        if time.process_time() - started > seconds:
            break
    reached = high if complete else known_to(known) - 1
    window = BudgetMap(
        next(iter(known)).header, tuple(o.end for o in known), low, max(low, reached)
    )
    return {
        "trace": cell.trace, "policy": cell.policy, "semantics": cell.semantics,
        "ops": trace.ops, "peak_bytes": peak,
        "overview": {
            "asked": len(asked), "seconds": overview_seconds,
            "samples": [
                {"budget": b, "ratio": b / peak, "outcome": o.end.outcome, "overhead": _over(o)}
                for b in asked if (o := samples.find(b))
            ],
        },
        "window": {
            "from": low, "to": window.to_bytes, "asked_to": high,
            "seconds": time.process_time() - started,
            "measures": instability_document(
                measure_instability(window, max(1, int(peak * WITHIN)))
            ),
            "segments": [
                [s.outcome, s.lo_bytes, s.hi_bytes, s.intervals] for s in map_segments(window)
            ],
            "feasible_from": summarise_map(window, 1).feasible_from_bytes,
            "intervals": [
                [o.end.interval_lo_bytes, o.end.interval_hi_bytes, o.end.outcome, _over(o)]
                for o in known
            ],
        },
    }  # fmt: skip


def _window_low(samples: Outcomes, asked: list[int], lowest_feasible: int) -> int:
    """Where the window begins.

    One sample below the lowest feasible one if that is out of memory, so that the border lies in
    the window; at the feasible one if runs below crawl: walking through those takes all the time.
    """
    below = [b for b in asked if b < lowest_feasible and samples.find(b)]
    if not below:
        return lowest_feasible
    outcome = samples.find(below[-1])
    is_oom = outcome is not None and outcome.end.outcome == "oom"
    return below[-1] if is_oom else lowest_feasible


def known_to(known: Outcomes) -> int:
    """The budget at which the last known interval ends."""
    *_, last = known
    high = last.end.interval_hi_bytes
    return last.end.interval_lo_bytes + 1 if high is None else high


def _over(outcome: Outcome) -> float | None:
    baseline = outcome.header.baseline_cost_ns
    return (baseline + outcome.end.remat_cost_ns) / baseline if baseline else None


def _spread(budgets: list[int]) -> Iterator[int]:
    """From coarse to fine, so that a part of them covers the range too."""
    seen: set[int] = set()
    step = len(budgets)
    while step:
        for budget in budgets[::step]:
            if budget not in seen:
                seen.add(budget)
                yield budget
        step //= 2


def run_missing(folder: Path, jobs: int, seconds: float) -> None:
    """Measure the cells that have no file yet."""
    missing = [cell for cell in cells() if not (folder / f"{cell.name}.json").exists()]
    with ProcessPoolExecutor(jobs) as pool:
        waiting = {pool.submit(measure, cell, seconds): cell for cell in missing}
        for count, done in enumerate(as_completed(waiting), 1):
            cell = waiting[done]
            document = done.result()
            part = folder / f"{cell.name}.part"
            part.write_text(json.dumps(document))
            part.replace(folder / f"{cell.name}.json")
            spent = document["overview"]["seconds"] + document["window"]["seconds"]
            print(f"{count}/{len(missing)} {cell.name} {spent:.1f} s", file=sys.stderr, flush=True)


def main() -> int:
    """Run, then write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="WORK_DIR")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each part of a cell")
    parser.add_argument("--only-write", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        if not options.only_write:
            run_missing(options.folder, options.jobs, options.seconds)
        documents = [
            json.loads(path.read_text())
            for cell in cells()
            if (path := options.folder / f"{cell.name}.json").exists()
        ]
        from written import write

        write(Path(__file__).parent, documents, options.seconds)
    except DtrdiagError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
