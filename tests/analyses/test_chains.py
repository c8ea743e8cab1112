"""Are chains, loops and costs on logs with known answers exactly those?"""

from collections import Counter
from pathlib import Path

import attrs
import networkx as nx
import pytest

from dtrdiag.analyses import chains_document, find_chains
from dtrdiag.analyses.chains import RETURNS
from dtrdiag.errors import AnalysisError, LogError
from dtrdiag.events import records as r
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import EventRecorder
from dtrdiag.interventions import Interventions
from dtrdiag.log import read_events
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace.catalog import resolve

FOREIGN = Path(__file__).parents[1] / "data" / "foreign-runtime.jsonl"
ROUNDS = 5


@pytest.fixture
def three_in_turn(toy_log):
    """Three storages of which two fit, used in turn: each time the one used longest ago goes."""
    ops = [("a", 3, (), 40), ("b", 5, (), 40), ("c", 7, (), 40)]
    ops += [("use", 1, (turn % 3,), 0) for turn in range(3 * ROUNDS)]
    return toy_log(ops, 80)


def test_a_known_loop_is_found_exactly(three_in_turn):
    found = find_chains(three_in_turn)
    # The first use of a finds that c took its place; so on in turn, till the last round's a is
    # released and leaves its place to b.
    assert found.evictions["pressure"] == 3 * ROUNDS - 1
    assert found.made_room_for == {"first": 1, "remat": 3 * ROUNDS - 2, "unknown": 0}
    (loop,) = found.loops
    assert (loop.storages, loop.names) == ((0, 1, 2), ("a", "b", "c"))
    assert loop.times == (ROUNDS, ROUNDS - 1, ROUNDS - 1)
    assert loop.turns == ROUNDS - 1
    assert loop.cost_ns == 5 * ROUNDS + (7 + 3) * (ROUNDS - 1)
    # A round: the three once more, and their three uses of 1 ns; of each an eviction, two
    # executions, and the release of the use's own output.
    assert (loop.period_ns, loop.period_decisions) == (3 + 5 + 7 + 3, 3 * 4)
    assert loop.bytes == 120
    assert (loop.first_step, loop.stop_step) == (3, 3 * ROUNDS + 1)
    (part,) = found.components
    assert (part.storages, part.edges, part.times) == (3, 3, sum(loop.times))
    assert part.cost_ns == loop.cost_ns
    assert dict(part.operators) == {"a": ROUNDS - 1, "b": ROUNDS, "c": ROUNDS - 1}


def test_the_cost_of_a_known_loop_is_split(three_in_turn):
    cost = find_chains(three_in_turn).cost
    total = 3 * ROUNDS + 5 * ROUNDS + 7 * (ROUNDS - 1)
    assert (cost.total.remats, cost.total.cost_ns) == (3 * ROUNDS - 1, total)
    assert cost.asked["first"] == cost.total
    assert cost.caused["pressure"] == cost.total
    assert cost.again.cost_ns == total - (3 + 5 + 7)
    assert cost.repeated.cost_ns == total - (3 + 5 + 7)
    assert [(name, share.cost_ns) for name, share in cost.operators] == [
        ("c", 7 * (ROUNDS - 1)),
        ("b", 5 * ROUNDS),
        ("a", 3 * ROUNDS),
    ]


def test_the_cycles_of_a_storage(three_in_turn):
    chain = next(c for c in find_chains(three_in_turn).chains if c.name == "a")
    assert chain.evictions == {"pressure": ROUNDS, "release": 1, "banish": 0}
    assert chain.returns == ROUNDS
    first, second = chain.cycles[:2]
    # c ran for the first time; later c came back.
    assert (first.for_op, first.for_remat, first.for_storage, first.for_asked_by) == (
        2,
        False,
        2,
        None,
    )
    assert (second.for_op, second.for_remat, second.for_storage, second.for_asked_by) == (
        2,
        True,
        2,
        5,
    )
    assert (first.returned, first.returned_op, first.returned_asked_by) == ("first", 0, 3)
    # C a, C b, E a, C c, E b, R a: absent from decision 2 to 5, from 3 + 5 to 3 + 5 + 7 + 3.
    assert (first.evicted_decision, first.returned_decision) == (2, 5)
    assert (first.evicted_clock_ns, first.returned_clock_ns) == (1 + 8, 1 + 8 + 7 + 3)
    assert (first.cost_ns, first.tree_cost_ns) == (3, 3)
    last = chain.cycles[-1]
    assert (last.cause, last.returned, last.returned_step) == ("release", "not", None)


