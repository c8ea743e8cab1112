"""Which storage of the pool has the lowest score, exactly as simrd's walk would find it.

The rule: walk the pool in order, keep the best so far, replace it when `score <= best` (so the last
of equals wins), and stop at once at a score of 0. A quotient is the double nearest to the exact
quotient of two integers of any size, as Python's `int / int`. Products of size and staleness exceed
2**53, where products of doubles would be rounded and change decisions; so doubles only narrow the
field, and the few that come within the rounding error of the best are settled with integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt

from dtrdiag.errors import PolicyError
from dtrdiag.events.records import Candidate, Score
from dtrdiag.ids import StorageId

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Converting up to three integers, one product and one division round five times, each time by at
# most 2**-53 of the value; 2**-49 leaves room.
_TOLERANCE = 2.0**-49


@attrs.frozen(eq=False)
class Quotient:
    """Exact scores `numerator / (denominators multiplied)`; a denominator of 0 gives +inf.

    Without denominators the scores are the integers themselves.
    """

    numerator: Ints
    """[pool] integers."""
    denominators: tuple[Ints, ...] = ()
    """each [pool] integers >= 0."""


@attrs.frozen
class Pick:
    """A choice by position in the pool, without scores."""

    position: int


Scores = Quotient | Pick | Floats


@attrs.frozen
class Choice:
    """The storage to evict, and the best of those that lost."""

    storage: StorageId
    score: Score
    candidates: tuple[Candidate, ...]
    """Best first; among equals the one that would have won."""


def choose(storages: Sequence[int], scores: Scores, candidates: int) -> Choice:
    """Apply the rule above.

    Args:
        storages: [pool] storage ids in pool order, at least one.
        scores: [pool] scores in the same order.
        candidates: how many losers to list.

    Raises:
        PolicyError: scores of the wrong length, nan, or a position outside the pool.

    Complexity: linear in the pool; with candidates, plus sorting it.
    """
    if isinstance(scores, Pick):
        if not 0 <= scores.position < len(storages):
            raise PolicyError(f"position {scores.position} is outside a pool of {len(storages)}")
        return Choice(StorageId(storages[scores.position]), None, ())
    if isinstance(scores, Quotient):
        _check_length(scores.numerator, storages)
        position = _lowest_quotient(scores)
        score = _exact(scores, position)
    else:
        _check_floats(scores, storages)
        position = _last_lowest(scores[: _walked(scores == 0)])
        score = float(scores[position])
    losers = _losers(storages, scores, position, candidates) if candidates else ()
    return Choice(StorageId(storages[position]), score, losers)


def _lowest_quotient(scores: Quotient) -> int:
    numerator = scores.numerator
    if not scores.denominators:
        return _last_lowest(numerator[: _walked(numerator == 0)])
    approximate = _approximate(scores)
    # A numerator of 0 over a positive denominator is the only way to a score of exactly 0.
    approximate = approximate[: _walked(approximate == 0)]
    best = float(approximate.min())
    if best == math.inf:
        return len(approximate) - 1
    close = np.flatnonzero(approximate <= best + abs(best) * _TOLERANCE)
    if len(close) == 1:
        return int(close[0])
    exact = [_exact(scores, position) for position in close.tolist()]
    lowest = min(exact)
    return int(close[len(exact) - 1 - exact[::-1].index(lowest)])


def _approximate(scores: Quotient) -> Floats:
    denominator = scores.denominators[0].astype(np.float64)
    for factor in scores.denominators[1:]:
        denominator *= factor
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: Floats = scores.numerator / denominator
    quotient[denominator == 0] = math.inf
    return quotient


def _exact(scores: Quotient, position: int) -> float | int:
    numerator = int(scores.numerator[position])
    if not scores.denominators:
        return numerator
    denominator = math.prod(int(factor[position]) for factor in scores.denominators)
    return numerator / denominator if denominator else math.inf


def _walked(zero: npt.NDArray[np.bool_]) -> int:
    """How far the walk goes: up to and including the first score of 0."""
    first = int(zero.argmax())
    return first + 1 if zero[first] else len(zero)


def _last_lowest(values: Ints | Floats) -> int:
    return len(values) - 1 - int(values[::-1].argmin())


def _losers(
    storages: Sequence[int], scores: Quotient | Floats, winner: int, count: int
) -> tuple[Candidate, ...]:
    if isinstance(scores, Quotient):
        values = [_exact(scores, position) for position in range(len(storages))]
    else:
        values = scores.tolist()
    zero = next((position for position, value in enumerate(values) if value == 0), len(values))
    walked = [position for position in range(len(values)) if position <= zero]
    walked.sort(key=lambda position: (values[position], -position))
    losers = [position for position in walked if position != winner][:count]
    return tuple((StorageId(storages[position]), values[position]) for position in losers)


def _check_length(values: Ints | Floats, storages: Sequence[int]) -> None:
    if values.shape != (len(storages),):
        raise PolicyError(
            f"a policy must return one score per storage of the pool: shape {values.shape} "
            f"for a pool of {len(storages)}"
        )


def _check_floats(scores: Floats, storages: Sequence[int]) -> None:
    _check_length(scores, storages)
    if np.isnan(scores).any():
        position = int(np.isnan(scores).argmax())
        raise PolicyError(f"a policy returned nan for storage {storages[position]}")
