"""Is the history of a storage what the log says of it, event by event?"""

import pytest

from dtrdiag.analyses.histories import COMPUTED, EVICTED, REMATERIALISED, storage_histories
from dtrdiag.events import records as r
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import EventRecorder, ParquetWriter
from dtrdiag.log import open_log
from dtrdiag.log import parquet as reader_module
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace.catalog import resolve


@pytest.fixture(scope="module")
def events():
    hooks, recorder = Hooks(), EventRecorder()
    hooks.subscribe(recorder)
    simulate(resolve("recurrent-16"), RunConfig("dtr", 40_000_000), hooks)
    return recorder.events


def naive(events, storage):
    """Each move as `Move` has it, by walking through the log."""
    step, moves = 0, []
    for event in events:
        step = getattr(event, "step", step)
        if isinstance(event, r.Evict) and event.storage == storage:
            moves.append((event.seq, step, EVICTED, event.op, event.cause))
        elif isinstance(event, r.Compute) and storage in event.resident:
            moves.append((event.seq, step, COMPUTED, event.op, None))
        elif isinstance(event, r.Rematerialise) and storage in event.resident:
            moves.append((event.seq, step, REMATERIALISED, event.op, None))
    return moves


def told(history):
    return [(m.seq, m.step, m.what, m.op, m.cause) for m in history.moves]


def test_every_move_in_events_and_in_columns(events, tmp_path, monkeypatch):
    evicted = {event.storage for event in events if isinstance(event, r.Evict)}
    asked = sorted(evicted)[::20]
    with ParquetWriter(tmp_path / "run.parquet") as writer:
        for event in events:
            writer(event)
    monkeypatch.setattr(reader_module, "BATCH", 1000)
    by_events = storage_histories(events, asked, most=10**6)
    assert storage_histories(open_log(tmp_path / "run.parquet"), asked, most=10**6) == by_events
    assert sum(history.remats for history in by_events.values()) > 5
    for storage in asked:
        moves = naive(events, storage)
        history = by_events[storage]
        assert told(history) == moves
        assert history.remats == sum(what == REMATERIALISED for _, _, what, _, _ in moves)
        for cause, number in history.evictions.items():
            assert number == sum(move[-1] == cause for move in moves)


def test_the_last_moves_are_kept_and_all_are_counted(events):
    storage = max(
        {event.storage for event in events if isinstance(event, r.Evict)},
        key=lambda storage: len(naive(events, storage)),
    )
    moves = naive(events, storage)
    assert len(moves) > 4
    history = storage_histories(events, [storage], most=3)[storage]
    assert told(history) == moves[-3:]
    assert sum(history.evictions.values()) == sum(move[2] == EVICTED for move in moves)


def test_nothing_is_known_of_what_is_not_there(events):
    history = storage_histories(events, [10**6])[10**6]
    assert (history.remats, history.moves, sum(history.evictions.values())) == (0, (), 0)
    assert storage_histories(events, []) == {}
