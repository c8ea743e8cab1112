"""How does one range of budgets look under many policies, and with noise on the costs?

Each policy's map is exact. The maps share one pool of processes, so that none waits for another.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from dtrdiag.analyses import BudgetMap, Instability, instability_document, measure_instability
from dtrdiag.analyses.effects import (
    EFFECTS,
    Term,
    effect_document,
    find_effects,
    outlasts_noise,
    spread,
)
from dtrdiag.analyses.instability import common_bytes, inverted_stretches
from dtrdiag.errors import UsageError
from dtrdiag.experiments.budget_map import ALONE_SECONDS, PIECES_A_JOB
from dtrdiag.experiments.outcomes import Outcome, Outcomes, add_checked
from dtrdiag.experiments.workers import Ranges, Walker, workers
from dtrdiag.interventions import Noise
from dtrdiag.simulator import Factors, RunConfig, find_policy, policies
from dtrdiag.trace import Trace

ABLATE_SCHEMA = "dtrdiag.ablate/1"
COSTS = ("estar", "eq", "local", "none")
ABLATIONS = tuple(
    f"{cost}{size}{stale}" for cost in COSTS for size in ("+size", "") for stale in ("+stale", "")
)
"""The 4 x 4 ablations: each cost over size and staleness, size, staleness, nothing."""
NAMED = ("dtr", "dtr-eq", "dtr-local", "dtr-full", "msps", "lru", "size", "random")
GROUPS = {"ablations": ABLATIONS, "named": NAMED}
"""Words that stand for several policies."""
MAX_SEEDS = 1000
Tell = Callable[[int, Sequence[Outcome]], None]


@attrs.frozen
class Variant:
    """A policy to compare.

    Attributes:
        policy: the name under which it is run.
        also: other names of the same score.
        factors: what its score is made of; None: a function.
    """

    policy: str
    also: tuple[str, ...]
    factors: Factors | None


@attrs.frozen
class MapKey:
    """Which map: a variant's, without noise or with one seed of it."""

    variant: Variant
    noise: Noise | None


@attrs.define
class Ablation:
    """Maps of one range under many policies.

    Attributes:
        rules: what all runs have in common, with the peak.
        keys: which maps.
        known: what is known of each, in the order of `keys`.
        from_bytes: lowest budget.
        to_bytes: highest budget, included.
        within_bytes: how close the two budgets of a cliff are.
    """

    rules: RunConfig
    keys: tuple[MapKey, ...]
    known: tuple[Outcomes, ...]
    from_bytes: int
    to_bytes: int
    within_bytes: int

    def map(self, at: int) -> BudgetMap:
        """A map of which something is known."""
        known = self.known[at].meeting(self.from_bytes, self.to_bytes + 1)
        ends = tuple(run.end for run in known)
        return BudgetMap(known[0].header, ends, self.from_bytes, self.to_bytes)

    def rules_of(self, at: int) -> RunConfig:
        """The rules of a map's runs, apart from the budget."""
        return rules_of(self.rules, self.keys[at])


def plan_variants(names: Sequence[str]) -> tuple[Variant, ...]:
    """The policies that names stand for, each score once.

    Args:
        names: of policies, or of `GROUPS`; none: the ablations.

    Raises:
        PolicyError: no such policy.
    """
    found: dict[object, Variant] = {}
    for name in names or ("ablations",):
        for policy in GROUPS.get(name, (name,)):
            score = find_policy(policy).score
            factors = score if isinstance(score, Factors) else None
            same = [p.name for p in policies() if factors is not None and p.score == factors]
            also = tuple(other for other in same if other != policy)
            found.setdefault(factors or policy, Variant(policy, also, factors))
    return tuple(found.values())


def plan_noise(epsilon: float | None, seeds: int) -> tuple[Noise | None, ...]:
    """No noise first, then each seed of it, from 0.

    Raises:
        UsageError: epsilon is not in (0, 1), or the number of seeds not usable.
    """
    if epsilon is None:
        return (None,)
    if not (math.isfinite(epsilon) and 0 < epsilon < 1):
        raise UsageError(f"--epsilon must be in (0, 1), not {epsilon}")
    if not 1 <= seeds <= MAX_SEEDS:
        raise UsageError(f"--noise-seeds must be 1 to {MAX_SEEDS}, not {seeds}")
    return (None, *(Noise(epsilon, seed) for seed in range(seeds)))


