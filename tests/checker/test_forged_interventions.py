"""A log that claims another intervention than was made is refused, by the rule that it breaks."""

import attrs
import pytest

from dtrdiag.checker import check
from dtrdiag.errors import UsageError
from dtrdiag.interventions import Interventions, Noise, Victim
from dtrdiag.log import verify
from dtrdiag.simulator import baseline_peak_bytes
from dtrdiag.trace import TraceBuilder

DECISIONS = ("compute", "rematerialise", "evict")


@pytest.fixture(scope="module")
def rules(small_trace):
    budget = baseline_peak_bytes(small_trace) * 11 // 16
    return {"policy": "dtr", "budget_bytes": budget, "candidates": 3}


@pytest.fixture(scope="module")
def plain(record_run, small_trace, rules):
    return record_run(small_trace, **rules)


@pytest.fixture(scope="module")
def place(plain):
    """A decision: index, victim, and the best loser, which scores more than the victim."""
    decisions = [event for event in plain if event.kind in DECISIONS]
    return next(
        (at, event.storage, event.candidates[0][0])
        for at, event in enumerate(decisions)
        if getattr(event, "cause", "") == "pressure"
        and len(event.candidates) >= 2
        and event.score < event.candidates[0][1] < event.candidates[1][1]
    )


@pytest.fixture
def intervene(record_run, small_trace, rules):
    def run(**changes):
        events = record_run(small_trace, **rules, interventions=Interventions(**changes))
        assert check(events, small_trace, scores=True).problems == []
        assert verify(events).ok
        return events

    return run


def claiming(events, text, **changes):
    if isinstance(text, Interventions):
        text = text.text()
    return [attrs.evolve(events[0], interventions=text, **changes), *events[1:]]


def found(events, trace, scores=False):
    """What the checker finds, and what the rules for any log find."""
    ours = {problem.rule for problem in check(events, trace, scores=scores).problems}
    return ours, {problem.rule for problem in verify(events).problems}


def without(events, at):
    kept = [*events[:at], *events[at + 1 :]]
    new = {event.seq: position for position, event in enumerate(kept)}
    return [
        attrs.evolve(event, seq=position)
        if getattr(event, "cause_seq", None) is None
        else attrs.evolve(event, seq=position, cause_seq=new[event.cause_seq])
        for position, event in enumerate(kept)
    ]


def test_a_forced_victim_that_is_not_owned_up_to(intervene, small_trace, place):
    at, _, loser = place
    forged = claiming(intervene(victims=(Victim(at, loser, True),)), None)
    assert found(forged, small_trace) == (set(), {"score"})
    assert found(forged, small_trace, scores=True)[0] == {"choice"}


def test_a_forbidden_victim_that_is_not_owned_up_to(intervene, small_trace, place):
    at, victim, _ = place
    for storage in (victim, None):
        forged = claiming(intervene(victims=(Victim(at, storage, False),)), None)
        assert "choice" in found(forged, small_trace, scores=True)[0]


def test_another_victim_is_named_than_the_one_that_was_forced(intervene, small_trace, place):
    at, victim, loser = place
    events = intervene(victims=(Victim(at, loser, True),))
    forged = claiming(events, f"force {at}={victim}")
    assert found(forged, small_trace, scores=True) == ({"intervention"}, {"intervention"})
    (problem,) = check(forged, small_trace).problems
    assert problem.message == f"evict: the forced victim is {victim}, not {loser}"


def test_a_forbidden_victim_goes(plain, small_trace, place):
    at, victim, _ = place
    forged = claiming(plain, f"forbid {at}={victim}")
    ours, any_runtime = found(forged, small_trace)
    assert (ours, "intervention" in any_runtime) == ({"intervention"}, True)


@pytest.mark.parametrize("word", ["force", "forbid"])
def test_a_storage_that_was_not_to_be_had(plain, small_trace, place, word):
    """A constant, say, is pinned: to forbid it changes nothing, and is no run."""
    forged = claiming(plain, f"{word} {place[0]}=0")
    ours, any_runtime = found(forged, small_trace)
    assert "intervention" in ours & any_runtime


