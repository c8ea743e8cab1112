"""On which part of a policy does an effect hang, and does it outlast noise?

An effect is a figure of instability that a reference policy has over a range of budgets. Policies
that lack a term of its score either show the effect as well, or they do not, or it cannot be told.
docs/instability.md says what follows from that, and what does not.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from dtrdiag.analyses.budget_map import OK, THRASHED
from dtrdiag.analyses.instability import Instability

SHOWS, WEAKER, LACKS = "shows", "weaker", "lacks"
CENSORED, CANNOT_SHOW = "censored", "cannot_show"
SHOWN_SHARE = 0.5
"""From this share of the reference's figure on a policy shows the effect."""
REMOVED_SHARE = 0.1
"""Below this share it lacks the effect."""
LEAST_LOG = math.log(1.01)
"""A change of overhead of one percent."""
YES, NO, IN_PART, UNDECIDED = "yes", "no", "in_part", "undecided"
ROBUST, KNIFE_EDGE, SENSITIVE, ABSENT = "robust", "knife_edge", "sensitive", "absent"


@attrs.frozen
class Bounds:
    """What is known of a figure: at least `low`, at most `high`, which may be infinite."""

    low: float
    high: float


def _inversions(measures: Instability) -> Bounds | None:
    if not measures.outcome_bytes[OK]:
        return None
    return Bounds(
        measures.share(measures.inversion_bytes), measures.share(measures.inversion_bytes_at_most)
    )


def _upward(measures: Instability) -> Bounds | None:
    if not measures.outcome_bytes[OK] or measures.variation is None:
        return None
    return _at_least(measures, measures.variation.up)


def _cliff(measures: Instability) -> Bounds | None:
    if not measures.outcome_bytes[OK] or measures.variation is None:
        return None
    cliff = measures.worst_cliff
    return _at_least(measures, 0.0 if cliff is None else math.log(cliff.factor))


def _at_least(measures: Instability, figure: float) -> Bounds:
    known = measures.complete and not measures.censored
    return Bounds(figure, figure if known else math.inf)


def _thrash(measures: Instability) -> Bounds | None:
    share = measures.share(measures.outcome_bytes[THRASHED])
    return Bounds(share, share)


def _entropy(measures: Instability) -> Bounds | None:
    return Bounds(measures.entropy_bits, measures.entropy_bits)


EFFECTS: dict[str, Callable[[Instability], Bounds | None]] = {
    "inversions": _inversions,
    "upward": _upward,
    "cliff": _cliff,
    "thrash": _thrash,
    "entropy": _entropy,
}
"""Figures of which a policy may have much or little; None: the policy cannot show any."""

FLOORS = {
    "inversions": 0.0,
    "upward": LEAST_LOG,
    "cliff": LEAST_LOG,
    "thrash": 0.0,
    "entropy": 0.01,
}
"""A figure of the reference policy must be above this to be an effect."""


@attrs.frozen
class Term:
    """A part of a score.

    Attributes:
        name: what it is called.
        having: the policies whose score has it.
        alone: the policy whose score has nothing else; None: it was not run.
    """

    name: str
    having: frozenset[str]
    alone: str | None


@attrs.frozen
class TermFinding:
    """What an effect has to do with a term.

    Attributes:
        name: of the term.
        necessary: one of `YES`, `NO`, `IN_PART`, `UNDECIDED`.
        sufficient: likewise.
        without: by state the policies that lack the term.
        alone: the policy that has the term alone, if it was run.
    """

    name: str
    necessary: str
    sufficient: str
    without: dict[str, tuple[str, ...]]
    alone: str | None


@attrs.frozen
class EffectFinding:
    """Who shows an effect, and what that says of the terms.

    Attributes:
        name: one of `EFFECTS`.
        reference: the reference policy's figure, its lower bound; one that is not above `FLOORS` is
            no effect, and then there are neither states nor terms.
        bounds: by policy.
        states: by policy one of `SHOWS`, `WEAKER`, `LACKS`, `CENSORED`, `CANNOT_SHOW`.
        terms: in the order given.
    """

    name: str
    reference: float
    bounds: dict[str, Bounds | None]
    states: dict[str, str]
    terms: tuple[TermFinding, ...]


def state_of(bounds: Bounds | None, reference: float) -> str:
    """Whether a policy shows an effect.

    Args:
        bounds: of its figure.
        reference: the figure to compare with, above 0.
    """
    if bounds is None:
        return CANNOT_SHOW
    low, high = (_state(figure / reference) for figure in (bounds.low, bounds.high))
    return low if low in (SHOWS, high) else CENSORED