def rules_of(rules: RunConfig, key: MapKey) -> RunConfig:
    """The rules of the runs of one map."""
    if key.noise is None:
        return attrs.evolve(rules, policy=key.variant.policy)
    noisy = attrs.evolve(rules.interventions, cost_noise=key.noise)
    return attrs.evolve(rules, policy=key.variant.policy, interventions=noisy)


def map_all(
    trace: Trace,
    ablation: Ablation,
    *,
    jobs: int = 1,
    prepare: Callable[[], object] | None = None,
    tell: Tell = lambda which, found: None,
    alone_seconds: float = ALONE_SECONDS,
) -> None:
    """Find every interval of every map; those that come first are finished first.

    Args:
        trace: what to run.
        ablation: which maps; what is found is added to what it knows.
        jobs: processes; 1: this one alone.
        prepare: as for `Workers`.
        tell: called with the index of a map and what was found of it.
        alone_seconds: how long this process goes on alone before it starts others.

    Raises:
        ContradictionError: two runs that must be equal are not; a fault of an engine.
        DtrdiagError: of the first run that fails. What was found until then is known.
    """
    low, high, known = ablation.from_bytes, ablation.to_bytes, ablation.known
    rules = [ablation.rules_of(at) for at in range(len(known))]

    def keep(which: int, found: Sequence[Outcome]) -> None:
        for outcome in found:
            add_checked(known[which], outcome)
        tell(which, found)

    until = time.monotonic() + alone_seconds if jobs > 1 else math.inf
    for which, found in _alone(trace, rules, known, (low, high), until):
        keep(which, found)
    gaps = [each.gaps(low, high) for each in known]
    if not any(gaps):
        return
    pieces = max(1, jobs * PIECES_A_JOB // sum(map(bool, gaps)))
    queues = [Ranges(each, pieces) for each in gaps]
    with workers(trace, rules, jobs, prepare) as pool:
        for which, (found, _) in pool.each_of(queues, lambda at, each: known[at].gaps(*each)):
            keep(which, found)


def _alone(
    trace: Trace,
    rules: Sequence[RunConfig],
    known: Sequence[Outcomes],
    budgets: tuple[int, int],
    until: float,
) -> Iterator[tuple[int, list[Outcome]]]:
    for which, each in enumerate(rules):
        walker = Walker(trace, each)
        for gap in known[which].gaps(*budgets):
            left: tuple[int, int] | None = gap
            while left is not None:
                if time.monotonic() >= until:
                    return
                found, left = walker.walk(left)
                yield which, found


# --- what the maps come to ------------------------------------------------------------------------


def reference_of(variants: Sequence[Variant]) -> Variant:
    """The variant whose effects are looked for: the score of `dtr`, or else the first."""
    whole = Factors("estar", size=True, staleness=True)
    return next((variant for variant in variants if variant.factors == whole), variants[0])


def terms_of(variants: Sequence[Variant]) -> tuple[Term, ...]:
    """Parts of the scores of those variants that are made of the four costs and two factors."""
    made = {v: v.factors for v in variants if v.factors is not None and v.factors.cost in COSTS}

    def term(name: str, has: Callable[[Factors], object], alone: Factors | None) -> Term:
        having = frozenset(v.policy for v, factors in made.items() if has(factors))
        only = next((v.policy for v, factors in made.items() if factors == alone), None)
        return Term(name, having, only)

    return (
        term("size", lambda f: f.size, Factors("none", size=True)),
        term("staleness", lambda f: f.staleness, Factors("none", staleness=True)),
        term(
            "size-staleness",
            lambda f: f.size and f.staleness,
            Factors("none", size=True, staleness=True),
        ),
        # Two policies have it alone, so none does: their own terms say which.
        term("neighbours", lambda f: f.cost in ("estar", "eq"), None),
        term("estar", lambda f: f.cost == "estar", Factors("estar")),
        term("eq", lambda f: f.cost == "eq", Factors("eq")),
        term("local", lambda f: f.cost == "local", Factors("local")),
    )


def ablation_document(ablation: Ablation) -> dict[str, Any]:
    """All that the maps come to, as a `dtrdiag.ablate/1` document. Each map must be complete."""
    maps = {key: ablation.map(at) for at, key in enumerate(ablation.keys)}
    measures = {key: measure_instability(m, ablation.within_bytes) for key, m in maps.items()}
    plain = {key.variant: each for key, each in measures.items() if key.noise is None}
    reference = reference_of(list(plain))
    comparable = {v: each for v, each in plain.items() if v.factors and v.factors.cost in COSTS}
    comparable.setdefault(reference, plain[reference])
    findings = find_effects(
        {v.policy: each for v, each in comparable.items()}, reference.policy, terms_of(list(plain))
    )
    seeds = [key.noise for key in ablation.keys if key.noise and key.variant == reference]
    header = next(iter(maps.values())).header
    return {
        "schema": ABLATE_SCHEMA,
        "trace": {
            "name": header.trace_name,
            "sha256": header.trace_sha256,
            "ops": header.trace_ops,
            "tensors": header.trace_tensors,
        },
        "dealloc": header.dealloc,
        "overhead_limit": header.overhead_limit,
        "seed": header.seed,
        "semantics": header.semantics,
        "interventions": header.interventions,
        "peak": header.peak_bytes,
        "baseline_cost": header.baseline_cost_ns,
        "from": ablation.from_bytes,
        "to": ablation.to_bytes,
        "within": ablation.within_bytes,
        "noise": None
        if not seeds
        else {"epsilon": seeds[0].epsilon, "seeds": [noise.seed for noise in seeds]},
        "reference": reference.policy,
        "variants": [_variant_document(ablation, v, maps, measures) for v in plain],
        "effects": {finding.name: effect_document(finding) for finding in findings},
    }


def _variant_document(
    ablation: Ablation,
    variant: Variant,
    maps: dict[MapKey, BudgetMap],
    measures: dict[MapKey, Instability],
) -> dict[str, Any]:
    plain = MapKey(variant, None)
    noisy = [key for key in maps if key.noise is not None and key.variant == variant]
    seconds = [
        sum(run.simulate_seconds for run in ablation.known[at])
        for at, key in enumerate(ablation.keys)
        if key.variant == variant
    ]
    return {
        "policy": variant.policy,
        "also": list(variant.also),
        "factors": None if variant.factors is None else attrs.asdict(variant.factors),
        "measures": instability_document(measures[plain]),
        "simulate_seconds": sum(seconds),
        "noise": None if not noisy else _noise_document(plain, noisy, maps, measures),
    }


def _noise_document(
    plain: MapKey,
    noisy: Sequence[MapKey],
    maps: dict[MapKey, BudgetMap],
    measures: dict[MapKey, Instability],
) -> dict[str, Any]:
    documents = [instability_document(measures[key]) for key in noisy]
    inverted = inverted_stretches(maps[plain])
    total = sum(high - low for low, high in inverted)
    overlaps = [
        {"share": common_bytes(inverted, inverted_stretches(maps[key])) / total if total else None}
        for key in noisy
    ]
    return {
        "seeds": [
            {"seed": key.noise.seed if key.noise else None, "measures": document}
            for key, document in zip(noisy, documents, strict=True)
        ],
        "spread": spread(documents),
        "overlap": spread(overlaps)["share"],
        "effects": {
            name: attrs.asdict(
                outlasts_noise(name, measures[plain], [measures[key] for key in noisy])
            )
            for name in EFFECTS
        },
    }


def make_ablation(
    rules: RunConfig,
    variants: Sequence[Variant],
    noise: Sequence[Noise | None],
    budgets: tuple[int, int],
    within_bytes: int,
) -> Ablation:
    """An ablation of which nothing is known yet.

    Args:
        rules: what all runs have in common, with the peak.
        variants: the policies.
        noise: as `plan_noise` has it.
        budgets: lowest and highest one.
        within_bytes: how close the two budgets of a cliff are.

    Raises:
        UsageError: the rules have noise on the costs already.
    """
    if rules.interventions.cost_noise is not None and any(noise):
        raise UsageError("noise is asked for twice")
    keys = tuple(MapKey(variant, each) for each in noise for variant in variants)
    return Ablation(rules, keys, tuple(Outcomes() for _ in keys), *budgets, within_bytes)