def test_the_only_storage_is_forbidden(record_run, small_trace, rules):
    events = record_run(small_trace, **{**rules, "budget_bytes": rules["budget_bytes"] * 5 // 8})
    decisions = [event for event in events if event.kind in DECISIONS]
    at = next(at for at, e in enumerate(decisions) if getattr(e, "pool_size", None) == 1)
    ours, any_runtime = found(claiming(events, f"forbid {at}"), small_trace)
    assert "intervention" in ours & any_runtime


@pytest.mark.parametrize("by", [-1, 1])
@pytest.mark.parametrize("word", ["force", "forbid"])
def test_an_index_that_is_one_off(intervene, small_trace, plain, place, word, by):
    at, victim, loser = place
    forced = word == "force"
    events = intervene(victims=(Victim(at, loser if forced else victim, forced),))
    decisions = [event for event in events if event.kind in DECISIONS]
    assert getattr(decisions[at + by], "cause", "") != "pressure"
    text = events[0].interventions.replace(f"{at}=", f"{at + by}=")
    for scores in (False, True):
        ours, any_runtime = found(claiming(events, text), small_trace, scores=scores)
        assert "intervention" in ours & any_runtime
        assert ("choice" in ours) == scores


@pytest.mark.parametrize("text", ["force {}=4", "forbid {}", "policy {}=lru", "budget {}=500"])
def test_a_decision_that_the_run_does_not_get_to(plain, small_trace, text):
    decisions = sum(event.kind in DECISIONS for event in plain)
    forged = claiming(plain, text.format(decisions))
    assert found(forged, small_trace) == ({"intervention"}, {"intervention"})
    assert check(forged, small_trace).problems[0].seq == len(plain) - 1
    cut = [problem.rule for problem in check(forged[:-1], small_trace).problems]
    assert cut == ["end"]


def test_a_budget_that_stops_the_run_was_reached(intervene, small_trace, plain):
    decisions = [event for event in plain if event.kind in DECISIONS]
    at = next(at for at, event in enumerate(decisions) if event.kind == "evict") + 3
    events = intervene(budgets=((at, 1),))
    count = sum(event.kind in DECISIONS for event in events)
    assert (events[-1].outcome, events[-2].budget_bytes) == ("oom", 1)
    beyond = claiming(events, f"budget {at}=1; budget {count + 1}=5")
    assert found(beyond, small_trace) == ({"intervention"}, {"intervention"})


def test_a_budget_that_is_ignored(plain, small_trace, rules, place):
    for budget in (rules["budget_bytes"] // 2, rules["budget_bytes"] * 4):
        forged = claiming(plain, f"budget {place[0]}={budget}")
        ours, any_runtime = found(forged, small_trace)
        assert "fit" in ours & any_runtime


def test_a_budget_that_is_not_owned_up_to(intervene, small_trace, rules, place):
    forged = claiming(intervene(budgets=((place[0], rules["budget_bytes"] * 4),)), None)
    ours, any_runtime = found(forged, small_trace)
    assert "fit" in ours
    assert {"fit", "budget"} <= any_runtime


def decided_late(events):
    """The index of the last eviction under pressure."""
    decisions = [event for event in events if event.kind in DECISIONS]
    return max(at for at, e in enumerate(decisions) if getattr(e, "cause", "") == "pressure")


@pytest.mark.parametrize("bound", ["interval_lo_bytes", "interval_hi_bytes"])
@pytest.mark.parametrize("by", [-1, 1])
def test_an_interval_that_is_a_byte_off(intervene, small_trace, rules, plain, bound, by):
    budget = rules["budget_bytes"] * 9 // 8
    events = intervene(budgets=((decided_late(plain), budget),))
    end = events[-1]
    checks = [e.memory_bytes + e.requested_bytes for e in events if e.kind == "fit"]
    assert end.interval_lo_bytes < max(checks)  # what a run without switches would say
    forged = [*events[:-1], attrs.evolve(end, **{bound: getattr(end, bound) + by})]
    assert found(forged, small_trace) == ({"interval"}, {"interval"})


def test_a_pin_that_is_missing(intervene, small_trace, place):
    events = intervene(pins=(place[1],))
    at = next(at for at, e in enumerate(events) if e.kind == "pin" and e.reason == "intervention")
    ours, any_runtime = found(without(events, at), small_trace)
    assert "pin" in ours & any_runtime


def test_a_pin_that_is_not_owned_up_to(intervene, small_trace, place):
    ours, any_runtime = found(claiming(intervene(pins=(place[1],)), None), small_trace)
    # Without a pin due the schedule goes on, so that is what the checker misses.
    assert ours
    assert "pin" in any_runtime


def test_a_pin_for_another_storage_or_reason(intervene, small_trace, place):
    events = intervene(pins=(place[1],))
    at = next(at for at, e in enumerate(events) if e.kind == "pin" and e.reason == "intervention")
    for changes in ({"reason": "constant"}, {"locks": 2}, {"storage": 0}):
        forged = [*events[:at], attrs.evolve(events[at], **changes), *events[at + 1 :]]
        ours, any_runtime = found(forged, small_trace)
        assert "pin" in ours & any_runtime


def test_a_kept_storage_that_is_evicted(plain, small_trace, place):
    ours, any_runtime = found(claiming(plain, f"keep {place[1]}"), small_trace)
    assert "evict" in ours & any_runtime


def test_a_kept_storage_that_is_not_owned_up_to(intervene, small_trace, place):
    ours, any_runtime = found(claiming(intervene(keeps=(place[1],)), None), small_trace)
    assert "evict" in ours & any_runtime  # the size of the pool


@pytest.mark.parametrize("text", ["pin 9999", "keep 9999", "force 3=9999", "pin 3", "size 3=5"])
def test_a_storage_that_is_not_there(plain, small_trace, text):
    assert int(small_trace.tensor_storage[3]) != 3
    assert found(claiming(plain, text), small_trace)[0] == {"header"}


@pytest.mark.parametrize("text", ["", "pin", "pin x", "repair everything", "tie-break 3", ";"])
def test_a_text_that_nobody_can_read(plain, small_trace, text):
    assert found(claiming(plain, text), small_trace) == ({"header"}, {"header"})


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("cost 3=99", "trace"),
        ("size 4=99", "trace"),
        ("costs 0.5@1", "trace"),
        ("sizes 0.5@1", "trace"),
    ],
)
def test_costs_and_sizes_that_were_not_changed(plain, small_trace, text, rule):
    assert rule in found(claiming(plain, text), small_trace)[0]


def test_costs_that_are_not_owned_up_to(intervene, small_trace):
    forged = claiming(intervene(cost_noise=Noise(0.5, 3)), None)
    assert "trace" in found(forged, small_trace)[0]
    forged = claiming(forged, "costs 0.5@4")
    assert "trace" in found(forged, small_trace)[0]


@pytest.fixture(scope="module")
def telling_runs(small_trace):
    """By repair, a trace and rules under which scores or losers differ with and without it."""
    stale = TraceBuilder("stale-region")
    for result, args, cost in (("a", [], 50), ("b", ["a"], 1), ("c", ["b"], 50), ("d", [], 50)):
        stale.call([result], "op", args, cost, [4], [-1])
    stale.call(["e"], "op", [], 50, [4], [-1])  # b goes
    stale.call(["v"], "view", ["b"], 1, [0], [0])  # b costs more, and c is asked about
    phantom = TraceBuilder("phantom-credit")
    for result, args, cost in (("a", [], 5), ("b", ["a"], 7), ("c", ["b"], 3)):
        phantom.call([result], "op", args, cost, [4], [-1])
    phantom.call(["d"], "op", [], 1, [12], [-1])  # all go
    phantom.release("d")
    phantom.call(["v"], "view", ["b"], 1, [0], [0])  # a and b are back, and b costs more
    phantom.call(["e"], "op", [], 1, [8], [-1])
    zero = TraceBuilder("zero-stops")
    for result, cost in (("a", 0), ("b", 1), ("c", 2), ("d", 3)):
        zero.call([result], "op", [], cost, [4], [-1])
    peak = baseline_peak_bytes(small_trace)
    return {
        "uncomputed-neighbour": (small_trace, "dtr", peak // 2),
        "stale-region": (stale.build("0" * 64), "estar", 16),
        "phantom-credit": (phantom.build("0" * 64), "eq", 12),
        "zero-stops": (zero.build("0" * 64), "local", 12),
    }


@pytest.mark.parametrize(
    "name", ["uncomputed-neighbour", "stale-region", "phantom-credit", "zero-stops"]
)
def test_a_repair_that_was_not_made(record_run, telling_runs, name):
    """Nor one that was made and is not owned up to."""
    trace, policy, budget = telling_runs[name]
    given = {"policy": policy, "budget_bytes": budget, "candidates": 9, "dealloc": "ignore"}
    made = Interventions(repairs=(name,))
    plain = record_run(trace, **given)
    repaired = record_run(trace, **given, interventions=made)
    assert found(repaired, trace, scores=True) == (set(), set())
    for forged in (
        claiming(plain, made),
        claiming(plain, None, semantics="repaired"),
        claiming(repaired, None),
    ):
        assert found(forged, trace)[0] == set()
        ours, any_runtime = found(forged, trace, scores=True)
        assert ours & {"score", "choice", "candidates"}
        # Of the pool's scores, a log without its trace tells only that the walk went on.
        walk_stopped = name == "zero-stops" and forged[1:] == plain[1:]
        assert any_runtime == ({"candidates"} if walk_stopped else set())


def dies_while_its_locks_are_given_back():
    """Op d(x, y) runs again after x was released: x dies on its unlock, y is next."""
    builder = TraceBuilder("live-iteration")
    builder.call(["x", "y"], "make", [], 1, [4, 2], [-1, -1])
    builder.call(["d"], "d", ["x", "y"], 3, [8], [-1])
    builder.call(["big"], "big", [], 1, [8], [-1])
    builder.release("x")
    builder.release("big")
    builder.call(["e"], "e", ["d"], 1, [1], [-1])
    return builder.build("0" * 64)


def comes_back_with_its_sibling():
    """The op that made x and y runs again for y, after x was banished."""
    builder = TraceBuilder("banished-sibling")
    builder.call(["x", "y"], "make", [], 1, [4, 2], [-1, -1])
    builder.call(["e"], "e", ["x"], 3, [3], [-1])
    builder.release("x")
    builder.call(["big"], "big", [], 1, [8], [-1])
    builder.release("big")
    return builder.build("0" * 64)


@pytest.mark.parametrize(
    ("name", "build", "budget", "rule"),
    [
        ("live-iteration", dies_while_its_locks_are_given_back, 14, "unlock"),
        ("banished-sibling", comes_back_with_its_sibling, 12, "outputs"),
    ],
)
def test_a_repair_of_banishing_that_was_not_made(record_run, name, build, budget, rule):
    trace = build()
    given = {"policy": "lru", "dealloc": "banish", "budget_bytes": budget}
    made = Interventions(repairs=(name,))
    events = record_run(trace, **given)
    repaired = record_run(trace, **given, interventions=made)
    assert found(repaired, trace, scores=True) == (set(), set())
    for forged in (claiming(events, made), claiming(repaired, None)):
        ours, any_runtime = found(forged, trace)
        assert ours & {rule, "lock"}  # where an unlock is not due, the rule is that of what is
        assert rule in any_runtime


@pytest.mark.parametrize("tie_break", ["first", "highest-id"])
def test_a_tie_break_that_was_not_made(record_run, small_trace, rules, tie_break):
    events = record_run(small_trace, **{**rules, "policy": "none"})
    ours, any_runtime = found(claiming(events, f"tie-break {tie_break}"), small_trace, scores=True)
    assert "choice" in ours
    assert "score" in any_runtime


def test_another_policy_that_did_not_choose(plain, small_trace, place):
    forged = claiming(plain, f"policy {place[0]}=size")
    assert found(forged, small_trace)[0] == set()
    found_rules = {p.rule for p in check(forged, small_trace, scores=True).problems}
    assert found_rules & {"choice", "score"}
    first = check(forged, small_trace, scores=True).problems[0].seq
    decisions = [event for event in plain if event.kind in DECISIONS]
    assert first == decisions[place[0]].seq


def test_another_policy_of_a_user_has_no_scores_to_compare(plain, small_trace, place):
    forged = claiming(plain, f"policy {place[0]}=of-a-user")
    assert found(forged, small_trace)[0] == set()
    with pytest.raises(UsageError, match="of-a-user"):
        check(forged, small_trace, scores=True)


def test_a_draw_too_few(record_run, small_trace, rules, place):
    """Where the drawn storage is forbidden, another is drawn: the generator is two steps on."""
    given = {**rules, "policy": "random", "seed": 4}
    decisions = [e for e in record_run(small_trace, **given) if e.kind in DECISIONS]
    at = next(at for at, e in enumerate(decisions) if getattr(e, "pool_size", 0) or 0 > 2)
    changes = Interventions(victims=(Victim(at, None, False),))
    events = record_run(small_trace, **given, interventions=changes)
    forged = claiming(events, f"force {at}={decisions[at].storage}")
    assert "intervention" in found(forged, small_trace)[0]
    there = [event for event in events if event.kind in DECISIONS][at]
    forged = claiming(events, f"force {at}={there.storage}")  # then nothing is drawn
    assert found(forged, small_trace)[0] == set()
    assert "choice" in found(forged, small_trace, scores=True)[0]


@pytest.mark.parametrize("drop", [0, -1])
def test_losers_of_a_forced_victim(intervene, small_trace, place, drop):
    at, _, loser = place
    events = intervene(victims=(Victim(at, loser, True),))
    evict = [event for event in events if event.kind in DECISIONS][at]
    kept = [loser for loser in evict.candidates if loser != evict.candidates[drop]]
    forged = list(events)
    forged[evict.seq] = attrs.evolve(evict, candidates=tuple(kept))
    assert found(forged, small_trace, scores=True)[0] == {"candidates"}


def test_logs_of_the_first_schema_are_accepted_as_they_were(plain, small_trace):
    old = claiming(plain, None, schema="dtrdiag.log/1.0")
    assert found(old, small_trace, scores=True) == (set(), set())
    gap = [*old[:-1], attrs.evolve(old[-1], seq=len(old))]
    assert "seq-order" in found(gap, small_trace)[0]
