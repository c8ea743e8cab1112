"""Both engines and simrd on the same runs, in one process, as a ratio.

Seconds are CPU time of the thread, which other programs on the machine disturb less than the clock.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import math
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from dtrdiag.hooks import Hooks
from dtrdiag.simulator import RunConfig, RunResult, baseline_peak_bytes, budget_from_ratio, simulate
from dtrdiag.trace import parse_dtr_log, write_dtr_log
from dtrdiag.trace.catalog import resolve

ENOUGH_SECONDS = 10.0
"""simrd repeats no run that it has spent so much on."""
RECORDS = Path(__file__).parents[1] / "tests" / "data" / "simrd-goldens.jsonl"
LONG_RUNS = (
    ("resnet32", "dtr", 0.107),
    ("tv_densenet121", "dtr", 0.3),
    ("lstm", "dtr-eq", 0.25),
    ("treelstm", "dtr-eq", 0.3),
    ("lstm", "dtr", 0.25),
    ("lstm", "dtr", 0.264),
)
"""Runs that take simrd from half a second to minutes; all under eager, with limit 10."""
_CLASSES = {
    "dtr": "RuntimeV2EagerOptimized/DTR",
    "dtr-eq": "RuntimeV2EagerOptimized/DTREqClass",
}


def recorded(traces: list[str] | None, most_seconds: float) -> list[dict[str, Any]]:
    """The recorded runs of some traces, or of all, that took simrd no longer than that."""
    records = [json.loads(line) for line in RECORDS.read_text().splitlines()]
    return [
        record
        for record in records
        if record["simrd_seconds"] <= most_seconds and (not traces or record["trace"] in traces)
    ]


def long_runs(traces: list[str] | None) -> list[dict[str, Any]]:
    """`LONG_RUNS` in the form of recorded runs, without digests."""
    records = []
    for name, policy, ratio in LONG_RUNS:
        if traces and name not in traces:
            continue
        trace = resolve(name)
        records.append(
            {
                "trace": name,
                "policy": policy,
                "dealloc": "eager",
                "ratio": ratio,
                "budget": budget_from_ratio(baseline_peak_bytes(trace), ratio),
                "baseline_cost": trace.baseline_cost_ns,
                "overhead_limit": 10,
                "simrd_class": _CLASSES[policy],
            }
        )
    return records


def measure(
    simrd: Path, records: list[dict[str, Any]], repeat: int, engine: str, give_up: float
) -> None:
    """Print one line per run: seconds of each side, and how many times faster we are.

    simrd is stopped after `give_up` seconds of a run; the ratio is a lower bound then (`>=`), and
    the decisions until there are compared.
    """
    sys.path.insert(0, str(simrd))
    loaded: dict[str, tuple[Any, Any]] = {}
    ratios = []
    print(f"engine: {engine}; seconds are medians of CPU time of one thread")
    print(
        f"{'run':34} {'simrd s':>9} {'dtrdiag s':>9} {'ratio':>8} {'decisions/s':>12} "
        f"{'peak MB':>7}  decisions",
        flush=True,
    )
    for record in records:
        name = record["trace"]
        if name not in loaded:
            loaded[name] = _load(name)
            gc.freeze()
        trace, graph = loaded[name]
        theirs: list[float] = []
        ours: list[float] = []
        while len(ours) < repeat:
            # What one side leaves behind must not be collected in the other's time.
            gc.collect()
            if sum(theirs) < ENOUGH_SECONDS:
                seconds, lines, finished = _run_simrd(graph, record, give_up)
                theirs.append(seconds)
            gc.collect()
            config = RunConfig(
                record["policy"],
                record["budget"],
                dealloc=record["dealloc"],
                overhead_limit=record["overhead_limit"],
                engine=engine,
            )
            started = time.thread_time()
            result = simulate(trace, config)
            ours.append(time.thread_time() - started)
        wanted = record.get("decisions_sha256", result.end.decisions_sha256)
        same = result.end.decisions_sha256 == wanted and _decides_alike(
            trace, config, lines, finished
        )
        ratio = statistics.median(theirs) / statistics.median(ours)
        ratios.append(ratio)
        label = f"{name} {record['policy']} {record['dealloc']} {record['ratio']}"
        bound = "  " if finished else ">="
        print(
            f"{label:32}{bound}{statistics.median(theirs):10.3f} {statistics.median(ours):9.4f} "
            f"{ratio:7.1f}x {_decisions(result) / statistics.median(ours):12,.0f} "
            f"{_peak_megabytes(record, engine):7.0f}  {'equal' if same else 'DIFFERENT'}",
            flush=True,
        )
    if not ratios:
        print("no recorded run was chosen")
        return
    print(
        f"{len(ratios)} runs: ratio {min(ratios):.2f}x at the least, "
        f"{statistics.median(ratios):.2f}x in the middle, {max(ratios):.2f}x at the most"
    )


def _decides_alike(trace: Any, config: RunConfig, lines: list[str], finished: bool) -> bool:
    """Whether our run makes the decisions in `lines`, and no others if that run finished."""
    ours: list[str] = []
    write = {
        "compute": lambda event: ours.append(f"C {event.op}\n"),
        "rematerialise": lambda event: ours.append(f"R {event.op}\n"),
        "evict": lambda event: ours.append(f"E {event.storage}\n"),
    }
    hooks = Hooks()
    hooks.subscribe(lambda event: write[event.kind](event), list(write))
    simulate(trace, config, hooks)
    return ours == lines if finished else ours[: len(lines)] == lines


def _decisions(result: RunResult) -> int:
    end = result.end
    evictions = end.evictions_pressure + end.evictions_release + end.evictions_banish
    return end.computes + end.remats + evictions


def _peak_megabytes(record: dict[str, Any], engine: str) -> float:
    """Peak memory of a process of its own that does nothing but this run."""
    program = f"""
import resource
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace.catalog import resolve
simulate(resolve({record["trace"]!r}), RunConfig({record["policy"]!r}, {record["budget"]},
    dealloc={record["dealloc"]!r}, overhead_limit={record["overhead_limit"]}, engine={engine!r}))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return float(done.stdout)


def _load(name: str) -> tuple[Any, Any]:
    from simrd.parse import parse_file

    trace = resolve(name)
    text = write_dtr_log(trace).decode()
    parse_dtr_log(text.encode(), name=name)
    return trace, parse_file(text.splitlines(keepends=True))


class _TooLong(Exception):  # noqa: N818 - nothing is wrong
    pass


def _run_simrd(graph: Any, record: dict[str, Any], give_up: float) -> tuple[float, list[str], bool]:
    """Run simrd once: seconds, its decisions, noted by overriding, and whether it finished."""
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
            if time.thread_time() - started > give_up:
                raise _TooLong

    limit = record["overhead_limit"]
    remat_limit = record["baseline_cost"] * (limit - 1) if limit else math.inf
    runtime = Spied(record["budget"], HEURISTICS[heuristic_name](), remat_limit=remat_limit)
    execute = graph.get_closure()
    started = time.thread_time()
    finished = True
    try:
        with contextlib.suppress(MemoryError, RematExceededError):
            execute(runtime)
    except _TooLong:
        finished = False
    seconds = time.thread_time() - started
    return seconds, lines, finished
