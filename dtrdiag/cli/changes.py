"""What do the options of `whatif` change in a run, and which decision does each mean?

SEQ in an option is the number of an event in the log of the run as it was, which is what people see
in logs and analyses; interventions count decisions. `@N` is a decision by its index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import attrs

from dtrdiag.cli.values import MAX_BYTES, parse_size
from dtrdiag.errors import UsageError
from dtrdiag.events.records import Compute, Event, Evict, OutOfMemory, Rematerialise
from dtrdiag.interventions import REPAIRS, Interventions, Noise, Victim

_T = TypeVar("_T")


@attrs.frozen
class Place:
    """A point of a run, as an option names it.

    Attributes:
        option: the option with its value, for messages.
        number: the `seq` of an event, or with `indexed` the index of a decision.
        pressed: the first eviction under pressure from there on is meant, not the first decision.
        checked: the decision that a fit check was for will do, also if the run was out of memory
            there and never made it.
    """

    option: str
    number: int
    indexed: bool
    pressed: bool = False
    checked: bool = False


@attrs.frozen
class Changes:
    """What the options ask for, before it is known which decisions they mean."""

    victims: tuple[tuple[Place, int | None, bool], ...] = ()
    policies: tuple[tuple[Place, str], ...] = ()
    budgets: tuple[tuple[Place, int], ...] = ()
    tie_break: str | None = None
    """None: as in the base run, whatever that is."""
    rest: Interventions = Interventions()
    """All else that names no decision."""

    def places(self) -> list[Place]:
        """Every point that an option names."""
        return [
            *(place for place, _, _ in self.victims),
            *(place for place, _ in self.policies),
            *(place for place, _ in self.budgets),
        ]

    def __bool__(self) -> bool:
        return bool(self.places() or self.tie_break is not None or self.rest)

    def applied(self, base: Interventions, indices: Mapping[Place, int]) -> Interventions:
        """The interventions of the base run with these; of two for one place this one stays.

        Raises:
            UsageError: two options mean the same decision.
        """
        rest = self.rest
        victims = [
            (indices[place], Victim(indices[place], storage, forced))
            for place, storage, forced in self.victims
        ]
        _refuse_twice([at for at, _ in victims], "--force, --forbid")
        _refuse_twice([indices[place] for place, _ in self.policies], "--policy-from")
        _refuse_twice([indices[place] for place, _ in self.budgets], "--budget-from")
        merged = {victim.at: victim for victim in base.victims} | dict(victims)
        return Interventions(
            repairs=tuple(n for n in REPAIRS if n in base.repairs or n in rest.repairs),
            tie_break=base.tie_break if self.tie_break is None else self.tie_break,
            victims=tuple(merged[at] for at in sorted(merged)),
            policies=_merged(base.policies, [(indices[p], name) for p, name in self.policies]),
            budgets=_merged(base.budgets, [(indices[p], size) for p, size in self.budgets]),
            pins=tuple(sorted({*base.pins, *rest.pins})),
            keeps=tuple(sorted({*base.keeps, *rest.keeps})),
            op_costs=_merged(base.op_costs, rest.op_costs),
            sizes=_merged(base.sizes, rest.sizes),
            cost_noise=rest.cost_noise or base.cost_noise,
            size_noise=rest.size_noise or base.size_noise,
        )


@attrs.frozen
class Given:
    """The options as given; empty or None: not given."""

    force: Sequence[str] | None = None
    forbid: Sequence[str] | None = None
    tie_break: str | None = None
    policy_from: Sequence[str] | None = None
    budget_from: Sequence[str] | None = None
    pin: Sequence[int] | None = None
    keep: Sequence[int] | None = None
    cost: Sequence[str] | None = None
    size: Sequence[str] | None = None
    epsilon: float | None = None
    size_epsilon: float | None = None
    noise_seed: int | None = None

    def parsed(self, repairs: tuple[str, ...]) -> Changes:
        """What they ask for.

        Args:
            repairs: the defects to repair besides.

        Raises:
            UsageError: an option cannot be read, or has no effect.
        """
        if self.noise_seed is not None and self.epsilon is None and self.size_epsilon is None:
            raise UsageError("--noise-seed has no effect without --epsilon or --size-epsilon")
        seed = self.noise_seed or 0
        costs = [_pair(text, "--cost", _count) for text in self.cost or ()]
        sizes = [_pair(text, "--size", _size) for text in self.size or ()]
        for option, storages in (("--pin", self.pin), ("--keep", self.keep)):
            for storage in storages or ():
                _count(str(storage), option)
        _refuse_twice([op for op, _ in costs], "--cost")
        _refuse_twice([storage for storage, _ in sizes], "--size")
        rest = Interventions(
            repairs=repairs,
            tie_break=Interventions().tie_break if self.tie_break is None else self.tie_break,
            pins=tuple(sorted(set(self.pin or ()))),
            keeps=tuple(sorted(set(self.keep or ()))),
            op_costs=tuple(sorted(costs)),
            sizes=tuple(sorted(sizes)),
            cost_noise=None if self.epsilon is None else Noise(self.epsilon, seed),
            size_noise=None if self.size_epsilon is None else Noise(self.size_epsilon, seed),
        )
        return Changes(
            (
                *(_victim(text, "--force") for text in self.force or ()),
                *(_victim(text, "--forbid") for text in self.forbid or ()),
            ),
            tuple(_at(text, "--policy-from", "POLICY") for text in self.policy_from or ()),
            tuple(
                (place, parse_size(size))
                for text in self.budget_from or ()
                for place, size in (_at(text, "--budget-from", "SIZE", checked=True),)
            ),
            self.tie_break,
            rest,
        )


def indices_of(places: Iterable[Place], events: Iterable[Event]) -> dict[Place, int]:
    """The index of the decision that each place means in a run.

    One pass over the log; nothing is read where all places are indices already.

    Args:
        places: as options name them.
        events: of the run as it was.

    Raises:
        UsageError: no decision is meant, because the run ends before.
    """
    found = {place: place.number for place in places if place.indexed}
    waiting = sorted({p for p in places if not p.indexed}, key=lambda place: place.number)
    index = 0
    for event in events if waiting else ():
        if isinstance(event, OutOfMemory):
            # The fit check of a decision that was never made: a budget takes effect there.
            for place in [p for p in waiting if p.number <= event.seq and p.checked]:
                found[place] = index
                waiting.remove(place)
        if not isinstance(event, (Compute, Rematerialise, Evict)):
            continue
        pressed = isinstance(event, Evict) and event.cause == "pressure"
        for place in [p for p in waiting if p.number <= event.seq and (pressed or not p.pressed)]:
            found[place] = index
            waiting.remove(place)
        index += 1
    if waiting:
        what = "eviction under pressure" if waiting[0].pressed else "decision"
        raise UsageError(
            f"{waiting[0].option}: there is no {what} at event {waiting[0].number} or later"
        )
    return found


def events_given(indices: Mapping[Place, int]) -> dict[tuple[str, int], int]:
    """The numbers of events that were given, by kind of intervention and index of the decision."""
    return {
        (place.option.split()[0].removeprefix("--").removesuffix("-from"), index): place.number
        for place, index in indices.items()
        if not place.indexed
    }


def _victim(text: str, option: str) -> tuple[Place, int | None, bool]:
    where, given, storage = text.partition("=")
    forced = option == "--force"
    if forced and not given:
        raise UsageError(f"--force must be SEQ=STORAGE, not {text[:60]!r}")
    chosen = _count(storage, f"{option} {text[:60]}") if given else None
    return _place(where, f"{option} {text[:60]}", pressed=True), chosen, forced


def _at(text: str, option: str, what: str, checked: bool = False) -> tuple[Place, str]:
    where, _, value = text.partition("=")
    if not value:
        raise UsageError(f"{option} must be SEQ={what}, not {text[:60]!r}")
    return _place(where, f"{option} {text[:60]}", checked=checked), value


def _place(text: str, option: str, pressed: bool = False, checked: bool = False) -> Place:
    indexed = text.startswith("@")
    return Place(option, _count(text.removeprefix("@"), option), indexed, pressed, checked)


def _pair(text: str, option: str, figure: Callable[[str, str], int]) -> tuple[int, int]:
    which, given, value = text.partition("=")
    if not given:
        raise UsageError(f"{option} must be ID=FIGURE, not {text[:60]!r}")
    told = f"{option} {text[:60]}"
    return _count(which, told), figure(value, told)


def _size(text: str, option: str) -> int:
    return _count(text, option) if text.isdigit() else parse_size(text, f"{option}: a size")


def _count(text: str, option: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise UsageError(f"{option}: {text[:60]!r} is no number")
    if int(text) >= MAX_BYTES:
        raise UsageError(f"{option}: {text} is not below 2**62")
    return int(text)


def _merged(
    base: Sequence[tuple[int, _T]], new: Sequence[tuple[int, _T]]
) -> tuple[tuple[int, _T], ...]:
    return tuple(sorted({**dict(base), **dict(new)}.items(), key=lambda row: row[0]))


def _refuse_twice(numbers: Sequence[int], what: str) -> None:
    twice = [number for number in numbers if numbers.count(number) > 1]
    if twice:
        raise UsageError(f"{what}: two are about {twice[0]}")
