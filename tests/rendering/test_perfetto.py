"""Does a timeline, read back by the messages of Perfetto's package, say what the run says?"""

# mypy: no-check-untyped-defs

import io
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from dtrdiag.analyses import summarise
from dtrdiag.errors import AnalysisError, OutputError, UsageError
from dtrdiag.events.records import Evict, Materialise, RunHeader
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import EventRecorder
from dtrdiag.interventions import parse_interventions
from dtrdiag.rendering import trackevents
from dtrdiag.rendering.perfetto import (
    BUDGET,
    EVICTIONS,
    MEMORY,
    MODEL,
    REMAT,
    STATES,
    STOP,
    write_timeline,
)
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, budget_from_ratio, simulate
from dtrdiag.trace.catalog import resolve


@attrs.define
class Slice:
    track: str
    name: str
    begin_ns: int
    args: dict[str, Any]
    parent: "Slice | None"
    end_ns: int | None = None
    children: list[Any] = attrs.field(factory=list)
    flows_out: list[int] = attrs.field(factory=list)
    flows_in: list[int] = attrs.field(factory=list)

    @property
    def duration_ns(self):
        return self.end_ns - self.begin_ns


@attrs.define
class Instant:
    track: str
    name: str
    at_ns: int
    args: dict[str, Any]


class Reading:
    """What a file holds, by the messages of the package alone.

    A slice that is never ended, or ended and never begun, is an error.
    """

    def __init__(self, content):
        trace = Trace()
        trace.ParseFromString(content)
        self.tracks, self.parents, self.descriptors = {}, {}, {}
        self.slices, self.instants, self.counters = [], [], {}
        self.times = []
        self._open = {}
        self._interned = {"names": {}, "arguments": {}, "categories": {}}
        for position, packet in enumerate(trace.packet):
            assert packet.trusted_packet_sequence_id == 1
            assert packet.sequence_flags == (1 if position == 0 else 2)
            self._read(packet)
        assert not any(self._open.values()), "a slice is never ended"

    def on(self, track):
        """The slices of a track, and of those on which it goes on."""
        return [slice for slice in self.slices if slice.track.startswith(track)]

    def _read(self, packet):
        for kind, entries in (
            ("names", packet.interned_data.event_names),
            ("arguments", packet.interned_data.debug_annotation_names),
            ("categories", packet.interned_data.event_categories),
        ):
            self._interned[kind].update((entry.iid, entry.name) for entry in entries)
        if packet.HasField("track_descriptor"):
            told = packet.track_descriptor
            assert told.uuid not in self.tracks
            self.tracks[told.uuid], self.descriptors[told.name] = told.name, told
        else:
            self._event(packet.timestamp, packet.track_event)

    def _event(self, at_ns, event):
        self.times.append(at_ns)
        track = self.tracks[event.track_uuid]
        args = dict(map(self._argument, event.debug_annotations))
        stack = self._open.setdefault(track.partition(",")[0], [])
        if event.type == TrackEvent.TYPE_COUNTER:
            self.counters.setdefault(track, []).append((at_ns, event.counter_value))
            return
        if event.type == TrackEvent.TYPE_SLICE_END:
            ended = stack.pop()
            assert ended.track == track
            ended.end_ns = at_ns
            ended.args.update(args)
            ended.flows_in.extend(event.terminating_flow_ids)
            return
        name = self._interned["names"][event.name_iid]
        assert [self._interned["categories"][iid] for iid in event.category_iids]
        if event.type == TrackEvent.TYPE_INSTANT:
            self.instants.append(Instant(track, name, at_ns, args))
            return
        assert event.type == TrackEvent.TYPE_SLICE_BEGIN
        parent = stack[-1] if stack else None
        made = Slice(track, name, at_ns, args, parent, flows_out=list(event.flow_ids))
        if parent is not None:
            parent.children.append(made)
        stack.append(made)
        self.slices.append(made)

    def _argument(self, note):
        return self._interned["arguments"][note.name_iid], getattr(note, note.WhichOneof("value"))


