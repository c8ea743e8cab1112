"""Do analyses say the same of a log whether they read its events or its columns?"""

from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtrdiag.analyses import eviction_counts, eviction_sets, pinned_frontier, summarise
from dtrdiag.analyses.summary import NAMES, RunTally
from dtrdiag.errors import AnalysisError, DtrdiagError, LogError
from dtrdiag.events import EVENT_TYPES
from dtrdiag.events.columns import EventColumns
from dtrdiag.events.conversion import columns_of
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import EventRecorder, JsonlWriter, ParquetWriter
from dtrdiag.log import forward, open_log, read_events
from dtrdiag.log import parquet as reader_module
from dtrdiag.log.held import Irregular
from dtrdiag.simulator import RunConfig, simulate

FOREIGN = Path(__file__).parents[1] / "data" / "foreign-runtime.jsonl"
EVENTS = read_events(FOREIGN)
SETTINGS = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def parquet_log(folder, events):
    path = folder / "run.parquet"
    with ParquetWriter(path, force=True) as writer:
        for event in events:
            writer(event)
    return open_log(path)


def answer(question, *logs):
    """The answer, or the refusal with its type."""
    try:
        return question(*logs)
    except DtrdiagError as error:
        return type(error), error.what


def recorded(data, trace):
    dealloc = data.draw(st.sampled_from(["eager", "ignore", "banish"]))
    most = simulate(trace, RunConfig("lru", None, dealloc=dealloc)).end.max_memory_bytes
    config = RunConfig(
        data.draw(st.sampled_from(["dtr", "lru", "size", "dtr-eq"])),
        max(1, int(most * data.draw(st.floats(0.05, 1)))),
        dealloc=dealloc,
        overhead_limit=data.draw(st.sampled_from([2, 30])),
    )
    hooks, recorder = Hooks(), EventRecorder()
    hooks.subscribe(recorder)
    simulate(trace, config, hooks)
    return recorder.events


def agree(log, events):
    assert answer(pinned_frontier, log) == answer(pinned_frontier, events)
    assert answer(summarise, log) == answer(summarise, events)
    assert answer(eviction_sets, log, log) == answer(eviction_sets, events, events)
    for cause in (None, "pressure", "release", "banish"):
        by_columns, by_events = eviction_counts(log, cause), eviction_counts(events, cause)
        assert list(by_columns.items()) == list(by_events.items())


@SETTINGS
@given(data=st.data())
def test_of_random_runs(tmp_path, data, random_traces):
    try:
        events = recorded(data, data.draw(random_traces))
    except DtrdiagError:  # the trace asks for what this dealloc does not define
        return
    events = events[: data.draw(st.sampled_from([len(events), len(events) - 1, 20]))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader_module, "BATCH", data.draw(st.sampled_from([5, 40, 1 << 18])))
        log = parquet_log(tmp_path, events)
        agree(log, events)
        # Not by way of the events: every run of the simulator is regular.
        forward.state_at_oom(log.batches(forward.NAMES))


@SETTINGS
@given(data=st.data())
def test_of_logs_that_make_no_sense(tmp_path, data, random_traces):
    """Events are left out, doubled, and swapped; columns may give up, but not differ."""
    try:
        events = recorded(data, data.draw(random_traces))
    except DtrdiagError:
        return
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(1, len(events) - 2))
        how = data.draw(st.sampled_from(["drop", "double", "swap"]))
        if how == "drop":
            del events[at]
        elif how == "double":
            events.insert(at, events[at])
        else:
            events[at - 1], events[at] = events[at], events[at - 1]
    if events[0].kind != "run" or events[-1].kind != "end":
        return
    events = [attrs.evolve(event, seq=seq) for seq, event in enumerate(events)]
    agree(parquet_log(tmp_path, events), events)


def test_of_json_lines_made_parquet_and_back(tmp_path):
    log = parquet_log(tmp_path, open_log(FOREIGN))
    agree(log, EVENTS)
    with JsonlWriter(tmp_path / "back.jsonl") as writer:
        for event in log:
            writer(event)
    agree(open_log(tmp_path / "back.jsonl"), EVENTS)


def test_a_damaged_log_is_refused_in_the_same_words(tmp_path):
    damaged = [attrs.evolve(e, op=99) if e.kind == "oom" else e for e in EVENTS]
    with pytest.raises(LogError, match="names 99, which no op event introduced"):
        pinned_frontier(parquet_log(tmp_path, damaged))
    unlocked = [e for e in EVENTS if e.kind != "lock"]
    unlocked = [attrs.evolve(event, seq=seq) for seq, event in enumerate(unlocked)]
    log = parquet_log(tmp_path, unlocked)
    with pytest.raises(Irregular):
        forward.state_at_oom(log.batches(forward.NAMES))
    with pytest.raises(LogError, match=r"event .* \(unlock\) names something"):
        pinned_frontier(log)


def test_sums_beyond_64_bits_are_exact():
    large = 2**63 - 1
    fit = EVENT_TYPES["fit"](5, 4, 0, large, large, False)
    remat = EVENT_TYPES["rematerialise"](7, 4, 0, 0, large, (), (), large, large, 1)
    batch = columns_of([fit, remat, attrs.evolve(remat, seq=8)])
    assert isinstance(batch, EventColumns)
    tally = RunTally(EVENTS[0])
    tally.add_columns(batch)
    assert tally.counts.interval_hi_bytes == 2 * large
    assert tally.counts.remat_cost_ns == 2 * large
    assert tally.counts.max_memory_bytes == 2 * large
    assert {"fits", "cause", "outcome"} <= NAMES


def test_there_are_three_causes():
    with pytest.raises(AnalysisError, match="no evictions have the cause 'whim'"):
        eviction_counts(EVENTS, "whim")


def test_the_most_frequent_victim_comes_first():
    evict = next(event for event in EVENTS if event.kind == "evict")
    events = [EVENTS[0], *(attrs.evolve(evict, storage=storage) for storage in (4, 9, 9, 2))]
    assert list(eviction_counts(events).items()) == [(9, 2), (2, 1), (4, 1)]
