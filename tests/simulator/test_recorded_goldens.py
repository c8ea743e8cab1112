"""On the bundled recordings of PyTorch steps both engines decide exactly as simrd did.

`recorded-simrd.jsonl` was recorded from simrd by `reports/corpus/against_simrd.py`. A run with
`simrd_compared` took it too long: that many decisions were compared, and the figures are ours.
"""

import json
from functools import lru_cache
from pathlib import Path

import pytest

from dtrdiag.simulator import RunConfig, baseline_peak_bytes, budget_from_ratio, simulate
from dtrdiag.trace.bundled import bundled_traces

DATA = Path(__file__).parents[1] / "data"
RECORDS = [json.loads(line) for line in (DATA / "recorded-simrd.jsonl").read_text().splitlines()]
WHOLE = [record for record in RECORDS if "simrd_compared" not in record]


def identify(record):
    return "-".join((record["trace"], record["policy"], record["dealloc"], str(record["ratio"])))


@lru_cache(maxsize=2)
def bundled(name):
    return bundled_traces()[name].load()


def assert_decides_as_recorded(record, engine):
    trace = bundled(record["trace"])
    peak = baseline_peak_bytes(trace)
    config = RunConfig(
        record["policy"],
        budget_from_ratio(peak, record["ratio"]),
        dealloc=record["dealloc"],
        overhead_limit=record["overhead_limit"],
        engine=engine,
    )
    end = simulate(trace, config).end
    found = {
        "budget": config.budget_bytes,
        "peak": peak,
        "baseline_cost": trace.baseline_cost_ns,
        "outcome": end.outcome,
        "computes": end.computes,
        "remats": end.remats,
        "remat_cost": end.remat_cost_ns,
        "evictions_total": end.evictions_pressure + end.evictions_release + end.evictions_banish,
        "max_memory": end.max_memory_bytes,
        "interval": [end.interval_lo_bytes, end.interval_hi_bytes],
        "decisions_sha256": end.decisions_sha256,
    }
    assert found == {key: record[key] for key in found}


def test_simrd_decided_alike_in_every_recorded_run():
    assert all(record["equal"] for record in RECORDS)
    for entry in bundled_traces().values():
        if entry.kind == "recorded":
            of_it = [record for record in RECORDS if record["trace"] == entry.name]
            assert {record["dealloc"] for record in of_it} == {"eager", "banish"}
            assert {record["policy"] for record in of_it} >= {"dtr-eq", "lru", "size"}
    assert {record["policy"] for record in WHOLE} == {"dtr", "dtr-eq", "lru", "size"}
    assert len(WHOLE) > 0.9 * len(RECORDS)


@pytest.mark.parametrize("record", RECORDS, ids=identify)
@pytest.mark.usefixtures("native_engine")
def test_the_native_engine_equals_the_recorded_run(record):
    assert_decides_as_recorded(record, "native")


def takes_long(record):
    """Whether the Python engine is too slow for the default tests, going by simrd's time."""
    return record["simrd_seconds"] > 0.3


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(record, marks=[pytest.mark.slow] if index % 5 or takes_long(record) else [])
        for index, record in enumerate(WHOLE)
    ],
    ids=identify,
)
def test_the_python_engine_equals_the_recorded_run(record):
    assert_decides_as_recorded(record, "python")
