"""Each intervention and each repair does what docs/interventions.md says, and nothing else."""

import attrs
import pytest

from dtrdiag.errors import PolicyError, SimulationError, UsageError
from dtrdiag.hooks import Hooks
from dtrdiag.interventions import parse_interventions
from dtrdiag.simulator import Pick, RunConfig, as_run, policy, simulate, unregister
from dtrdiag.simulator.eqclasses import EquivalenceClasses
from dtrdiag.simulator.graph import ABSENT, RESIDENT, StorageGraph
from dtrdiag.simulator.scoring import Walk, choose

DECISIONS = ("compute", "rematerialise", "evict")


@pytest.fixture(scope="module")
def fan(trace_of):
    """Storages a, b, c = 1, 2, 3 of equal score, then d = 4 from b. All but d are released."""
    return trace_of(
        ("constant", "x", 0),
        *(("call", [name], "f", ["x"], 1, [10], [-1]) for name in "abc"),
        ("call", ["d"], "f", ["b"], 1, [10], [-1]),
        *(("release", name) for name in "abc"),
    )


@pytest.fixture(scope="module", params=["python", "auto"])
def go(request, run, decisions):
    """Decisions in words, and the events, of a run with interventions."""

    def go(trace, text, policy="none", budget_bytes=20, dealloc="ignore", **rules):
        rules |= {"interventions": parse_interventions(text), "engine": request.param}
        result, events = run(
            trace, policy=policy, budget_bytes=budget_bytes, dealloc=dealloc, **rules
        )
        assert result.header.interventions == text
        return decisions(events), events

    return go


BASE = "C0 C1 C2 E2 C3 E3 R2 E1 C4"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, BASE),
        ("force 3=2", BASE),
        ("force 3=1", "C0 C1 C2 E1 C3 E3 C4"),
        ("forbid 3", "C0 C1 C2 E1 C3 E3 C4"),
        ("forbid 3=2", "C0 C1 C2 E1 C3 E3 C4"),
        ("forbid 3=1", BASE),
        ("force 5=1; forbid 7=1", None),
        ("force 5=1; force 7=3", "C0 C1 C2 E2 C3 E1 R2 E3 C4"),
        ("tie-break first", "C0 C1 C2 E1 C3 E3 C4"),
        ("tie-break lowest-id", "C0 C1 C2 E1 C3 E3 C4"),
        ("tie-break highest-id", BASE),
        ("policy 5=lru", "C0 C1 C2 E2 C3 E1 R2 E3 C4"),
        ("policy 0=lru", "C0 C1 C2 E1 C3 E3 C4"),
        ("policy 3=lru; policy 4=none", "C0 C1 C2 E1 C3 E3 C4"),
        ("budget 3=30", "C0 C1 C2 C3 E3 C4"),
        ("budget 3=30; budget 4=20", "C0 C1 C2 C3 E3 E1 C4"),
        ("budget 3=5", "C0 C1 C2 E2 E1"),
        ("pin 2", "C0 C1 C2 E1 C3 E3 C4"),
        ("keep 2", "C0 C1 C2 E1 C3 E3 C4"),
        ("pin 0; keep 0", BASE),
        ("pin 2; keep 2", "C0 C1 C2 E1 C3 E3 C4"),
        ("size 1=0", "C0 C1 C2 C3 E3 C4"),
        ("size 3=0", "C0 C1 C2 C3 E3 E1 C4"),
    ],
)
def test_decisions_worked_out_by_hand(go, fan, text, expected):
    if expected is None:
        with pytest.raises(SimulationError, match="forbid 7=1: storage 1 is not in the pool"):
            go(fan, text)
    else:
        assert go(fan, text)[0] == expected


def test_a_kept_storage_is_evicted_on_release_and_a_pinned_one_is_not(go, fan):
    assert go(fan, "keep 2", dealloc="eager")[0] == "C0 C1 C2 E1 C3 E3 C4 E2"
    assert go(fan, "pin 2", dealloc="eager")[0] == "C0 C1 C2 E1 C3 E3 C4"


