"""What can evidence ask of runs, logs and maps?

Each check returns the document that the verb of its name prints, with a `Bound` in place of every
figure of a run that was stopped before its end. Of a run that the overhead limit stopped that is
everything which would have grown; of one out of memory the overhead alone, since it is given
against the cost of the whole trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from dtrdiag.analyses import (
    Frontier,
    chains_document,
    diff_document,
    diff_runs,
    frontier_document,
    pinned_frontier,
    run_document,
)
from dtrdiag.analyses.diff import LOWER_BOUND, UNKNOWN
from dtrdiag.experiments.claims import bounds
from dtrdiag.experiments.claims.bounds import Bound
from dtrdiag.experiments.claims.laboratory import Laboratory, Run
from dtrdiag.experiments.claims.parameters import (
    PAIR,
    RUN,
    budget,
    listed_runs,
    many,
    pair,
    ratio,
    run,
    text,
)
from dtrdiag.experiments.claims.registry import Document, check

OOM, THRASHED = "oom", "thrashed"
_GROWING = ("computes", "remats", "remat_cost", "max_memory")
_COUNTS = ("evictions", "distinct_evicted")
_TO_THE_END = ("trajectory", "re_evicted")
"""Parts of a comparison that say little of a run which was stopped on the way."""
_ABSENT = (
    *(attribute.name.removesuffix("_bytes") for attribute in attrs.fields(Frontier)),
    *("requested_bytes", "resident_bytes", "shortfall_bytes", "pinned_bytes", "locked_bytes"),
    *("evictable_bytes", "unaccounted_bytes", "passes_at", "interval", "header_budget"),
)


@check("run", RUN, ("trace",), run)
def run_check(laboratory: Laboratory, given: Mapping[str, Any]) -> Document:
    """One run, as `dtrdiag run --json`."""
    return run_of(laboratory, run(given))


def run_of(laboratory: Laboratory, asked: Run) -> Document:
    """The `dtrdiag.run/1` document of a run, with bounds, and its interventions."""
    result = laboratory.result(asked)
    document = run_document(result.header, result.end)
    document["interventions"] = result.header.interventions
    return bounded_run(document)


def bounded_run(document: Mapping[str, Any]) -> Document:
    """A run, or an interval of a map, with bounds where it was stopped before its end."""
    bounded = dict(document)
    outcome = document["outcome"]
    if outcome in (OOM, THRASHED) and document["overhead"] is not None:
        bounded["overhead"] = Bound(document["overhead"])
    if outcome == THRASHED:
        bounded |= {name: Bound(document[name]) for name in _GROWING}
        for name in _COUNTS:
            bounded[name] = {cause: Bound(count) for cause, count in document[name].items()}
    return bounded


@check("pair", PAIR, ("trace",), pair)
def pair_check(laboratory: Laboratory, given: Mapping[str, Any]) -> Document:
    """Two runs without their logs: `a`, `b`, `overhead_factor` (larger over smaller)."""
    a, b = (run_of(laboratory, each) for each in pair(given))
    return {"a": a, "b": b, "overhead_factor": _factor(a["overhead"], b["overhead"])}


def _factor(a: Any, b: Any) -> Any:
    """The larger of two overheads over the smaller."""
    if a is None or b is None:
        return None
    low, high = sorted((a, b), key=lambda overhead: bounds.ends(overhead)[0])
    if isinstance(low, Bound):
        return Bound(1.0)  # it could have grown past the other
    return bounds.divide(high, low)


_SWEEP = {**RUN, "ratios": many(ratio), "budgets": many(budget), "policies": many(text)}


@check("sweep", _SWEEP, ("trace",), listed_runs)
def sweep_check(laboratory: Laboratory, given: Mapping[str, Any]) -> Document:
    """Many runs of one trace: `runs`, for each policy in turn each budget in turn."""
    return {"runs": [run_of(laboratory, each) for each in listed_runs(given)]}


@check("diff", PAIR, ("trace",), pair)
def diff_check(laboratory: Laboratory, given: Mapping[str, Any]) -> Document:
    """Two runs compared, as `dtrdiag diff --json`."""
    a, b = pair(given)
    found = diff_runs(laboratory.log(a), laboratory.log(b))
    document = diff_document(found)
    stopped = [document[side]["outcome"] == THRASHED for side in "ab"]
    factor, kind = document["overhead_factor"], document["overhead_factor_is"]
    if factor is not None:
        by_kind = {LOWER_BOUND: Bound(factor), UNKNOWN: Bound(1.0)}
        document["overhead_factor"] = by_kind.get(kind, factor)
    document |= {side: bounded_run(document[side]) for side in "ab"}
    if any(stopped):
        document |= dict.fromkeys(_TO_THE_END)
        document["sets"] = {
            cause: _bounded_sets(sets, stopped) for cause, sets in document["sets"].items()
        }
        document["evictions_per_storage"] = {
            side: Bound(1.0) if was and value is not None else value
            for (side, value), was in zip(
                document["evictions_per_storage"].items(), stopped, strict=True
            )
        }
        document["remat_by_operator"] = [
            _bounded_operator(cost, stopped) for cost in document["remat_by_operator"]
        ]
    return document


def _bounded_sets(sets: Mapping[str, Any], stopped: list[bool]) -> Document:
    bounded = dict(sets)
    for side, was in zip("ab", stopped, strict=True):
        if was:
            bounded[side] = Bound(sets[side])
    shared = ("intersection", "union")
    return bounded | {name: Bound(sets[name]) for name in shared} | {"jaccard": Bound(0.0, 1.0)}


def _bounded_operator(cost: Mapping[str, Any], stopped: list[bool]) -> Document:
    bounded = dict(cost)
    for name in ("remats", "cost_ns"):
        bounded[name] = {
            side: Bound(cost[name][side]) if was else cost[name][side]
            for side, was in zip("ab", stopped, strict=True)
        }
    sides = bounded["cost_ns"]
    return bounded | {"extra_ns": bounds.subtract(sides["b"], sides["a"])}


@check("chains", RUN, ("trace",), run)
def chains_check(laboratory: Laboratory, given: Mapping[str, Any]) -> Document:
    """What a run evicts again and again, as `dtrdiag chains --json`, and the run as `run`."""
    asked = run(given)
    document = chains_document(laboratory.log(asked))
    return document | {"run": run_of(laboratory, asked)}


@check("oom", RUN, ("trace",), run)
def oom_check(laboratory: Laboratory, given: Mapping[str, Any]) -> Document:
    """The frontier, as `dtrdiag oom --json`; all but `outcome` is null without one."""
    asked = run(given)
    outcome = laboratory.result(asked).end.outcome
    if outcome != OOM:
        return dict.fromkeys(_ABSENT) | {"outcome": outcome}
    return frontier_document(pinned_frontier(laboratory.log(asked)))
