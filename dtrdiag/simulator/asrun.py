"""Which trace is run once costs and sizes are changed, and did every intervention take place?

An intervention that names what is not there, or a decision that never comes, is an error: the run
would look like one in which the intervention changes nothing.
"""

from __future__ import annotations

import weakref

from dtrdiag.errors import SimulationError
from dtrdiag.interventions import Interventions, Noise, Victim
from dtrdiag.simulator.config import RunConfig
from dtrdiag.simulator.policies import find_policy
from dtrdiag.trace.changed import changed_trace, refuse_unknown_storage
from dtrdiag.trace.model import Trace

_MOST_KEPT = 4
_changed: dict[int, dict[str, Trace]] = {}
"""By the id of a trace: its changed forms by the text of the changes, oldest first."""
_changes_of: dict[int, str] = {}
"""By the id of a changed trace: the text of the changes."""


def as_run(trace: Trace, config: RunConfig) -> Trace:
    """The trace that a run under `config` is about: with its costs and sizes changed.

    For the same trace and the same changes it is the same object, as long as it is among the last
    few, so what others keep for a trace object (baseline peaks, prepared traces) serves again. A
    trace that came from here under the same changes is returned as it is.

    Raises:
        PolicyError: an intervention names an unknown policy.
        UsageError: an intervention names an op or a storage that the trace does not have.
    """
    changes = config.interventions
    if not changes:
        return trace
    _refuse_unknown(trace, changes)
    text = _text_on_trace(changes)
    if text is None or _changes_of.get(id(trace)) == text:
        return trace
    if id(trace) not in _changed:
        _changed[id(trace)] = {}
        weakref.finalize(trace, _changed.pop, id(trace), None)
    forms = _changed[id(trace)]
    if text not in forms:
        if len(forms) >= _MOST_KEPT:
            del forms[next(iter(forms))]
        changed = forms[text] = changed_trace(
            trace,
            op_costs=changes.op_costs,
            sizes=changes.sizes,
            cost_noise=_plain(changes.cost_noise),
            size_noise=_plain(changes.size_noise),
        )
        _changes_of[id(changed)] = text
        weakref.finalize(changed, _changes_of.pop, id(changed), None)
    return forms[text]


def refuse_unreached(changes: Interventions, decisions: int, outcome: str) -> None:
    """Refuse a run that ended before one of its interventions took place.

    A budget takes effect at the fit check before its decision, so one that stops the run there
    did take place.

    Args:
        changes: the run's interventions.
        decisions: how many decisions it made.
        outcome: how it ended.

    Raises:
        SimulationError: a decision was not reached.
    """
    checked = decisions + 1 if outcome == "oom" else decisions
    texts = [(victim.at, victim_text(victim), decisions) for victim in changes.victims]
    texts += [(at, f"policy {at}={name}", decisions) for at, name in changes.policies]
    texts += [(at, f"budget {at}={size}", checked) for at, size in changes.budgets]
    for at, text, reached in texts:
        if at >= reached:
            raise SimulationError(
                f"{text}: the run makes {decisions} decisions ({outcome}), there is none of "
                f"index {at}"
            )


def no_pressure(victim: Victim) -> SimulationError:
    """The error of a decision that is no eviction under pressure."""
    return SimulationError(
        f"{victim_text(victim)}: decision {victim.at} is no eviction under pressure"
    )


def not_in_pool(victim: Victim) -> SimulationError:
    """The error of a storage that cannot be evicted at the decision anyway."""
    return SimulationError(
        f"{victim_text(victim)}: storage {victim.storage} is not in the pool at decision "
        f"{victim.at}"
    )


def nothing_else(victim: Victim, storage: int) -> SimulationError:
    """The error of a forbidden storage that is alone in the pool."""
    return SimulationError(
        f"{victim_text(victim)}: storage {storage} is alone in the pool at decision {victim.at}, "
        "there is nothing else to evict"
    )


def victim_text(victim: Victim) -> str:
    """The intervention as the header of a log has it."""
    return Interventions(victims=(victim,)).text() or ""


def _text_on_trace(changes: Interventions) -> str | None:
    alone = Interventions(
        op_costs=changes.op_costs,
        sizes=changes.sizes,
        cost_noise=changes.cost_noise,
        size_noise=changes.size_noise,
    )
    return alone.text()


def _plain(noise: Noise | None) -> tuple[float, int] | None:
    return None if noise is None else (noise.epsilon, noise.seed)


def _refuse_unknown(trace: Trace, changes: Interventions) -> None:
    for _, name in changes.policies:
        find_policy(name)
    named = [(v.storage, victim_text(v)) for v in changes.victims if v.storage is not None]
    named += [(storage, f"pin {storage}") for storage in changes.pins]
    named += [(storage, f"keep {storage}") for storage in changes.keeps]
    for storage, text in named:
        refuse_unknown_storage(trace, storage, text)
