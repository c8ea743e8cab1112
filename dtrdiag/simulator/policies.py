"""Which policies there are, and how to add one.

The policies of the literature are made of factors: a cost over, each on or off, size and staleness.
They are declared as `Factors`, so that every engine can implement them in its own way. Any other
policy is a function of the pool that returns one score per storage; the lowest is evicted::

    @policy("cheap-large-old", doc="compute / (size x staleness ** 2)")
    def cheap_large_old(pool: Pool) -> Quotient:
        return Quotient(pool.compute_ns, (pool.size_bytes, pool.staleness_ns, pool.staleness_ns))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from dtrdiag.errors import PolicyError
from dtrdiag.simulator.pool import USES, Pool
from dtrdiag.simulator.scoring import Pick
from dtrdiag.suggestions import no_such

PolicyFunction = Callable[[Pool], object]
"""Returns a `Quotient` of integer arrays, exact; a float array; or a `Pick`."""

COST_USES = {
    "none": (),
    "local": (),
    "backward": ("regions",),
    "estar": ("regions",),
    "eq": ("eqclasses",),
    "full": ("neighbourhood",),
    "last_access": (),
}
"""Costs that `Factors` know, and the state that each one needs: 1; compute; compute + backward
region; compute + both regions; compute + classes nearby; compute + neighbourhood walked afresh;
the clock at the last access."""


@attrs.frozen
class Factors:
    """Score = cost / (size x staleness), with each factor of the denominator on or off."""

    cost: str
    """One of `COST_USES`. With `full`, staleness counts from the neighbourhood's last access."""
    size: bool = False
    staleness: bool = False


@attrs.frozen
class Policy:
    """A registered policy: either factors or a function."""

    name: str
    score: Factors | PolicyFunction
    uses: frozenset[str]
    """The costly state that it reads, out of `USES`."""
    doc: str
    """The score in a formula."""
    simrd: str | None
    """Names of the same policy in simrd."""


_POLICIES: dict[str, Policy] = {}


def register(entry: Policy) -> Policy:
    """Add a policy to the registry.

    Raises:
        PolicyError: the name is taken, or a use or cost is unknown.
    """
    if entry.name in _POLICIES:
        raise PolicyError(f"a policy named {entry.name!r} is registered already")
    if not entry.name.strip() or not entry.name.isprintable():
        raise PolicyError(f"a policy cannot be named {entry.name!r}")
    unknown = sorted(entry.uses - frozenset(USES))
    if unknown:
        raise PolicyError(f"unknown use {unknown[0]!r}; uses: {', '.join(USES)}")
    _POLICIES[entry.name] = entry
    return entry


def policy(
    name: str, *, uses: Iterable[str] = (), doc: str = "", simrd: str | None = None
) -> Callable[[PolicyFunction], PolicyFunction]:
    """Register a function as a policy.

    Args:
        name: what `--policy` takes.
        uses: which of `USES` the function reads from the pool.
        doc: the score in a formula.
        simrd: names of the same policy in simrd.

    Raises:
        PolicyError: the name is taken, or a use is unknown.
    """
    if isinstance(uses, str):
        raise PolicyError(f"uses must be a collection of names, not the string {uses!r}")

    def decorate(function: PolicyFunction) -> PolicyFunction:
        register(Policy(name, function, frozenset(uses), doc or function.__doc__ or "", simrd))
        return function

    return decorate


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
        known = f"one of a file needs --policy-file FILE.py; there are {', '.join(_POLICIES)}"
        raise PolicyError(no_such("policy", name, _POLICIES, known)) from None


def policies() -> tuple[Policy, ...]:
    """All registered policies in order of registration."""
    return tuple(_POLICIES.values())


def _factors(name: str, factors: Factors, simrd: str | None) -> None:
    above = {"none": "1", "last_access": "last access"}.get(factors.cost, factors.cost)
    below = [word for word in ("size", "staleness") if getattr(factors, word)]
    doc = {0: above, 1: f"{above} / {below[0] if below else ''}"}.get(
        len(below), f"{above} / ({' x '.join(below)})"
    )
    register(Policy(name, factors, frozenset(COST_USES[factors.cost]), doc, simrd))


def _register_published() -> None:
    both = {"size": True, "staleness": True}
    _factors("dtr", Factors("estar", **both), "DTR, AbESizeStale")
    _factors("dtr-eq", Factors("eq", **both), "DTREqClass, AbEqSizeStale")
    _factors("dtr-local", Factors("local", **both), "DTRLocal, AbLocalSizeStale")
    _factors("dtr-full", Factors("full", **both), "DTRUnopt")
    _factors("msps", Factors("backward", size=True), "MSPS")
    _factors("lru", Factors("last_access"), "LRU")
    _factors("size", Factors("none", size=True), "LargestStorage, AbSize")


def _register_ablations() -> None:
    """The 4 x 4 ablations: each cost over each subset of the other two factors."""
    for cost, abbreviation in {"estar": "E", "eq": "Eq", "local": "Local", "none": ""}.items():
        for size, staleness in ((True, True), (True, False), (False, True), (False, False)):
            name = cost + "+size" * size + "+stale" * staleness
            simrd = f"Ab{abbreviation}{'Size' * size}{'Stale' * staleness}"
            _factors(name, Factors(cost, size, staleness), simrd if simrd != "Ab" else None)


_register_published()
_register_ablations()


@policy("random", doc="uniform over the pool, seeded", simrd="RandomStorage, AbRandom (unseeded)")
def draw(pool: Pool) -> Pick:
    """The policy `random`."""
    return Pick(pool.rng.below(len(pool)))
