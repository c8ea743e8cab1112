import json
import re
from pathlib import Path

import pytest

from dtrdiag.log import Replay, open_log

FOREIGN = Path(__file__).parents[1] / "data" / "foreign-runtime.jsonl"


def test_verify_accepts_our_logs(answers, works, fails, small):
    for log in (works, fails, small):
        found = answers("replay", log, "--verify", "--json").json
        assert set(found) == {"schema", "ok", "events", "complete", "problems"}
        assert found["schema"] == "dtrdiag.replay/1"
        assert (found["ok"], found["complete"], found["problems"]) == (True, True, [])
        assert found["events"] == sum(1 for _ in open_log(log))
    assert answers("replay", small, "--verify").out.startswith("The log keeps every rule: ")


def test_verify_accepts_the_log_of_another_runtime(answers):
    assert answers("replay", FOREIGN, "--verify", "--json").json["ok"]


def _damaged(here, small):
    """The small log with another size at its first eviction, and that line's seq."""
    lines = [json.loads(line) for line in small.read_text().splitlines()]
    seq = next(line["seq"] for line in lines if line["event"] == "evict")
    lines[seq]["size_bytes"] += 1
    (here / "bad.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return seq


def test_verify_names_rule_and_seq_and_fails(dtrdiag, here, small):
    seq = _damaged(here, small)
    answer = dtrdiag("replay", "bad.jsonl", "--verify", "--json")
    assert (answer.status, answer.err) == (1, "")
    assert answer.json["ok"] is False
    first = answer.json["problems"][0]
    assert set(first) == {"seq", "rule", "message"}
    assert first["seq"] == seq
    people = dtrdiag("replay", "bad.jsonl", "--verify")
    assert people.status == 1
    assert first["rule"] in people.out
    assert "The log breaks rules" in people.out


def test_verify_says_that_a_cut_log_is_incomplete(dtrdiag, here, small):
    (here / "cut.jsonl").write_bytes(small.read_bytes()[:-30])
    answer = dtrdiag("replay", "cut.jsonl", "--verify", "--json")
    assert answer.status == 1
    assert (answer.json["ok"], answer.json["complete"]) == (False, False)
    assert answer.json["problems"][0]["rule"] == "end"


def test_verify_of_a_line_that_cannot_be_read(dtrdiag, here, small):
    lines = small.read_text().splitlines()
    lines[9] = "nonsense"
    (here / "bad.jsonl").write_text("\n".join(lines) + "\n")
    answer = dtrdiag("replay", "bad.jsonl", "--verify", "--json")
    assert answer.status == 1
    assert answer.json["problems"][0]["rule"] == "readable"


@pytest.mark.parametrize("seq", [0, 1, 100, 700])
def test_the_state_at_an_event_is_that_of_the_replay(answers, small, seq):
    found = answers("replay", small, "--at", seq, "--json").json["state"]
    state = Replay.at(open_log(small), seq)
    assert found["seq"] == seq
    assert found["memory_bytes"] == state.memory_bytes
    assert found["clock_ns"] == state.clock_ns
    assert found["resident"] == sorted(state.resident)
    assert found["pool"] == list(state.pool)
    assert {entry["storage"] for entry in found["locks"]} == set(state.locks)
    assert {entry["storage"] for entry in found["pins"]} == set(state.pins)
    assert [frame["op"] for frame in found["pending"]] == [frame.op for frame in state.pending]


def test_without_options_the_state_is_the_last(answers, fails):
    found = answers("replay", fails, "--json").json["state"]
    assert found["outcome"] == "oom"
    assert len(found["pending"]) == 163
    assert found["pool"] == []
    out = answers("replay", fails).out
    assert "163 ops are pending: ... > " in out
    assert "44 (addmm)" in out


def test_the_state_of_a_cut_log_is_that_at_the_cut(answers, small, here):
    (here / "cut.jsonl").write_bytes(small.read_bytes()[:50_000])
    assert "The log is incomplete: it is cut in line" in answers("replay", "cut.jsonl").out


def test_a_range_of_events_includes_both_ends(answers, small):
    found = answers("replay", small, "--from", 10, "--to", 14, "--json").json
    lines = [json.loads(line) for line in small.read_text().splitlines()]
    assert found["range"] == lines[10:15]
    out = answers("replay", small, "--from", 10, "--to", 14).out
    assert all(f"│ {line['seq']:>3} │" in out for line in lines[10:15])


def test_a_range_may_be_open(answers, small):
    lines = small.read_text().splitlines()
    assert len(answers("replay", small, "--to", 4, "--json").json["range"]) == 5
    assert len(answers("replay", small, "--from", 4, "--json").json["range"]) == len(lines) - 4


def test_all_at_once(answers, small):
    found = answers("replay", small, "--verify", "--at", 5, "--from", 1, "--to", 2, "--json").json
    assert (found["ok"], found["state"]["seq"], len(found["range"])) == (True, 5, 2)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--at", "99999"], "the log has no event 99999"),
        (["--at", "-1"], "--at must be at least 0"),
        (["--from", "99999"], "the log has no event 99999"),
        (["--from", "9", "--to", "3"], "--to 3 is before --from 9"),
    ],
)
def test_events_that_are_not_there(refuses, small, options, why):
    assert why in refuses("replay", small, *options)


def _amounts(out, *words):
    """The bytes that the sentence about memory says of each word."""
    return [int(re.search(rf"([\d,]+) B[^,;]*? {word}", out)[1].replace(",", "")) for word in words]


@pytest.mark.parametrize("at", [700, 2000, 5000])
def test_the_parts_of_memory_add_up(answers, fails, at):
    out = answers("replay", fails, "--at", at).out
    in_use, pinned, locked, evictable = _amounts(out, "are in use", "pinned", "locked", "evictable")
    assert in_use == pinned + locked + evictable


def test_where_nothing_is_evictable_that_is_said_instead_of_a_table(answers, fails):
    out = answers("replay", fails).out
    in_use, pinned, locked = _amounts(out, "are in use", "pinned", "locked")
    assert in_use == pinned + locked
    assert "locked; nothing is evictable." in out
    assert "pool" not in out


def test_one_pending_op_is_told_in_the_singular(answers, small):
    seq = next(
        line["seq"]
        for line in map(json.loads, small.read_text().splitlines())
        if line["event"] == "materialise"
    )
    assert "1 op is pending: " in answers("replay", small, "--at", seq).out
