"""Both engines decide exactly as simrd did on the public traces, and write the same logs."""

import gzip
import hashlib
import json
from functools import lru_cache
from pathlib import Path

import attrs
import orjson
import pytest

from dtrdiag.events import encode
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


def config_of(trace, record, engine):
    return RunConfig(
        record["policy"],
        budget_from_ratio(baseline_peak_bytes(trace), record["ratio"]),
        dealloc=record["dealloc"],
        overhead_limit=record["overhead_limit"],
        engine=engine,
    )


def outcome(trace, result):
    end = result.end
    return {
        "budget": result.header.budget_bytes,
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


def assert_equals(trace, result, record):
    ours = outcome(trace, result)
    common = ours.keys() & record.keys()
    assert {key: ours[key] for key in common} == {key: record[key] for key in common}


SHORT, LONG = records("simrd-goldens.jsonl"), records("long-goldens.jsonl")


def takes_long(record, most_seconds=2):
    """Whether the Python engine is too slow for the default tests, going by simrd's time."""
    return record.get("simrd_seconds", 0 if record["trace"] == "resnet32" else 99) > most_seconds


@pytest.mark.parametrize("record", SHORT + LONG, ids=identify)
@pytest.mark.usefixtures("traces_archive", "native_engine")
def test_the_native_engine_equals_the_recorded_run(record):
    trace = public_trace(record["trace"])
    assert_equals(trace, simulate(trace, config_of(trace, record, "native")), record)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(record, marks=[pytest.mark.slow] if takes_long(record) else [])
        for record in SHORT + LONG
    ],
    ids=identify,
)
@pytest.mark.usefixtures("traces_archive")
def test_the_python_engine_equals_the_recorded_run(record):
    trace = public_trace(record["trace"])
    assert_equals(trace, simulate(trace, config_of(trace, record, "python")), record)


def log_sha256(trace, config):
    """Of the lines of a log, as they are written."""
    sha256 = hashlib.sha256()
    hooks = Hooks()
    hooks.subscribe(lambda event: sha256.update(orjson.dumps(encode(event)) + b"\n"))
    simulate(trace, config, hooks)
    return sha256.hexdigest()


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(
            record, marks=[pytest.mark.slow] if index % 8 or takes_long(record, 0.5) else []
        )
        for index, record in enumerate(SHORT + LONG)
    ],
    ids=identify,
)
@pytest.mark.usefixtures("traces_archive", "native_engine")
def test_both_engines_write_the_same_log(record):
    trace = public_trace(record["trace"])
    for candidates in (0, 3):
        logs = [
            log_sha256(trace, attrs.evolve(config_of(trace, record, engine), candidates=candidates))
            for engine in ("native", "python")
        ]
        assert logs[0] == logs[1]


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