def test_releases_are_no_re_evictions(toy_log, block_ops):
    found = find_chains(toy_log(block_ops, 1000))
    assert found.evictions["release"] > 0
    assert found.re_evictions == {"pressure": 0, "release": 0, "banish": 0}
    assert found.cost.total.remats == 0
    assert (found.components, found.loops, found.onset.steps) == ((), (), ())


def test_a_tree_of_rematerialisations(toy_log):
    """All of v, w and x went; x comes back by way of w, and w by way of v."""
    ops = [("v", 2, (), 10), ("w", 4, (0,), 10), ("x", 8, (1,), 10), ("big", 1, (), 40)]
    ops += [("use", 1, (2,), 0), ("late", 1, (0, 1), 0)]
    found = find_chains(toy_log(ops, 40), top=20)
    assert found.cost.asked["recursive"].cost_ns > 0
    chain = next(c for c in found.chains if c.name == "x")
    cycle = chain.cycles[0]
    assert cycle.cost_ns == 8
    assert cycle.tree_cost_ns == 2 + 4 + 8
    assert (cycle.for_op, cycle.for_remat) == (3, False)


def test_siblings_come_along(make_header):
    """`split` is executed again for its first output and brings back its second."""
    made = ((0, 1), (0, 1), (30, 10))
    events = [
        make_header(budget_bytes=40),
        r.OpDefined(1, None, 0, 0, "split", 10, (), *made),
        r.Materialise(2, 1, 0, 0, "first", None, 1),
        r.Compute(3, 2, 0, 0, 10, (0, 1), (1, 0), 0, 40, 11),
        r.OpDefined(4, None, 1, 1, "big", 1, (), (2,), (2,), (40,)),
        r.Materialise(5, 4, 1, 2, "first", None, 1),
        r.FitCheck(6, 5, 1, 40, 40, False),
        r.Evict(7, 6, 0, 30, "pressure", 1, 0.0, 2, (), 10, 11),
        r.Evict(8, 6, 1, 10, "pressure", 1, 0.0, 1, (), 0, 11),
        r.Compute(9, 5, 1, 2, 1, (2,), (2,), 0, 40, 12),
        r.ReferenceChanged(10, None, 2, 2, 2, -1, 0),
        r.Evict(11, 10, 2, 40, "release", None, None, None, (), 0, 12),
        r.OutputRequested(12, None, 3, 0, 0),
        r.Materialise(13, 12, 0, 0, "remat", None, 1),
        r.Rematerialise(14, 13, 0, 0, 10, (0, 1), (1, 0), 0, 40, 22),
    ]
    found = find_chains(events)
    assert found.outcome == "incomplete"
    assert found.agrees is None
    assert found.cost.asked["model"] == found.cost.total
    # A quarter of the bytes is the sibling's: 2.5 ns, rounded in favour of what was wanted.
    collateral = found.cost.collateral
    assert (collateral.remats, collateral.cost_ns) == (1, 2)
    assert (collateral.returned, collateral.returned_bytes, collateral.freed_bytes) == (1, 10, 0)
    assert found.returns["pressure"] == dict.fromkeys(RETURNS, 0) | {"model": 1, "collateral": 1}
    assert {chain.storage: chain.cost_ns for chain in found.chains} == {0: 10, 1: 0}


def test_a_log_of_another_runtime():
    found = find_chains(read_events(FOREIGN))
    assert found.header.runtime == "toy-runtime"
    assert found.agrees in (True, None)
    evicted = Counter(e.cause for e in read_events(FOREIGN) if e.kind == "evict")
    assert {cause: n for cause, n in found.evictions.items() if n} == evicted


def test_the_graph_names_ops_and_costs(three_in_turn):
    graph = find_chains(three_in_turn).graph
    assert isinstance(graph, nx.DiGraph)
    assert graph.nodes[1] == {
        "bytes": 40, "op": 1, "op_name": "b", "evictions": ROUNDS, "cost_ns": 5 * ROUNDS,
    }  # fmt: skip
    assert graph.edges[0, 1] == {"times": ROUNDS, "cost_ns": 5 * ROUNDS}


def test_a_false_end_is_noticed(three_in_turn):
    assert find_chains(three_in_turn).agrees is True
    false = attrs.evolve(three_in_turn[-1], evictions_pressure=1)
    assert find_chains([*three_in_turn[:-1], false]).agrees is False


