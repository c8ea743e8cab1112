"""The events of a run in columns, for logs of many millions: no event is built one at a time.

The compiled engine appends to the columns as it goes; they hold what the machine in Python would
say event by event, and tests compare the two. Without that engine, or for a policy that it does
not know, the machine's events are gathered into columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs

from dtrdiag.events import records
from dtrdiag.events.columns import EventColumns
from dtrdiag.events.conversion import columns_of
from dtrdiag.events.records import Event
from dtrdiag.hooks import Hooks
from dtrdiag.simulator import native
from dtrdiag.simulator.asrun import as_run
from dtrdiag.simulator.config import RunConfig, RunResult
from dtrdiag.simulator.policies import Policy, find_policy
from dtrdiag.simulator.run import refused, result_of, run_header, simulate, takes_native
from dtrdiag.trace.model import Trace

BATCH_EVENTS = 1 << 18
"""A batch has about so many events; what happens between two evictions is not divided."""


def simulate_in_columns(
    trace: Trace,
    config: RunConfig,
    take: Callable[[EventColumns], None],
    batch_events: int = BATCH_EVENTS,
) -> RunResult:
    """Run a trace as `simulate` does, and hand its events over in batches of columns.

    Args:
        trace: what the model asks for.
        config: the rules.
        take: called with each batch, in order; all events of the run are in one of them.
        batch_events: about how many events a batch has, at least 1.

    Raises:
        DtrdiagError: whatever `simulate` raises; and whatever `take` does.
    """
    trace = as_run(trace, config)
    policy = find_policy(config.policy)
    if takes_native(config) and native.built_in(policy):
        try:
            native.prepare(trace)
        except native.Unsuitable as reason:
            refused(config, reason)
        else:
            return _native_columns(trace, config, policy, take, batch_events)
    gathered = _Gathered(take, batch_events)
    hooks = Hooks()
    hooks.subscribe(gathered)
    result = simulate(trace, config, hooks)
    gathered.hand_over()
    return result


class _Gathered:
    """A subscriber that makes batches."""

    def __init__(self, take: Callable[[EventColumns], None], batch_events: int) -> None:
        self._take = take
        self._most = batch_events
        self._events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self._events.append(event)
        if len(self._events) >= self._most:
            self.hand_over()

    def hand_over(self) -> None:
        if self._events:
            self._take(columns_of(self._events))
            self._events.clear()


def _native_columns(
    trace: Trace,
    config: RunConfig,
    policy: Policy,
    take: Callable[[EventColumns], None],
    batch_events: int,
) -> RunResult:
    header = run_header(trace, config)
    take(columns_of([header]))
    started = time.perf_counter()
    run = native.Logged(trace, config, policy)
    seconds = 0.0
    while True:
        columns = run.next(batch_events)
        seconds += time.perf_counter() - started
        if len(columns):
            take(columns)
        if not run.running():
            break
        started = time.perf_counter()
    result = result_of(run.finished(), header)
    end: records.End = attrs.evolve(result.end, seq=run.events + 1)
    take(columns_of([end]))
    return attrs.evolve(result, end=end, simulate_seconds=seconds + result.simulate_seconds)
