"""Do the chains of random runs equal those of a slow analyser, written another way?"""

import math
from collections import Counter, defaultdict
from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtrdiag.analyses import chains_document, find_chains
from dtrdiag.analyses.onset import NEAR
from dtrdiag.errors import DtrdiagError
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import EventRecorder, ParquetWriter
from dtrdiag.log import open_log
from dtrdiag.log import parquet as reader_module
from dtrdiag.simulator import RunConfig, simulate

SETTINGS = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Naive:
    """Follows a log one event at a time and keeps everything."""

    def __init__(self, events):
        self.ops, self.tensor_op, self.storage_of, self.size = {}, {}, {}, {}
        self.stack, self.step, self.steps = [], None, []
        self.evicted, self.last, self.present = [], {}, {}
        self.remats, self.decision = [], 0
        self.held = set()
        self.pinned_since, self.dropped = {}, {}
        for event in events:
            getattr(self, f"on_{event.kind}", lambda event: None)(event)

    def begin(self, event, what):
        self.step = {"number": event.step, "what": what, "held": 0, "touched": set(), "undone": 0}
        self.step |= {"cost": 0, "remats": 0, "depth": 0}
        self.steps.append(self.step)

    def on_op(self, event):
        self.ops[event.op] = event
        for tensor, storage, size in zip(
            event.outputs, event.storages, event.sizes_bytes, strict=True
        ):
            self.tensor_op[tensor], self.storage_of[tensor] = event.op, storage
            if tensor == storage:
                self.size[storage] = size
        self.begin(event, event.name)

    def on_output(self, event):
        self.begin(event, "output")

    def on_reference(self, event):
        self.begin(event, "reference")

    def on_materialise(self, event):
        parent = self.stack[-1] if self.stack else None
        who = "model" if event.for_op is None else "first"
        if parent is not None:
            who = {"first": "first", "remat": "recursive"}[parent["reason"]]
        frame = {"op": event.op, "reason": event.reason, "who": who, "spent": 0}
        frame["wanted"] = self.storage_of[event.tensor]
        self.stack.append(frame)
        self.step["depth"] = max(self.step["depth"], len(self.stack))

    def on_lock(self, event):
        self.step["touched"].add(event.storage)
        self.change(event)

    def change(self, event):
        (self.held.add if event.locks else self.held.discard)(event.storage)

    on_unlock = change

    def on_pin(self, event):
        self.pinned_since.setdefault(event.storage, len(self.steps) - 1)
        self.change(event)

    def on_banish(self, event):
        self.dropped[event.storage] = len(self.steps) - 1
        self.held.discard(event.storage)

    def on_fit(self, event):
        held = sum(self.size[storage] for storage in self.held)
        self.step["held"] = max(self.step["held"], held + event.requested_bytes)

    def on_evict(self, event):
        entry = {"storage": event.storage, "cause": event.cause, "back": "not", "cost": 0}
        entry |= {"at": self.decision, "clock": event.clock_ns, "step": self.step["number"]}
        entry["by"] = None
        self.decision += 1
        if event.cause == "pressure":
            frame = self.stack[-1]
            assert frame["op"] == event.op
            entry["by"] = frame["wanted"] if frame["reason"] == "remat" else "first"
            origin = self.present.get(event.storage)
            self.step["undone"] += origin == ("remat", len(self.steps))
        if event.cause == "banish":
            self.on_banish(event)
        entry["nth"] = 1 + sum(
            (e["storage"], e["cause"]) == (event.storage, event.cause) for e in self.evicted
        )
        self.present.pop(event.storage, None)
        self.evicted.append(entry)
        self.last[event.storage] = entry

    def on_compute(self, event):
        self.executed(event, "first")

    def on_rematerialise(self, event):
        self.executed(event, "remat")

    def executed(self, event, reason):
        frame = self.stack.pop()
        assert (frame["op"], frame["reason"]) == (event.op, reason)
        for storage in event.resident:
            how = frame["who"] if storage == frame["wanted"] else "collateral"
            if storage in self.last and self.last[storage]["back"] == "not":
                self.last[storage] |= {"back": how, "back_at": self.decision}
            self.present[storage] = (reason, len(self.steps))
            self.step["touched"].add(storage)
        self.decision += 1
        if reason == "remat":
            origin = self.last.get(frame["wanted"])
            if origin is not None:
                origin["cost"] += event.cost_ns
            op = self.ops[event.op]
            own = dict(zip(op.outputs, op.sizes_bytes, strict=True))[event.tensor]
            total = sum(op.sizes_bytes)
            self.remats.append({
                "op": event.op, "cost": event.cost_ns, "who": frame["who"], "name": op.name,
                "cause": "never" if origin is None else origin["cause"],
                "again": origin is not None and (origin["cause"], origin["nth"] > 1)
                == ("pressure", True),
                "collateral": math.floor(event.cost_ns * (total - own) // total) if total else 0,
                "repeated": any(r["op"] == event.op for r in self.remats),
                "step": self.step["number"],
            })  # fmt: skip
            self.step["cost"] += event.cost_ns
            self.step["remats"] += 1

    def sums(self, key):
        sums = Counter()
        for remat in self.remats:
            sums[remat[key]] += remat["cost"]
        return +sums

    def edges(self):
        times, cost = Counter(), Counter()
        for entry in self.evicted:
            if entry["cause"] == "pressure" and entry["by"] != "first":
                times[entry["by"], entry["storage"]] += 1
                cost[entry["by"], entry["storage"]] += entry["cost"]
        return times, cost

    def touched(self, at):
        touched = set(self.steps[at]["touched"])
        for storage, since in self.pinned_since.items():
            until = self.dropped.get(storage, math.inf)
            if since <= at and (at <= until or until < since):
                touched.add(storage)
        return sum(self.size[storage] for storage in touched)


def recorded(data, trace):
    dealloc = data.draw(st.sampled_from(["eager", "ignore", "banish"]))
    most = simulate(trace, RunConfig("lru", None, dealloc=dealloc)).end.max_memory_bytes
    config = RunConfig(
        data.draw(st.sampled_from(["dtr", "lru", "size", "dtr-eq", "msps"])),
        max(1, int(most * data.draw(st.floats(0.05, 1)))),
        dealloc=dealloc,
        overhead_limit=data.draw(st.sampled_from([2, 30])),
    )
    hooks, recorder = Hooks(), EventRecorder()
    hooks.subscribe(recorder)
    simulate(trace, config, hooks)
    events = recorder.events
    return events[: data.draw(st.sampled_from([len(events), len(events), len(events) - 1, 25]))]


def check_counts(naive, document):
    pairs = [(entry["cause"], entry["storage"]) for entry in naive.evicted]
    for cause in ("pressure", "release", "banish"):
        victims = [storage for why, storage in pairs if why == cause]
        assert document["evictions"][cause] == len(victims)
        assert document["distinct_evicted"][cause] == len(set(victims))
        again = [e for e in naive.evicted if e["cause"] == cause and e["nth"] > 1]
        assert document["re_evictions"][cause] == len(again)
        back = Counter(e["back"] for e in naive.evicted if e["cause"] == cause)
        assert {how: n for how, n in document["returns"][cause].items() if n} == back
    rooms = [entry for entry in naive.evicted if entry["cause"] == "pressure"]
    assert document["made_room_for"]["first"] == sum(e["by"] == "first" for e in rooms)
    assert document["made_room_for"]["unknown"] == 0


def check_cost(naive, document):
    cost = document["cost"]
    total = sum(remat["cost"] for remat in naive.remats)
    assert (document["remats"], document["remat_cost_ns"]) == (len(naive.remats), total)

    def costs(shares):
        return {name: share["cost_ns"] for name, share in shares.items() if share["cost_ns"]}

    assert costs(cost["asked"]) == naive.sums("who")
    assert costs(cost["caused"]) == naive.sums("cause")
    operators = {share["name"]: share for share in cost["operators"]}
    assert costs(operators) == naive.sums("name")
    assert cost["again"]["cost_ns"] == naive.sums("again").get(True, 0)
    assert cost["repeated"]["cost_ns"] == naive.sums("repeated").get(True, 0)
    assert cost["collateral"]["cost_ns"] == sum(remat["collateral"] for remat in naive.remats)
    for part in cost["positions"]:
        lo, hi = part["steps"]
        inside = [remat["cost"] for remat in naive.remats if lo <= remat["step"] < hi]
        assert (part["cost_ns"], part["remats"]) == (sum(inside), len(inside))
    assert sum(part["remats"] for part in cost["positions"]) == len(naive.remats)
    by_step = defaultdict(int)
    for remat in naive.remats:
        by_step[remat["step"]] += remat["cost"]
    dearest = sorted((n for n in by_step.values() if n), reverse=True)
    assert [step["cost_ns"] for step in document["dearest_steps"]] == dearest[:99]


def check_chains(naive, document):
    for chain in document["chains"]:
        own = [entry for entry in naive.evicted if entry["storage"] == chain["storage"]]
        assert chain["cost_ns"] == sum(entry["cost"] for entry in own)
        assert chain["returns"] == sum(entry["back"] != "not" for entry in own)
        assert [
            (c["cause"], c["returned"], c["cost_ns"], c["evicted_decision"], c["evicted_clock_ns"])
            for c in chain["cycles"]
        ] == [(e["cause"], e["back"], e["cost"], e["at"], e["clock"]) for e in own]
        assert [c["returned_decision"] for c in chain["cycles"]] == [e.get("back_at") for e in own]
        assert [c["for_storage"] for c in chain["cycles"] if c["for_remat"]] == [
            e["by"] for e in own if e["cause"] == "pressure" and e["by"] != "first"
        ]
    some = {e["storage"] for e in naive.evicted if e["cause"] == "pressure" or "back_at" in e}
    assert len(document["chains"]) == min(99, len(some))


def check_onset(naive, document, budget):
    hot = [
        (at, step)
        for at, step in enumerate(naive.steps)
        if step["undone"] and (budget is None or naive.touched(at) > budget)
    ]
    onset = document["onset"]
    assert [step["number"] for step in onset["steps"]] == [step["number"] for _, step in hot]
    for found, (at, step) in zip(onset["steps"], hot, strict=True):
        assert found["touched_bytes"] == naive.touched(at)
        assert found["held_bytes"] == step["held"]
        assert (found["undone"], found["depth"]) == (step["undone"], step["depth"])
        assert (found["cost_ns"], found["remats"]) == (step["cost"], step["remats"])
    if naive.steps:
        assert onset["most_held_bytes"] == max(step["held"] for step in naive.steps)
        most = max(naive.touched(at) for at in range(len(naive.steps)))
        assert onset["most_touched_bytes"] == most
        near = -(-(naive.steps[-1]["number"] + 1 - naive.steps[0]["number"]) // NEAR)
        for spell in onset["spells"]:
            inside = [
                step["number"]
                for _, step in hot
                if spell["first_step"] <= step["number"] < spell["stop_step"]
            ]
            assert len(inside) == spell["steps"]
            assert (inside[0], inside[-1] + 1) == (spell["first_step"], spell["stop_step"])
            assert all(b - a <= near for a, b in pairwise(inside))
        assert sum(spell["steps"] for spell in onset["spells"]) == len(hot)


def check_loops(naive, chains):
    times, cost = naive.edges()
    graph = chains.graph
    assert {(a, b): d["times"] for a, b, d in graph.edges(data=True)} == times
    assert {(a, b): d["cost_ns"] for a, b, d in graph.edges(data=True)} == dict.fromkeys(
        times, 0
    ) | dict(cost)
    parts = sorted(
        len(nodes)
        for nodes in nx.strongly_connected_components(graph)
        if len(nodes) > 1 or graph.has_edge(*(2 * tuple(nodes)))
    )
    assert sorted(part.storages for part in chains.components) == parts
    left = graph.copy()
    loops = sorted(chains.loops, key=lambda loop: -loop.turns)
    for loop in loops:
        edges = list(zip(loop.storages, (*loop.storages[1:], loop.storages[0]), strict=True))
        assert loop.times == tuple(times[edge] for edge in edges)
        assert loop.turns == min(loop.times)
        assert loop.cost_ns == sum(cost[edge] for edge in edges)
        assert len(set(loop.storages)) == len(loop.storages)
        assert all(left.has_edge(*edge) for edge in edges)  # no two loops share one
        left.remove_edges_from(edges)
    assert nx.is_directed_acyclic_graph(left)
    if graph.number_of_edges() < 40 and loops:
        widths = [
            min(times[edge] for edge in zip(nodes, (*nodes[1:], nodes[0]), strict=True))
            for nodes in nx.simple_cycles(graph)
        ]
        assert loops[0].turns == max(widths)


@SETTINGS
@given(data=st.data())
def test_random_runs(tmp_path, data, random_traces):
    try:
        events = recorded(data, data.draw(random_traces))
    except DtrdiagError:  # the trace asks for what this dealloc does not define
        return
    naive, document = Naive(events), chains_document(events, top=99)
    check_counts(naive, document)
    check_cost(naive, document)
    check_chains(naive, document)
    check_onset(naive, document, events[0].budget_bytes)
    check_loops(naive, find_chains(events, top=10_000))
    if events[-1].kind == "end":
        assert document["agrees_with_end"] is True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader_module, "BATCH", data.draw(st.sampled_from([5, 40, 1 << 18])))
        path = tmp_path / "run.parquet"
        with ParquetWriter(path, force=True) as writer:
            for event in events:
                writer(event)
        assert chains_document(open_log(path), top=99) == document


@SETTINGS
@given(data=st.data())
def test_toy_runs_that_thrash(data, toy_log):
    """Chains of small ops with skips in a tight budget: loops are common here."""
    count = data.draw(st.integers(4, 14))
    ops = []
    for op in range(count):
        back = st.lists(st.integers(max(0, op - 5), op - 1), max_size=2, unique=True)
        inputs = tuple(data.draw(back)) if op else ()
        ops.append((f"f{op % 3}", data.draw(st.integers(1, 9)), inputs, 10))
    ops += [("use", 1, (data.draw(st.integers(0, count - 1)),), 0) for _ in range(12)]
    events = toy_log(ops, data.draw(st.sampled_from([30, 40, 50])), data.draw(st.integers(0, 2)))
    naive, document = Naive(events), chains_document(events, top=99)
    check_counts(naive, document)
    check_cost(naive, document)
    check_chains(naive, document)
    check_onset(naive, document, events[0].budget_bytes)
    check_loops(naive, find_chains(events, top=10_000))
    assert document["agrees_with_end"] is True