def test_a_pin_is_an_event_caused_by_the_first_execution(go, fan):
    _, events = go(fan, "pin 0; pin 2")
    constant, pin, _ = (event for event in events if event.kind == "pin")
    assert (constant.storage, constant.reason) == (0, "constant")
    assert (pin.storage, pin.reason, pin.locks) == (2, "intervention", 1)
    cause = events[pin.cause_seq]
    assert (cause.kind, cause.op) == ("compute", 2)
    assert [event.kind for event in events[pin.cause_seq + 1 : pin.seq]] == ["unlock"]


def test_a_forced_eviction_says_its_true_score_and_the_best_others(go, fan):
    costs = "cost 1=30; cost 2=20; cost 3=10"
    _, events = go(fan, f"force 3=1; {costs}", "local", budget_bytes=25, candidates=5)
    victim = next(event for event in events if event.kind == "evict")
    assert (victim.storage, victim.score, victim.pool_size) == (1, 30, 2)
    assert victim.candidates == ((2, 20),)
    _, events = go(fan, f"forbid 3; {costs}", "local", budget_bytes=25, candidates=5)
    victim = next(event for event in events if event.kind == "evict")
    assert (victim.storage, victim.score, victim.pool_size) == (1, 30, 2)
    assert victim.candidates == ()


def test_checks_under_another_budget_do_not_count_for_the_interval(run, fan):
    changes = parse_interventions("budget 3=30")
    result, _ = run(fan, policy="none", budget_bytes=20, dealloc="ignore", interventions=changes)
    assert (result.end.interval_lo_bytes, result.end.interval_hi_bytes) == (20, None)


def test_an_out_of_memory_stop_names_the_budget_of_the_moment(go, fan):
    _, events = go(fan, "budget 3=5")
    (oom,) = (event for event in events if event.kind == "oom")
    assert (oom.budget_bytes, oom.memory_bytes, oom.requested_bytes) == (5, 0, 10)


def test_another_cost_moves_clock_and_baseline(run, fan):
    changes = parse_interventions("cost 2=100")
    result, _ = run(fan, policy="none", dealloc="ignore", interventions=changes)
    assert (result.header.baseline_cost_ns, result.end.clock_ns) == (103, 104)
    assert result.header.trace_sha256 == fan.sha256


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("force 2=1", SimulationError, "force 2=1: decision 2 is no eviction under pressure"),
        ("forbid 4", SimulationError, "forbid 4: decision 4 is no eviction under pressure"),
        ("force 3=4", SimulationError, "force 3=4: storage 4 is not in the pool at decision 3"),
        ("forbid 3=0", SimulationError, "forbid 3=0: storage 0 is not in the pool at decision 3"),
        ("forbid 7", SimulationError, "forbid 7: storage 1 is alone in the pool at decision 7"),
        ("forbid 9", SimulationError, "forbid 9: the run makes 9 decisions .ok., there is none"),
        ("policy 9=lru", SimulationError, "policy 9=lru: the run makes 9 decisions"),
        ("budget 9=7", SimulationError, "budget 9=7: the run makes 9 decisions"),
        ("budget 3=5; budget 6=7", SimulationError, "budget 6=7: the run makes 5 decisions .oom."),
        ("policy 3=lur", PolicyError, 'no policy "lur"'),
        ("force 3=5", UsageError, "force 3=5: the trace has no storage 5"),
        ("pin 5", UsageError, "pin 5: the trace has no storage 5"),
        ("keep 99", UsageError, "keep 99: the trace has no storage 99"),
        ("size 5=1", UsageError, "size 5=1: the trace has no storage 5"),
        ("cost 5=1", UsageError, "cost 5=1: the trace has no op 5"),
        ("cost 0=1", UsageError, "cost 0=1: op 0 is a constant"),
    ],
)
def test_what_cannot_take_place_is_an_error(go, fan, text, error, message):
    with pytest.raises(error, match=message):
        go(fan, text)


def test_the_log_of_a_run_whose_decision_never_comes_is_not_complete(fan):
    hooks, events = Hooks(), []
    hooks.subscribe(events.append)
    changes = parse_interventions("forbid 9")
    config = RunConfig("none", 20, dealloc="ignore", interventions=changes, engine="python")
    with pytest.raises(SimulationError):
        simulate(fan, config, hooks)
    assert events[-1].kind != "end"


