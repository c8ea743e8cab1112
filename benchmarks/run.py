"""How fast is dtrdiag, beside simrd where a copy of it is given, and at writing and reading logs?

    python benchmarks/run.py                      the logs
    python benchmarks/run.py --simrd PATH         and every recorded run beside simrd
    python benchmarks/run.py --simrd PATH --trace unet --most-seconds 1
    python benchmarks/run.py --simrd PATH --long  runs that take simrd up to minutes

PATH is the folder that holds the package `simrd` of uwsampl/dtr-prototype (its folder `simrd`); it
is imported from there, never copied. Public traces are found as in the tests (DTRDIAG_TRACES, or
`dtrdiag traces fetch`).
"""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import beside_simrd
import logs
import parquet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simrd", type=Path, help="folder that holds the package simrd")
    parser.add_argument("--trace", action="append", help="only this public trace; repeatable")
    parser.add_argument("--most-seconds", type=float, default=1e9, help="skip recorded runs longer")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each side, median counts")
    parser.add_argument("--long", action="store_true", help="the long runs, not the recorded ones")
    parser.add_argument(
        "--give-up", type=float, default=1e9, help="stop simrd after so many seconds of a run"
    )
    parser.add_argument("--engine", default="auto", help="auto, native or python")
    options = parser.parse_args()
    if options.simrd is None:
        logs.measure()
        parquet.measure()
        return
    if options.long:
        records = beside_simrd.long_runs(options.trace)
    else:
        records = beside_simrd.recorded(options.trace, options.most_seconds)
    # simrd recurses once per level of rematerialisation.
    sys.setrecursionlimit(1_000_000)
    threading.stack_size(1 << 30)
    worker = threading.Thread(
        target=beside_simrd.measure,
        args=(options.simrd, records, options.repeat, options.engine, options.give_up),
    )
    worker.start()
    worker.join()


if __name__ == "__main__":
    main()
