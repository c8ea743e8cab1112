"""How does a trace behave at every budget of a range?

The budget enters a run only through fit checks, so a run is exact for a whole interval of budgets
[lo, hi), and `hi` is the next budget at which anything can change. Walking from one `hi` to the
next therefore enumerates all behaviour of a range, without gaps.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from dtrdiag.errors import UsageError
from dtrdiag.simulator import native
from dtrdiag.simulator.asrun import as_run
from dtrdiag.simulator.config import RunConfig, RunResult
from dtrdiag.simulator.policies import Policy, find_policy
from dtrdiag.simulator.run import refused, result_of, run_header, simulate, takes_native
from dtrdiag.trace.model import Trace


def runs_between(
    trace: Trace, config: RunConfig, from_bytes: int, to_bytes: int
) -> Iterator[RunResult]:
    """One run for each interval of equal budgets that meets [from_bytes, to_bytes], ascending.

    Each run is at the lowest budget of the range in its interval. The intervals are contiguous:
    `hi` of each is `lo` of the next. The first may begin below the range, the last end above it.

    Args:
        trace: what the model asks for.
        config: the rules; its budget and ratio do not matter.
        from_bytes: lowest budget, at least 1.
        to_bytes: highest budget, included.

    Raises:
        UsageError: the range is empty.
        DtrdiagError: whatever `simulate` raises.
    """
    if not 1 <= from_bytes <= to_bytes:
        raise UsageError(f"no budgets from {from_bytes} to {to_bytes} bytes")
    trace = as_run(trace, config)
    policy = find_policy(config.policy)
    if takes_native(config) and native.built_in(policy):
        return _shared_runs(trace, config, policy, from_bytes, to_bytes)
    return _single_runs(trace, config, from_bytes, to_bytes)


def _shared_runs(
    trace: Trace, config: RunConfig, policy: Policy, from_bytes: int, to_bytes: int
) -> Iterator[RunResult]:
    """The native engine begins each run where it parts from the one before."""
    try:
        for budget_bytes, decided in native.runs_between(
            trace, config, policy, from_bytes, to_bytes
        ):
            rules = attrs.evolve(config, budget_bytes=budget_bytes, ratio=None)
            yield result_of(decided, run_header(trace, rules))
            from_bytes = budget_bytes + 1
    except native.Unsuitable as reason:
        refused(config, reason)
        yield from _single_runs(trace, config, from_bytes, to_bytes)


def _single_runs(
    trace: Trace, config: RunConfig, from_bytes: int, to_bytes: int
) -> Iterator[RunResult]:
    budget_bytes: int | None = from_bytes
    while budget_bytes is not None and budget_bytes <= to_bytes:
        rules = attrs.evolve(config, budget_bytes=budget_bytes, ratio=None)
        result = simulate(trace, rules)
        yield result
        budget_bytes = result.end.interval_hi_bytes
