"""Which storage of the pool has the lowest score, exactly as simrd's walk would find it.

The rule: walk the pool in order, keep the best so far, replace it when `score <= best` (so the last
of equals wins), and stop at once at a score of 0. A quotient is the double nearest to the exact
quotient of two integers of any size, which is what Python's `int / int` gives. Products of size and
staleness exceed 2**53, so arrays of doubles would round them and change decisions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from dtrdiag.errors import PolicyError
from dtrdiag.events.records import Candidate, Score
from dtrdiag.ids import StorageId

Number = int | float


@attrs.frozen(eq=False)
class Quotient:
    """Exact scores `numerator / (denominators multiplied)`; a denominator of 0 gives +inf.

    Without denominators the scores are the integers themselves.
    """

    numerator: Iterable[int]
    """[pool] integers."""
    denominators: tuple[Iterable[int], ...] = ()
    """each [pool] integers >= 0."""

    def scores(self) -> list[Number]:
        """[pool] the scores as Python numbers."""
        numerator = _integers(self.numerator)
        if not self.denominators:
            return list(numerator)
        columns = [_integers(column) for column in self.denominators]
        return quotients(numerator, [math.prod(row) for row in zip(*columns, strict=True)])


@attrs.frozen
class Pick:
    """A choice by position in the pool, without scores."""

    position: int


@attrs.frozen
class Choice:
    """The storage to evict, and the best of those that lost."""

    storage: StorageId
    score: Score
    candidates: tuple[Candidate, ...]
    """Best first; among equals the one that would have won. Only what the walk scored is listed:
    nothing after a score of 0."""


@attrs.frozen
class Walk:
    """How the pool is walked; the default is simrd's way."""

    tie_break: str = "last"
    """Which of equals goes, one of `dtrdiag.interventions.TIE_BREAKS`: of those walked."""
    zero_stops: bool = True
    """A score of 0 ends the walk."""

    def ranks(self, storages: Sequence[int]) -> Sequence[int]:
        """[pool] among equals the lower goes first."""
        if self.tie_break == "first":
            return range(len(storages))
        if self.tie_break == "lowest-id":
            return storages
        if self.tie_break == "highest-id":
            return [-storage for storage in storages]
        return range(0, -len(storages), -1)


SIMRD = Walk()


def quotients(numerators: Iterable[int], denominators: Iterable[int]) -> list[Number]:
    """Correctly rounded quotients; +inf where the denominator is 0."""
    inf = math.inf
    return [n / d if d else inf for n, d in zip(numerators, denominators, strict=True)]


def choose(
    storages: Sequence[int], scores: Sequence[Number], candidates: int = 0, walk: Walk = SIMRD
) -> Choice:
    """Apply the rule above.

    Args:
        storages: [pool] storage ids in pool order, at least one.
        scores: [pool] scores in the same order, without nan.
        candidates: how many losers to list.
        walk: how the pool is walked.

    Complexity: linear in the pool; with candidates, plus sorting it.
    """
    walked = scores[: scores.index(0) + 1] if walk.zero_stops and 0 in scores else scores
    lowest = min(walked)
    if walk.tie_break == "last":
        position = len(walked) - 1 - walked[::-1].index(lowest)
    else:
        ranks = walk.ranks(storages)
        equals = [index for index, score in enumerate(walked) if score == lowest]
        position = min(equals, key=ranks.__getitem__)
    losers: tuple[Candidate, ...] = ()
    if candidates:
        ranks = walk.ranks(storages)
        order = sorted(range(len(walked)), key=lambda index: (walked[index], ranks[index]))
        losers = tuple(
            (StorageId(storages[index]), walked[index]) for index in order if index != position
        )[:candidates]
    return Choice(StorageId(storages[position]), lowest, losers)


def choose_from(storages: Sequence[int], answer: object, candidates: int, policy: str) -> Choice:
    """Apply the rule to whatever a user's policy returned.

    Args:
        storages: [pool] storage ids in pool order, at least one.
        answer: a `Quotient`, a `Pick`, or a sequence or array of numbers.
        candidates: how many losers to list.
        policy: its name, for messages.

    Raises:
        PolicyError: not one score per storage, nan, or a position outside the pool.
    """
    checked = checked_answer(storages, answer, policy)
    if isinstance(checked, Pick):
        return Choice(StorageId(storages[checked.position]), None, ())
    return choose(storages, checked, candidates)


def checked_answer(storages: Sequence[int], answer: object, policy: str) -> list[Number] | Pick:
    """What a user's policy returned: [pool] scores, or a position.

    Args and errors are those of `choose_from`.
    """
    if isinstance(answer, Pick):
        if not 0 <= answer.position < len(storages):
            raise PolicyError(
                f"policy {policy!r} picked position {answer.position} of a pool of {len(storages)}"
            )
        return answer
    try:
        scores = answer.scores() if isinstance(answer, Quotient) else _numbers(answer)
    except (TypeError, ValueError, AttributeError) as error:
        raise PolicyError(
            f"policy {policy!r} must return a Quotient, a Pick or one number per storage: {error}"
        ) from error
    if len(scores) != len(storages):
        raise PolicyError(
            f"policy {policy!r} returned {len(scores)} scores for a pool of {len(storages)}"
        )
    for storage, score in zip(storages, scores, strict=True):
        if score != score:  # nan is the one number unequal to itself
            raise PolicyError(f"policy {policy!r} returned nan for storage {storage}")
    return scores


def _values(column: Any) -> list[Any]:
    return list(column.tolist() if hasattr(column, "tolist") else column)


def _integers(column: object) -> list[int]:
    values = _values(column)
    if not all(type(value) is int for value in values):
        raise TypeError("a Quotient is made of integers")
    return values


def _numbers(column: object) -> list[Number]:
    values = _values(column)
    if not all(isinstance(value, (int, float)) for value in values):
        raise TypeError("scores are numbers")
    return values