RUNS = {
    "finishes": ("recurrent-16", "dtr", 0.5, {}),
    "no room": ("recurrent-16", "dtr", 0.3, {}),
    "stopped": ("recurrent-16", "lru", 0.45, {"overhead_limit": 1.05}),
    "banish": ("residual-12", "dtr", 0.7, {"dealloc": "banish"}),
    "no release": ("tree-4", "dtr-local", 0.8, {"dealloc": "ignore"}),
    "no budget": ("chain-64", "dtr", None, {}),
}


def events_of_run(trace, policy, ratio, changes):
    trace = resolve(trace)
    budget = None if ratio is None else budget_from_ratio(baseline_peak_bytes(trace), ratio)
    hooks, recorder = Hooks(), EventRecorder()
    hooks.subscribe(recorder)
    simulate(trace, RunConfig(policy, budget, **changes), hooks)
    return recorder.events


def timeline(events):
    stream = io.BytesIO()
    made = write_timeline(events, stream)
    return made, stream.getvalue()


@pytest.fixture(scope="module", params=[*RUNS, pytest.param("lstm", marks=pytest.mark.slow)])
def drawn(request):
    """Events of a run, and what a reader finds in its timeline."""
    if request.param == "lstm":
        # A public trace: 94,608 decisions, rematerialisations 892 levels deep.
        request.getfixturevalue("traces_archive")
    events = events_of_run(*RUNS.get(request.param, (request.param, "dtr", 0.264, {})))
    made, content = timeline(events)
    return events, made, Reading(content)


def executed(slices):
    return [slice for slice in slices if slice.args["executed"]]


def test_slices_are_the_executions_of_the_run(drawn):
    events, made, read = drawn
    run = summarise(events)
    assert len(executed(read.on(MODEL))) == run.computes == made.computes
    assert len(executed(read.on(REMAT))) == run.remats == made.remats
    pending = [slice for slice in read.slices if not slice.args["executed"]]
    assert len(pending) == made.unfinished
    assert sum(isinstance(event, Materialise) for event in events) == len(read.slices)
    assert {slice.track.partition(",")[0] for slice in read.slices} <= {MODEL, REMAT}


def test_instants_are_its_evictions_and_its_stop(drawn):
    events, made, read = drawn
    run = summarise(events)
    found = Counter(i.args["cause"] for i in read.instants if i.track == EVICTIONS)
    assert found == made.evictions
    assert found["pressure"] == run.evictions.pressure
    assert found["release"] == run.evictions.release
    assert found["banish"] == run.evictions.banish
    first, *stops = (instant for instant in read.instants if instant.track == STOP)
    assert first.args["trace"] == run.header.trace_name
    names = {"ok": [], "oom": ["out of memory"], "thrashed": ["overhead limit"]}
    assert [stop.name for stop in stops] == names[run.outcome]


def test_slices_nest_and_their_own_costs_add_up_to_the_cost_of_the_run(drawn):
    events, _, read = drawn
    run = summarise(events)
    own = Counter()
    for slice in read.slices:
        inside = sum(child.duration_ns for child in slice.children)
        assert all(slice.begin_ns <= child.begin_ns for child in slice.children)
        assert all(child.end_ns <= slice.end_ns for child in slice.children)
        if slice.track.startswith(REMAT):
            own[REMAT] += slice.duration_ns - inside
        cost_ns = slice.args.get("cost_ns", 0)
        assert cost_ns <= slice.duration_ns
        own["all"] += cost_ns
    # What a rematerialisation spans is its own cost and that of those that it asked for.
    assert own[REMAT] == run.remat_cost_ns
    baseline_ns = sum(slice.args.get("cost_ns", 0) for slice in read.on(MODEL))
    assert own["all"] == baseline_ns + run.remat_cost_ns
    if run.outcome == "ok":
        assert baseline_ns == run.header.baseline_cost_ns
        overhead = (baseline_ns + own[REMAT]) / baseline_ns
        assert overhead == run.overhead


