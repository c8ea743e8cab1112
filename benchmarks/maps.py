"""What does an exact map cost: by number of intervals, by length of the trace, on public traces?

    python benchmarks/maps.py                        uniform chains of 1,000 to 100,000 ops
    python benchmarks/maps.py --public               whole maps of public traces, where there are
    python benchmarks/maps.py --engine native -j 2 --most-seconds 60

A uniform chain has one interval for each budget that is a multiple of its one size, so a range of
k sizes holds k intervals. A map that takes longer than --most-seconds is stopped there, and what
was found until then is told. Public traces are found as in the tests (DTRDIAG_TRACES, or
`dtrdiag traces fetch`).
"""

from __future__ import annotations

import argparse
import time
from contextlib import suppress

from dtrdiag.analyses import BudgetMap, summarise_map
from dtrdiag.errors import DtrdiagError
from dtrdiag.experiments.budget_map import Mapper
from dtrdiag.experiments.map_files import default_within
from dtrdiag.experiments.outcomes import Outcomes
from dtrdiag.experiments.workers import usable_cpus
from dtrdiag.rendering.maps import map_words
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, budget_from_ratio
from dtrdiag.trace import Trace
from dtrdiag.trace.catalog import resolve
from dtrdiag.trace.generators import generate

OPS = (1_000, 3_000, 10_000, 30_000, 100_000)
INTERVALS = (10, 100, 1_000)
WIDTH, BATCH = 64, 16
PUBLIC = (
    ("resnet32", 0.05, 1.0, 100),
    ("unet", 0.30, 0.45, 10),
    ("lstm", 0.25, 0.28, 30),
)


class _TimeIsUp(Exception):  # noqa: N818 - nothing is wrong
    pass


def measure(
    trace: Trace, rules: RunConfig, low: int, high: int, options: argparse.Namespace
) -> tuple[Outcomes, float]:
    """What was found of a range, and in how many seconds."""
    known = Outcomes()
    started = time.perf_counter()

    def tell(found: object) -> None:
        if time.perf_counter() - started > options.most_seconds:
            raise _TimeIsUp

    with suppress(_TimeIsUp):
        Mapper(trace, rules, known, jobs=options.jobs, tell=tell).map_range(low, high)
    return known, time.perf_counter() - started


def chains(options: argparse.Namespace) -> None:
    print(
        f"uniform chains under {options.policy} from {options.ratio} of the peak, -j {options.jobs}"
    )
    print(
        f"{'ops':>8} {'asked':>7} {'intervals':>9} {'seconds':>9} {'per s':>10} {'ms each':>9}  of"
    )
    unit = 4 * WIDTH * BATCH
    for ops in OPS:
        trace = generate("linear-chain", depth=ops // 2, width=WIDTH, batch=BATCH)
        low = budget_from_ratio(baseline_peak_bytes(trace), options.ratio) // unit * unit
        rules = RunConfig(options.policy, engine=options.engine)
        for asked in INTERVALS:
            known, seconds = measure(trace, rules, low, low + asked * unit - 1, options)
            counts = {o: sum(k.end.outcome == o for k in known) for o in ("ok", "oom", "thrashed")}
            print(
                f"{trace.ops:8,} {asked:7,} {len(known):9,} {seconds:9.2f} "
                f"{len(known) / seconds:10,.1f} {1000 * seconds / max(len(known), 1):9.2f}  "
                + ", ".join(f"{n:,} {outcome}" for outcome, n in counts.items() if n),
                flush=True,
            )
            if seconds > options.most_seconds:
                break  # more of them will not be done either


def public(options: argparse.Namespace) -> None:
    for name, low_ratio, high_ratio, limit in PUBLIC:
        try:
            trace = resolve(name)
        except DtrdiagError as error:
            print(f"{name}: not here ({error})")
            continue
        peak = baseline_peak_bytes(trace)
        low, high = budget_from_ratio(peak, low_ratio), budget_from_ratio(peak, high_ratio)
        rules = RunConfig("dtr", overhead_limit=limit, peak_bytes=peak, engine=options.engine)
        known, seconds = measure(trace, rules, low, high, options)
        print(
            f"\n{name} dtr, limit {limit}, {trace.ops:,} ops, -j {options.jobs}: {seconds:.1f} s, "
            f"{len(known) / seconds:,.1f} intervals/s"
        )
        runs = list(known)
        if runs:
            found = BudgetMap(runs[0].header, tuple(run.end for run in runs), low, high)
            print("\n".join(map_words(found, summarise_map(found, default_within(peak, high)))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--public", action="store_true", help="public traces instead of chains")
    parser.add_argument("--engine", default="auto", help="auto, native or python")
    parser.add_argument("-p", "--policy", default="dtr-eq", help="of the chains")
    parser.add_argument("-r", "--ratio", type=float, default=0.5, help="where chains begin")
    parser.add_argument("-j", "--jobs", type=int, default=usable_cpus())
    parser.add_argument("--most-seconds", type=float, default=30.0, help="for each map")
    options = parser.parse_args()
    if options.public:
        public(options)
    else:
        chains(options)


if __name__ == "__main__":
    main()
