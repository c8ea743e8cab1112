"""Is a timeline what replaying the log one event at a time gives, however it is read and cut?"""

from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtrdiag.analyses.timeline import AXES, Timeline, run_timeline, run_timelines
from dtrdiag.errors import AnalysisError, DtrdiagError, LogError
from dtrdiag.events import records as r
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import EventRecorder, ParquetWriter
from dtrdiag.log import open_log, read_events
from dtrdiag.log import parquet as reader_module
from dtrdiag.log.replay import Replay
from dtrdiag.log.state import CAUSES
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace.catalog import resolve

FOREIGN = Path(__file__).parents[1] / "data" / "foreign-runtime.jsonl"
SETTINGS = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
EXECUTIONS = (r.Compute, r.Rematerialise)


def moments(events):
    """What holds right after each event, by replaying the log: the definition, word for word."""
    replay, in_use = Replay(), 0
    clock_ns, decisions, step = 1, 0, 0
    for event in events:
        replay.apply(event)
        executed, evicted = isinstance(event, EXECUTIONS), isinstance(event, r.Evict)
        clock_ns = max(clock_ns, getattr(event, "clock_ns", clock_ns))
        step = max(step, getattr(event, "step", step))
        decisions += executed or evicted
        in_use = getattr(event, "memory_bytes", in_use)
        sizes = {storage: replay.size_bytes[storage] for storage in replay.resident}
        pinned = sum(size for storage, size in sizes.items() if storage in replay.pins)
        locked = sum(
            size
            for storage, size in sizes.items()
            if storage in replay.locks and storage not in replay.pins
        )
        waiting = sum(frame.executed_seq in (None, event.seq) for frame in replay.pending)
        yield {
            "places": {"clock": clock_ns, "decision": max(0, decisions - 1), "step": step},
            "seq": event.seq,
            "resident": sum(sizes.values()),
            "pinned": pinned,
            "locked": locked,
            "in_use": in_use + (event.freed_bytes if executed else 0),
            "depth": waiting,
            "event": event,
        }


