"""Which facts of a run stand at the top of its page?"""

from __future__ import annotations

from collections.abc import Iterator

from dtrdiag.analyses.summary import CauseCounts, RunSummary
from dtrdiag.events.records import RunHeader
from dtrdiag.units import (
    LONG_NAME,
    both_bytes,
    duration,
    interval_words,
    overhead_words,
    plain_name,
)

OUTCOMES = {
    "ok": "finished",
    "oom": "out of memory",
    "thrashed": "stopped by the overhead limit",
    "incomplete": "not known, the log has no end",
}


def run_facts(summary: RunSummary) -> Iterator[tuple[str, str]]:
    """Label and text of each fact, what was asked first, then what came of it."""
    yield "outcome", OUTCOMES.get(summary.outcome, plain_name(summary.outcome))
    yield "overhead", overhead_words(summary.overhead)
    yield from _asked(summary.header)
    yield "cost of recomputing", duration(summary.remat_cost_ns)
    yield "ops executed", f"{summary.computes:,} first, {summary.remats:,} again"
    yield "evictions", _by_cause(summary.evictions)
    yield "distinct storages evicted", _by_cause(summary.distinct_evicted)
    yield "most memory in use", both_bytes(summary.max_memory_bytes)
    lo = summary.interval_lo_bytes
    if lo or summary.interval_hi_bytes is not None:
        yield "same decisions for budgets", interval_words(lo, summary.interval_hi_bytes)


def _asked(header: RunHeader) -> Iterator[tuple[str, str]]:
    sizes = [
        f"{number:,} {what}"
        for number, what in ((header.trace_ops, "ops"), (header.trace_tensors, "tensors"))
        if number is not None
    ]
    trace = plain_name(header.trace_name, LONG_NAME)
    yield "trace", f"{trace}: {', '.join(sizes)}" if sizes else trace
    yield "policy", plain_name(header.policy)
    budget = "unlimited" if header.budget_bytes is None else both_bytes(header.budget_bytes)
    yield "budget", budget + ("" if header.ratio is None else f", {header.ratio:.12g} of the peak")
    if header.peak_bytes is not None:
        yield "peak (ratio 1)", both_bytes(header.peak_bytes)
    yield "deallocation", plain_name(header.dealloc)
    if header.overhead_limit is not None:
        yield "overhead limit", f"{header.overhead_limit:g}x"
    if header.semantics != "simrd":
        yield "semantics", plain_name(header.semantics)
    if header.interventions is not None:
        yield "interventions", plain_name(header.interventions, LONG_NAME)
    if header.runtime != "dtrdiag":
        yield "runtime", f"{plain_name(header.runtime)} {plain_name(header.runtime_version)}"


def _by_cause(counts: CauseCounts) -> str:
    causes = [f"{counts.pressure:,} to make room", f"{counts.release:,} on release"]
    if counts.banish:
        causes.append(f"{counts.banish:,} freed for good")
    return f"{counts.total:,}: {', '.join(causes)}"