def test_a_rematerialisation_lies_in_the_one_that_asked_for_it(drawn):
    _, made, read = drawn
    ends = {flow: slice for slice in read.slices for flow in slice.flows_in}
    asked = [slice for slice in read.on(REMAT) if "for_op" in slice.args]
    assert len(ends) == made.flows == len(asked)
    for slice in asked:
        (flow,) = slice.flows_out
        asker = ends[flow]
        assert asker.args["op"] == slice.args["for_op"]
        assert asker.begin_ns <= slice.begin_ns
        assert slice.end_ns <= asker.end_ns
        assert (slice.parent is asker) == asker.track.startswith(REMAT)


def test_counters_are_the_memory_of_the_run(drawn):
    events, made, read = drawn
    run = summarise(events)
    values = [value for _, value in read.counters[MEMORY]]
    assert max(values) == run.max_memory_bytes == made.peak_bytes
    assert values[-1] == events[-1].memory_bytes
    if run.header.budget_bytes is None:
        assert BUDGET not in read.counters
    else:
        assert {value for _, value in read.counters[BUDGET]} == {run.header.budget_bytes}
        assert max(values) <= run.header.budget_bytes
    last = sum(read.counters[state][-1][1] for state in STATES)
    assert last == events[-1].memory_bytes
    assert all(value >= 0 for state in STATES for _, value in read.counters[state])


def test_no_track_nests_deeper_than_the_trace_processor_takes(monkeypatch):
    events = events_of_run(*RUNS["no room"])
    plain, _ = timeline(events)
    monkeypatch.setattr("dtrdiag.rendering.perfetto.LEVELS", 3)
    made, content = timeline(events)
    assert attrs.evolve(made, packets=plain.packets) == plain
    read = Reading(content)
    for slice in read.on(REMAT):
        within, outer = 1, slice.parent
        while outer is not None and outer.track == slice.track:
            within, outer = within + 1, outer.parent
        assert within <= 3
    names = {slice.track for slice in read.on(REMAT)}
    assert {REMAT, f"{REMAT}, more than 3 levels in", f"{REMAT}, more than 6 levels in"} <= names
    ranks = {read.descriptors[name].sibling_order_rank for name in names}
    assert ranks == {read.descriptors[REMAT].sibling_order_rank}


def test_time_never_goes_back_and_ends_with_the_clock(drawn):
    events, made, read = drawn
    assert read.times == sorted(read.times)
    assert read.times[0] == 1
    assert read.times[-1] == events[-1].clock_ns == made.clock_ns


def test_tracks_are_told_and_lie_in_one_group(drawn):
    _, _, read = drawn
    group, *others = read.descriptors.values()
    assert {track.parent_uuid for track in others} == {group.uuid}
    assert all(track.description for track in others)
    # Those that go on with a track have its rank.
    ranks = [track.sibling_order_rank for track in others if "levels in" not in track.name]
    assert ranks == sorted(set(ranks))
    sized = {name for name, track in read.descriptors.items() if track.HasField("counter")}
    assert sized == {MEMORY, *STATES} | ({BUDGET} if BUDGET in read.counters else set())


def test_the_same_log_gives_the_same_bytes():
    events = events_of_run(*RUNS["no room"])
    assert timeline(events)[1] == timeline(events)[1]


def test_an_eviction_says_what_went_and_for_whom():
    events = events_of_run(*RUNS["finishes"])
    event = next(e for e in events if isinstance(e, Evict) and e.cause == "pressure")
    read = Reading(timeline(events)[1])
    found = next(i for i in read.instants if i.args.get("seq") == event.seq)
    assert found.name == "evict (pressure)"
    assert found.at_ns == event.clock_ns
    assert found.args["storage"] == event.storage
    assert found.args["bytes"] == event.size_bytes
    assert found.args["for_op"] == event.op
    assert found.args["score"] == event.score
    assert found.args["pool_size"] == event.pool_size


