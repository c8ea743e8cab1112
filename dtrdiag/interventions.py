"""What was changed on purpose in a run: interventions as records, and as text for a log's header.

A decision's *index* counts the executions and evictions of a run before it, from 0, as
`common_prefix` of a comparison does. A text is a list of items, each a word and what it is about,
separated by semicolons, in the order of the fields of `Interventions`; docs/interventions.md
explains each. Every text has one meaning and every set of interventions one text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise

import attrs

from dtrdiag.errors import UsageError
from dtrdiag.suggestions import no_such

REPAIRS: tuple[str, ...] = (
    "uncomputed-neighbour",
    "stale-region",
    "phantom-credit",
    "zero-stops",
    "live-iteration",
    "banished-sibling",
)
"""The defects of simrd that can be repaired one by one: those that docs/semantics.md names `Q-`."""
TIE_BREAKS: tuple[str, ...] = ("last", "first", "lowest-id", "highest-id")
"""Which of equals in the pool goes: by place in the pool, or by storage id; simrd's is `last`."""
_MOST = (1 << 62) - 1


@attrs.frozen
class Victim:
    """One eviction under pressure that the policy does not decide alone.

    Attributes:
        at: index of the decision.
        storage: the storage; None: whichever the policy would choose.
        forced: it goes, whatever the policy says; otherwise it is passed over and the next best
            goes.
    """

    at: int
    storage: int | None
    forced: bool


@attrs.frozen
class Noise:
    """Every figure x becomes the integer next to x * (1 + epsilon * u), u uniform in [-1, 1)."""

    epsilon: float
    seed: int


