"""Is damage to a log found, and laid to the rule that it breaks?

Each case damages a sound log in one place. Where an event is dropped, doubled or moved, the log is
numbered anew, as a runtime with that fault would have written it, so that not `seq` gives it away.
"""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from dtrdiag.log import Replay, verify

Log = list[Any]
Damage = Callable[[Log], Log]


def renumbered(events: Log) -> Log:
    new = {event.seq: position for position, event in reversed(list(enumerate(events)))}
    return [
        attrs.evolve(event, seq=position)
        if getattr(event, "cause_seq", None) is None
        else attrs.evolve(event, seq=position, cause_seq=new.get(event.cause_seq, event.cause_seq))
        for position, event in enumerate(events)
    ]


def find(events: Log, kind: str, which: int = 0, **fields: object) -> int:
    """Position of an event of a kind, with these field values; `which` counts among those."""
    found = [
        position
        for position, event in enumerate(events)
        if event.kind == kind
        and all(getattr(event, name) == value for name, value in fields.items())
    ]
    return found[which]


def changed(kind: str, change: dict[str, Any], which: int = 0, **fields: object) -> Damage:
    """Give fields another value, or add to a number: `{"size_bytes": "+1"}`."""

    def damage(events: Log) -> Log:
        at = find(events, kind, which, **fields)
        values = {
            name: getattr(events[at], name) + int(value)
            if isinstance(value, str) and value[0] in "+-"
            else value
            for name, value in change.items()
        }
        return [*events[:at], attrs.evolve(events[at], **values), *events[at + 1 :]]

    return damage


def dropped(kind: str, which: int = 0, **fields: object) -> Damage:
    def damage(events: Log) -> Log:
        at = find(events, kind, which, **fields)
        return renumbered(events[:at] + events[at + 1 :])

    return damage


def doubled(kind: str, which: int = 0, **fields: object) -> Damage:
    def damage(events: Log) -> Log:
        at = find(events, kind, which, **fields)
        return renumbered(events[: at + 1] + events[at:])

    return damage


def moved(kind: str, by: int, which: int = 0, **fields: object) -> Damage:
    def damage(events: Log) -> Log:
        at = find(events, kind, which, **fields)
        rest = events[:at] + events[at + 1 :]
        return renumbered([*rest[: at + by], events[at], *rest[at + by :]])

    return damage


def other_victim(events: Log) -> Log:
    """Evict the best loser, and say it cost less; the rest of the log believes the old victim."""
    at = find(events, "evict", 0, cause="pressure")
    loser, score = events[at].candidates[0]
    replay = Replay.at(events, at - 1)
    memory = replay.memory_bytes - replay.size_bytes[loser]
    rivals = ((events[at].storage, events[at].score), *events[at].candidates[1:])
    victim = attrs.evolve(
        events[at],
        storage=loser,
        size_bytes=replay.size_bytes[loser],
        score=score,
        candidates=rivals,
        memory_bytes=memory,
    )
    return [*events[:at], victim, *events[at + 1 :]]


def locked_victim(events: Log) -> Log:
    at = find(events, "evict", 0, cause="pressure")
    replay = Replay.at(events, at - 1)
    victim = next(iter(replay.locks))
    return changed("evict", {"storage": victim}, cause="pressure")(events)


def no_second_look(events: Log) -> Log:
    """An op is executed after an eviction without asking whether it fits now."""
    at = next(
        position
        for position, event in enumerate(events)
        if event.kind == "fit" and event.fits and events[position - 1].kind == "evict"
    )
    return renumbered(events[:at] + events[at + 1 :])


def equal_rival_won(events: Log) -> Log:
    """Two storages of the same score, and the earlier one in the pool is evicted."""
    for at, event in enumerate(events):
        if event.kind == "evict" and event.candidates and event.candidates[0][1] == event.score:
            rivals = ((event.storage, event.score), *event.candidates[1:])
            victim = attrs.evolve(event, storage=event.candidates[0][0], candidates=rivals)
            return [*events[:at], victim, *events[at + 1 :]]
    raise LookupError("no tie in this log")