def test_an_alias_is_no_storage(go, trace_of):
    trace = trace_of(("constant", "x", 1), ("call", ["v"], "view", ["x"], 1, [0], [0]))
    for text in ("keep 1", "size 1=4", "pin 1"):
        with pytest.raises(UsageError, match="tensor 1 is no storage, it is an alias in 0"):
            go(trace, text)


def test_random_draws_once_more_where_a_victim_is_forbidden_and_not_where_one_is_forced(go, fan):
    config = {"policy": "random", "seed": 5}
    plain, events = go(fan, None, **config)
    drawn = next(event for event in events if event.kind == "evict").storage
    other = 3 - drawn
    assert go(fan, "forbid 3", **config)[0].startswith(f"C0 C1 C2 E{other} C3")
    forced, events = go(fan, f"force 3={drawn}", **config)
    victim = next(event for event in events if event.kind == "evict")
    assert (victim.score, victim.candidates) == (None, ())
    assert forced.startswith(f"C0 C1 C2 E{drawn} C3")
    assert plain.startswith(f"C0 C1 C2 E{drawn} C3")


def test_a_policy_of_a_user_is_asked_again_without_the_forbidden(go, fan):
    seen = []

    @policy("asked")
    def first(pool):
        seen.append(list(pool.storages))
        return Pick(0) if len(seen) < 3 else -pool.storages[0] + pool.size_bytes * 0

    try:
        assert go(fan, "forbid 3", "asked")[0].startswith("C0 C1 C2 E2 C3")
        assert seen[:2] == [[1, 2], [2]]
    finally:
        unregister("asked")


@pytest.mark.parametrize(
    ("tie_break", "order"),
    [
        ("last", [2, 9, 5]),
        ("first", [5, 9, 2]),
        ("lowest-id", [2, 5, 9]),
        ("highest-id", [9, 5, 2]),
    ],
)
def test_ties_are_broken_by_place_or_by_id(tie_break, order):
    choice = choose([5, 7, 9, 2], [1.5, 3.0, 1.5, 1.5], 9, Walk(tie_break))
    assert [choice.storage, *(storage for storage, _ in choice.candidates)] == [*order, 7]


def test_zero_stops_repaired_lets_the_lowest_win():
    scores = [4, 0, 2, -3, 0]
    simrd = choose([1, 2, 3, 4, 5], scores, 9)
    assert (simrd.storage, simrd.candidates) == (2, ((1, 4),))
    repaired = choose([1, 2, 3, 4, 5], scores, 9, Walk(zero_stops=False))
    assert (repaired.storage, repaired.score) == (4, -3)
    assert repaired.candidates == ((5, 0), (2, 0), (3, 2), (1, 4))


def test_zero_stops_in_a_run(go, fan):
    free = "cost 1=0; cost 2=0"
    assert go(fan, free, "local")[0].startswith("C0 C1 C2 E1 C3")
    assert go(fan, f"repair zero-stops; {free}", "local")[0].startswith("C0 C1 C2 E2 C3")


@pytest.mark.parametrize(
    ("repairs", "first", "raised"), [((), -4, -2), (("phantom-credit",), 3, 0)]
)
def test_phantom_credit_repaired_takes_out_what_was_brought(repairs, first, raised):
    graph = StorageGraph(3, bytearray([RESIDENT, ABSENT, RESIDENT]), [3, 7, 1])
    classes = EquivalenceClasses(graph, frozenset(repairs))
    graph.connect([0], [1])
    classes.called([0], [1], [1])
    graph.residency[0] = ABSENT
    classes.evicted(0)  # joins the class of 1, which was never computed
    graph.residency[1] = RESIDENT
    classes.became_resident([1])
    assert classes.sums_ns([1]) == [7 + first]

    graph.residency[2] = ABSENT
    graph.compute_ns[2] = 7
    classes.evicted(2)
    graph.compute_ns[2] = 9  # an alias came
    node = classes.class_of[2]
    classes.became_resident([2])
    assert classes.value_ns[node] == raised


