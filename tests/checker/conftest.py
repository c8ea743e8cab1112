"""Logs to check: simulated ones, and a trace with all that makes logs interesting."""

import pytest

from dtrdiag.hooks import Hooks
from dtrdiag.simulator import RunConfig, simulate


@pytest.fixture(scope="session")
def record_run():
    """Simulate a trace under a `RunConfig` and keep its events."""

    def record(trace, **config):
        events = []
        hooks = Hooks()
        hooks.subscribe(events.append)
        simulate(trace, RunConfig(**{"engine": "python", **config}), hooks)
        return events

    return record


@pytest.fixture(scope="session")
def small_trace(layered_trace):
    """A small layered trace."""
    return layered_trace("small", 4, {"w": 8})