def test_an_out_of_memory_stop_tells_its_arithmetic():
    events = events_of_run(*RUNS["no room"])
    oom = next(event for event in events if event.kind == "oom")
    read = Reading(timeline(events)[1])
    stop = read.instants[-1]
    assert stop.args["shortfall_bytes"] == (
        oom.memory_bytes + oom.requested_bytes - oom.budget_bytes
    )
    assert sum(not slice.args["executed"] for slice in read.slices) == oom.depth


def test_a_log_that_was_cut_is_drawn_up_to_the_cut():
    events = events_of_run(*RUNS["finishes"])
    for cut in (1, 2, 9, len(events) // 2):
        made, content = timeline(events[:cut])
        read = Reading(content)
        assert made.computes == len(executed(read.on(MODEL)))


def test_a_budget_that_an_intervention_sets_is_shown():
    changes = {"interventions": parse_interventions("budget 300=40000000")}
    events = events_of_run("recurrent-16", "dtr", 0.5, changes)
    values = [value for _, value in Reading(timeline(events)[1]).counters[BUDGET]]
    assert values[0] != 40_000_000
    assert values[-1] == 40_000_000


def test_foreign_names_are_what_they_were(nasty_name):
    events = events_of_run(*RUNS["finishes"])
    named = [attrs.evolve(e, name=nasty_name) if e.kind == "op" else e for e in events]
    read = Reading(timeline(named)[1])
    shown = nasty_name.encode("utf-8", "replace").decode()
    assert {slice.name for slice in read.slices} == {shown}
    assert {i.args["computed_by"] for i in read.instants if i.track == EVICTIONS} == {shown}


def test_numbers_beyond_64_bits_are_refused():
    events = events_of_run(*RUNS["no budget"])
    huge = [attrs.evolve(e, cost_ns=1 << 70) if e.kind == "compute" else e for e in events]
    with pytest.raises(OutputError, match=r"up to 2\*\*63"):
        timeline(huge)


def test_events_without_a_header_are_refused():
    events = events_of_run(*RUNS["no budget"])
    assert isinstance(events[0], RunHeader)
    with pytest.raises(AnalysisError, match="begins with"):
        timeline(events[1:])


def test_without_the_package_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, trackevents._MESSAGES, None)
    with pytest.raises(UsageError, match=r"dtrdiag\[perfetto\]"):
        timeline(events_of_run(*RUNS["no budget"]))


PROCESSOR = os.environ.get("DTRDIAG_TRACE_PROCESSOR")
QUERY = Path(__file__).parent / "timeline.sql"


@pytest.mark.skipif(
    not PROCESSOR, reason="DTRDIAG_TRACE_PROCESSOR names no trace_processor_shell of Perfetto"
)
def test_sql_in_the_trace_processor_finds_the_numbers_of_the_run(drawn, tmp_path):
    events, made, _ = drawn
    run = summarise(events)
    (tmp_path / "run.pftrace").write_bytes(timeline(events)[1])
    done = subprocess.run(
        [PROCESSOR, "-q", QUERY, tmp_path / "run.pftrace"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    rows = [line.replace('"', "").split(",") for line in done.stdout.splitlines() if line]
    found = {name: int(value) for name, value in rows[1:]}
    assert found == {
        "computes": run.computes,
        "remats": run.remats,
        "unfinished": made.unfinished,
        "pressure": run.evictions.pressure,
        "release": run.evictions.release,
        "banish": run.evictions.banish,
        "stops": made.stops,
        "max memory": run.max_memory_bytes,
        "cost of first executions": sum(e.cost_ns for e in events if e.kind == "compute"),
        "remat cost by arguments": run.remat_cost_ns,
        "remat cost by own time": run.remat_cost_ns,
        "open slices": 0,
        "slices outside their parent": 0,
        "flows": made.flows,
        "flows to another op than the one that asked": 0,
        "errors of the import": 0,
    }
