"""The simulator decides exactly as simrd did on the public traces."""

import gzip
import json
from functools import lru_cache
from pathlib import Path

import pytest

from dtrdiag.hooks import Hooks
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, budget_from_ratio, simulate
from dtrdiag.trace.catalog import resolve

DATA = Path(__file__).parents[1] / "data"


def records(name):
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def identify(record):
    limit = f"-limit{record['overhead_limit']}"
    parts = (record["trace"], record["policy"], record["dealloc"], str(record["ratio"]))
    return "-".join(parts) + (limit if record["overhead_limit"] != 10 else "")


@lru_cache(maxsize=3)
def public_trace(name):
    return resolve(name)


def outcome(trace, record):
    budget = budget_from_ratio(baseline_peak_bytes(trace), record["ratio"])
    limits = {"dealloc": record["dealloc"], "overhead_limit": record["overhead_limit"]}
    result = simulate(trace, RunConfig(record["policy"], budget, **limits))
    end = result.end
    return {
        "budget": budget,
        "peak": baseline_peak_bytes(trace),
        "baseline_cost": trace.baseline_cost_ns,
        "outcome": end.outcome,
        "computes": end.computes,
        "remats": end.remats,
        "remat_cost": end.remat_cost_ns,
        "evictions_total": end.evictions_pressure + end.evictions_release + end.evictions_banish,
        "distinct_evicted_total": end.distinct_evicted,
        "max_memory": end.max_memory_bytes,
        "final_memory": end.memory_bytes,
        "clock": end.clock_ns,
        "decisions_sha256": end.decisions_sha256,
        "interval": [end.interval_lo_bytes, end.interval_hi_bytes],
        "overhead": round(result.overhead, 6),
    }


def assert_equals(trace, record):
    ours = outcome(trace, record)
    common = ours.keys() & record.keys()
    assert {key: ours[key] for key in common} == {key: record[key] for key in common}


@pytest.mark.parametrize("record", records("simrd-goldens.jsonl"), ids=identify)
@pytest.mark.usefixtures("traces_archive")
def test_equals_the_recorded_simrd_run(record):
    assert_equals(public_trace(record["trace"]), record)


def takes_minutes(record):
    return record["trace"] == "lstm" and record["policy"] != "dtr-eq"


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(record, marks=[pytest.mark.slow] if takes_minutes(record) else [])
        for record in records("long-goldens.jsonl")
    ],
    ids=identify,
)
@pytest.mark.usefixtures("traces_archive")
def test_equals_the_longer_runs_with_their_exact_intervals(record):
    assert_equals(public_trace(record["trace"]), record)


SIMRD_NAMES = {
    "DTR": "dtr",
    "DTREqClass": "dtr-eq",
    "DTRUnopt": "dtr-full",
    "DTRLocal": "dtr-local",
}


@pytest.mark.parametrize("path", sorted(DATA.glob("*.decisions.txt.gz")), ids=lambda p: p.name)
@pytest.mark.usefixtures("traces_archive")
def test_decides_line_by_line_as_recorded(path):
    name, policy, dealloc, ratio = path.name.removesuffix(".decisions.txt.gz").split("-")
    trace = public_trace(name)
    budget = budget_from_ratio(baseline_peak_bytes(trace), float(ratio))
    lines = []
    hooks = Hooks()
    hooks.subscribe(lambda event: lines.append(f"C {event.op}"), ["compute"])
    hooks.subscribe(lambda event: lines.append(f"R {event.op}"), ["rematerialise"])
    hooks.subscribe(lambda event: lines.append(f"E {event.storage}"), ["evict"])
    config = RunConfig(SIMRD_NAMES[policy], budget, dealloc=dealloc)
    simulate(trace, config, hooks)
    assert lines == gzip.decompress(path.read_bytes()).decode().splitlines()