def expected(found, axis, most):
    """The rows of the timeline, from the moments, and the width of its buckets."""
    width = 1
    while len({moment["places"][axis] // width for moment in found}) > most:
        width *= 2
    buckets = {}
    for moment in found:
        buckets.setdefault(moment["places"][axis] // width, []).append(moment)
    starts = [bucket[0]["places"][axis] for bucket in buckets.values()]
    ends = [*starts[1:], found[-1]["places"][axis] + 1]
    rows = [_row(bucket) for bucket in buckets.values()]
    return [{"x": x, "x2": x2, **row} for x, x2, row in zip(starts, ends, rows, strict=True)], width


def _row(bucket):
    high = max(bucket, key=lambda moment: moment["resident"])
    events = [moment["event"] for moment in bucket]
    row = {
        "clock_ns": bucket[0]["places"]["clock"],
        "decision": bucket[0]["places"]["decision"],
        "step": bucket[0]["places"]["step"],
        "low_bytes": min(moment["resident"] for moment in bucket),
        "high_bytes": high["resident"],
        "high_seq": high["seq"],
        "pinned_bytes": high["pinned"],
        "locked_bytes": high["locked"],
        "in_use_bytes": max(moment["in_use"] for moment in bucket),
        "depth": max(moment["depth"] for moment in bucket),
    }
    for kind, word in ((r.Compute, "compute"), (r.Rematerialise, "remat")):
        costs = [event.cost_ns for event in events if type(event) is kind]
        row |= {f"{word}s": len(costs), f"{word}_ns": sum(costs)}
    for cause in CAUSES:
        sizes = [e.size_bytes for e in events if isinstance(e, r.Evict) and e.cause == cause]
        row |= {f"evictions_{cause}": len(sizes), f"evicted_{cause}": sum(sizes)}
    return row


def rows_of(found: Timeline):
    """The same form."""
    columns = {
        field.name: getattr(found, field.name).tolist()
        for field in attrs.fields(Timeline)
        if field.name not in ("header", "axis", "width", "evictions", "evicted_bytes")
    }
    for cause in CAUSES:
        columns[f"evictions_{cause}"] = found.evictions[cause].tolist()
        columns[f"evicted_{cause}"] = found.evicted_bytes[cause].tolist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def recorded(trace, config):
    hooks, recorder = Hooks(), EventRecorder()
    hooks.subscribe(recorder)
    simulate(trace, config, hooks)
    return recorder.events


def random_run(data, trace):
    dealloc = data.draw(st.sampled_from(["eager", "ignore", "banish"]))
    most = simulate(trace, RunConfig("lru", None, dealloc=dealloc)).end.max_memory_bytes
    config = RunConfig(
        data.draw(st.sampled_from(["dtr", "lru", "size"])),
        max(1, int(most * data.draw(st.floats(0.05, 1)))),
        dealloc=dealloc,
        overhead_limit=data.draw(st.sampled_from([2, 30])),
    )
    return recorded(trace, config)


def parquet_log(folder, events):
    path = folder / "run.parquet"
    with ParquetWriter(path, force=True) as writer:
        for event in events:
            writer(event)
    return open_log(path)


@SETTINGS
@given(data=st.data())
def test_random_runs_in_events_and_in_columns(tmp_path, data, random_traces):
    try:
        events = random_run(data, data.draw(random_traces))
    except DtrdiagError:  # the trace asks for what this dealloc does not define
        return
    events = events[: data.draw(st.sampled_from([len(events), len(events) - 1, 20, 1]))]
    most = data.draw(st.sampled_from([1, 2, 7, 4096]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader_module, "BATCH", data.draw(st.sampled_from([1, 5, 40, 1 << 18])))
        log = parquet_log(tmp_path, events)
        by_columns = run_timelines(log, AXES, most)
    by_events = run_timelines(iter(events), AXES, most)
    states = list(moments(events))
    for axis in AXES:
        rows, width = expected(states, axis, most)
        assert rows_of(by_events[axis]) == rows
        assert rows_of(by_columns[axis]) == rows
        assert by_events[axis].width == by_columns[axis].width == width
        assert len(by_events[axis]) <= most


RUNS = [
    ("tree-4", RunConfig("dtr", 80_000_000)),
    ("recurrent-16", RunConfig("lru", 60_000_000, dealloc="banish")),
    ("residual-12", RunConfig("dtr-eq", 120_000_000, overhead_limit=2)),
]


@pytest.mark.parametrize(("name", "config"), RUNS)
def test_runs_of_bundled_traces(name, config):
    events = recorded(resolve(name), config)
    states = list(moments(events))
    for most in (50, 4096):
        for axis, found in run_timelines(events, AXES, most).items():
            rows, width = expected(states, axis, most)
            assert (rows_of(found), found.width) == (rows, width)


def test_a_log_of_another_runtime():
    events = read_events(FOREIGN)
    for axis, found in run_timelines(events).items():
        assert rows_of(found) == expected(list(moments(events)), axis, 4096)[0]


def test_extremes_are_those_of_the_run_however_few_buckets():
    events = recorded(resolve("recurrent-16"), RunConfig("dtr", 40_000_000))
    end = events[-1]
    for most in (1, 3, 100, 4096):
        found = run_timeline(events, "step", most)
        assert found.in_use_bytes.max() == end.max_memory_bytes
        assert found.remats.sum() == end.remats
        assert found.remat_ns.sum() == end.remat_cost_ns
        assert found.computes.sum() == end.computes
        assert found.evictions["pressure"].sum() == end.evictions_pressure
        deepest = max(event.depth for event in events if isinstance(event, r.Materialise))
        assert found.depth.max() == deepest
        parts = found.pinned_bytes + found.locked_bytes + found.evictable_bytes
        assert (parts == found.high_bytes).all()
        assert (found.x[1:] == found.x2[:-1]).all()


def test_a_bucket_of_its_own_for_each_place_if_they_are_few():
    events = recorded(resolve("recurrent-16"), RunConfig("dtr", 40_000_000))
    decisions = sum(isinstance(event, (*EXECUTIONS, r.Evict)) for event in events)
    found = run_timeline(events, "decision", decisions)
    assert (found.width, found.x.tolist()) == (1, list(range(decisions)))
    fewer = run_timeline(events, "decision", decisions - 1)
    assert (fewer.width, len(fewer)) == (2, (decisions + 1) // 2)


def test_sums_beyond_64_bits_are_exact(toy_log):
    log, huge = toy_log([("a", 1, (), 10)] * 9, 100), 1 << 61
    costs = [attrs.evolve(e, cost_ns=huge) if isinstance(e, r.Compute) else e for e in log]
    assert int(run_timeline(costs, "step", 1).compute_ns[0]) == 9 * huge
    assert run_timeline(costs, "step").compute_ns.tolist() == [huge] * 9


def test_what_makes_no_sense_is_refused():
    events = read_events(FOREIGN)
    with pytest.raises(AnalysisError, match="no axis 'time'"):
        run_timeline(events, "time")
    with pytest.raises(AnalysisError, match="at least 1 bucket"):
        run_timeline(events, "clock", 0)
    with pytest.raises(AnalysisError, match="not with `run`"):
        run_timeline(events[1:])
    unknown = [attrs.evolve(e, storage=999) if isinstance(e, r.Lock) else e for e in events]
    with pytest.raises(LogError, match="storage 999, which no op event introduced"):
        run_timeline(unknown)


def test_the_header_alone_is_a_timeline():
    found = run_timeline(read_events(FOREIGN)[:1])
    assert (len(found), found.high_bytes.tolist()) == (1, [0])
    assert np.array_equal([found.x, found.x2], [[1], [2]])
