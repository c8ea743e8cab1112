import os
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pytest

from dtrdiag.experiments import budget_map
from dtrdiag.experiments.map_files import read_map
from dtrdiag.experiments.workers import Ranges, Walker, workers
from dtrdiag.simulator import RunConfig
from dtrdiag.trace.catalog import resolve

from .test_run import POLICIES

KEYS = {"lo", "hi", "outcome", "overhead", "remats", "evictions", "decisions_sha256"}
RANGE = ["--from", "0.05", "--to", "0.12"]
WIDE = ["map", "chain-64", "--from", "0.05", "--to", "0.35", "-j", 1]
MAP = ["map", "chain-64", *RANGE, "-j", 1]


def _facts(document):
    volatile = ("simulate_seconds", "budget")
    return [{k: v for k, v in i.items() if k not in volatile} for i in document["intervals"]]


@pytest.fixture
def walked(monkeypatch):
    """The intervals that are found in this process, a walk each."""
    found = []

    walk = Walker.walk

    def counted(walker, budgets):
        runs, left = walk(walker, budgets, 0)
        found.extend(runs)
        return runs, left

    monkeypatch.setattr(Walker, "walk", counted)
    return found


def test_json_has_every_interval_ascending_and_without_gaps(answers):
    document = answers(*MAP, "--json").json
    assert (document["schema"], document["complete"]) == ("dtrdiag.map/1", True)
    assert (document["trace"]["name"], document["policy"]) == ("chain-64", "dtr")
    assert document["peak"] == 17039360
    assert (document["from"], document["to"]) == (int(17039360 * 0.05), int(17039360 * 0.12))
    intervals = document["intervals"]
    assert all(set(interval) >= KEYS for interval in intervals)
    assert intervals[0]["lo"] <= document["from"]
    assert intervals[-1]["hi"] > document["to"]
    for one, other in pairwise(intervals):
        assert one["hi"] == other["lo"]
    assert {interval["outcome"] for interval in intervals} == {"ok", "oom", "thrashed"}


def test_each_interval_is_the_run_at_its_budgets(answers):
    for interval in answers(*MAP, "--json").json["intervals"]:
        for budget in (interval["lo"], interval["hi"] - 1):
            run = answers("run", "chain-64", "-b", budget, "--json").json
            assert run["interval"] == [interval["lo"], interval["hi"]]
            for name in ("outcome", "overhead", "remats", "evictions", "decisions_sha256"):
                assert run[name] == interval[name]


def test_it_says_the_answer_first(answers):
    out = answers(*MAP).out.splitlines()
    assert out[0].startswith("chain-64 under dtr, budgets from 851,968 B (0.05 of the peak) to ")
    assert out[0].endswith("% are stopped.") or " finish" in out[0]
    assert "intervals in all, on each of which" in out[1]
    text = "\n".join(out)
    assert "The smallest feasible budget is" in text
    assert "censored" in text
    assert "Worst cliff within 17,039 B (0.1 % of the peak)" in text
    assert "segments of equal outcome" in text


def test_processes_find_what_one_finds(answers, monkeypatch):
    alone = answers(*MAP, "--json").json
    monkeypatch.setattr(budget_map, "ALONE_SECONDS", 0)
    many = answers("map", "chain-64", *RANGE, "-j", 2, "--json").json
    assert _facts(many) == _facts(alone)


def test_policies_of_the_user_are_mapped(answers, here):
    (here / "mine.py").write_text(POLICIES)
    command = ["map", "chain-64", "--policy-file", "mine.py", *RANGE, "-o", "mine.parquet"]
    document = answers(*command, "--json").json
    assert document["policy"] == "squared-staleness"
    assert len(document["definition"]["policy_file_sha256"]) == 64
    assert answers("map", "mine.parquet", "--json").json == document


def test_amounts_are_ratios_or_sizes(answers):
    by_ratio = answers(*MAP, "--json").json
    sizes = ["--from", "851968", "--to", "2.044723MB"]
    by_size = answers("map", "chain-64", *sizes, "-j", 1, "--json").json
    assert _facts(by_size) == _facts(by_ratio)
    assert answers("map", "chain-64", "--from", "1", "--to", "1", "--json").json["from"] == 17039360