def _state(share: float) -> str:
    if share >= SHOWN_SHARE:
        return SHOWS
    return LACKS if share < REMOVED_SHARE else WEAKER


def find_effects(
    measures: Mapping[str, Instability], reference: str, terms: Sequence[Term]
) -> tuple[EffectFinding, ...]:
    """What each effect has to do with each term. O(policies x terms).

    Args:
        measures: by policy, all of one range under one overhead limit.
        reference: the policy whose effects are looked for.
        terms: parts of scores.
    """
    found = []
    for name, figure_of in EFFECTS.items():
        bounds = {policy: figure_of(each) for policy, each in measures.items()}
        own = bounds[reference]
        figure = 0.0 if own is None else own.low
        states, about = {}, []
        if figure > FLOORS[name]:
            states = {policy: state_of(each, figure) for policy, each in bounds.items()}
            about = [_about(term, states) for term in terms]
        found.append(EffectFinding(name, figure, bounds, states, tuple(about)))
    return tuple(found)


def _about(term: Term, states: Mapping[str, str]) -> TermFinding:
    without: dict[str, tuple[str, ...]] = {}
    for policy, state in states.items():
        if policy not in term.having:
            without[state] = (*without.get(state, ()), policy)
    alone = term.alone if term.alone in states else None
    return TermFinding(
        name=term.name,
        necessary=_necessary(without),
        sufficient=UNDECIDED if alone is None else _sufficient(states[alone]),
        without=without,
        alone=alone,
    )


def _necessary(without: Mapping[str, Sequence[str]]) -> str:
    if SHOWS in without:
        return NO
    if not without or CENSORED in without or CANNOT_SHOW in without:
        return UNDECIDED
    return IN_PART if WEAKER in without else YES


def _sufficient(state: str) -> str:
    return {SHOWS: YES, LACKS: NO, WEAKER: IN_PART}.get(state, UNDECIDED)


@attrs.frozen
class NoiseFinding:
    """What noise does to an effect of one policy; figures are lower bounds.

    Attributes:
        plain: without noise.
        least: over the seeds, as the next two.
        median: of the seeds.
        most: over the seeds.
        verdict: one of `ROBUST`, `KNIFE_EDGE`, `SENSITIVE`, `ABSENT`.
        appears: there is none without noise, and some with it.
    """

    plain: float
    least: float
    median: float
    most: float
    verdict: str
    appears: bool


def outlasts_noise(effect: str, plain: Instability, noisy: Sequence[Instability]) -> NoiseFinding:
    """Whether an effect is robust or a knife-edge.

    Args:
        effect: one of `EFFECTS`.
        plain: the policy's measures without noise.
        noisy: its measures under each seed, at least one.
    """
    figure = _low(EFFECTS[effect](plain))
    figures = [_low(EFFECTS[effect](each)) for each in noisy]
    median = statistics.median(figures)
    there = figure > FLOORS[effect]
    if not there:
        verdict = ABSENT
    elif min(figures) >= SHOWN_SHARE * figure:
        verdict = ROBUST
    else:
        verdict = KNIFE_EDGE if median < REMOVED_SHARE * figure else SENSITIVE
    appears = not there and max(figures) > FLOORS[effect]
    return NoiseFinding(figure, min(figures), median, max(figures), verdict, appears)


def _low(bounds: Bounds | None) -> float:
    return 0.0 if bounds is None else bounds.low


def effect_document(finding: EffectFinding) -> dict[str, Any]:
    """A finding as plain JSON types; an infinite bound is None."""
    return {
        "reference": finding.reference,
        "policies": {
            policy: {
                "least": None if bounds is None else bounds.low,
                "most": None if bounds is None or math.isinf(bounds.high) else bounds.high,
                "state": finding.states.get(policy),
            }
            for policy, bounds in finding.bounds.items()
        },
        "terms": {
            term.name: {
                "necessary": term.necessary,
                "sufficient": term.sufficient,
                "alone": term.alone,
                "without": {
                    state: list(term.without.get(state, ()))
                    for state in (SHOWS, WEAKER, LACKS, CENSORED, CANNOT_SHOW)
                },
            }
            for term in finding.terms
        },
    }


def spread(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Least, median and largest of each number of several documents of one shape.

    Where a document has None, the others count; what is no number is left out.
    """
    found: dict[str, Any] = {}
    for name, first in documents[0].items():
        values = [document[name] for document in documents]
        if isinstance(first, Mapping):
            found[name] = spread(values)
            continue
        numbers = [value for value in values if isinstance(value, int | float)]
        if numbers:
            found[name] = {
                "min": min(numbers),
                "median": statistics.median(numbers),
                "max": max(numbers),
            }
        elif all(value is None for value in values):
            found[name] = None
    return found
