"""Events in columns are the events that the machine would say one at a time."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtrdiag.events.columns import EventColumns
from dtrdiag.events.conversion import events_of
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import EventRecorder
from dtrdiag.simulator import (
    DEALLOCS,
    RunConfig,
    baseline_peak_bytes,
    eventcolumns,
    policies,
    policy,
    simulate,
    simulate_in_columns,
    unregister,
)
from dtrdiag.trace.catalog import resolve

POLICIES = [entry.name for entry in policies()]
BUNDLED = ("residual-12", "recurrent-16", "tree-4")


def in_columns(trace, config, batch_events):
    batches: list[EventColumns] = []
    result = simulate_in_columns(trace, config, batches.append, batch_events)
    for batch in batches:
        batch.check()
    return result, [event for batch in batches for event in events_of(batch)], len(batches)


def one_at_a_time(trace, config):
    recorder, hooks = EventRecorder(), Hooks()
    hooks.subscribe(recorder)
    return simulate(trace, config, hooks), recorder.events


def test_codes_of_the_engine_are_those_of_the_schema():
    assert eventcolumns.agrees_with_schema()


@pytest.mark.parametrize("name", BUNDLED)
@pytest.mark.parametrize("dealloc", DEALLOCS)
@pytest.mark.parametrize("engine", ["auto", "python"])
def test_both_ways_say_the_same(name, dealloc, engine):
    """Every policy meets every trace and every deallocation, though not all pairs of them."""
    trace = resolve(name)
    peak = baseline_peak_bytes(trace)
    turn = (BUNDLED.index(name) + DEALLOCS.index(dealloc)) % 3
    chosen = POLICIES[turn::3] if engine == "auto" else ("dtr-local", "lru")
    for index, policy_name in enumerate(chosen, turn):
        config = RunConfig(
            policy_name,
            int(peak * (0.45, 0.7)[index % 2]),
            dealloc=dealloc,
            overhead_limit=(1.5, 2, 1.25)[index % 3],
            candidates=index % 4,
            engine=engine,
        )
        result, events, batches = in_columns(trace, config, 100)
        expected, wanted = one_at_a_time(trace, config)
        assert events == wanted
        assert (result.end, result.stop) == (expected.end, expected.stop)
        assert batches > 2


@given(data=st.data(), batch_events=st.integers(1, 50))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_traces(random_traces, data, batch_events):
    trace = data.draw(random_traces)
    most = int(trace.tensor_size_bytes.sum()) + 1
    config = RunConfig(
        data.draw(st.sampled_from(POLICIES)),
        data.draw(st.integers(1, most)),
        dealloc=data.draw(st.sampled_from(("eager", "ignore"))),
        overhead_limit=data.draw(st.sampled_from((3, 2, 1.5))),
        candidates=data.draw(st.integers(0, 3)),
    )
    result, events, _ = in_columns(trace, config, batch_events)
    expected, wanted = one_at_a_time(trace, config)
    assert events == wanted
    assert (result.end, result.stop) == (expected.end, expected.stop)


def test_a_policy_in_python_is_gathered():
    @policy("columnar-test")
    def largest(pool):
        return -pool.size_bytes

    try:
        trace = resolve("recurrent-16")
        config = RunConfig("columnar-test", int(baseline_peak_bytes(trace) * 0.5))
        _, events, _ = in_columns(trace, config, 100)
        assert events == one_at_a_time(trace, config)[1]
    finally:
        unregister("columnar-test")