def reversed_candidates(events: Log) -> Log:
    for at, event in enumerate(events):
        if event.kind == "evict" and len({score for _, score in event.candidates}) > 1:
            other = attrs.evolve(event, candidates=event.candidates[::-1])
            return [*events[:at], other, *events[at + 1 :]]
    raise LookupError("no two different losers in this log")


def remat_repeated(events: Log) -> Log:
    """A whole rematerialisation, from `materialise` to the last unlock, takes place twice."""
    at = find(events, "rematerialise", -1)
    start = next(i for i in range(at, 0, -1) if events[i].seq == events[at].cause_seq)
    stop = max(i for i, e in enumerate(events) if getattr(e, "cause_seq", None) == events[at].seq)
    return renumbered([*events[: stop + 1], *events[start:]])


def first_needed_input_gone(events: Log) -> Log:
    """An op swaps its input for one that is defined later than it."""
    at = find(events, "op", 6)
    later = events[-1].computes + 20
    return [*events[:at], attrs.evolve(events[at], inputs=(later,)), *events[at + 1 :]]


def cut(keep: int) -> Damage:
    return lambda events: events[:keep]


def header_dropped(events: Log) -> Log:
    return renumbered(events[1:])


# (name, damage to a run that ended well, rule)
EAGER: list[tuple[str, Damage, str]] = [
    ("line dropped", lambda log: log[:50] + log[51:], "seq-order"),
    ("line doubled", lambda log: log[:51] + log[50:], "seq-order"),
    ("lines swapped", lambda log: [*log[:50], log[51], log[50], *log[52:]], "seq-order"),
    ("cut", cut(300), "end"),
    ("cut by one line", cut(-1), "end"),
    ("something after the end", lambda log: renumbered([*log, log[-1]]), "end"),
    ("header dropped", header_dropped, "header-first"),
    ("header repeated", doubled("run"), "header-first"),
    ("budget lowered", changed("run", {"budget_bytes": 100}), "budget"),
    ("budget raised", changed("run", {"budget_bytes": 200}), "fit"),
    ("budget of 0", changed("run", {"budget_bytes": 0}), "header"),
    ("baseline below 0", changed("run", {"baseline_cost_ns": -1}), "header"),
    ("ratio beyond doubles", changed("run", {"ratio": 1e308, "peak_bytes": 999}), "header"),
    ("ratio of another budget", changed("run", {"ratio": 0.5, "peak_bytes": 999}), "header"),
    ("ratio below 0", changed("run", {"ratio": -0.5}), "header"),
    ("fewer ops announced", changed("run", {"trace_ops": 1}), "totals"),
    ("dealloc changed", changed("run", {"dealloc": "ignore"}), "release"),
    ("overhead limit lowered", changed("run", {"overhead_limit": 1.01}), "thrashed"),
    ("announced ops", changed("run", {"trace_ops": "+1"}), "totals"),
    ("announced cost", changed("run", {"baseline_cost_ns": "-1"}), "totals"),
    ("op id skipped", changed("op", {"op": "+1"}, -1), "op-ids"),
    ("op input unknown", first_needed_input_gone, "op-ids"),
    ("op inputs changed", changed("op", {"inputs": (0, 1)}, 3), "lock"),
    ("op size negative", changed("op", {"sizes_bytes": (-1,)}, 0), "op-ids"),
    ("op size changed", changed("op", {"sizes_bytes": (17,)}, -2), "fit"),
    ("op cost changed", changed("op", {"cost_ns": "+1"}, -2), "execute"),
    ("alias of no input", changed("op", {"storages": (0,)}, 3), "op-ids"),
    ("op dropped", dropped("op", 5), "ids"),
    ("step skipped", changed("op", {"step": "+1"}, 8), "step-order"),
    ("reference dropped", dropped("reference", 0), "step-order"),
    ("reference count", changed("reference", {"references": "+1"}, 2), "references"),
    ("reference up from 0", changed("reference", {"delta": 2}, 2), "references"),
    ("reference on another storage", changed("reference", {"storage": 0}, 2), "references"),
    ("materialise dropped", dropped("materialise", 4), "pending"),
    ("materialise for nobody", changed("materialise", {"for_op": None}, 0, depth=2), "pending"),
    ("materialise at a wrong depth", changed("materialise", {"depth": "+1"}, 3), "pending"),
    ("first called remat", changed("materialise", {"reason": "remat"}, 3), "pending"),
    ("remat of another tensor", changed("materialise", {"tensor": 0}, 0, depth=2), "pending"),
    ("executed while defined", remat_repeated, "defined-twice"),
    ("wrong cause of a remat", changed("materialise", {"cause_seq": "-1"}, 0, depth=2), "cause"),
    ("wrong cause of a lock", changed("lock", {"cause_seq": "-1"}, 9), "cause"),
    ("wrong cause of an unlock", changed("unlock", {"cause_seq": "-2"}, 9), "cause"),
    ("wrong cause of an eviction", changed("evict", {"cause_seq": "-1"}, 2), "cause"),
    (
        "wrong cause of a release",
        changed("evict", {"cause_seq": "-1"}, 2, cause="release"),
        "cause",
    ),
    ("wrong cause of a compute", changed("compute", {"cause_seq": "-1"}, 9), "cause"),
    ("cause that lies ahead", changed("fit", {"cause_seq": "+50"}, 9), "cause"),
    ("lock dropped", dropped("lock", 12), "fit"),
    ("lock doubled", doubled("lock", 12), "lock"),
    ("lock count", changed("lock", {"locks": "+1"}, 12), "lock"),
    ("lock on another storage", changed("lock", {"storage": 0}, 12), "lock"),
    ("lock by another op", changed("lock", {"op": 1}, 12), "lock"),
    ("lock before its input is back", moved("lock", -12, 40), "lock"),
    ("unlock dropped", dropped("unlock", 12), "unlock"),
    ("unlock doubled", doubled("unlock", 12), "unlock"),
    ("unlock count", changed("unlock", {"locks": "+1"}, 12), "unlock"),
    ("unlock by another op", changed("unlock", {"op": 1}, 12), "unlock"),
    ("unlocks in another order", moved("unlock", 1, 3), "unlock"),
    ("fit dropped", dropped("fit", 9), "execute"),
    ("failed fit dropped", dropped("fit", 0, fits=False), "evict"),
    ("check after an eviction dropped", no_second_look, "fit"),
    ("fit doubled", doubled("fit", 9), "fit"),
    ("fit's memory", changed("fit", {"memory_bytes": "+1"}, 9), "memory"),
    ("fit's request", changed("fit", {"requested_bytes": "+1"}, 9), "fit"),
    ("fit answered wrongly", changed("fit", {"fits": True}, 0, fits=False), "fit"),
    ("fit of another op", changed("fit", {"op": 1}, 9), "fit"),
    ("eviction dropped", dropped("evict", 0, cause="pressure"), "fit"),
    ("eviction doubled", doubled("evict", 0, cause="pressure"), "evict"),
    ("eviction moved", moved("evict", -6, 3, cause="pressure"), "evict"),
    ("eviction's size", changed("evict", {"size_bytes": "+1"}), "evict"),
    ("eviction's memory", changed("evict", {"memory_bytes": "+1"}), "memory"),
    ("eviction's clock", changed("evict", {"clock_ns": "+1"}), "clock"),
    ("eviction's pool", changed("evict", {"pool_size": "+1"}), "evict"),
    ("eviction for another op", changed("evict", {"op": 1}), "evict"),
    ("wrong victim", other_victim, "score"),
    ("locked victim", locked_victim, "evict"),
    ("victim not in memory", changed("evict", {"storage": 35}), "evict"),
    ("victim's score", changed("evict", {"score": 1e9}, 1), "score"),
    ("candidates in another order", reversed_candidates, "candidates"),
    ("candidates missing", changed("evict", {"candidates": ()}, 1), "candidates"),
    ("candidate out of the pool", changed("evict", {"candidates": ((0, 9.0),)}, 1), "candidates"),
    ("release without eviction", dropped("evict", 3, cause="release"), "release"),
    ("release evicts another", changed("evict", {"storage": 2}, 3, cause="release"), "release"),
    (
        "release called pressure",
        changed("evict", {"cause": "pressure"}, 0, cause="release"),
        "evict",
    ),
    ("compute dropped", dropped("compute", 9), "fit"),
    ("compute doubled", doubled("compute", 9), "execute"),
    ("compute before its check", moved("compute", -1, 9), "execute"),
    ("compute of another tensor", changed("compute", {"tensor": "+1"}, 5), "execute"),
    ("compute's memory", changed("compute", {"memory_bytes": "+1"}, 9), "memory"),
    ("compute's clock", changed("compute", {"clock_ns": "+1"}, 9), "clock"),
    ("compute's cost", changed("compute", {"cost_ns": "+1"}, 9), "execute"),
    ("remat's cost", changed("rematerialise", {"cost_ns": "+1"}, 3), "execute"),
    ("remat's memory", changed("rematerialise", {"memory_bytes": "+1"}, 3), "memory"),
    ("remat defines nothing", changed("rematerialise", {"defined": ()}, 3), "outputs"),
    ("remat brings nothing back", changed("rematerialise", {"resident": ()}, 0), "outputs"),
    ("remat frees too much", changed("rematerialise", {"freed_bytes": "+1"}, 3), "outputs"),
    ("constant's pin dropped", dropped("pin", 1, reason="constant"), "pin"),
    ("output's pin dropped", dropped("pin", 4, reason="output"), "pin"),
    ("pin doubled", doubled("pin", 4, reason="output"), "pin"),
    ("pin's reason", changed("pin", {"reason": "banish"}, 4, reason="output"), "banish"),
    ("pin's locks", changed("pin", {"locks": "+1"}, 4), "pin"),
    ("wrong cause of a pin", changed("pin", {"cause_seq": "-1"}, 4), "cause"),
    ("end's outcome", changed("end", {"outcome": "oom"}), "end"),
    ("end's computes", changed("end", {"computes": "+1"}), "counts"),
    ("end's remats", changed("end", {"remats": "-1"}), "counts"),
    ("end's remat cost", changed("end", {"remat_cost_ns": "+1"}), "counts"),
    ("end's evictions", changed("end", {"evictions_pressure": "+1"}), "counts"),
    ("end's distinct storages", changed("end", {"distinct_evicted": "+1"}), "counts"),
    ("end's releases", changed("end", {"distinct_release": "+1"}), "counts"),
    ("end's peak", changed("end", {"max_memory_bytes": "+1"}), "memory"),
    ("end's memory", changed("end", {"memory_bytes": "+1"}), "memory"),
    ("end's clock", changed("end", {"clock_ns": "+1"}), "clock"),
    ("interval's low bound", changed("end", {"interval_lo_bytes": "-1"}), "interval"),
    ("interval's high bound", changed("end", {"interval_hi_bytes": None}), "interval"),
    ("digest", changed("end", {"decisions_sha256": "0" * 64}), "digest"),
]

