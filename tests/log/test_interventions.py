"""What a replay, and the rules for any runtime, make of a header with interventions."""

import attrs
import pytest

from dtrdiag.errors import LogError
from dtrdiag.instrumentation import ParquetWriter
from dtrdiag.interventions import REPAIRS, Interventions, Victim
from dtrdiag.log import Replay, open_log, verify
from dtrdiag.log.forward import NAMES, state_at_oom
from dtrdiag.log.held import Irregular

RULES = {"policy": "lru", "budget_bytes": 150, "candidates": 2}
DECISIONS = ("compute", "rematerialise", "evict")


def victims(events):
    """Decisions that evict under pressure, with their index."""
    decisions = [event for event in events if event.kind in DECISIONS]
    return [(i, e) for i, e in enumerate(decisions) if getattr(e, "cause", "") == "pressure"]


def claiming(events, text, **changes):
    return [attrs.evolve(events[0], interventions=text, **changes), *events[1:]]


def rules_broken(events):
    return {problem.rule for problem in verify(events).problems}


@pytest.mark.parametrize("dealloc", ["eager", "ignore", "banish"])
def test_a_kept_storage_is_never_in_the_pool(busy_trace, record_run, dealloc):
    rules = {**RULES, "dealloc": dealloc}
    kept = victims(record_run(busy_trace, **rules))[0][1].storage
    events = record_run(busy_trace, **rules, interventions=Interventions(keeps=(kept,)))
    replay = Replay()
    was_evictable = False
    for event in events:
        replay.apply(event)
        assert kept not in replay.pool
        free = kept in replay.resident and kept not in replay.locks and kept not in replay.pins
        was_evictable |= free
        assert event.kind != "evict" or event.storage != kept or event.cause != "pressure"
    assert was_evictable
    assert replay.is_kept(kept)
    assert verify(events).ok


def test_the_budget_is_that_of_the_next_fit_check(busy_trace, record_run):
    at = victims(record_run(busy_trace, **RULES))[1][0]
    changes = Interventions(budgets=((at, 180), (at + 4, 140)))
    events = record_run(busy_trace, **RULES, interventions=changes)
    replay, made, budgets = Replay(), 0, {}
    for event in events:
        if event.kind == "fit":
            budgets.setdefault(made, set()).add(replay.budget_bytes)
            assert event.fits == (event.memory_bytes + event.requested_bytes <= replay.budget_bytes)
        replay.apply(event)
        made += event.kind in DECISIONS
    assert {b for i, found in budgets.items() for b in found if i < at} == {150}
    assert {b for i, found in budgets.items() for b in found if at <= i < at + 4} == {180}
    assert {b for i, found in budgets.items() for b in found if i >= at + 4} == {140}
    assert replay.tally.decisions == made
    checks = [e.memory_bytes + e.requested_bytes for e in events if e.kind == "fit" and e.fits]
    assert replay.tally.interval_lo_bytes == events[-1].interval_lo_bytes < max(checks)


def test_a_header_that_cannot_be_read_cannot_be_replayed(eager_log):
    header = attrs.evolve(eager_log[0], interventions="undo everything")
    with pytest.raises(LogError, match=r"event 0 \(run\): unknown intervention 'undo everything'"):
        Replay().apply(header)
    assert rules_broken([header, *eager_log[1:]]) == {"header"}


def test_of_another_runtime_repairs_are_not_asked_for(banish_log):
    """Its semantics say what they say; nothing is known of defects there."""
    for text in (None, *(f"repair {name}" for name in REPAIRS)):
        assert rules_broken(claiming(banish_log, text, semantics="other")) == {"unlock"}


def test_of_another_runtime_victims_and_tie_breaks_are_asked_for(busy_trace, record_run):
    events = claiming(record_run(busy_trace, **RULES | {"policy": "none"}), None, semantics="other")
    at, evict = next((at, e) for at, e in victims(events) if e.pool_size > 2)
    other = evict.candidates[0][0]
    assert rules_broken(events) == set()
    assert rules_broken(claiming(events, f"force {at}={evict.storage}")) == set()
    assert "intervention" in rules_broken(claiming(events, f"force {at}={other}"))
    assert "intervention" in rules_broken(claiming(events, f"forbid {at}={evict.storage}"))
    assert rules_broken(claiming(events, "tie-break first")) == {"candidates", "score"}


def test_a_kept_storage_that_another_runtime_pins_late(busy_trace, record_run):
    """The pin that an intervention asks for comes when the call is over, and at no other time."""
    storage = victims(record_run(busy_trace, **RULES))[0][1].storage
    events = record_run(busy_trace, **RULES, interventions=Interventions(pins=(storage,)))
    (at,) = [i for i, e in enumerate(events) if e.kind == "pin" and e.reason == "intervention"]
    assert events[at - 1].kind in ("compute", "unlock", "pin")
    late = [*events[:at], events[at + 1], events[at], *events[at + 2 :]]
    assert "pin" in rules_broken([attrs.evolve(e, seq=i) for i, e in enumerate(late)])


@pytest.mark.parametrize("extra", [-1, 1])
def test_losers_of_a_forced_victim_are_as_many_as_there_are(busy_trace, record_run, extra):
    rules = {**RULES, "candidates": 9}
    at, evict = next((i, e) for i, e in victims(record_run(busy_trace, **rules)) if e.pool_size > 3)
    changes = Interventions(victims=(Victim(at, evict.candidates[1][0], True),))
    events = record_run(busy_trace, **rules, interventions=changes)
    assert verify(events).ok
    forced = dict(victims(events))[at]
    assert len(forced.candidates) == forced.pool_size - 1
    listed = forced.candidates[:-1] if extra < 0 else (*forced.candidates, (forced.storage, 99999))
    forged = list(events)
    forged[forced.seq] = attrs.evolve(forced, candidates=listed)
    assert rules_broken(forged) == {"candidates"}


def test_columns_leave_other_budgets_to_a_replay(tmp_path, busy_trace, record_run):
    at = victims(record_run(busy_trace, **RULES))[1][0]
    for budgets, regular in (((), True), (((at, 1),), False)):
        rules = {**RULES, "budget_bytes": 150 if budgets else 40}
        changes = Interventions(budgets=budgets, tie_break="first")
        events = record_run(busy_trace, **rules, interventions=changes)
        assert events[-1].outcome == "oom"
        path = tmp_path / f"{regular}.parquet"
        with ParquetWriter(path) as writer:
            for event in events:
                writer(event)
        log = open_log(path)
        assert list(log) == events
        if regular:
            assert state_at_oom(log.batches(NAMES))[1] == events[-2]
        else:
            with pytest.raises(Irregular):
                state_at_oom(log.batches(NAMES))