def test_the_distance_of_a_cliff_can_be_chosen(answers):
    narrow = answers(*MAP, "--within", "1B", "--json").json["summary"]
    wide = answers(*MAP, "--within", "0.05", "--json").json["summary"]
    assert (narrow["within"], wide["within"]) == (1, 851968)
    assert wide["worst_cliff"]["factor"] >= (narrow["worst_cliff"] or {"factor": 1})["factor"]
    low, high = wide["worst_cliff"]["budgets"]
    assert 0 < high - low <= 851968


def test_a_quick_look_says_what_it_may_miss(answers):
    whole = answers(*WIDE, "--json").json
    command = [*WIDE, "--resolution", "0.1"]
    quick = answers(*command, "--json").json
    assert quick["complete"] is False
    assert quick["gaps"]
    assert quick["resolution"] == int(17039360 * 0.1)
    facts = _facts(whole)
    assert all(interval in facts for interval in _facts(quick))
    assert len(quick["intervals"]) < len(facts)
    out = answers(*command).out
    assert "The map is not complete" in out
    assert "islands narrower than that may be missing" in out
    assert "unknown" in out


# --- files ----------------------------------------------------------------------------------------


@pytest.fixture(params=["map.parquet", "map.json"])
def file(request):
    return request.param


def test_a_saved_map_is_shown_again(answers, file):
    first = answers(*MAP, "-o", file)
    assert first.out.endswith(f"\nThe map is kept in {file}.\n")
    again = answers("map", file)
    assert again.out == first.out.removesuffix(f"\nThe map is kept in {file}.\n")


def test_a_part_of_a_saved_map_is_shown(answers, file):
    answers(*MAP, "-o", file)
    part = answers("map", file, "--from", "0.08", "--to", "0.1", "--json").json
    alone = answers("map", "chain-64", "--from", "0.08", "--to", "0.1", "--json").json
    assert _facts(part) == _facts(alone)


def test_a_saved_map_answers_for_any_budget_in_it(answers, refuses, file):
    answers(*MAP, "-o", file)
    run = answers("run", "chain-64", "-b", "1234567", "--json").json
    kept = answers("map", file, "--at", "1234567", "--json").json
    assert kept | {"simulate_seconds": 0} == run | {"simulate_seconds": 0}
    assert "at a budget of 1,234,567 B" in answers("map", file, "--at", "1234567").out
    known = "it knows budgets from 786432 to 2097151 bytes"
    assert refuses("map", file, "--at", "0.9") == (
        f"the map does not know a budget of 15335424 bytes: {known} ({file})"
    )
    assert f"a budget of 2097152 bytes: {known} (" in refuses("map", file, "--at", "2097152")


def test_a_budget_in_a_gap_of_a_saved_map_is_not_known(answers, refuses, file):
    answers(*WIDE, "--resolution", "0.1", "-o", file)
    low = answers("map", file, "--json").json["gaps"][0][0]
    assert refuses("map", file, "--at", low).endswith(f"with gaps, of which this is one ({file})")


def test_the_same_command_again_runs_nothing(answers, walked, file):
    first = answers(*MAP, "-o", file, "--json").json
    assert len(walked) == len(first["intervals"])
    walked.clear()
    assert answers(*MAP, "-o", file, "--json").json == first
    assert walked == []


def test_a_wider_range_uses_what_is_known(answers, walked, file):
    answers("map", "chain-64", "--from", "0.07", "--to", "0.09", "-j", 1, "-o", file)
    known = len(walked)
    wider = answers(*MAP, "-o", file, "--json").json
    assert len(walked) == len(wider["intervals"])
    assert _facts(wider) == _facts(answers(*MAP, "--json").json)
    narrower = answers(
        "map", "chain-64", "--from", "0.07", "--to", "0.09", "-j", 1, "-o", file, "--json"
    ).json
    assert len(narrower["intervals"]) == known
    assert len(answers("map", file, "--json").json["intervals"]) == len(wider["intervals"])


def test_a_quick_look_is_completed_later(answers, file):
    answers(*WIDE, "--resolution", "0.1", "-o", file)
    assert not answers("map", file, "--json").json["complete"]
    assert answers(*WIDE, "-o", file, "--json").json["complete"]
    assert _facts(answers("map", file, "--json").json) == _facts(answers(*WIDE, "--json").json)


