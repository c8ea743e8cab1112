import json

import pytest

from dtrdiag.events import FitCheck
from dtrdiag.log import open_log
from dtrdiag.simulator import native_available

from .test_run import KEYS as RUN_KEYS

KEYS = {
    "schema", "a", "b", "common_prefix", "first_divergence", "sets", "evictions_per_storage",
    "overhead_factor", "trajectory", "re_evicted",
}  # fmt: skip
DIVERGENCE_KEYS = {
    "index", "kind", "op", "op_name", "memory", "requested_bytes", "fits_in", "a", "b",
}  # fmt: skip
ENGINE = "native" if native_available() else "python"


def test_json_has_the_keys_that_scripts_rely_on(answers, works, fails):
    found = answers("diff", works, fails, "--json").json
    assert set(found) >= KEYS
    assert found["schema"] == "dtrdiag.diff/1"
    assert set(found["a"]) == set(found["b"]) == RUN_KEYS
    assert set(found["first_divergence"]) >= DIVERGENCE_KEYS
    for cause in ("all", "pressure", "release"):
        assert set(found["sets"][cause]) == {"a", "b", "intersection", "union", "jaccard"}
    assert set(found["evictions_per_storage"]) == {"a", "b"}
    assert (found["a"]["outcome"], found["b"]["outcome"]) == ("ok", "oom")


def test_top_is_how_many_rows_are_shown_and_titles_say_of_how_many(answers, refuses, works, fails):
    number = len(answers("diff", works, fails, "--json").json["remat_by_operator"])
    assert number > 1
    out = answers("diff", works, fails, "--top", 1).out
    assert f"rematerialisation by operator: the most different 1 of {number}" in out
    assert "the most different" not in answers("diff", works, fails, "--top", number).out
    none = answers("diff", works, fails, "--top", 0).out
    assert "by operator" not in none
    assert "storages evicted" in none
    assert "--top must be at least 0" in refuses("diff", works, fails, "--top", -1)


def test_between_two_budgets_the_first_divergence_is_a_fit_check_of_both_logs(
    answers, works, fails
):
    found = answers("diff", works, fails, "--json").json["first_divergence"]
    assert (found["kind"], found["fits_in"]) == ("fit", "b")
    for side in ("a", "b"):
        assert found[side] == found[f"{side}_details"]["decision"]
        assert found[side].split()[0] in ("C", "R", "E")
    total = found["memory"] + found["requested_bytes"]
    assert total == 38_359_636
    checks = [
        next(
            event
            for event in open_log(log)
            if isinstance(event, FitCheck)
            and (event.op, event.memory_bytes) == (found["op"], found["memory"])
        )
        for log in (works, fails)
    ]
    assert [check.fits for check in checks] == [False, True]
    assert checks[0].seq == checks[1].seq


def test_a_trace_at_two_budgets(answers, works, fails):
    saved = answers("diff", works, fails, "--json").json
    budgets = ["-b", 38_359_635, "-b", 38_359_636]
    simulated = answers("diff", "recurrent-16", "-p", "dtr", *budgets, "--json").json
    for side in ("a", "b"):
        assert simulated[side]["engine"] == ENGINE
        assert simulated[side].pop("simulate_seconds") > 0
        assert saved[side].pop("simulate_seconds") is None
        simulated[side]["engine"] = None
    assert simulated == saved


def test_ratios(answers):
    found = answers("diff", "chain-64", "-r", "0.3", "-r", "0.5", "--json").json
    assert (found["a"]["ratio"], found["b"]["ratio"]) == (0.3, 0.5)


def test_two_policies_at_one_budget(answers):
    found = answers("diff", "tree-4", "-p", "dtr", "-p", "lru", "-r", "0.6", "--json").json
    assert (found["a"]["policy"], found["b"]["policy"]) == ("dtr", "lru")
    assert found["a"]["budget"] == found["b"]["budget"]


