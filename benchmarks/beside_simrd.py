"""The Python engine and simrd on the same recorded runs, in one process, as a ratio.

Seconds are CPU time of the thread, which other programs on the machine disturb less than the clock.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib
import json
import math
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace import parse_dtr_log, write_dtr_log
from dtrdiag.trace.catalog import resolve

ENOUGH_SECONDS = 10.0
"""No further repetition of a run that simrd has spent this much on."""
RECORDS = Path(__file__).parents[1] / "tests" / "data" / "simrd-goldens.jsonl"


def measure(simrd: Path, traces: list[str] | None, most_seconds: float, repeat: int) -> None:
    """Print one line per recorded run: seconds of each side, and how many times faster we are."""
    sys.path.insert(0, str(simrd))
    loaded: dict[str, tuple[Any, Any]] = {}
    ratios = []
    print(f"{'run':44} {'simrd s':>9} {'dtrdiag s':>9} {'ratio':>7}  decisions", flush=True)
    for line in RECORDS.read_text().splitlines():
        record = json.loads(line)
        name = record["trace"]
        if record["simrd_seconds"] > most_seconds or (traces and name not in traces):
            continue
        if name not in loaded:
            loaded[name] = _load(name)
            gc.freeze()
        trace, graph = loaded[name]
        theirs: list[float] = []
        ours: list[float] = []
        while len(ours) < repeat and sum(theirs) < ENOUGH_SECONDS:
            # What one side leaves behind must not be collected in the other's time.
            gc.collect()
            seconds, digest = _run_simrd(graph, record)
            theirs.append(seconds)
            gc.collect()
            config = RunConfig(
                record["policy"],
                record["budget"],
                dealloc=record["dealloc"],
                overhead_limit=record["overhead_limit"],
            )
            started = time.thread_time()
            result = simulate(trace, config)
            ours.append(time.thread_time() - started)
        same = digest == result.end.decisions_sha256 == record["decisions_sha256"]
        ratio = statistics.median(theirs) / statistics.median(ours)
        ratios.append(ratio)
        label = f"{name} {record['policy']} {record['dealloc']} {record['ratio']}"
        print(
            f"{label:44} {statistics.median(theirs):9.3f} {statistics.median(ours):9.3f} "
            f"{ratio:6.2f}x  {'equal' if same else 'DIFFERENT'}",
            flush=True,
        )
    if not ratios:
        print("no recorded run was chosen")
        return
    print(
        f"{len(ratios)} runs: ratio {min(ratios):.2f}x at the least, "
        f"{statistics.median(ratios):.2f}x in the middle, {max(ratios):.2f}x at the most"
    )


def _load(name: str) -> tuple[Any, Any]:
    from simrd.parse import parse_file

    trace = resolve(name)
    text = write_dtr_log(trace).decode()
    parse_dtr_log(text.encode(), name=name)
    return trace, parse_file(text.splitlines(keepends=True))


def _run_simrd(graph: Any, record: dict[str, Any]) -> tuple[float, str]:
    """Run simrd once; returns seconds and the digest of its decisions, noted by overriding."""
    importlib.import_module("simrd.heuristic.ablation")  # registers the ablations
    from simrd.heuristic import HEURISTICS
    from simrd.runtime import RUNTIMES
    from simrd.runtime.runtime import RematExceededError

    runtime_name, heuristic_name = record["simrd_class"].split("/")
    lines: list[str] = []

    class Spied(RUNTIMES[runtime_name]):  # type: ignore[misc]
        def _compute(self, tensor: Any, rematerialize: bool = True) -> Any:
            done = super()._compute(tensor, rematerialize=rematerialize)
            lines.append(f"{'R' if rematerialize else 'C'} {tensor.op_id}\n")
            return done

        def _T_evict(self, storage: Any) -> None:  # noqa: N802 - simrd's name
            lines.append(f"E {storage.root_id}\n")

    limit = record["overhead_limit"]
    remat_limit = record["baseline_cost"] * (limit - 1) if limit else math.inf
    runtime = Spied(record["budget"], HEURISTICS[heuristic_name](), remat_limit=remat_limit)
    execute = graph.get_closure()
    started = time.thread_time()
    with contextlib.suppress(MemoryError, RematExceededError):
        execute(runtime)
    seconds = time.thread_time() - started
    return seconds, hashlib.sha256("".join(lines).encode()).hexdigest()