def test_an_uncomputed_neighbour_and_a_stale_region(go, trace_of):
    """At decision 8 room is made for m, wanted by c; d's evicted child e is c's other input."""
    trace = trace_of(
        ("constant", "x", 0),
        ("call", ["d"], "f", ["x"], 1, [10], [-1]),
        ("call", ["e"], "f", ["d"], 1, [10], [-1]),
        ("call", ["k"], "f", ["x"], 4, [10], [-1]),
        ("call", ["m"], "f", ["x"], 20, [10], [-1]),
        ("call", ["n"], "f", ["x"], 30, [10], [-1]),
        ("call", ["c"], "f", ["m", "e"], 100, [10], [-1]),
        *(("release", name) for name in "deknm"),
    )

    def ninth(repairs):
        text = "; ".join([*(f"repair {name}" for name in repairs), "force 4=2", "force 6=4"])
        words, events = go(trace, text, "estar", budget_bytes=30, candidates=9)
        made = [event for event in events if event.kind in DECISIONS]
        assert words.startswith("C0 C1 C2 C3 E2 C4 E4 C5")
        return dict([(made[8].storage, made[8].score), *made[8].candidates])

    assert ninth([]) == {1: 2, 3: 4, 5: 30}
    assert ninth(["stale-region"]) == {3: 4, 5: 30, 1: 102}
    assert ninth(["uncomputed-neighbour"]) == {1: 2, 3: 4, 5: 30}
    assert ninth(["uncomputed-neighbour", "stale-region"]) == {1: 2, 3: 4, 5: 30}


def test_live_iteration_repaired_unlocks_and_frees_the_input_after_a_banished_one(go, trace_of):
    trace = trace_of(
        ("constant", "x", 0),
        ("call", ["p"], "f", ["x"], 1, [10], [-1]),
        ("call", ["q"], "f", ["x"], 1, [10], [-1]),
        ("call", ["y"], "f", ["p", "q"], 1, [10], [-1]),
        ("call", ["z"], "f", ["x"], 1, [10], [-1]),
        *(("release", name) for name in "pqz"),
        ("call", ["w"], "f", ["y"], 1, [10], [-1]),
    )
    rules = {"budget_bytes": 30, "dealloc": "banish"}
    words, events = go(trace, "force 4=3", **rules)
    assert words == "C0 C1 C2 C3 E3 C4 E4 R3 E1 C5"
    assert events[-1].memory_bytes == 30
    words, events = go(trace, "repair live-iteration; force 4=3", **rules)
    assert words == "C0 C1 C2 C3 E3 C4 E4 R3 E1 E2 C5"
    assert events[-1].memory_bytes == 20


def test_banished_sibling_repaired_is_freed_at_once(go, trace_of):
    trace = trace_of(
        ("constant", "x", 0),
        ("call", ["u", "v"], "split", ["x"], 1, [10, 10], [-1, -1]),
        ("release", "u"),
        ("call", ["z"], "f", ["x"], 1, [20], [-1]),
        ("release", "z"),
        ("call", ["w"], "f", ["v"], 1, [10], [-1]),
    )
    words, events = go(trace, None, dealloc="banish")
    assert words == "C0 C1 E1 E2 C2 E3 R1 E1 C3"
    words, events = go(trace, "repair banished-sibling", dealloc="banish")
    assert words == "C0 C1 E1 E2 C2 E3 R1 C3"
    (again,) = (event for event in events if event.kind == "rematerialise")
    assert (again.defined, again.resident) == ((2,), (2,))
    assert (again.freed_bytes, again.memory_bytes) == (10, 10)


def test_the_same_changes_give_the_same_trace_and_are_made_once(fan):
    config = RunConfig(interventions=parse_interventions("keep 1; cost 2=5; sizes 0.5@3"))
    changed = as_run(fan, config)
    assert changed is not fan
    assert as_run(fan, config) is changed
    assert as_run(fan, attrs.evolve(config, policy="lru")) is changed
    assert as_run(changed, config) is changed
    assert simulate(changed, config).end == simulate(fan, config).end
    assert as_run(fan, RunConfig(interventions=parse_interventions("keep 1"))) is fan