def test_an_interrupted_map_keeps_what_was_found(dtrdiag, answers, walked, file, monkeypatch):
    counted = Walker.walk

    def interrupted(*arguments):
        if len(walked) == 4:
            raise KeyboardInterrupt
        return counted(*arguments)

    monkeypatch.setattr(Walker, "walk", interrupted)
    stopped = dtrdiag(*MAP, "-o", file)
    assert (stopped.status, stopped.out) == (130, "")
    assert "4 intervals kept in" in stopped.err
    assert len(read_map(file).outcomes) == 4
    monkeypatch.setattr(Walker, "walk", counted)
    assert _facts(answers(*MAP, "-o", file, "--json").json) == _facts(answers(*MAP, "--json").json)


SLOW_AND_OFTEN = """
import sys, time
from dtrdiag.cli import main
from dtrdiag.experiments import budget_map, map_files
map_files.SAVE_SECONDS, map_files.SAVE_SHARE = 0, 0
walk = budget_map.Walker.walk
def slow(walker, budgets):
    time.sleep(0.05)
    return walk(walker, budgets, 0)
budget_map.Walker.walk = slow
sys.exit(main(sys.argv[1:]))
"""


def test_a_killed_map_goes_on_from_what_was_saved(answers, here, file):
    command = [sys.executable, "-c", SLOW_AND_OFTEN, *map(str, MAP), "-o", file]
    undisturbed = answers(*MAP, "--json").json
    found = []
    for _ in range(2):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        known = len(found)
        until = time.monotonic() + 60
        while time.monotonic() < until and process.poll() is None:
            if (here / file).exists() and len(read_map(file).outcomes) > known:
                break
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        found = list(read_map(file).outcomes)
        assert len(found) > known
    assert len(found) < len(undisturbed["intervals"])
    assert _facts(answers(*MAP, "-o", file, "--json").json) == _facts(undisturbed)


@pytest.mark.skipif(os.name == "nt", reason="signals differ")
@pytest.mark.parametrize(
    ("number", "status", "said"),
    [
        (signal.SIGTERM, 143, ["dtrdiag: terminated"]),
        (signal.SIGINT, 130, ["the same command goes on from there", "dtrdiag: interrupted"]),
    ],
)
@pytest.mark.parametrize("jobs", [1, 2])
def test_signals_keep_results_and_end_the_workers(here, file, number, status, said, jobs):
    command = ["map", "chain-64", "--from", "0.05", "--to", "0.35", "-j", str(jobs), "-o", file]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    script = SLOW_AND_OFTEN.replace("sys.exit", "budget_map.ALONE_SECONDS = 0.2\nsys.exit")
    process = subprocess.Popen([sys.executable, "-c", script, *command], **pipes)
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None and not (here / file).exists():
        time.sleep(0.01)
    if jobs > 1:
        time.sleep(0.3)  # about when workers are started
    process.send_signal(number)
    # The pipes are the workers' too: they end when the last of them does.
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (status, b"")
    lines = err.decode().splitlines()
    assert len(lines) == len(said)
    assert all(line.endswith(end) for line, end in zip(lines, said, strict=True))
    assert len(read_map(file).outcomes)


@pytest.mark.skipif(os.name == "nt", reason="signals differ")
def test_an_interrupt_while_workers_are_started_is_not_lost(monkeypatch):
    submitted = []

    def submit(self, *arguments):
        submitted.append(arguments)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor.submit", submit)
    trace, rules = resolve("chain-64"), RunConfig("dtr")
    with pytest.raises(KeyboardInterrupt), workers(trace, [rules], 2) as pool:
        list(pool.each(Ranges([(1_000_000, 2_000_000)], 2), lambda budgets: [budgets]))
    assert len(submitted) == 1


