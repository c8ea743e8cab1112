"""Forged logs are refused, each by the rule that it breaks.

Where an event is dropped, doubled or moved, the log is numbered anew, so that not `seq` gives it
away.
"""

import attrs
import pytest

from dtrdiag.checker import MAX_PROBLEMS, Checker, check
from dtrdiag.errors import LogError, UsageError
from dtrdiag.events import records
from dtrdiag.simulator import run as simulation
from dtrdiag.simulator.chooser import PolicyChooser
from dtrdiag.simulator.policies import policy, unregister
from dtrdiag.simulator.scoring import Choice
from dtrdiag.trace.catalog import resolve

RUN = {"policy": "dtr", "budget_bytes": 104, "overhead_limit": 10, "candidates": 3}


@pytest.fixture(scope="module")
def log(record_run, small_trace):
    """A run that finishes, with evictions under pressure and on release."""
    events = record_run(small_trace, **RUN)
    assert events[-1].outcome == "ok"
    assert events[-1].evictions_pressure >= 3
    assert events[-1].evictions_release >= 3
    return events


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("seed", -5, "header"),
        ("seed", 1 << 63, "header"),
        ("candidates", -1, "candidates"),
        ("candidates", 9_999_999_999, "candidates"),
        ("candidates", 4, "candidates"),
    ],
)
def test_a_header_that_no_run_has(log, small_trace, field, value, rule):
    forged = [attrs.evolve(log[0], **{field: value}), *log[1:]]
    assert rule in {problem.rule for problem in check(forged, small_trace).problems}


@pytest.fixture(scope="module")
def oom_log(record_run, small_trace):
    events = record_run(small_trace, **RUN | {"budget_bytes": 48})
    assert events[-1].outcome == "oom"
    return events


@pytest.fixture(scope="module")
def thrashed_log(record_run, small_trace):
    events = record_run(small_trace, **RUN | {"overhead_limit": 1.1})
    assert events[-1].outcome == "thrashed"
    return events


def find(events, kind, which=0, **fields):
    """Position of an event of a kind, with these field values; `which` counts among those."""
    found = [
        position
        for position, event in enumerate(events)
        if event.kind == kind
        and all(getattr(event, name) == value for name, value in fields.items())
    ]
    return found[which]


def with_fields(events, at, **changes):
    at %= len(events)
    return [*events[:at], attrs.evolve(events[at], **changes), *events[at + 1 :]]


def renumbered(events):
    new = {event.seq: position for position, event in reversed(list(enumerate(events)))}
    return [
        attrs.evolve(event, seq=position)
        if getattr(event, "cause_seq", None) is None
        else attrs.evolve(event, seq=position, cause_seq=new.get(event.cause_seq, event.cause_seq))
        for position, event in enumerate(events)
    ]


def rules(events, trace, scores=False):
    return [problem.rule for problem in check(events, trace, scores=scores).problems]


@pytest.mark.parametrize("bound", ["interval_lo_bytes", "interval_hi_bytes"])
@pytest.mark.parametrize("by", [-1, 1])
def test_an_interval_that_ends_one_byte_off(log, small_trace, bound, by):
    forged = with_fields(log, -1, **{bound: getattr(log[-1], bound) + by})
    (problem,) = check(forged, small_trace).problems
    assert (problem.seq, problem.rule) == (len(log) - 1, "interval")
    assert bound in problem.message


class Contrary(PolicyChooser):
    """Takes the second best once, and says its true score."""

    done = False

    def choose(self, pool, clock_ns):
        choice = super().choose(pool, clock_ns)
        if self.done or not choice.candidates or choice.candidates[0][1] == choice.score:
            return choice
        self.done = True
        (storage, score), *others = choice.candidates
        return Choice(storage, score, ((choice.storage, choice.score), *others))


def test_a_better_victim_ignored(monkeypatch, record_run, small_trace):
    with monkeypatch.context() as patch:
        patch.setattr(simulation, "PolicyChooser", Contrary)
        forged = record_run(small_trace, **RUN)
    assert rules(forged, small_trace) == []  # a possible run, only not this policy's
    (problem,) = check(forged, small_trace, scores=True).problems
    assert problem.rule == "choice"
    assert forged[problem.seq].cause == "pressure"
    best = forged[problem.seq].candidates[0][0]
    assert problem.message.endswith(f"storage is {forged[problem.seq].storage}, not {best}")


def test_the_log_of_one_policy_under_the_name_of_another(record_run, small_trace):
    events = record_run(small_trace, **RUN | {"policy": "lru"})
    forged = with_fields(events, 0, policy="size")
    assert rules(forged, small_trace) == []
    assert set(rules(forged, small_trace, scores=True)) & {"choice", "score"}


def test_swapped_scores(log, small_trace):
    first, second = (find(log, "evict", which, cause="pressure") for which in (0, 1))
    assert log[first].score != log[second].score
    forged = with_fields(log, first, score=log[second].score)
    forged = with_fields(forged, second, score=log[first].score)
    assert rules(forged, small_trace, scores=True) == ["score", "score"]


