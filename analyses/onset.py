"""Where in the schedule does thrash begin, and where does it end?

Serving a step *thrashes* if the storages that it touches, with all that is pinned, are more than
the budget (its working set does not fit), and it evicted under pressure what it had itself brought
back. Where an intervention changes the budget, that of the step's own fit checks counts, the
smallest if there are several. Thrashing steps that are close to each other make a *spell*; thrash
begins and ends with the spell that cost most.
"""

from __future__ import annotations

import attrs
import numpy as np

from dtrdiag.analyses.cycles import PRESSURE, Cycles
from dtrdiag.analyses.reading import interventions_of
from dtrdiag.analyses.runtable import Exact, Ints, RunTable, step_name, total_of, totals_by

NEAR = 100
"""Thrashing steps with less than 1/NEAR of the schedule between them are of one spell."""
_NO_BUDGET = -1
_UNLIMITED = np.iinfo(np.int64).max


@attrs.frozen
class ThrashingStep:
    """A step that thrashes; sizes in bytes.

    Attributes:
        number: its `step`.
        what: the name of the op that it calls, or its kind (`output`, `reference`).
        held_bytes: the most that was locked, pinned or requested at a fit check.
        touched_bytes: its working set: all storages that were locked, pinned or made resident.
        undone: evictions under pressure of what a rematerialisation of this step had brought back.
        remats: rematerialisations, and `cost_ns`: their cost.
        depth: the most ops that were pending at a time.
    """

    number: int
    what: str
    held_bytes: int
    touched_bytes: int
    undone: int
    remats: int
    cost_ns: int
    depth: int


@attrs.frozen
class Spell:
    """Thrashing steps from `first_step` to before `stop_step`, which may have others between.

    Attributes:
        first, last: what the first and the last of them call.
        steps: how many of them thrash.
        cost_ns: cost of rematerialisation of those.
    """

    first_step: int
    stop_step: int
    first: str
    last: str
    steps: int
    cost_ns: int


@attrs.frozen
class Onset:
    """All steps that thrash.

    Attributes:
        steps: in order of the schedule.
        spells: the dearest first, then in order of the schedule.
        cost_ns: the cost of rematerialisation of all of them.
        most_touched_bytes: the largest working set of any step, whether it thrashes or not.
        most_held_bytes: the most that any step held.
        most_touched_budget_bytes: the budget at the step of that largest working set; None where
            it is unlimited or the step needed no room.
    """

    steps: tuple[ThrashingStep, ...]
    spells: tuple[Spell, ...]
    cost_ns: int
    most_touched_bytes: int
    most_held_bytes: int
    most_touched_budget_bytes: int | None = None


def thrash_onset(table: RunTable, cycles: Cycles) -> Onset:
    """The steps that thrash. O(executions + evictions).

    Without a budget, the working set is taken not to fit.

    Raises:
        LogError: the header names interventions that are not known.
    """
    count = len(table.steps)
    sets, runs, gone = table.working_sets, table.runs, table.evictions
    pressed = gone.step[cycles.undoes & (gone.cause == PRESSURE)]
    undone = np.bincount(pressed, minlength=count)
    remats = np.bincount(runs.step[runs.remat], minlength=count)
    cost = totals_by(runs.step[runs.remat], runs.cost_ns[runs.remat], count)
    budgets = _budgets(table)
    hot = undone > 0
    hot &= (sets.touched_bytes > budgets).astype(np.bool_)
    depth = _depths(table)
    steps = tuple(
        ThrashingStep(
            number=int(table.steps.number[at]),
            what=step_name(table, at),
            held_bytes=int(sets.held_bytes[at]),
            touched_bytes=int(sets.touched_bytes[at]),
            undone=int(undone[at]),
            remats=int(remats[at]),
            cost_ns=int(cost[at]),
            depth=int(depth[at]),
        )
        for at in np.flatnonzero(hot).tolist()
    )
    return Onset(
        steps=steps,
        spells=_spells(table, steps),
        cost_ns=total_of(cost[hot]),
        most_touched_bytes=int(sets.touched_bytes.max()) if count else 0,
        most_held_bytes=int(sets.held_bytes.max()) if count else 0,
        most_touched_budget_bytes=_known(budgets[sets.touched_bytes.argmax()]) if count else None,
    )


def _known(budget_bytes: int) -> int | None:
    return None if budget_bytes == _NO_BUDGET else int(budget_bytes)


def _budgets(table: RunTable) -> Exact:
    """The least budget of the fit checks of each step; `_NO_BUDGET` where none is limited.

    An execution, and an eviction under pressure, has its check right before it.
    """
    budgets = interventions_of(table.header).budgets
    own = table.header.budget_bytes
    least: Exact = np.full(len(table.steps), _NO_BUDGET if own is None else own)
    if not budgets:
        return least
    runs, gone = table.runs, table.evictions
    pressed = gone.cause == PRESSURE
    step = np.concatenate([runs.step, gone.step[pressed]])
    decision = np.concatenate([runs.decision, gone.decision[pressed]])
    later = np.searchsorted([at for at, _ in budgets], decision, side="right")
    first = _UNLIMITED if own is None else min(own, _UNLIMITED)
    limit = np.array([first, *(size for _, size in budgets)])[later]
    least = np.full(len(table.steps), _UNLIMITED)
    inside = step >= 0
    np.minimum.at(least, step[inside], limit[inside])
    least[least == _UNLIMITED] = _NO_BUDGET
    return least


def _depths(table: RunTable) -> Ints:
    depth = np.zeros(len(table.steps) + 1, np.int64)
    step = np.searchsorted(table.steps.at, table.asks.at, side="right") - 1
    np.maximum.at(depth, step, table.asks.depth)
    return depth[:-1]


def _spells(table: RunTable, steps: tuple[ThrashingStep, ...]) -> tuple[Spell, ...]:
    if not steps:
        return ()
    numbers = table.steps.number
    near = -(-(int(numbers[-1]) + 1 - int(numbers[0])) // NEAR)
    groups = [[steps[0]]]
    for step in steps[1:]:
        if step.number - groups[-1][-1].number > near:
            groups.append([])
        groups[-1].append(step)
    spells = [
        Spell(
            first_step=group[0].number,
            stop_step=group[-1].number + 1,
            first=group[0].what,
            last=group[-1].what,
            steps=len(group),
            cost_ns=sum(step.cost_ns for step in group),
        )
        for group in groups
    ]
    return tuple(sorted(spells, key=lambda spell: (-spell.cost_ns, spell.first_step)))
