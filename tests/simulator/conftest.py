"""Small traces and runs for the tests of the simulator."""

from collections.abc import Callable
from typing import Any

import pytest

from dtrdiag.events.records import Event
from dtrdiag.hooks import Hooks
from dtrdiag.simulator import RunConfig, RunResult, simulate
from dtrdiag.trace import Trace, TraceBuilder

Line = tuple[Any, ...]


def build(*lines: Line) -> Trace:
    """A trace from lines such as ("call", ["y"], "f", ["x"], 5, [10], [-1]), each a method."""
    builder = TraceBuilder("hand-made")
    for number, (kind, *arguments) in enumerate(lines, 1):
        builder.line = number
        getattr(builder, kind)(*arguments)
    return builder.build("0" * 64)


def chain(length: int, size: int = 10, cost: int = 1, backward: bool = False) -> Trace:
    """x0 constant, x1 = f(x0), ..., all wanted at the end.

    With backward: gradients g_n ... g_1 follow, g_i = b(g_(i+1), x_i), each tensor released after
    its last use, g_1 wanted at the end.
    """
    lines: list[Line] = [("constant", "x0", size)]
    for i in range(1, length + 1):
        lines.append(("call", [f"x{i}"], "f", [f"x{i - 1}"], cost, [size], [-1]))
    if backward:
        previous = f"x{length}"
        for i in range(length - 1, 0, -1):
            lines.append(("call", [f"g{i}"], "b", [previous, f"x{i}"], cost, [size], [-1]))
            lines += [("release", previous), ("release", f"x{i}")]
            previous = f"g{i}"
    return build(*lines)


@pytest.fixture(scope="session")
def trace_of() -> Callable[..., Trace]:
    return build


@pytest.fixture(scope="session")
def chain_of() -> Callable[..., Trace]:
    return chain


@pytest.fixture(scope="session")
def run() -> Callable[..., tuple[RunResult, list[Event]]]:
    def run(trace: Trace, **rules: Any) -> tuple[RunResult, list[Event]]:
        events: list[Event] = []
        hooks = Hooks()
        hooks.subscribe(events.append)
        return simulate(trace, RunConfig(**rules), hooks), events

    return run


@pytest.fixture(scope="session")
def decisions() -> Callable[[list[Any]], str]:
    def decisions(events: list[Any]) -> str:
        """Such as "C0 C1 E1 R1"."""
        words = []
        for event in events:
            if event.kind in ("compute", "rematerialise"):
                words.append(f"{'C' if event.kind == 'compute' else 'R'}{event.op}")
            elif event.kind == "evict":
                words.append(f"E{event.storage}")
        return " ".join(words)

    return decisions
