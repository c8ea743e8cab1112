"""How is a map written down as plain JSON types, for scripts and for files?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from dtrdiag.analyses.budget_map import THRASHED, BudgetMap, Cliff, MapSummary, Segment
from dtrdiag.analyses.instability import instability_document, measure_instability
from dtrdiag.analyses.summary import summary_of
from dtrdiag.errors import LogError
from dtrdiag.events import decode
from dtrdiag.events.records import End

MAP_SCHEMA = "dtrdiag.map/1"


def map_document(budget_map: BudgetMap, summary: MapSummary) -> dict[str, Any]:
    """A map as a `dtrdiag.map/1` document.

    Args:
        budget_map: what is known.
        summary: what it comes to.
    """
    header = budget_map.header
    return {
        "schema": MAP_SCHEMA,
        "trace": {
            "name": header.trace_name,
            "sha256": header.trace_sha256,
            "ops": header.trace_ops,
            "tensors": header.trace_tensors,
        },
        "policy": header.policy,
        "dealloc": header.dealloc,
        "overhead_limit": header.overhead_limit,
        "seed": header.seed,
        "semantics": header.semantics,
        "interventions": header.interventions,
        "peak": header.peak_bytes,
        "baseline_cost": header.baseline_cost_ns,
        "from": budget_map.from_bytes,
        "to": budget_map.to_bytes,
        "complete": budget_map.complete,
        "gaps": [list(gap) for gap in budget_map.gaps],
        "summary": _summary(summary),
        "instability": instability_document(measure_instability(budget_map, summary.within_bytes)),
        "segments": [_segment(segment) for segment in summary.segments],
        "intervals": [_interval(budget_map, run) for run in budget_map.runs],
    }


def _summary(summary: MapSummary) -> dict[str, Any]:
    return {
        "intervals": sum(summary.runs.values()),
        **summary.runs,
        "censored": summary.censored,
        "smallest_feasible": summary.smallest_feasible_bytes,
        "feasible_from": summary.feasible_from_bytes,
        "inversions": [[s.lo_bytes, s.hi_bytes] for s in summary.inversions],
        "inversion_bytes": summary.inversion_bytes,
        "stopped_above_feasible": [[s.lo_bytes, s.hi_bytes] for s in summary.stopped_above],
        "within": summary.within_bytes,
        "worst_cliff": _cliff(summary.worst_cliff),
        "worst_exact_cliff": _cliff(summary.worst_exact_cliff),
    }


def _cliff(cliff: Cliff | None) -> dict[str, Any] | None:
    if cliff is None:
        return None
    return {
        "budgets": [cliff.low_bytes, cliff.high_bytes],
        "overheads": [cliff.low_overhead, cliff.high_overhead],
        "factor": cliff.factor,
        "factor_is": "lower_bound" if cliff.censored else "exact",
    }


def _segment(segment: Segment) -> dict[str, Any]:
    return {
        "outcome": segment.outcome,
        "lo": segment.lo_bytes,
        "hi": segment.hi_bytes,
        "intervals": segment.intervals,
        "overhead": None
        if segment.least_overhead is None
        else [segment.least_overhead, segment.most_overhead],
    }


def _interval(budget_map: BudgetMap, run: End) -> dict[str, Any]:
    counts = summary_of(budget_map.header, run)
    return {
        "lo": run.interval_lo_bytes,
        "hi": run.interval_hi_bytes,
        "outcome": run.outcome,
        "overhead": budget_map.overhead(run),
        "censored": run.outcome == THRASHED,
        "computes": run.computes,
        "remats": run.remats,
        "remat_cost": run.remat_cost_ns,
        "evictions": attrs.asdict(counts.evictions),
        "distinct_evicted": attrs.asdict(counts.distinct_evicted),
        "max_memory": run.max_memory_bytes,
        "memory": run.memory_bytes,
        "clock": run.clock_ns,
        "decisions_sha256": run.decisions_sha256,
    }


def run_of_interval(interval: Mapping[str, Any]) -> End:
    """The last event of the run that an interval of a document stands for.

    Raises:
        LogError: a value is missing, or is not what such a value can be.
    """
    try:
        evictions, distinct = interval["evictions"], interval["distinct_evicted"]
        fields = {
            "event": End.kind,
            "seq": 0,
            "outcome": interval["outcome"],
            "computes": interval["computes"],
            "remats": interval["remats"],
            "remat_cost_ns": interval["remat_cost"],
            "distinct_evicted": distinct["total"],
            "max_memory_bytes": interval["max_memory"],
            "memory_bytes": interval["memory"],
            "clock_ns": interval["clock"],
            "interval_lo_bytes": interval["lo"],
            "interval_hi_bytes": interval["hi"],
            "decisions_sha256": interval["decisions_sha256"],
        }
        for cause in ("pressure", "release", "banish"):
            fields[f"evictions_{cause}"] = evictions[cause]
            fields[f"distinct_{cause}"] = distinct[cause]
    except (KeyError, TypeError) as error:
        raise LogError(f"an interval lacks {error}") from None
    run = decode(fields)
    if not isinstance(run, End):
        raise LogError("an interval is no run")
    return run
