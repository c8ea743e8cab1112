"""What the compiled module refuses, that its walks end where 64 bits do, and life without it."""

import numpy as np
import pytest

from dtrdiag.errors import UsageError
from dtrdiag.simulator import RunConfig, native, runs_between, simulate
from dtrdiag.trace.catalog import resolve

pytestmark = pytest.mark.usefixtures("native_engine")

HIGHEST = (1 << 63) - 1
DTR = ("estar", True, True, 0)


@pytest.fixture(scope="module")
def trace():
    return resolve("chain-64")


@pytest.mark.parametrize("below", [0, 1, 1 << 62])
def test_a_range_up_to_the_highest_budget_ends(native_engine, trace, below):
    runs = native_engine.Range(native.prepare(trace), "eager", None, *DTR, HIGHEST - below, HIGHEST)
    assert runs.next()
    assert (runs.budget_bytes, runs.totals["outcome"]) == (HIGHEST - below, "ok")
    assert not runs.next()
    assert not runs.next()


def test_intervals_up_to_the_highest_budget_are_those_of_the_other_engine(trace):
    found = []
    for engine in ("native", "python"):
        rules = RunConfig("dtr", engine=engine)
        found.append([run.end for run in runs_between(trace, rules, 16_000_000, HIGHEST)])
    assert found[0] == found[1]
    assert len(found[0]) > 1
    assert found[0][-1].interval_hi_bytes is None


def test_no_trace_is_refused(native_engine):
    calls = [
        lambda: native_engine.run(None, None, "eager", None, *DTR, 0, False, False),
        lambda: native_engine.Logged(None, None, "eager", None, *DTR, 0),
        lambda: native_engine.Range(None, "eager", None, *DTR, 1, 2),
        lambda: native_engine.Steps(None, None, "eager", None, False, False, False),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="no trace"):
            call()


@pytest.mark.parametrize("lengths", [(2, 3, 3), (3, 2, 3), (3, 3, 2), (0, 1, 1)])
def test_columns_of_unequal_length_are_refused(native_engine, lengths):
    columns = [np.ones(length, np.int64) for length in lengths]
    for function in (native_engine.rounded, native_engine.ordered):
        with pytest.raises(ValueError, match="columns differ in length"):
            function(*columns)


def test_columns_of_two_dimensions_are_refused(native_engine):
    square = np.ones((2, 2), np.int64)
    for function in (native_engine.rounded, native_engine.ordered):
        with pytest.raises(ValueError, match="columns differ in length"):
            function(square, square, square)


def test_without_the_module_the_python_engine_serves(chain_of, monkeypatch):
    monkeypatch.setattr(native, "_native", None)
    assert not native.available()
    trace = chain_of(8)
    assert simulate(trace, RunConfig("dtr", 35)).engine == "python"
    assert next(runs_between(trace, RunConfig("dtr"), 35, 40)).engine == "python"
    with pytest.raises(UsageError, match="not built in this installation"):
        simulate(trace, RunConfig("dtr", 35, engine="native"))