def test_swapped_losers(log, small_trace):
    at = find(log, "evict", 0, cause="pressure")
    one, two, *others = log[at].candidates
    forged = with_fields(log, at, candidates=(two, one, *others))
    assert rules(forged, small_trace, scores=True) == ["candidates"]


@pytest.mark.parametrize(
    ("kind", "changes", "rule"),
    [
        ("compute", {"clock_ns": 3}, "clock"),
        ("evict", {"clock_ns": 3}, "clock"),
        ("rematerialise", {"memory_bytes": 1}, "memory"),
        ("fit", {"memory_bytes": 1}, "memory"),
        ("fit", {"requested_bytes": 1}, "fit"),
        ("fit", {"fits": False}, "fit"),
        ("lock", {"locks": 5}, "lock"),
        ("lock", {"storage": 1}, "lock"),
        ("unlock", {"locks": 5}, "unlock"),
        ("pin", {"reason": "output"}, "pin"),
        ("op", {"cost_ns": 4}, "trace"),
        ("op", {"sizes_bytes": (9,)}, "trace"),
        ("op", {"step": 4}, "step-order"),
        ("reference", {"references": 4}, "references"),
        ("materialise", {"depth": 4}, "pending"),
        ("materialise", {"cause_seq": 0}, "cause"),
        ("rematerialise", {"cost_ns": 4}, "execute"),
        ("compute", {"resident": ()}, "outputs"),
        ("compute", {"defined": ()}, "outputs"),
        ("compute", {"freed_bytes": 3}, "outputs"),
        ("evict", {"pool_size": 77}, "evict"),
        ("evict", {"size_bytes": 77}, "evict"),
        ("evict", {"candidates": ((77, 0),)}, "candidates"),
        ("run", {"trace_ops": 3}, "trace"),
        ("run", {"baseline_cost_ns": 3}, "trace"),
        ("run", {"peak_bytes": 3}, "trace"),
        ("run", {"ratio": 0.5, "peak_bytes": 100}, "header"),
        ("end", {"remats": 1}, "counts"),
        ("end", {"distinct_evicted": 1}, "counts"),
        ("end", {"max_memory_bytes": 1}, "counts"),
        ("end", {"outcome": "oom"}, "end"),
        ("end", {"decisions_sha256": "0" * 64}, "digest"),
    ],
)
def test_a_wrong_figure_is_the_one_problem(log, small_trace, kind, changes, rule):
    forged = with_fields(log, find(log, kind), **changes)
    found = check(forged, small_trace).problems
    assert rule in {problem.rule for problem in found}
    assert len({problem.seq for problem in found}) == 1


DROPPED = ["lock", "unlock", "fit", "compute", "rematerialise", "pin", "evict", "materialise", "op"]
OWN_RULES = {
    "op": "trace",
    "materialise": "pending",
    "compute": "execute",
    "rematerialise": "execute",
}


@pytest.mark.parametrize("kind", DROPPED)
def test_a_dropped_event(log, small_trace, kind):
    at = find(log, kind)
    forged = renumbered(log[:at] + log[at + 1 :])
    found = rules(forged, small_trace)
    assert OWN_RULES.get(kind, kind) in found


@pytest.mark.parametrize("kind", [*DROPPED, "reference", "output", "end"])
def test_a_doubled_event(log, small_trace, kind):
    at = find(log, kind)
    assert rules(renumbered(log[: at + 1] + log[at:]), small_trace)


@pytest.mark.parametrize("at", range(1, 60, 3))
def test_two_neighbours_exchanged(log, small_trace, at):
    exchanged = [*log[:at], log[at + 1], log[at], *log[at + 2 :]]
    assert rules(renumbered(exchanged), small_trace)


def test_a_release_that_evicts_nothing(log, small_trace):
    at = find(log, "evict", cause="release")
    assert rules(renumbered(log[:at] + log[at + 1 :]), small_trace) == ["release"]


def test_an_out_of_memory_stop_with_something_evictable(log, small_trace):
    """A frontier that lacks a storage: the log says that nothing can be evicted."""
    at = find(log, "evict", cause="pressure")
    check_of = log[at - 1]
    fields = (check_of.seq, check_of.op, check_of.requested_bytes, check_of.memory_bytes, 104, 1)
    stop = records.OutOfMemory(at, *fields)
    end = attrs.evolve(log[-1], seq=at + 1, outcome="oom")
    (problem,) = check([*log[:at], stop, end], small_trace).problems
    assert (problem.seq, problem.rule) == (at, "oom")
    assert "one of the evictable storages" in problem.message


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"memory_bytes": 47}, "memory"),
        ({"requested_bytes": 47}, "oom"),
        ({"budget_bytes": 47}, "oom"),
        ({"depth": 47}, "oom"),
        ({"op": 99}, "oom"),
    ],
)
def test_an_out_of_memory_stop_that_does_not_add_up(oom_log, small_trace, changes, rule):
    assert rules(oom_log, small_trace) == []
    forged = with_fields(oom_log, len(oom_log) - 2, **changes)
    assert rules(forged, small_trace) == [rule]


