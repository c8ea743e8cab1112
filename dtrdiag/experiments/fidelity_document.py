"""What do the points of a comparison of live with simulated runs come to, as plain JSON types?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs

from dtrdiag.analyses import run_document
from dtrdiag.analyses.divergence import divergence_document
from dtrdiag.experiments.fidelity import OK, Bytes, Point

FIDELITY_SCHEMA = "dtrdiag.fidelity/1"
_RUN = (
    *("outcome", "overhead", "remat_cost", "max_memory", "computes", "remats", "evictions"),
    *("distinct_evicted", "interval", "decisions_sha256"),
)
"""Of a run, what its two sides may differ in."""


def fidelity_document(points: Sequence[Point], **facts: Any) -> dict[str, Any]:
    """All points with a summary, as a `dtrdiag.fidelity/1` document.

    Args:
        points: compared.
        facts: what else to say of how, ahead of the points.
    """
    return {
        "schema": FIDELITY_SCHEMA,
        **facts,
        "summary": summary_of_points(points),
        "points": [point_document(point) for point in points],
    }


def summary_of_points(points: Sequence[Point]) -> dict[str, Any]:
    """How many points are equal, how they ended, and which prediction is closer how often."""
    compared = [point for point in points if point.compared]
    timed = [point.overhead for point in points if point.overhead is not None]
    closer = Counter(each.closer for each in timed if each.closer is not None)
    owned = [
        point.bytes.owned_bytes - point.config.budget_bytes
        for point in points
        if point.bytes is not None
        and point.bytes.owned_bytes is not None
        and point.config.budget_bytes is not None
    ]
    return {
        "points": len(points),
        "equal": sum(point.equal for point in points),
        "outcomes": dict(sorted(Counter(point.outcome for point in points).items())),
        "values": {"compared": len(compared), "equal": sum(not p.differing for p in compared)},
        "over_budget": sum(excess > 0 for excess in owned) if owned else None,
        "closer": {name: closer[name] for name in ("roofline", "medians")} if closer else None,
    }


def point_document(point: Point) -> dict[str, Any]:
    """One policy and budget as plain JSON types."""
    live = point.live
    config = point.config
    divergence = point.divergence
    return {
        "policy": config.policy,
        "ratio": config.ratio,
        "budget": config.budget_bytes,
        "equal": point.equal,
        "outcome": point.outcome,
        "why": point.why,
        "simulated": _run_document(point.simulated),
        "live": None if live is None else _run_document(live),
        "common_prefix": point.common_prefix,
        "first_divergence": None if divergence is None else divergence_document(divergence),
        "programs": None if point.ops is None else attrs.asdict(point.ops),
        "unequal_counts": list(point.unequal_counts),
        "bytes": None if point.bytes is None else _bytes_document(point.bytes),
        "overhead": None
        if point.overhead is None
        else {**attrs.asdict(point.overhead), "closer": point.overhead.closer},
        "values": None if point.outcome != OK or not point.compared else _values(point),
        "logs": None if point.logs is None else {"simulated": point.logs[0], "live": point.logs[1]},
    }


def _run_document(run: Any) -> dict[str, Any]:
    document = run_document(run.header, run.end)
    return {name: document[name] for name in _RUN}


def _bytes_document(bytes_: Bytes) -> dict[str, Any]:
    cuda = bytes_.cuda
    return {
        "accounted": bytes_.accounted_bytes,
        "owned": bytes_.owned_bytes,
        "allocated": bytes_.allocated_bytes,
        "cuda": None
        if cuda is None
        else {
            "reserved": cuda.reserved_bytes,
            "allocated": cuda.allocated_bytes,
            "fragmentation": cuda.fragmentation,
            "retries": cuda.retries,
        },
    }


def _values(point: Point) -> dict[str, Any]:
    # Infinity is no JSON number.
    apart = None if point.apart == float("inf") else point.apart
    return {
        "compared": point.compared,
        "differing": list(point.differing),
        "max_difference": apart,
    }