BANISH: list[tuple[str, Damage, str]] = [
    ("banishment dropped", dropped("banish", 3), "banish"),
    ("banish eviction dropped", dropped("evict", 3, cause="banish"), "banish"),
    (
        "both dropped",
        lambda log: dropped("banish")(dropped("evict", cause="banish")(log)),
        "banish",
    ),
    ("banished twice", doubled("banish", 3), "banish"),
    ("banishment of another", changed("banish", {"storage": 0}, 3), "banish"),
    ("wrong cause of a banishment", changed("banish", {"cause_seq": "-1"}, 3), "cause"),
    ("dependent not pinned", dropped("pin", 2, reason="banish"), "banish"),
    ("another one pinned", changed("pin", {"storage": 0}, 2, reason="banish"), "banish"),
    (
        "banishment called release",
        changed("evict", {"cause": "release"}, 0, cause="banish"),
        "release",
    ),
]

OOM: list[tuple[str, Damage, str]] = [
    ("stop dropped", dropped("oom"), "fit"),
    ("stop's request", changed("oom", {"requested_bytes": "+1"}), "oom"),
    ("stop's memory", changed("oom", {"memory_bytes": "+1"}), "memory"),
    ("stop's budget", changed("oom", {"budget_bytes": "+1"}), "oom"),
    ("stop's depth", changed("oom", {"depth": "-1"}), "oom"),
    ("stop's op", changed("oom", {"op": 0}), "oom"),
    ("stop called ok", changed("end", {"outcome": "ok"}), "end"),
    ("no failed check", dropped("fit", -1), "oom"),
]

