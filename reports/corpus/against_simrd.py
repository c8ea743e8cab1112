"""Does simrd parse the bundled recordings, run them, and decide as we do? Records what it does.

    python reports/corpus/against_simrd.py --simrd PATH [--trace NAME] [--policy P] [--ratio R]

PATH is the folder that holds the package `simrd` of uwsampl/dtr-prototype; it is imported from
there, never copied. For each trace, policy and deallocation the budgets are the ratios of `RATIOS`
from the highest to the lowest at which a run finishes within `MOST_REMATS`. simrd is stopped after
`--give-up` seconds of a run: the decisions until there are compared, and the run is marked so.
Writes `tests/data/recorded-simrd.jsonl`, one run a line, where other runs are kept, and
prints a table.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import math
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dtrdiag.hooks import Hooks
from dtrdiag.simulator import RunConfig, RunResult, baseline_peak_bytes, budget_from_ratio, simulate
from dtrdiag.trace import Trace
from dtrdiag.trace.bundled import bundled_traces

RECORDS = Path(__file__).resolve().parents[2] / "tests" / "data" / "recorded-simrd.jsonl"
RATIOS = (0.8, 0.65, 0.5, 0.4, 0.3)
MOST_REMATS = 30_000
LIMIT = 10
CLASSES = {
    ("dtr", "eager"): ("V2EagerOptimized", "DTR"),
    ("dtr-eq", "eager"): ("V2EagerOptimized", "DTREqClass"),
    ("lru", "eager"): ("V2EagerOptimized", "LRU"),
    ("size", "eager"): ("V2EagerOptimized", "LargestStorage"),
    ("lru", "banish"): ("V1", "LRU"),
    ("size", "banish"): ("V1", "LargestStorage"),
}
"""Runtime and heuristic of simrd for our policy and deallocation."""


class _TooLong(Exception):  # noqa: N818 - nothing is wrong
    pass


def theirs(graph: Any, record: dict[str, Any], give_up: float) -> tuple[list[str], dict[str, Any]]:
    """Decisions of simrd, noted by overriding, and what became of the run."""
    importlib.import_module("simrd.heuristic.ablation")
    from simrd.heuristic import HEURISTICS
    from simrd.runtime import RUNTIMES
    from simrd.runtime.runtime import RematExceededError

    runtime_name, heuristic = record["simrd_class"].split("/")
    lines: list[str] = []

    class Spied(RUNTIMES[runtime_name]):  # type: ignore[misc]
        def _compute(self, tensor: Any, rematerialize: bool = True) -> Any:
            done = super()._compute(tensor, rematerialize=rematerialize)
            lines.append(f"{'R' if rematerialize else 'C'} {tensor.op_id}\n")
            return done

        def _T_evict(self, storage: Any) -> None:  # noqa: N802 - simrd's name
            super()._T_evict(storage)
            lines.append(f"E {storage.root_id}\n")
            if time.thread_time() - started > give_up:
                raise _TooLong

    limit = record["baseline_cost"] * (LIMIT - 1)
    runtime = Spied(record["budget"], HEURISTICS[heuristic](), remat_limit=limit)
    execute = graph.get_closure()
    started = time.thread_time()
    outcome: str | None = "ok"
    try:
        execute(runtime)
    except MemoryError:
        outcome = "oom"
    except RematExceededError:
        outcome = "thrashed"
    except _TooLong:
        outcome = None
    seconds = time.thread_time() - started
    kinds = [line[0] for line in lines]
    return lines, {
        "outcome": outcome,
        "computes": kinds.count("C"),
        "remats": kinds.count("R"),
        "remat_cost": runtime.telemetry.summary["remat_compute"],
        "evictions_total": kinds.count("E"),
        "max_memory": runtime.telemetry.summary["max_memory"],
        "decisions_sha256": hashlib.sha256("".join(lines).encode()).hexdigest(),
        "simrd_seconds": round(seconds, 2),
    }


def ours(trace: Trace, config: RunConfig, lines: list[str]) -> RunResult:
    """The same run by dtrdiag; its decisions are added to `lines`."""
    hooks = Hooks()
    hooks.subscribe(lambda event: lines.append(f"C {event.op}\n"), ["compute"])
    hooks.subscribe(lambda event: lines.append(f"R {event.op}\n"), ["rematerialise"])
    hooks.subscribe(lambda event: lines.append(f"E {event.storage}\n"), ["evict"])
    return simulate(trace, config, hooks)


def facts(result: RunResult) -> dict[str, Any]:
    """What simrd tells of a run, by dtrdiag."""
    end = result.end
    return {
        "outcome": end.outcome,
        "computes": end.computes,
        "remats": end.remats,
        "remat_cost": end.remat_cost_ns,
        "evictions_total": end.evictions_pressure + end.evictions_release + end.evictions_banish,
        "max_memory": end.max_memory_bytes,
        "decisions_sha256": end.decisions_sha256,
    }


def compared(
    trace: Trace, graph: Any, policy: str, dealloc: str, ratio: float, give_up: float
) -> dict[str, Any]:
    """One run by both; `equal` says whether every decision and figure is."""
    peak = baseline_peak_bytes(trace)
    record: dict[str, Any] = {
        "trace": trace.name,
        "policy": policy,
        "dealloc": dealloc,
        "ratio": ratio,
        "budget": budget_from_ratio(peak, ratio),
        "peak": peak,
        "baseline_cost": trace.baseline_cost_ns,
        "overhead_limit": LIMIT,
    }
    names = CLASSES[policy, dealloc]
    record["simrd_class"] = f"Runtime{names[0]}/{names[1]}"
    config = RunConfig(policy, record["budget"], dealloc=dealloc, overhead_limit=LIMIT)
    our_lines: list[str] = []
    result = ours(trace, config, our_lines)
    their_lines, found = theirs(graph, record, give_up)
    record |= found
    record["interval"] = [result.end.interval_lo_bytes, result.end.interval_hi_bytes]
    if found["outcome"] is None:
        # simrd was stopped, so the figures are ours.
        record |= facts(result)
        record["simrd_compared"] = len(their_lines)
        record["equal"] = our_lines[: len(their_lines)] == their_lines
    else:
        mine = facts(result)
        record["equal"] = our_lines == their_lines and all(found[key] == mine[key] for key in mine)
    return record


def compare(
    simrd: Path,
    names: Sequence[str],
    policies: Sequence[str],
    ratios: Sequence[float],
    seconds: float,
    give_up: float,
) -> list[dict[str, Any]]:
    """All runs of these traces, as long as there is time."""
    sys.path.insert(0, str(simrd))
    from simrd.parse import parse_file

    until = time.monotonic() + seconds
    records = []
    for name in names:
        trace = bundled_traces()[name].load()
        text = bundled_traces()[name].content().decode()
        graph = parse_file(text.splitlines(keepends=True))
        for policy, dealloc in (rules for rules in CLASSES if rules[0] in policies):
            for ratio in ratios:
                if time.monotonic() > until:
                    return records
                budget = budget_from_ratio(baseline_peak_bytes(trace), ratio)
                config = RunConfig(policy, budget, dealloc=dealloc, overhead_limit=LIMIT)
                end = simulate(trace, config).end
                if end.remats > MOST_REMATS:
                    break
                record = compared(trace, graph, policy, dealloc, ratio, give_up)
                records.append(record)
                told = "stopped" if "simrd_compared" in record else record["outcome"]
                print(
                    f"{name:14} {policy:7} {dealloc:7} {ratio:5} {told:8} "
                    f"{record['remats']:6} remats {record['simrd_seconds']:7.2f} s "
                    f"{'equal' if record['equal'] else 'DIFFERENT'}",
                    flush=True,
                )
                if end.outcome != "ok":
                    break
    return records


def key_of(record: dict[str, Any]) -> tuple[str, str, str, float]:
    """What a run is of."""
    return record["trace"], record["policy"], record["dealloc"], record["ratio"]


def recorded_first(names: list[str]) -> Any:
    """Sorts runs as the traces are listed, then by the rules, from much memory to little."""
    rules = list(CLASSES)
    return lambda key: (names.index(key[0]), rules.index(key[1:3]), -key[3])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--simrd", type=Path, required=True, help="folder of the package simrd")
    parser.add_argument("--trace", action="append", help="only this one; repeatable")
    parser.add_argument("--policy", action="append", help="only this one; repeatable")
    parser.add_argument("--ratio", action="append", type=float, help="in place of RATIOS")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no run after that")
    parser.add_argument("--give-up", type=float, default=15.0, help="seconds of simrd for a run")
    parser.add_argument("-o", "--output", type=Path, default=RECORDS)
    options = parser.parse_args()
    recorded = [entry.name for entry in bundled_traces().values() if entry.kind == "recorded"]
    records = compare(
        options.simrd,
        options.trace or recorded,
        options.policy or [policy for policy, _ in CLASSES],
        options.ratio or RATIOS,
        options.seconds,
        options.give_up,
    )
    kept = options.output.read_text().splitlines() if options.output.exists() else []
    known = {key_of(record): record for record in [*map(json.loads, kept), *records]}
    lines = [json.dumps(known[key]) + "\n" for key in sorted(known, key=recorded_first(recorded))]
    options.output.write_text("".join(lines))
    equal = sum(record["equal"] for record in records)
    whole = sum("simrd_compared" not in record for record in records)
    print(f"{len(records)} runs, {whole} of them to their end: {equal} equal")


if __name__ == "__main__":
    # simrd recurses once per level of rematerialisation.
    sys.setrecursionlimit(1_000_000)
    threading.stack_size(1 << 30)
    worker = threading.Thread(target=main)
    worker.start()
    worker.join()