def test_a_saved_log_against_a_trace(answers, fails):
    found = answers("diff", fails, "recurrent-16", "-r", "0.5", "--json").json
    assert (found["a"]["outcome"], found["b"]["outcome"]) == ("oom", "ok")
    assert (found["a"]["engine"], found["b"]["engine"]) == (None, ENGINE)


def test_equal_runs(answers, works):
    found = answers("diff", works, works, "--json").json
    assert found["first_divergence"] is None
    assert "the runs are the same" in answers("diff", works, works).out


def test_people_get_sentences_and_tables(answers, works, fails):
    out = answers("diff", works, fails).out
    assert "fits in b with 0 B to spare and misses in a by 1 B" in out
    assert "storages evicted" in out
    assert "rematerialisation by operator" in out
    assert "after the runs have parted" in out
    assert "the last that both completed" in out


def test_what_follows_the_divergence_begins_with_it(answers, works, fails):
    found = answers("diff", works, fails, "--json").json
    trajectory = found["trajectory"]
    assert trajectory["parted"]["op"] == found["first_divergence"]["during_op"]
    assert trajectory["stopped"]["step"] > trajectory["last"]["step"]
    assert trajectory["rejoined_is"] == "no"
    assert 0 < len(trajectory["points"]) <= 200
    assert found["re_evicted"]["until_step"] == trajectory["stopped"]["step"]


def test_a_log_that_contradicts_itself_is_told_of(dtrdiag, answers, works, fails, here):
    *lines, end = fails.read_text().splitlines(keepends=True)
    stated = json.loads(end) | {"remats": 7}
    (here / "lies.jsonl").write_text("".join(lines) + json.dumps(stated) + "\n")
    answer = dtrdiag("diff", works, "lies.jsonl")
    assert answer.err.startswith("dtrdiag: note: Careful: the log of b contradicts itself")
    assert "remats is 7 there" in answer.err
    assert answers("chains", "lies.jsonl").out.startswith("Careful: ")


def test_an_incomplete_log_is_told_on_standard_error(dtrdiag, works, fails, here):
    lines = fails.read_bytes().splitlines(keepends=True)
    (here / "cut.jsonl").write_bytes(b"".join(lines[:-2]))
    answer = dtrdiag("diff", works, "cut.jsonl", "--json")
    assert answer.status == 0
    assert answer.json["b"]["outcome"] == "incomplete"
    assert answer.err.count("\n") == 1
    assert "cut.jsonl is incomplete: it ends after line" in answer.err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["chain-64"], "two runs of one trace need two budgets or policies"),
        (["chain-64", "-r", "0.5"], "two runs of one trace need two budgets or policies"),
        (["chain-64", "-r", "0.5", "-r", "0.5"], "need two budgets or policies"),
        (["chain-64", "-r", "0.5", "-b", "1GiB"], "both runs a ratio (-r) or both a budget"),
        (["chain-64", *["-r", "0.5"] * 3], "-r was given 3 times for two runs"),
        (["WORKS"], "a second log is missing"),
        (["WORKS", "FAILS", "-r", "0.5"], "does not apply to a saved log"),
        (["WORKS", "SMALL"], "the runs are of different traces"),
        (["WORKS", "gone.jsonl"], "no such file"),
    ],
)
def test_what_is_refused(refuses, works, fails, small, arguments, why):
    logs = {"WORKS": works, "FAILS": fails, "SMALL": small}
    assert why in refuses("diff", *(logs.get(argument, argument) for argument in arguments))


def test_logs_of_other_names_need_digests(answers, refuses, small, here):
    lines = [json.loads(line) for line in small.read_text().splitlines()]
    renamed = lines[0] | {"trace_name": "another"}
    for name, header in (("a.jsonl", renamed), ("b.jsonl", renamed | {"trace_sha256": None})):
        text = "".join(json.dumps(line) + "\n" for line in (header, *lines[1:]))
        (here / name).write_text(text)
    assert answers("diff", small, "a.jsonl", "--json").json["first_divergence"] is None
    line = refuses("diff", small, "b.jsonl")
    assert "the runs are of traces with different names, and no two digests say" in line