THRASHED: list[tuple[str, Damage, str]] = [
    ("stop dropped", dropped("thrashed"), "thrashed"),
    ("stop's cost", changed("thrashed", {"remat_cost_ns": "+1"}), "thrashed"),
    ("stop's limit", changed("thrashed", {"limit_ns": "+1"}), "thrashed"),
    ("limit not reached", changed("run", {"overhead_limit": 9}), "thrashed"),
    ("wrong cause", changed("thrashed", {"cause_seq": "-1"}), "cause"),
]

RUNS: dict[str, dict[str, Any]] = {
    "eager": {"policy": "dtr", "budget_bytes": 150},
    "banish": {"policy": "dtr", "budget_bytes": 150, "dealloc": "banish"},
    "oom": {"policy": "lru", "budget_bytes": 150},
    "thrashed": {"policy": "lru", "budget_bytes": 150, "overhead_limit": 1.25},
}
CASES = [
    pytest.param(run, damage, rule, id=f"{run}: {name}")
    for run, cases in (("eager", EAGER), ("banish", BANISH), ("oom", OOM), ("thrashed", THRASHED))
    for name, damage, rule in cases
]


@pytest.fixture(scope="module")
def sound_logs(busy_trace, record_run) -> dict[str, Log]:
    logs = {name: record_run(busy_trace, **run, candidates=3) for name, run in RUNS.items()}
    assert all(verify(log).ok for log in logs.values())
    return logs


