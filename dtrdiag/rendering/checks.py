"""What is said of a log, or a map, that was checked against its trace?"""

from __future__ import annotations

from typing import Protocol

from dtrdiag.analyses.programs import ProgramDifference
from dtrdiag.checker import MAX_PROBLEMS, Checker, Problem
from dtrdiag.checkerscores import CHECKED_POLICIES
from dtrdiag.rendering.replays import only_cut
from dtrdiag.units import LONG_NAME, count, plain_name


class CheckedMap(Protocol):
    """What came of checking a map."""

    @property
    def intervals(self) -> int:
        """How many the map has."""

    @property
    def sampled(self) -> int:
        """How many of them were run again."""

    @property
    def events(self) -> int:
        """Events that were checked."""

    @property
    def complete(self) -> bool:
        """Whether the map has no gaps."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong."""


def checked_words(found: Checker, policy: str, other: ProgramDifference | None = None) -> list[str]:
    """Whether a log says what a run of its trace has to do, and what that does not cover.

    Args:
        found: what the check came to.
        policy: the log's policy.
        other: where the log's program, b, is another than the trace, a; None: it is not.
    """
    events = count(found.events, "event")
    if only_cut(found.complete, found.problems):
        return [
            f"The log is cut short: the {events} that can be read are those of a run of the trace, "
            "and no event ends it."
        ]
    if other is not None:
        return _other_words(other)
    if found.problems:
        shape = "complete" if found.complete else "incomplete"
        problems = count(len(found.problems), "problem")
        more = ", after which checking stopped" if len(found.problems) >= MAX_PROBLEMS else ""
        return [f"The log is no true record of a run: {problems}{more}; {events} read, {shape}."]
    words = [f"The log is a true record of a run of the trace: {events}, complete."]
    if found.scores:
        words.append(f"Every victim under pressure is the choice of policy {policy}.")
    elif policy in CHECKED_POLICIES:
        words.append("Victims were taken from the log; --scores compares them with the policy's.")
    else:
        name = plain_name(policy, width=100)
        words.append(
            f"Victims were taken from the log; those of policy {name}, which is not one of "
            "dtrdiag's, cannot be checked."
        )
    return words


def _other_words(other: ProgramDifference) -> list[str]:
    trace, log = (plain_name(each or "no such op", LONG_NAME) for each in (other.a, other.b))
    return [
        f"The log is of another program than the trace: they part at op {other.op}, where the "
        f"trace has {trace}, and the log {log}. So it is no true record of a run of this trace."
    ]


def checked_map_words(found: CheckedMap, resolution_bytes: int | None) -> list[str]:
    """Whether a map is true, and what that does not cover.

    Args:
        found: what the check came to.
        resolution_bytes: of a map that was sampled; None: an exact one.
    """
    events = count(found.events, "event")
    again = f"{found.sampled:,} of {count(found.intervals, 'interval')} run again at both ends"
    if found.problems:
        return [f"The map is wrong: {count(len(found.problems), 'problem')}; {again}, {events}."]
    words = [f"The map is true as far as it was checked: {again}, {events} checked."]
    if found.complete:
        words.append("It holds every budget of its range.")
    elif resolution_bytes is not None:
        words.append("It was sampled, so budgets between its intervals are unknown.")
    return words
