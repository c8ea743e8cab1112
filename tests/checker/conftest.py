"""Logs to check: simulated ones, and a trace with all that makes logs interesting."""

import pytest

from dtrdiag.hooks import Hooks
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace import TraceBuilder


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
def small_trace():
    """Forward and backward through four layers: views, pairs, a repeat, a mutation, a copy."""
    builder = TraceBuilder("small")
    builder.constant("w", 8)
    previous = "w"
    for layer in range(4):
        builder.call([f"a{layer}", f"s{layer}"], "split", [previous, "w"], 5, [16, 4], [-1, -1])
        builder.call([f"v{layer}"], "view", [f"a{layer}"], 1, [0], [0])
        builder.call([f"f{layer}"], "square", [f"v{layer}", f"v{layer}"], 7, [16], [-1])
        previous = f"f{layer}"
    builder.call(["g4"], "loss", [previous], 3, [16], [-1])
    for layer in reversed(range(4)):
        operands = [f"g{layer + 1}", f"f{layer}", f"v{layer}", f"s{layer}"]
        builder.call([f"g{layer}"], "backward", operands, 11, [16], [-1])
        for name in (f"g{layer + 1}", f"f{layer}", f"v{layer}", f"a{layer}"):
            builder.release(name)
    builder.mutate("step", ["w", "g0"], [0], 2)
    builder.copy("kept", "g0")
    builder.release("g0")
    return builder.build("0" * 64)