@pytest.mark.parametrize(("run", "damage", "rule"), CASES)
def test_damage_is_laid_to_the_rule_that_it_breaks(sound_logs, run, damage, rule):
    damaged = damage(sound_logs[run])
    assert damaged != sound_logs[run]
    problems = verify(damaged).problems
    assert rule in {problem.rule for problem in problems}


@pytest.mark.parametrize(
    ("damage", "rule", "kind", "which"),
    [
        (changed("fit", {"memory_bytes": "+1"}, 9), "memory", "fit", 9),
        (changed("evict", {"pool_size": "+1"}, 2), "evict", "evict", 2),
        (changed("compute", {"clock_ns": "+1"}, 9), "clock", "compute", 9),
        (changed("lock", {"locks": "+1"}, 12), "lock", "lock", 12),
        (changed("end", {"decisions_sha256": "0" * 64}), "digest", "end", 0),
        (changed("materialise", {"depth": "+1"}, 3), "pending", "materialise", 3),
    ],
    ids=["fit", "evict", "compute", "lock", "end", "materialise"],
)
def test_a_wrong_figure_is_the_only_problem_and_is_found_where_it_stands(
    sound_logs, damage, rule, kind, which
):
    log = sound_logs["eager"]
    problems = verify(damage(log)).problems
    # A fit check also bounds the interval that the end event gives.
    here = [(p.seq, p.rule) for p in problems if p.rule != "interval"]
    assert here == [(find(log, kind, which), rule)]


def test_the_earlier_of_two_equal_storages_must_not_be_evicted(busy_trace, record_run):
    log = record_run(busy_trace, policy="size", budget_bytes=150, candidates=3)
    assert "score" in {problem.rule for problem in verify(equal_rival_won(log)).problems}