@attrs.frozen
class Interventions:
    """All interventions in one run; without arguments: none.

    Attributes:
        repairs: names out of `REPAIRS`, in that order.
        tie_break: one of `TIE_BREAKS`.
        victims: ascending by index, one for each at most.
        policies: (index, policy): from that decision on the other policy chooses. Ascending.
        budgets: (index, bytes): from that decision on, the fit check before it included, that is
            the budget. Ascending.
        pins: storages that are pinned once they are computed; ascending.
        keeps: storages that are never in the pool, so pressure cannot evict them; ascending.
        op_costs: (op, cost in ns); ascending.
        sizes: (storage, bytes); ascending.
        cost_noise: on every op's cost.
        size_noise: on every storage's size.

    Raises:
        UsageError: an unknown name, or a figure that is not possible.
    """

    repairs: tuple[str, ...] = ()
    tie_break: str = "last"
    victims: tuple[Victim, ...] = ()
    policies: tuple[tuple[int, str], ...] = ()
    budgets: tuple[tuple[int, int], ...] = ()
    pins: tuple[int, ...] = ()
    keeps: tuple[int, ...] = ()
    op_costs: tuple[tuple[int, int], ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()
    cost_noise: Noise | None = None
    size_noise: Noise | None = None

    def __attrs_post_init__(self) -> None:
        unknown = [name for name in self.repairs if name not in REPAIRS]
        if unknown:
            raise UsageError(no_such("defect", unknown[0], REPAIRS))
        if self.tie_break not in TIE_BREAKS:
            raise UsageError(no_such("tie-break", self.tie_break, TIE_BREAKS))
        order = [REPAIRS.index(name) for name in self.repairs]
        columns = (
            order,
            [victim.at for victim in self.victims],
            *([row[0] for row in rows] for rows in (self.policies, self.budgets)),
            *(self.pins, self.keeps),
            *([row[0] for row in rows] for rows in (self.op_costs, self.sizes)),
        )
        if any(a >= b for column in columns for a, b in pairwise(column)):
            raise UsageError("interventions of a kind must ascend, one for each place at most")
        figures = [n for column in columns for n in column]
        figures += [v.storage for v in self.victims if v.storage is not None]
        figures += [n for rows in (self.op_costs, self.sizes) for _, n in rows]
        if any(not 0 <= figure <= _MOST for figure in figures):
            raise UsageError("an intervention has a figure below 0 or above 2**62")
        for _, name in self.policies:
            if not name or name != name.strip() or ";" in name or not name.isprintable():
                raise UsageError(f"no intervention can name a policy {name[:60]!r}")
        if any(not 1 <= budget <= _MOST for _, budget in self.budgets):
            raise UsageError("a budget must be at least 1 byte and below 2**62")
        if any(victim.forced and victim.storage is None for victim in self.victims):
            raise UsageError("a forced victim must be named")
        for noise in (self.cost_noise, self.size_noise):
            if noise and not (0 < noise.epsilon < 1 and 0 <= noise.seed < 1 << 63):
                raise UsageError("noise needs an epsilon in (0, 1) and a seed in [0, 2**63)")

    def __bool__(self) -> bool:
        return self != _NONE

    @property
    def on_decisions(self) -> bool:
        """Whether one of them names a decision by its index."""
        return bool(self.victims or self.policies or self.budgets)

    @property
    def on_trace(self) -> bool:
        """Whether one of them changes costs or sizes, so that another trace is run."""
        return bool(self.op_costs or self.sizes or self.cost_noise or self.size_noise)

    def budget_at(self, decisions: int, budget_bytes: int | None) -> int | None:
        """The budget of a fit check; None: unlimited.

        Args:
            decisions: how many are made before the check.
            budget_bytes: that of the header, which holds until an intervention sets another.
        """
        for at, other_bytes in self.budgets:
            if at <= decisions:
                budget_bytes = other_bytes
        return budget_bytes

    def text(self) -> str | None:
        """All of them in one line; None: there are none."""
        return "; ".join(self._items()) or None

    def _items(self) -> Iterator[str]:
        yield from (f"repair {name}" for name in self.repairs)
        if self.tie_break != _NONE.tie_break:
            yield f"tie-break {self.tie_break}"
        for victim in self.victims:
            which = "" if victim.storage is None else f"={victim.storage}"
            yield f"{'force' if victim.forced else 'forbid'} {victim.at}{which}"
        for word, rows in (("policy", self.policies), ("budget", self.budgets)):
            yield from (f"{word} {at}={value}" for at, value in rows)
        yield from (f"pin {storage}" for storage in self.pins)
        yield from (f"keep {storage}" for storage in self.keeps)
        for word, rows in (("cost", self.op_costs), ("size", self.sizes)):
            yield from (f"{word} {which}={value}" for which, value in rows)
        for word, noise in (("costs", self.cost_noise), ("sizes", self.size_noise)):
            if noise:
                yield f"{word} {noise.epsilon!r}@{noise.seed}"


_NONE = Interventions()


def parse_interventions(text: str | None) -> Interventions:
    """The interventions that a text stands for; the inverse of `Interventions.text`.

    Raises:
        UsageError: it is no such text, also where it only differs from one in how it is written.
    """
    if text is None:
        return _NONE
    found: dict[str, list[object]] = {}
    for item in text.split(";"):
        word, _, about = item.strip().partition(" ")
        if word not in _PARSERS:
            raise UsageError(f"unknown intervention {item.strip()[:60]!r}")
        field, parse = _PARSERS[word]
        try:
            found.setdefault(field, []).append(parse(about))
        except ValueError:
            raise UsageError(f"no such intervention: {item.strip()[:60]!r}") from None
    single = {"tie_break", "cost_noise", "size_noise"}
    if any(len(values) > 1 for field, values in found.items() if field in single):
        raise UsageError("an intervention of which there can be one is there twice")
    fields = {
        field: values[0] if field in single else tuple(values) for field, values in found.items()
    }
    parsed = Interventions(**fields)  # type: ignore[arg-type]
    if parsed.text() != text:
        raise UsageError(
            f"interventions are not written as {text[:60]!r}, but as {(parsed.text() or '')[:60]!r}"
        )
    return parsed


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError(text)
    return int(text)


def _victim(forced: bool) -> Callable[[str], Victim]:
    def parse(text: str) -> Victim:
        at, given, storage = text.partition("=")
        return Victim(_count(at), _count(storage) if given else None, forced)

    return parse


def _figure(text: str) -> tuple[int, int]:
    which, _, figure = text.partition("=")
    return _count(which), _count(figure)


def _policy(text: str) -> tuple[int, str]:
    at, given, name = text.partition("=")
    if not given or not name:
        raise ValueError(text)
    return _count(at), name


def _noise(text: str) -> Noise:
    epsilon, _, seed = text.partition("@")
    if not math.isfinite(float(epsilon)):
        raise ValueError(text)
    return Noise(float(epsilon), _count(seed))


_PARSERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "repair": ("repairs", str),
    "tie-break": ("tie_break", str),
    "force": ("victims", _victim(True)),
    "forbid": ("victims", _victim(False)),
    "policy": ("policies", _policy),
    "budget": ("budgets", _figure),
    "pin": ("pins", _count),
    "keep": ("keeps", _count),
    "cost": ("op_costs", _figure),
    "size": ("sizes", _figure),
    "costs": ("cost_noise", _noise),
    "sizes": ("size_noise", _noise),
}