def test_an_eviction_where_nothing_is_evictable(oom_log, small_trace):
    last = oom_log[find(oom_log, "evict", -1)]
    at = len(oom_log) - 2
    evict = attrs.evolve(last, seq=at, cause_seq=at - 1)
    assert rules([*oom_log[:at], evict], small_trace)[0] == "oom"


def test_a_victim_that_is_locked(log, small_trace):
    at = find(log, "evict", cause="pressure")
    locked = log[find(log[:at], "lock", -1)].storage
    (problem,) = check(with_fields(log, at, storage=locked), small_trace).problems
    assert (problem.seq, problem.rule) == (at, "evict")


@pytest.mark.parametrize(("limit", "rule"), [(1, "thrashed"), (1.05, "thrashed")])
def test_a_run_that_goes_on_above_its_limit(log, small_trace, limit, rule):
    assert rules(with_fields(log, 0, overhead_limit=limit), small_trace) == [rule]


def test_a_run_that_stops_below_its_limit(thrashed_log, small_trace):
    assert rules(thrashed_log, small_trace) == []
    assert rules(with_fields(thrashed_log, 0, overhead_limit=9), small_trace) == ["thrashed"]


def test_an_end_before_the_schedule_is_done(log, small_trace):
    at = find(log, "op", -1)
    forged = [*log[:at], attrs.evolve(log[-1], seq=at)]
    assert rules(forged, small_trace) == ["end"]


def test_something_after_the_end(log, small_trace):
    forged = [*log, attrs.evolve(log[-1], seq=len(log))]
    assert rules(forged, small_trace) == ["end"]


def test_another_trace(log, small_trace):
    assert rules(log, resolve("chain-64")) == ["trace"]
    with_its_name = with_fields(log, 0, trace_sha256=resolve("chain-64").sha256)
    assert rules(with_its_name, resolve("chain-64"))[0] == "trace"


def test_a_budget_outside_of_the_interval(log, small_trace):
    low, high = log[-1].interval_lo_bytes, log[-1].interval_hi_bytes
    for budget in (low, high - 1):  # this very run, at another budget
        assert rules(with_fields(log, 0, budget_bytes=budget), small_trace) == []
    for budget in (low - 1, high, None):
        assert "fit" in rules(with_fields(log, 0, budget_bytes=budget), small_trace)


def test_a_cut_log_is_checked_up_to_the_cut(log, small_trace):
    found = check(log[:50], small_trace)
    assert (found.complete, found.events) == (False, 50)
    assert [(problem.seq, problem.rule) for problem in found.problems] == [(50, "end")]
    at = find(log, "fit")
    forged = with_fields(log, at, requested_bytes=3)[:50]
    assert rules(forged, small_trace) == ["fit", "end"]


def test_a_log_that_cannot_be_read_further(log, small_trace):
    def events():
        yield from log[:50]
        raise LogError("not JSON", path="x.jsonl", line=51)

    (problem,) = check(events(), small_trace).problems
    assert (problem.seq, problem.rule) == (50, "readable")


def test_independent_problems_are_all_reported(log, small_trace):
    forged = [attrs.evolve(event, clock_ns=0) if event.kind == "evict" else event for event in log]
    found = rules(forged, small_trace)
    evictions = log[-1].evictions_pressure + log[-1].evictions_release
    assert found == ["clock"] * evictions


def test_there_is_a_limit_to_problems(small_trace, record_run):
    log = record_run(small_trace, **RUN)
    forged = [attrs.evolve(e, cause_seq=9999) if hasattr(e, "cause_seq") else e for e in log]
    assert len(check(forged, small_trace).problems) == MAX_PROBLEMS


def test_the_policy_of_a_user_has_no_scores_to_compare(record_run, small_trace):
    @policy("of-a-user")
    def score(pool):
        return pool.size_bytes

    try:
        log = record_run(small_trace, **RUN | {"policy": "of-a-user"})
    finally:
        unregister("of-a-user")
    assert rules(log, small_trace) == []
    with pytest.raises(UsageError, match="of-a-user"):
        check(log, small_trace, scores=True)


def test_events_can_be_fed_as_they_come(log, small_trace):
    checker = Checker(small_trace, scores=True)
    for event in log:
        checker.feed(event)
    checker.finish()
    assert (checker.problems, checker.complete) == ([], True)


def test_a_log_of_a_newer_minor_version_may_pass_over_events(log, small_trace):
    forged = [
        attrs.evolve(event, seq=event.seq + 1) if event.seq == len(log) - 1 else event
        for event in log
    ]
    assert rules(forged, small_trace) == ["seq-order"]
    assert rules(with_fields(forged, 0, schema="dtrdiag.log/1.2"), small_trace) == []
