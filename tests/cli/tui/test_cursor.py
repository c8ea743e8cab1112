"""A cursor over a log is where `Replay` says, whichever way it came there."""

import gzip
import json
from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtrdiag.analyses import first_divergence
from dtrdiag.cli.sources import record
from dtrdiag.cli.tui import eventfile, reading
from dtrdiag.cli.tui.cursor import DECISION, EVICTION, GOALS, REMAT, STOP, Cursor, after, before
from dtrdiag.cli.tui.eventfile import EventFile
from dtrdiag.cli.tui.pair import Pair
from dtrdiag.errors import UsageError
from dtrdiag.events.records import Evict, Rematerialise
from dtrdiag.log import Replay, open_log, read_events
from dtrdiag.simulator import RunConfig
from dtrdiag.trace.catalog import resolve

FOREIGN = Path(__file__).parents[2] / "data" / "foreign-runtime.jsonl"
PLAIN = (
    "header", "interventions", "budget_bytes", "stop", "end", "seq", "ops", "requested_bytes",
    "inputs", "producer", "storage_of", "tensors_of", "size_bytes", "defined", "resident", "locks",
    "pins", "references", "banished", "pending", "memory_bytes", "clock_ns", "budget_is_switched",
)  # fmt: skip
COUNTS = (
    "computes", "decisions", "remats", "remat_cost_ns", "max_memory_bytes", "interval_lo_bytes",
    "interval_hi_bytes", "evictions", "evicted", "decisions_sha256",
)  # fmt: skip


def everything(state):
    """All that a state tells, so that two of them can be compared."""
    told = {name: getattr(state, name) for name in PLAIN}
    told |= {name: getattr(state.tally, name) for name in COUNTS}
    told["pool"] = list(state.pool.items())
    told["consumers"] = [state.consumers(tensor) for tensor in state.producer]
    return told


