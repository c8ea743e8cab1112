"""No field of a log can be altered unnoticed, except those that are listed here with the reason."""

import copy
import json
import math
import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dtrdiag.checker import check
from dtrdiag.errors import LogError, UsageError
from dtrdiag.events import decode, encode
from dtrdiag.simulator import baseline_peak_bytes

FREE = {
    ("run", "schema"): "any minor version; the major one is checked by the reader",
    ("run", "runtime"): "who wrote the log",
    ("run", "runtime_version"): "of whoever wrote the log",
    ("run", "trace_name"): "the trace is told by its digest",
    ("run", "overhead_limit"): "another limit that is not reached gives the same log",
    ("run", "seed"): "read by policies that draw alone",
    ("run", "ratio"): "another ratio may give the same budget; without one the budget stands alone",
}

RUNS = {
    "ok": {"policy": "dtr", "sixteenths": 9},
    "oom": {"policy": "dtr-eq", "sixteenths": 6},
    "thrashed": {"policy": "lru", "sixteenths": 9, "overhead_limit": 1.1},
    "banish": {"policy": "eq", "sixteenths": 14, "dealloc": "banish"},
    "random": {"policy": "random", "sixteenths": 10, "seed": 3},
}


@pytest.fixture(scope="module")
def logs(record_run, small_trace):
    """Logs of every outcome as JSON documents."""
    peak_bytes = baseline_peak_bytes(small_trace)
    found = {}
    for name, config in RUNS.items():
        ratio = config["sixteenths"] / 16
        base = {"budget_bytes": int(peak_bytes * ratio), "peak_bytes": peak_bytes, "ratio": ratio}
        rest = {key: value for key, value in config.items() if key != "sixteenths"}
        events = record_run(small_trace, candidates=2, **base, **rest)
        found[name] = json.loads(json.dumps([encode(event) for event in events]))
    return found


def altered(value, rng):
    """Another value of the same JSON type, or null; now and then the same."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice([-1, 1, 7, -value, -1 - 2 * value])
    if isinstance(value, float):
        return math.nextafter(value, rng.choice([math.inf, -math.inf]))
    if isinstance(value, str):
        return rng.choice([value + "x", value[1:], "", "ok", "remat", "release", "lru"])
    if isinstance(value, list) and value:
        at = rng.randrange(len(value))
        shortened = value[:at] + value[at + 1 :]
        replaced = [*value[:at], altered(value[at], rng), *value[at + 1 :]]
        return rng.choice([shortened, replaced, [*value, value[at]]])
    return rng.choice([0, 1, [0], None])


def refused(documents, trace):
    try:
        return bool(check(map(decode, documents), trace, scores=True).problems)
    except (LogError, UsageError):  # not an event of the schema, or an unknown policy
        return True


@pytest.mark.parametrize("name", RUNS)
def test_the_logs_are_accepted(logs, small_trace, name):
    assert not refused(logs[name], small_trace)
    assert logs[name][-1]["outcome"] == (name if name in ("oom", "thrashed") else "ok")
    assert any(document.get("cause") == "pressure" for document in logs[name])


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_an_altered_field_is_noticed(logs, small_trace, seed):
    rng = random.Random(seed)
    documents = copy.copy(logs[rng.choice(sorted(RUNS))])
    kind = rng.choice(sorted({document["event"] for document in documents}))
    at = rng.choice([at for at, document in enumerate(documents) if document["event"] == kind])
    field = rng.choice(sorted(documents[at]))
    value = altered(documents[at][field], rng)
    # Where pools are small, or the policy draws, other numbers of candidates give the same lists.
    assume((kind, field) != ("run", "candidates"))
    if value != documents[at][field] and (kind, field) not in FREE:
        documents[at] = {**documents[at], field: value}
        assert refused(documents, small_trace), (kind, field, value)


def test_what_is_free_is_free(logs, small_trace):
    """So that the list names nothing that could be checked."""
    values = {
        "schema": "dtrdiag.log/1.7",
        "runtime": "x",
        "runtime_version": "x",
        "trace_name": "x",
        "overhead_limit": 20,
        "seed": 9,
        "ratio": None,
    }
    assert {("run", field) for field in values} == set(FREE)
    for field, value in values.items():
        header = {**logs["ok"][0], field: value}
        assert not refused([header, *logs["ok"][1:]], small_trace), field


@pytest.mark.parametrize("candidates", [0, 1])
def test_fewer_candidates_than_are_listed_are_refused(logs, small_trace, candidates):
    documents = logs["ok"]
    assert refused([{**documents[0], "candidates": candidates}, *documents[1:]], small_trace)


def test_fewer_candidates_than_none_are_refused(logs, small_trace):
    for documents in logs.values():
        assert refused([{**documents[0], "candidates": -3}, *documents[1:]], small_trace)