# --- refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["chain-64", "--from", "0.5", "--to", "0.4"], "the range is empty"),
        (["chain-64", "--from", "0", "--to", "0.4"], "positive"),
        (["chain-64", "--from", "0.0", "--to", "0.4"], "positive"),
        (["chain-64", "--from", "-0.1", "--to", "0.4"], ""),
        (["chain-64", "--from", "0.3"], "--from and --to"),
        (["chain-64", "--to", "0.3"], "--from and --to"),
        (["chain-64", "--from", "low", "--to", "0.3"], "size such as"),
        (["chain-64", "--from", "0.1", "--to", "nan"], ""),
        (["chain-64", "--from", "1e-12", "--to", "0.3"], ""),
        (["chain-64", *RANGE, "-j", "0"], "-j must be"),
        (["chain-64", *RANGE, "--resolution", "1B"], "samples"),
        (["chain-64", *RANGE, "--within", "0"], "positive"),
        (["chain-64", *RANGE, "-p", "nobody"], "nobody"),
        (["chain-64", *RANGE, "-o", "map.txt"], ".parquet or .json"),
        (["chain-64", *RANGE, "-o", "no/map.json"], "folder does not exist"),
        (["chain-64", *RANGE, "--at", "0.1"], "saved map"),
        (["nobody-has-it.parquet"], ""),
    ],
)
def test_what_cannot_be_mapped_is_refused(refuses, arguments, why):
    assert why in refuses("map", *arguments)


@pytest.mark.parametrize(
    "option",
    [
        ["-p", "dtr"],
        ["-j", "2"],
        ["-o", "x.json"],
        ["--seed", "3"],
        ["--force"],
        ["--resolution", "0.1"],
    ],
)
def test_a_saved_map_takes_no_options_of_a_run(answers, refuses, file, option):
    answers(*MAP, "-o", file)
    assert f"{option[0]} does not apply to a saved map" in refuses("map", file, *option)


def test_files_of_others_are_left_alone(refuses, answers, here, file):
    (here / file).write_text("mine\n")
    assert file in refuses(*MAP, "-o", file)
    (here / "folder.json").mkdir()
    assert "not a plain file" in refuses(*MAP, "-o", "folder.json")
    assert answers(*MAP, "-o", file, "--force").out


def test_a_map_of_another_policy_is_left_alone(refuses, answers, file):
    answers(*MAP, "-o", file)
    refused = refuses("map", "chain-64", "-p", "lru", *RANGE, "-o", file)
    assert "another policy (dtr, not lru); --force replaces it" in refused
    answers("map", "chain-64", "-p", "lru", *RANGE, "-j", 1, "-o", file, "--force")
    assert answers("map", file, "--json").json["policy"] == "lru"


def test_truncated_files_are_refused(refuses, answers, here, file):
    answers(*MAP, "-o", file)
    (here / file).write_bytes((here / file).read_bytes()[:-100])
    assert refuses("map", file).endswith(f"({file})")
    assert refuses(*MAP, "-o", file).endswith(f"({file})")


def test_a_full_disk_leaves_the_old_map(answers, dtrdiag, here, file, monkeypatch):
    answers("map", "chain-64", "--from", "0.07", "--to", "0.09", "-j", 1, "-o", file)
    before = (here / file).read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    answer = dtrdiag(*MAP, "-o", file)
    assert (answer.status, answer.one_line()) == (
        2,
        f"cannot be written: No space left on device ({file})",
    )
    assert (here / file).read_bytes() == before
    assert os.listdir(here) == [file]


def test_the_table_of_a_map_keeps_sizes_whole_in_80_columns(answers, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = answers("map", "recurrent-16", "-p", "dtr", "--from", "0.53", "--to", "0.57").out
    assert max(map(len, out.splitlines())) <= 80
    rows = [line.split("│")[1:-1] for line in out.splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["ok", "37,327,444", "38,359,636", "1008.0 KiB", "5", "1.28-1.29"],
        ["oom", "38,359,636", "39,408,216", "1.0 MiB", "21", "-"],
        ["ok", "39,408,216", "40,421,672", "989.7 KiB", "9", "1.28-2.16"],
    ]


def test_maps_and_logs_are_told_apart(answers, refuses, file):
    answers(*MAP, "-o", file)
    for verb in (["oom"], ["graph"], ["replay"], ["replay", "--verify"], ["diff", file]):
        assert refuses(*verb, file) == f"this is a saved map, not an event log ({file})"
    assert refuses("run", file) == f"this is a saved map, not a trace ({file})"
    log = file.replace("map.json", "log.jsonl").replace("map.", "log.")
    answers("run", "chain-64", "-o", log)
    for options in ([], ["--at", "1MB"]):
        line = refuses("map", log, *options)
        assert line.startswith("this is an event log, not a saved map; a map is made of the trace")