def test_where_thrash_begins_and_ends():
    """A small budget lets a recurrent model evict what one step brings back, again and again."""
    trace, recorder = resolve("recurrent-16"), EventRecorder()
    hooks = Hooks()
    hooks.subscribe(recorder)
    simulate(trace, RunConfig("dtr", 38_359_635, overhead_limit=100), hooks)
    onset = find_chains(recorder.events).onset
    main = onset.spells[0]
    assert all(step.touched_bytes > 38_359_635 and step.undone for step in onset.steps)
    assert {main.first_step, main.stop_step - 1} <= {step.number for step in onset.steps}
    assert sum(spell.cost_ns for spell in onset.spells) == onset.cost_ns
    assert sum(spell.steps for spell in onset.spells) == len(onset.steps)
    free = EventRecorder()
    hooks = Hooks()
    hooks.subscribe(free)
    simulate(trace, RunConfig("dtr", None), hooks)
    assert find_chains(free.events).onset.spells == ()


def test_what_is_refused(three_in_turn):
    with pytest.raises(AnalysisError, match="top must be at least 0"):
        find_chains(three_in_turn, top=-1)
    with pytest.raises(AnalysisError, match="not with `run`"):
        find_chains(three_in_turn[1:])
    with pytest.raises(LogError, match="seq does not ascend"):
        find_chains([*three_in_turn[:5], three_in_turn[3]])
    lost = [event for event in three_in_turn if event.kind != "op" or event.op != 1]
    with pytest.raises(LogError, match=r"names .* 1, which no op event introduced"):
        find_chains(lost)
    early = [event for event in three_in_turn if event.kind != "op"]
    with pytest.raises(LogError):
        find_chains(early)
    swapped = [
        attrs.evolve(event, step=9 - event.step) if event.kind == "op" else event
        for event in three_in_turn
    ]
    with pytest.raises(LogError, match="steps of the schedule do not ascend"):
        find_chains(swapped)


def test_sums_beyond_64_bits_are_exact(toy_log):
    large = 2**62
    ops = [("a", large, (), 40), ("b", large, (), 40)]
    ops += [("use", 1, (turn % 2,), 0) for turn in range(8)]
    events = [
        attrs.evolve(event, clock_ns=0) if hasattr(event, "clock_ns") else event
        for event in toy_log(ops, 40)
    ]
    found = find_chains(events[:-1])
    remats = sum(event.kind == "rematerialise" for event in events)
    assert remats > 2
    assert found.cost.total.cost_ns == remats * large


@pytest.mark.slow
def test_the_lstm_at_0_264(public_run):
    """The counts of `goldens`, and those of a plain loop over the log."""
    events = public_run("lstm", "dtr", 0.264, limit=10)
    document = chains_document(events)
    assert document["agrees_with_end"] is True
    assert document["evictions"]["total"] == 43_292
    assert document["evictions"]["pressure"] == 38_059
    assert document["distinct_evicted"]["pressure"] == 4_339
    assert len({e.storage for e in events if e.kind == "evict"}) == 5_236
    seen, again = set(), 0
    for event in events:
        if event.kind == "evict" and event.cause == "pressure":
            again += event.storage in seen
            seen.add(event.storage)
    assert document["re_evictions"]["pressure"] == again == 38_059 - 4_339
    cost = sum(e.cost_ns for e in events if e.kind == "rematerialise")
    for split in ("asked", "caused"):
        assert sum(share["cost_ns"] for share in document["cost"][split].values()) == cost
    for split in ("operators", "positions"):
        assert sum(share["cost_ns"] for share in document["cost"][split]) == cost
    # Thrash is an affair of the end of the schedule.
    onset = document["onset"]
    assert onset["begins"] > 0.98 * 32_535
    assert onset["cost_ns"] > 0.9 * cost


def _thrashing(budget_bytes, *budgets):
    recorder, hooks = EventRecorder(), Hooks()
    hooks.subscribe(recorder)
    rules = RunConfig(
        "dtr", budget_bytes, overhead_limit=100, interventions=Interventions(budgets=budgets)
    )
    simulate(resolve("recurrent-16"), rules, hooks)
    return recorder.events


@pytest.mark.parametrize("own", [None, 10**12])
def test_thrash_is_found_with_the_budget_in_force(own):
    plain = find_chains(_thrashing(38_359_635)).onset
    assert plain.steps
    assert plain.most_touched_budget_bytes == 38_359_635
    assert find_chains(_thrashing(own, (0, 38_359_635))).onset == plain
    if own is not None:
        assert find_chains(_thrashing(38_359_635, (0, own))).onset.steps == ()
