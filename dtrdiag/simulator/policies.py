"""Which policies there are, and how to add one.

A policy is a function of the pool that returns one score per storage; the lowest is evicted. Return
a float array, or a `Quotient` of integer arrays where rounding must not decide, as in all policies
here. For example::

    @policy("greedy-dual", doc="cost per byte")
    def greedy_dual(pool: Pool) -> Quotient:
        return Quotient(pool.compute_ns, (pool.size_bytes,))
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

import attrs
import numpy as np

from dtrdiag.errors import PolicyError
from dtrdiag.simulator.pool import USES, Pool
from dtrdiag.simulator.scoring import Pick, Quotient, Scores

PolicyFunction = Callable[[Pool], Scores]


@attrs.frozen
class Policy:
    """A registered policy."""

    name: str
    scores: PolicyFunction
    uses: frozenset[str]
    """The costly state that it reads, out of `USES`."""
    doc: str
    """The score in a formula."""
    simrd: str | None
    """Names of the same policy in simrd."""


_POLICIES: dict[str, Policy] = {}


def policy(
    name: str, *, uses: Iterable[str] = (), doc: str = "", simrd: str | None = None
) -> Callable[[PolicyFunction], PolicyFunction]:
    """Register a policy under a name.

    Args:
        name: what `--policy` takes.
        uses: which of `USES` its function reads from the pool.
        doc: the score in a formula.
        simrd: names of the same policy in simrd.

    Raises:
        PolicyError: the name is taken, or a use is unknown.
    """
    wanted = frozenset(uses)
    if name in _POLICIES:
        raise PolicyError(f"a policy named {name!r} is registered already")
    if wanted - frozenset(USES):
        raise PolicyError(f"unknown use {sorted(wanted - frozenset(USES))[0]!r}; uses: {USES}")

    def register(function: PolicyFunction) -> PolicyFunction:
        _POLICIES[name] = Policy(name, function, wanted, doc or (function.__doc__ or ""), simrd)
        return function

    return register


def unregister(name: str) -> None:
    """Forget a policy, so that its name can be used again."""
    if _POLICIES.pop(name, None) is None:
        raise PolicyError(f"no policy named {name!r}")


def find_policy(name: str) -> Policy:
    """The policy of that name.

    Raises:
        PolicyError: unknown; close names are suggested.
    """
    try:
        return _POLICIES[name]
    except KeyError:
        close = difflib.get_close_matches(name, _POLICIES, 3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(_POLICIES)}"
        raise PolicyError(f"unknown policy {name!r}; {hint}") from None


def policies() -> tuple[Policy, ...]:
    """All registered policies in order of registration."""
    return tuple(_POLICIES.values())


@policy("dtr", uses=("regions",), doc="estar / (size x staleness)", simrd="DTR, AbESizeStale")
def _dtr(pool: Pool) -> Quotient:
    return Quotient(pool.estar_ns, (pool.size_bytes, pool.staleness_ns))


@policy("dtr-eq", uses=("eqclasses",), doc="eq / (size x staleness)", simrd="DTREqClass")
def _dtr_eq(pool: Pool) -> Quotient:
    return Quotient(pool.eq_ns, (pool.size_bytes, pool.staleness_ns))


@policy("dtr-local", doc="local / (size x staleness)", simrd="DTRLocal, AbLocalSizeStale")
def _dtr_local(pool: Pool) -> Quotient:
    return Quotient(pool.compute_ns, (pool.size_bytes, pool.staleness_ns))


@policy(
    "dtr-full",
    uses=("neighbourhood",),
    doc="cost of the evicted neighbourhood, walked afresh / (size x its staleness)",
    simrd="DTRUnopt",
)
def _dtr_full(pool: Pool) -> Quotient:
    return Quotient(pool.neighbourhood_ns, (pool.size_bytes, pool.neighbourhood_staleness_ns))


@policy("msps", uses=("regions",), doc="(compute + backward region) / size", simrd="MSPS")
def _msps(pool: Pool) -> Quotient:
    return Quotient(pool.compute_ns + pool.backward_ns, (pool.size_bytes,))


@policy("lru", doc="last access", simrd="LRU")
def _lru(pool: Pool) -> Quotient:
    return Quotient(pool.last_access_ns)


@policy("size", doc="1 / size", simrd="LargestStorage, AbSize")
def _size(pool: Pool) -> Quotient:
    return Quotient(np.ones(len(pool), dtype=np.int64), (pool.size_bytes,))


@policy("random", doc="uniform over the pool, seeded", simrd="RandomStorage, AbRandom (unseeded)")
def _random(pool: Pool) -> Pick:
    return Pick(pool.rng.below(len(pool)))


_COSTS = {
    "estar": (lambda pool: pool.estar_ns, ("regions",), "AbE"),
    "eq": (lambda pool: pool.eq_ns, ("eqclasses",), "AbEq"),
    "local": (lambda pool: pool.compute_ns, (), "AbLocal"),
    "none": (lambda pool: np.ones(len(pool), dtype=np.int64), (), "Ab"),
}
_FACTORS = {
    "": ((), ""),
    "+size": (("size_bytes",), "Size"),
    "+stale": (("staleness_ns",), "Stale"),
    "+size+stale": (("size_bytes", "staleness_ns"), "SizeStale"),
}


def _ablation(cost: Callable[[Pool], object], factors: tuple[str, ...]) -> PolicyFunction:
    def scores(pool: Pool) -> Quotient:
        return Quotient(cost(pool), tuple(getattr(pool, factor) for factor in factors))

    return scores


def _register_ablations() -> None:
    """The 4 x 4 ablations of the score C / (S x T): each factor on or off."""
    for cost_name, (cost, uses, simrd_cost) in _COSTS.items():
        for suffix, (factors, simrd_factors) in _FACTORS.items():
            below = " x ".join(factor.partition("_")[0] for factor in factors)
            above = "1" if cost_name == "none" else cost_name
            simrd = f"{simrd_cost}{simrd_factors}" if simrd_cost + simrd_factors != "Ab" else None
            register = policy(
                cost_name + suffix,
                uses=uses,
                doc=f"{above} / ({below})" if below else above,
                simrd=simrd,
            )
            register(_ablation(cost, factors))


_register_ablations()