def copied(state):
    told = everything(state)
    for name, value in told.items():
        if isinstance(value, dict):
            told[name] = {
                key: list(item) if isinstance(item, list) else item for key, item in value.items()
            }
        elif isinstance(value, set):
            told[name] = set(value)
    told["evicted"] = {cause: set(ids) for cause, ids in state.tally.evicted.items()}
    told["pending"] = [attrs.evolve(frame, locked=list(frame.locked)) for frame in state.pending]
    return told


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Short logs of all deallocations, of an out-of-memory stop and of an intervened run."""
    folder = tmp_path_factory.mktemp("tui")
    trace = resolve("chain-64")
    runs = {
        "eager": RunConfig("dtr", 8_000_000),
        "banish": RunConfig("dtr-eq", 1_000_000, dealloc="banish", candidates=2),
        "ignore": RunConfig("lru", 3_000_000, dealloc="ignore"),
        "oom": RunConfig("dtr", 1_000_000),
    }
    paths = {"foreign": FOREIGN}
    for name, config in runs.items():
        paths[name] = folder / f"{name}.jsonl"
        record(trace, config, paths[name])
    return paths


NAMES = ("eager", "banish", "ignore", "oom", "foreign")


@pytest.fixture
def close(monkeypatch):
    """Checkpoints and blocks so close together that short logs have many."""
    monkeypatch.setattr(reading, "APART", 16)
    monkeypatch.setattr(eventfile, "BLOCK", 8)


@pytest.mark.usefixtures("close")
@pytest.mark.parametrize("name", NAMES)
def test_every_step_there_and_back_is_the_replay(logs, name):
    state, told = Replay(), []
    for event in open_log(logs[name]):
        state.apply(event)
        told.append(copied(state))
    cursor = Cursor(EventFile(logs[name]))
    assert len(cursor) == len(told)
    step = max(1, len(told) // 900)
    route = list(range(0, len(told), step))
    for position in [*route, *reversed(route)]:
        cursor.seek(position)
        assert cursor.event.seq == position
        assert everything(cursor.state) == told[position]


@pytest.mark.parametrize("name", ["eager", "banish"])
def test_jumps_in_any_order_are_the_replay(logs, name):
    events = read_events(logs[name])
    cursor = Cursor(EventFile(logs[name]))
    cursor.reading.apart = 32

    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.integers(0, len(events) - 1), min_size=1, max_size=4))
    def check(route):
        for position in route:
            cursor.seek(position)
        assert everything(cursor.state) == everything(Replay.at(events, route[-1]))

    check()


def test_fewer_checkpoints_where_they_take_too_much_memory(logs, monkeypatch):
    monkeypatch.setattr(reading, "APART", 4)
    monkeypatch.setattr(reading, "MOST_BYTES", 20_000)
    cursor = Cursor(EventFile(logs["eager"]))
    cursor.seek(len(cursor))
    assert cursor.reading.apart > 4
    cursor.seek(len(cursor) - 200)
    told = everything(Replay.at(open_log(logs["eager"]), len(cursor) - 200))
    assert everything(cursor.state) == told


def test_a_cursor_stays_within_its_log(logs):
    cursor = Cursor(EventFile(logs["foreign"]))
    assert cursor.seek(-5) == 0
    assert cursor.seek(10**9) == len(cursor) - 1
    assert cursor.state.end is not None


@pytest.mark.parametrize("name", NAMES)
def test_jumps_find_what_the_log_has(logs, name):
    cursor = Cursor(EventFile(logs[name]))
    events = read_events(logs[name])
    expected = {
        DECISION: {e.seq for e in events if e.kind in ("compute", "rematerialise", "evict")},
        EVICTION: {e.seq for e in events if isinstance(e, Evict) and e.cause == "pressure"},
        REMAT: {e.seq for e in events if isinstance(e, Rematerialise)},
        STOP: {e.seq for e in events if e.kind == "oom"},
    }
    for goal, seqs in expected.items():
        assert set(cursor.positions(goal).tolist()) == seqs
        cursor.seek(len(events) // 2)
        later = [seq for seq in seqs if seq > len(events) // 2]
        earlier = [seq for seq in seqs if seq < len(events) // 2]
        assert cursor.next_of(goal) == min(later, default=None)
        assert cursor.previous_of(goal) == max(earlier, default=None)
    with pytest.raises(UsageError, match="there are decision"):
        cursor.positions("lunch")
    assert set(GOALS) > set(expected)


@given(st.sets(st.integers(0, 30)), st.integers(-1, 31))
def test_neighbours_in_a_list(places, here):
    positions = np.array(sorted(places), np.int64)
    assert after(positions, here) == min((p for p in places if p > here), default=None)
    assert before(positions, here) == max((p for p in places if p < here), default=None)


def test_what_names_a_storage_or_an_operator(logs):
    cursor = Cursor(EventFile(logs["eager"]))
    cursor.seek(len(cursor))
    evict = next(e for e in open_log(logs["eager"]) if isinstance(e, Evict))
    maker = cursor.state.producer[evict.storage]
    kinds = ("op", "compute", "rematerialise")
    expected = [
        e.seq
        for e in open_log(logs["eager"])
        if getattr(e, "storage", None) == evict.storage or (e.kind in kinds and e.op == maker)
    ]
    assert cursor.about_storage(evict.storage).tolist() == expected
    name = cursor.state.ops[maker].name
    found = cursor.about_operator(name.upper()).tolist()
    assert found
    names = {cursor.state.ops[cursor.events.event(at).op].name for at in found}
    assert name in names
    assert all(name in found_name for found_name in names)
    assert cursor.about_operator("no such operator").tolist() == []


@pytest.mark.parametrize("ending", [".jsonl.gz", ".jsonl.zst", ".parquet"])
def test_packed_logs_are_the_same(logs, tmp_path, ending):
    path = tmp_path / f"run{ending}"
    record(resolve("chain-64"), RunConfig("dtr", 8_000_000), path)
    ours, plain = EventFile(path), EventFile(logs["eager"])
    assert ours.kinds.tolist() == plain.kinds.tolist()
    assert ours.pressure.tolist() == plain.pressure.tolist()
    assert ours.problem is None
    for position in (len(plain) - 1, 0, 300, 299):
        assert ours.event(position) == plain.event(position)
    assert Cursor(ours).seek(500) == 500


def _written(path, lines):
    path.write_text("".join(line + "\n" for line in lines))
    return path


def test_a_cut_log_ends_at_the_cut(logs, tmp_path):
    text = logs["eager"].read_bytes()
    (tmp_path / "cut.jsonl").write_bytes(text[: len(text) // 2])
    events = EventFile(tmp_path / "cut.jsonl")
    whole = (text[: len(text) // 2]).count(b"\n")
    assert (len(events), events.problem) == (whole, f"cut in line {whole + 1}")
    lines = logs["eager"].read_text().splitlines()
    events = EventFile(_written(tmp_path / "short.jsonl", lines[:100]))
    assert "without an end event" in events.problem
    packed = gzip.compress(text)
    (tmp_path / "cut.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    events = EventFile(tmp_path / "cut.jsonl.gz")
    assert 1 < len(events) < len(lines)
    assert events.problem.startswith("cut in line")


@pytest.mark.parametrize(
    ("line", "problem", "left"),
    [
        ("nonsense", "cannot be read after line 50: not JSON", 50),
        ('{"event": "lunch", "seq": 50}', "no event of a known kind", 50),
        ('{"event": "lock", "seq": 50}', "cannot be read after event 49", 50),
        ('{"event":"unlock","seq":50,"cause_seq":1,"storage":9999,"op":1,"locks":0}', "9999", 50),
    ],
)
def test_a_log_that_is_wrong_somewhere_ends_before_that(logs, tmp_path, line, problem, left):
    lines = logs["eager"].read_text().splitlines()
    lines[50] = line
    cursor = Cursor(EventFile(_written(tmp_path / "bad.jsonl", lines)))
    cursor.seek(80)
    assert (len(cursor), cursor.position) == (left, left - 1)
    assert problem in cursor.events.problem
    assert everything(cursor.state) == everything(Replay.at(open_log(logs["eager"]), left - 1))
    cursor.seek(3)
    assert cursor.state.seq == 3


def test_a_log_that_introduces_an_op_twice_can_still_be_walked_back(tmp_path):
    lines = FOREIGN.read_text().splitlines()
    lines.insert(7, lines[6])
    events = [json.loads(line) for line in lines]
    for seq, event in enumerate(events):
        event["seq"] = seq
    path = _written(tmp_path / "twice.jsonl", map(json.dumps, events))
    cursor = Cursor(EventFile(path))
    cursor.reading.apart = 4
    cursor.seek(len(cursor))
    for position in reversed(range(len(cursor))):
        cursor.seek(position)
        assert everything(cursor.state) == everything(Replay.at(open_log(path), position))


def test_events_of_kinds_to_come_are_passed_over(tmp_path):
    lines = FOREIGN.read_text().replace("dtrdiag.log/1.0", "dtrdiag.log/1.9").splitlines()
    events = [json.loads(line) for line in lines]
    events.insert(5, {"event": "nap", "seq": 5})
    for seq, event in enumerate(events):
        event["seq"] = seq
    path = _written(tmp_path / "newer.jsonl", map(json.dumps, events))
    ours = EventFile(path)
    assert [ours.event(at) for at in range(len(ours))] == read_events(path)
    assert [ours.position_of(seq) for seq in (4, 5, 6)] == [4, None, 5]


def test_logs_that_are_too_long_are_refused_with_advice(logs, monkeypatch, tmp_path):
    monkeypatch.setattr(eventfile, "MAX_EVENTS", 100)
    with pytest.raises(UsageError, match=r"more than 100 events.*replay --from"):
        EventFile(logs["eager"])
    record(resolve("chain-64"), RunConfig("dtr", 1_000_000), tmp_path / "run.parquet")
    monkeypatch.setattr(eventfile, "MAX_PARQUET_EVENTS", 100)
    with pytest.raises(UsageError, match=r"more than 100 events.*replay --from"):
        EventFile(tmp_path / "run.parquet")


@pytest.fixture
def pair(works, fails):
    """Two runs that part, and where."""
    both = Pair(Cursor(EventFile(works)), Cursor(EventFile(fails)))
    both.tell(first_divergence(open_log(works), open_log(fails)))
    return both


def _decisions(cursor, goal=DECISION):
    return int(np.searchsorted(cursor.positions(goal), cursor.position, "right"))


def test_two_runs_go_in_step_by_decision_until_they_part(pair):
    a, b = pair.cursors
    for position in (0, 1, 100, 500, pair.parts_at[0] - 1):
        a.seek(position)
        pair.follow(0)
        assert _decisions(a) == _decisions(b)
        assert a.event.kind == b.event.kind
        assert not pair.parted(0)


def test_the_first_difference_is_where_the_analysis_finds_it(pair):
    assert pair.to_divergence()
    a, b = pair.cursors
    assert (a.event.seq, b.event.seq) == (pair.divergence.seq_a, pair.divergence.seq_b)
    assert pair.is_parting()
    a.seek(3)
    assert not pair.is_parting()


def test_after_they_parted_runs_go_by_the_schedule(pair):
    a, b = pair.cursors
    for leader, follower in ((0, 1), (1, 0)):
        lead, follow = pair.cursors[leader], pair.cursors[follower]
        for further in (1, 40, 300):
            lead.seek(pair.parts_at[leader] + further)
            pair.follow(leader)
            assert pair.parted(leader)
            steps = _decisions(lead, "schedule step")
            if steps <= len(follow.positions("schedule step")):
                assert _decisions(follow, "schedule step") == steps
            else:
                assert follow.position == len(follow) - 1
    a.seek(len(a))
    pair.follow(0)
    assert b.position == len(b) - 1


def test_equal_runs_have_no_divergence_to_go_to(works):
    pair = Pair(Cursor(EventFile(works)), Cursor(EventFile(works)))
    pair.tell(first_divergence(open_log(works), open_log(works)))
    assert (pair.compared, pair.divergence, pair.to_divergence()) == (True, None, False)
    pair.cursors[0].seek(1234)
    pair.follow(0)
    assert pair.cursors[1].position == 1234
