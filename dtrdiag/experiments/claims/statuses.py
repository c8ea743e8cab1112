"""What is the status of a claim, given what its evidence and its interventions came to?

| status | when |
|---|---|
| `refuted` | a predicate of its evidence does not hold |
| `censored` | all others hold, and bounds do not decide one |
| `hypothesised` | no evidence yet; or interventions were made and none moved the outcome |
| `observed` | all evidence holds, and there is no intervention |
| `demonstrated` | a mechanism: all evidence holds, an intervention moved it, no control did |
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from dtrdiag.experiments.claims.bounds import Answer
from dtrdiag.experiments.claims.records import CONTROL, EVIDENCE, MOVES

DEMONSTRATED, OBSERVED, HYPOTHESISED = "demonstrated", "observed", "hypothesised"
REFUTED, CENSORED = "refuted", "censored"
STATUSES = (DEMONSTRATED, OBSERVED, HYPOTHESISED, REFUTED, CENSORED)


@attrs.frozen
class Verdict:
    """What one item came to.

    Attributes:
        role: of the item.
        holds: whether all its predicates do; of an intervention that moves, whether they also do
            not all hold without it.
        name: of the item, for reasons.
    """

    role: str
    holds: Answer
    name: str


def status_of(verdicts: Sequence[Verdict]) -> tuple[str, str]:
    """The status of a claim, and the reason in words."""
    evidence = [verdict for verdict in verdicts if verdict.role == EVIDENCE]
    failed = [verdict.name for verdict in evidence if verdict.holds is False]
    if failed:
        return REFUTED, f"does not hold: {'; '.join(failed)}"
    undecided = [verdict.name for verdict in evidence if verdict.holds is None]
    if undecided:
        return CENSORED, f"bounds do not decide: {'; '.join(undecided)}"
    tried = [verdict for verdict in verdicts if verdict.role == MOVES]
    controls = [verdict for verdict in verdicts if verdict.role == CONTROL]
    if not tried and not controls:
        return (OBSERVED, "all evidence holds") if evidence else (HYPOTHESISED, "no evidence yet")
    return _by_interventions(tried, controls)


def _by_interventions(tried: Sequence[Verdict], controls: Sequence[Verdict]) -> tuple[str, str]:
    moved = [verdict.name for verdict in tried if verdict.holds]
    disturbed = [verdict.name for verdict in controls if verdict.holds is False]
    if disturbed:
        return HYPOTHESISED, f"a control does not hold: {'; '.join(disturbed)}"
    if any(verdict.holds is None for verdict in controls):
        return CENSORED, "bounds do not decide a control"
    if moved:
        return DEMONSTRATED, f"moved the outcome: {'; '.join(moved)}"
    if any(verdict.holds is None for verdict in tried):
        return CENSORED, "bounds do not decide whether an intervention moved the outcome"
    names = "; ".join(verdict.name for verdict in tried)
    return HYPOTHESISED, f"did not move the outcome: {names}" if names else "no intervention yet"
