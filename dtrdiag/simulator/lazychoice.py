"""Which storage has the lowest score under e*, without walking the regions of all of them.

Lower bounds of what regions cost give lower bounds of scores. Storages are looked at from the
lowest bound upwards, until the next bound is above the best score found; a walk ends once its
storage has lost by far. What is chosen is what `scoring.choose` chooses from all scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtrdiag.ids import StorageId
from dtrdiag.simulator.lazyregions import ENDLESS, LazyRegions
from dtrdiag.simulator.scoring import Choice, Number, Walk, quotients

# More than two roundings can take away, so that what exceeds the product is above the quotient.
_SAFELY = 1 + 2.0**-50
_FURTHER = 8


def lowest(
    regions: LazyRegions,
    storages: Sequence[int],
    weights: Sequence[int] | None,
    *,
    both: bool,
    walk: Walk,
) -> Choice:
    """The storage of the lowest score (compute + regions) / weight.

    Args:
        regions: what regions cost; none may be cached.
        storages: [pool] storage ids in pool order, at least one.
        weights: [pool] integers >= 0; 0 gives +inf. None: scores are the costs.
        both: count both regions, not the backward one alone.
        walk: how the pool is walked.

    Complexity: sorts the pool, and walks the regions of those whose bound is not above the lowest
    score.
    """
    compute_ns = regions.graph.compute_ns
    least = regions.least_ns(1, storages)
    if both:
        forward = regions.least_ns(0, storages)
        least = [compute_ns[s] + f + b for s, f, b in zip(storages, forward, least, strict=True)]
    else:
        forward = [0] * len(storages)
        least = [compute_ns[s] + b for s, b in zip(storages, least, strict=True)]
    bounds = least if weights is None else quotients(least, weights)
    best: Number = math.inf
    equals: list[int] = []
    for position in sorted(range(len(storages)), key=bounds.__getitem__):
        if bounds[position] > best:
            break
        score: Number = math.inf
        if weights is None or weights[position]:
            weight = None if weights is None else weights[position]
            most_ns = _most_ns(best, weight)
            sides = (both, forward[position])
            cost_ns = _cost_ns(regions, storages[position], most_ns, *sides)
            if cost_ns > most_ns:
                continue
            score = cost_ns if weight is None else cost_ns / weight
        if score < best:
            best, equals = score, [position]
        elif score == best:
            equals.append(position)
    return Choice(StorageId(storages[_winner(storages, best, equals, walk)]), best, ())


def _most_ns(best: Number, weight: int | None) -> int:
    """What costs more than this has lost for certain."""
    if best == math.inf:
        return ENDLESS
    if weight is None:
        return int(best)
    return int(best * weight * _SAFELY) + 1


def _cost_ns(regions: LazyRegions, storage: int, most_ns: int, both: bool, forward_ns: int) -> int:
    """Compute and regions of a storage, or less, but above `most_ns`."""
    cost_ns = regions.graph.compute_ns[storage]
    least_ns = max(0, forward_ns)
    # A walk goes on for a while after its storage has lost, so that the bound serves longer.
    cost_ns += regions.sum_ns(1, storage, _FURTHER * most_ns)
    if not both or cost_ns + least_ns > most_ns:
        return cost_ns + least_ns
    return cost_ns + regions.sum_ns(0, storage, _FURTHER * most_ns)


def _winner(storages: Sequence[int], best: Number, equals: list[int], walk: Walk) -> int:
    if best == 0 and walk.zero_stops:
        return min(equals)
    if walk.tie_break == "last":
        return max(equals)
    return min(equals, key=walk.ranks(storages).__getitem__)
