"""What is said of a log that was checked against its trace?"""

from __future__ import annotations

from dtrdiag.checker import MAX_PROBLEMS, Checker
from dtrdiag.checkerscores import CHECKED_POLICIES
from dtrdiag.rendering.units import count, plain_name


def checked_words(found: Checker, policy: str) -> list[str]:
    """Whether a log says what a run of its trace has to do, and what that does not cover.

    Args:
        found: what the check came to.
        policy: the log's policy.
    """
    events = count(found.events, "event")
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
