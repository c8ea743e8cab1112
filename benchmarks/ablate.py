"""What does an ablation cost: seconds of CPU and intervals, policy by policy, in one process?

    python benchmarks/ablate.py                            resnet32, 0.09 to 0.2, the ablations
    python benchmarks/ablate.py chain-64 0.05 0.4 -p named --overhead-limit 100
    python benchmarks/ablate.py --most-seconds 20

A map that takes longer than --most-seconds is stopped there, and how far it came is told. The sum,
divided by the number of processes, is about what `dtrdiag ablate -j N` takes on a quiet machine.
"""

from __future__ import annotations

import argparse
import time

from dtrdiag.experiments.ablation import plan_variants
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, budget_from_ratio, runs_between
from dtrdiag.trace.catalog import resolve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", nargs="?", default="resnet32")
    parser.add_argument("low", nargs="?", type=float, default=0.09, help="ratio of the peak")
    parser.add_argument("high", nargs="?", type=float, default=0.2, help="ratio of the peak")
    parser.add_argument("-p", "--policy", action="append", help="as `dtrdiag ablate` takes it")
    parser.add_argument("--overhead-limit", type=float, default=10.0)
    parser.add_argument("--most-seconds", type=float, default=120.0, help="of CPU, for each map")
    options = parser.parse_args()
    trace = resolve(options.trace)
    peak = baseline_peak_bytes(trace)
    low, high = (budget_from_ratio(peak, ratio) for ratio in (options.low, options.high))
    total = 0.0
    print(
        f"{'policy':20} {'runs':>7} {'ok':>6} {'oom':>6} {'stopped':>7} {'CPU s':>8} {'ms each':>8}"
    )
    for variant in plan_variants(options.policy or ()):
        rules = RunConfig(variant.policy, overhead_limit=options.overhead_limit, peak_bytes=peak)
        counts = dict.fromkeys(("ok", "oom", "thrashed"), 0)
        started = time.process_time()
        reached = ""
        for run in runs_between(trace, rules, low, high):
            counts[run.end.outcome] += 1
            if time.process_time() - started > options.most_seconds:
                share = ((run.header.budget_bytes or low) - low) / (high - low)
                reached = f"  stopped at {100 * share:.0f} % of the range"
                break
        seconds = time.process_time() - started
        total += seconds
        runs = sum(counts.values())
        print(
            f"{variant.policy:20} {runs:7,} {counts['ok']:6,} {counts['oom']:6,} "
            f"{counts['thrashed']:7,} {seconds:8.2f} {1000 * seconds / runs:8.2f}{reached}",
            flush=True,
        )
    print(f"{'in all':20} {total:43.2f}")


if __name__ == "__main__":
    main()
