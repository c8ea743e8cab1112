"""What can evidence ask of ranges of budgets, in which no budget is left out?

As in `checks`, a `Bound` stands for each figure that runs which were stopped leave open.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dtrdiag.analyses.diff import LOWER_BOUND
from dtrdiag.errors import LedgerError
from dtrdiag.experiments.ablation import ablation_document, plan_noise, plan_variants
from dtrdiag.experiments.claims.bounds import Bound
from dtrdiag.experiments.claims.checks import THRASHED, bounded_run
from dtrdiag.experiments.claims.laboratory import Laboratory, Run
from dtrdiag.experiments.claims.parameters import RULES, amount, count, many, ratio, run, text
from dtrdiag.experiments.claims.registry import Document, check

_RANGE = {"from": amount, "to": amount, "within": amount}
MAP = {**RULES, **_RANGE}


@check("map", MAP, ("trace", "from", "to"), run)
def map_check(laboratory: Laboratory, given: Mapping[str, Any]) -> Document:
    """Every interval of a range of budgets, as `dtrdiag map --json`."""
    return map_of(laboratory, run(given), given)


def map_of(laboratory: Laboratory, rules: Run, given: Mapping[str, Any]) -> Document:
    """The `dtrdiag.map/1` document of a range, with bounds where runs were stopped."""
    saved, low, high = laboratory.budgets(rules, given["from"], given["to"])
    within = laboratory.within(rules.trace, given.get("within"), high)
    document = saved.document(low, high, within)
    document["intervals"] = [bounded_run(interval) for interval in document["intervals"]]
    document["segments"] = [
        segment | {"overhead": [Bound(overhead) for overhead in segment["overhead"]]}
        if segment["outcome"] == THRASHED and segment["overhead"] is not None
        else segment
        for segment in document["segments"]
    ]
    cliff = document["summary"]["worst_cliff"]
    if cliff is not None and cliff["factor_is"] == LOWER_BOUND:
        largest = max(cliff["overheads"])
        cliff["overheads"] = [Bound(x) if x == largest else x for x in cliff["overheads"]]
        cliff["factor"] = Bound(cliff["factor"])
    document["instability"] = bounded_measures(document["instability"])
    return document


def bounded_measures(measures: Mapping[str, Any]) -> Document:
    """Measures of instability with bounds as they are documented."""
    bounded = dict(measures)
    inversions = measures["inversions"]
    bounded["inversions"] = inversions | {
        name: _between(inversions[name], inversions[f"{name}_at_most"])
        for name in ("bytes", "share")
    }
    variation = measures["log_overhead"]
    if variation["variation_is"] == LOWER_BOUND:
        grown = ("upward", "total")
        bounded["log_overhead"] = variation | {name: Bound(variation[name]) for name in grown}
    cliff = measures["worst_cliff"]
    if cliff["factor_is"] == LOWER_BOUND:
        sides = ("low_overhead", "high_overhead")
        largest = max(sides, key=lambda side: cliff[side])
        stopped = {"factor": Bound(cliff["factor"]), largest: Bound(cliff[largest])}
        bounded["worst_cliff"] = cliff | stopped
    return bounded


def _between(low: Any, high: Any) -> Any:
    if low is None or low == high:
        return low
    return Bound(low, math.inf if high is None else high)


def _noise(value: Any) -> float:
    epsilon = ratio(value)
    if epsilon >= 1:
        raise ValueError("a share below 1")
    return epsilon


_ABLATE = {
    **{name: parse for name, parse in RULES.items() if name not in ("policy", "interventions")},
    **_RANGE,
    "policies": many(text),
    "epsilon": _noise,
    "noise_seeds": count,
}
DEFAULT_SEEDS = 5


def _planned(given: Mapping[str, Any]) -> object:
    run(given)
    if "noise_seeds" in given and "epsilon" not in given:
        raise LedgerError("noise_seeds needs epsilon")
    plan_noise(given.get("epsilon"), given.get("noise_seeds", DEFAULT_SEEDS))
    return plan_variants(given.get("policies", ()))


@check("ablate", _ABLATE, ("trace", "from", "to"), _planned)
def ablate_check(laboratory: Laboratory, given: Mapping[str, Any]) -> Document:
    """One range under many policies, as `dtrdiag ablate --json`; `by_policy` has the variants."""
    variants = plan_variants(given.get("policies", ()))
    noise = plan_noise(given.get("epsilon"), given.get("noise_seeds", DEFAULT_SEEDS))
    ablation = laboratory.ablation(run(given), variants, noise, given)
    document = ablation_document(ablation)
    for variant in document["variants"]:
        variant["measures"] = bounded_measures(variant["measures"])
    document["by_policy"] = {variant["policy"]: variant for variant in document["variants"]}
    return document
