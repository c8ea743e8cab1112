"""`whatif` runs again with one thing changed, and says what moved."""

import json
import os

import pytest

from dtrdiag.events.records import End, Evict
from dtrdiag.log import open_log, verify
from dtrdiag.trace import write_dtr_log
from dtrdiag.trace.catalog import resolve

from .test_run import KEYS as RUN_KEYS
from .test_run import POLICIES

KEYS = {
    "schema", "interventions", "semantics", "base", "run", "changed", "moved", "common_prefix",
    "first_divergence", "log",
}  # fmt: skip
BUDGET = ["-b", 38_359_636]
DECISIONS = ("compute", "rematerialise", "evict")


@pytest.fixture(scope="module")
def pressed(fails):
    """Index, seq, victim and runner-up place of every eviction under pressure."""
    made = [event for event in open_log(fails) if event.kind in DECISIONS]
    return [
        (index, event.seq, event.storage)
        for index, event in enumerate(made)
        if isinstance(event, Evict) and event.cause == "pressure"
    ]


def end_of(log):
    return next(event for event in open_log(log) if isinstance(event, End))


def test_json_has_the_keys_that_scripts_rely_on(answers, fails, pressed):
    index, seq, storage = pressed[3]
    found = answers("whatif", fails, "--forbid", f"{seq}={storage}", "--json").json
    assert set(found) == KEYS
    assert found["schema"] == "dtrdiag.whatif/1"
    assert set(found["base"]) == set(found["run"]) == RUN_KEYS
    assert found["interventions"] == f"forbid {index}={storage}" == found["run"]["interventions"]
    assert found["base"]["interventions"] is None
    assert found["changed"]
    assert "decisions" in found["moved"]
    assert found["common_prefix"] == found["first_divergence"]["index"] == index
    assert found["first_divergence"]["kind"] == "evict"
    assert found["first_divergence"]["a"] == f"E {storage}"


def test_a_number_means_the_first_decision_from_that_event_on(answers, fails, pressed):
    (index, seq, storage), (_, before, _) = pressed[4], pressed[3]
    texts = [
        answers("whatif", fails, "--forbid", place, "--json").json["interventions"]
        for place in (before + 1, seq, f"@{index}")
    ]
    assert texts == [f"forbid {index}"] * 3
    text = f"{seq}={storage}"
    forced = answers("whatif", fails, "--force", text, "--json").json
    assert (forced["interventions"], forced["changed"]) == (f"force {index}={storage}", False)


def test_where_it_takes_effect_is_told_as_it_was_given_and_as_the_decision_it_means(
    answers, fails, pressed
):
    (index, seq, storage), (other, _, _) = pressed[3], pressed[5]
    changes = ["--forbid", f"{seq}={storage}", "--forbid", f"@{other}"]
    changes += ["--policy-from", f"{seq - 1}=lru", "--budget-from", f"@{other}=36MiB"]
    told = answers("whatif", fails, *changes, "-o", "b.jsonl").out.split(".\n")[0]
    assert " ".join(told.split()) == (
        f"recurrent-16 under dtr, with: forbid storage {storage} at event {seq} (decision "
        f"@{index}); forbid at decision @{other}; policy lru from event {seq - 1} (decision "
        f"@{index}) on; budget {36 << 20:,} B from decision @{other} on"
    )
    # Of a run that was intervened in before, the log has the decisions alone.
    again = " ".join(answers("whatif", "b.jsonl", "--tie-break", "first").out.split())
    was = again.partition("The run that it is compared with has: ")[2]
    assert was.startswith(f"forbid storage {storage} at decision @{index}; forbid at decision")


def test_decisions_from_the_first_one_on(answers, fails, pressed):
    index, seq, _ = pressed[0]
    changes = ["--policy-from", f"{seq}=lru", "--budget-from", "0=36MiB"]
    found = answers("whatif", fails, *changes, "--json").json
    assert found["interventions"] == f"policy {index}=lru; budget 0={36 << 20}"
    assert found["run"]["interval"][1] is None


def test_a_trace_and_its_saved_log_are_asked_alike(answers, fails):
    changes = ["--tie-break", "first", "--keep", "77", "--epsilon", "0.05", "--noise-seed", "3"]
    saved = answers("whatif", fails, *changes, "--json").json
    traced = answers("whatif", "recurrent-16", *BUDGET, *changes, "--json").json
    for found in (saved, traced):
        for side in ("base", "run"):
            found[side].pop("simulate_seconds")
    assert saved == traced
    assert saved["interventions"] == "tie-break first; keep 77; costs 0.05@3"
    assert saved["run"]["baseline_cost"] != saved["base"]["baseline_cost"]


def test_people_are_told_what_moved(answers, fails, pressed):
    index, seq, _ = pressed[0]
    out = answers("whatif", fails, "--forbid", seq).out
    told = f"with: forbid at event {seq} (decision @{index}).\n"
    assert out.startswith(f"recurrent-16 under dtr, {told}")
    assert f"The first {index} decisions are equal (a is the run as it was" in out
    assert "Moved: " in out
    assert "Not moved: " in out
    assert "as it was, and intervened" in out
    assert "digest of decisions" in out


def test_people_are_told_that_nothing_moved(answers, fails, pressed):
    _, seq, storage = pressed[0]
    out = answers("whatif", fails, "--force", f"{seq}={storage}").out
    assert "The intervention changed nothing: all 1,283 decisions are equal." in out
    assert "oved: " not in out
    assert len(out.splitlines()) == 2


def test_the_log_of_the_intervened_run_is_kept_and_can_be_asked_again(answers, fails, here):
    first = answers("whatif", fails, "--repair", "zero-stops", "-o", "zero.jsonl", "--json").json
    assert first["log"] == "zero.jsonl"
    assert verify(open_log(here / "zero.jsonl")).ok
    again = answers("whatif", "zero.jsonl", "--cost", "200=900", "--json").json
    assert again["base"]["interventions"] == "repair zero-stops"
    assert again["base"]["decisions_sha256"] == first["run"]["decisions_sha256"]
    assert again["interventions"] == "repair zero-stops; cost 200=900"
    out = answers("whatif", "zero.jsonl", "--cost", "200=900").out
    assert "The run that it is compared with has: repair zero-stops." in out


def test_repaired_semantics_are_a_change(answers):
    rules = ["tree-4", "-r", "0.5", "--dealloc", "ignore", "--semantics", "repaired"]
    found = answers("whatif", *rules, "--json").json
    assert (found["base"]["semantics"], found["semantics"]) == ("simrd", "repaired")
    assert found["interventions"] is None
    assert found["changed"]
    assert "with: semantics repaired." in answers("whatif", *rules).out


def test_a_log_of_a_file_needs_the_trace(answers, refuses, here):
    (here / "mine.log").write_bytes(write_dtr_log(resolve("chain-64")))
    answers("run", "mine.log", "-r", "0.5", "-o", "run.jsonl")
    line = refuses("whatif", "run.jsonl", "--keep", "1")
    assert "the log is of 'mine" in line
    assert "no known trace: add --trace" in line
    ask = ["whatif", "run.jsonl", "--keep", "1", "--trace"]
    assert answers(*ask, "mine.log", "--json").json["changed"]
    line = refuses(*ask, "tree-4")
    assert line == "the log is of another trace than tree-4 (run.jsonl)"


def test_a_policy_of_a_file(answers, here):
    (here / "mine.py").write_text(POLICIES)
    run = ["chain-64", "-r", "0.3", "--policy-file", "mine.py"]
    answers("run", *run, "-o", "run.jsonl")
    ask = ["--tie-break", "first", "--policy-file", "mine.py", "--json"]
    found = answers("whatif", "run.jsonl", *ask).json
    assert found["base"]["policy"] == "squared-staleness"


def test_a_log_that_its_header_does_not_give_is_refused(refuses, small, here):
    lines = small.read_text().splitlines()
    end = json.loads(lines[-1]) | {"decisions_sha256": "0" * 64}
    (here / "other.jsonl").write_text("\n".join([*lines[:-1], json.dumps(end)]) + "\n")
    line = refuses("whatif", "other.jsonl", "--keep", "1")
    assert line == "the log is not what a run of its trace under its header gives (other.jsonl)"


def test_a_log_of_another_runtime_is_refused(refuses, small, here):
    first, rest = small.read_text().split("\n", 1)
    header = json.loads(first) | {"runtime": "other"}
    (here / "other.jsonl").write_text(f"{json.dumps(header)}\n{rest}")
    line = refuses("whatif", "other.jsonl", "--keep", "1")
    assert "made by other, whose runs cannot be made again here" in line


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "nothing is to be changed"),
        (["--force", "7"], "--force must be SEQ=STORAGE, not '7'"),
        (["--force", "x=7"], "--force x=7: 'x' is no number"),
        (["--forbid", "@-1"], "--forbid @-1: '-1' is no number"),
        (["--forbid", "99999999"], "there is no eviction under pressure at event 99999999"),
        (["--policy-from", "99999999=lru"], "there is no decision at event 99999999"),
        (["--policy-from", "0"], "--policy-from must be SEQ=POLICY, not '0'"),
        (["--policy-from", "0=lur"], 'no policy "lur"'),
        (["--budget-from", "0=much"], "a budget must be a size"),
        (["--budget-from", "99999999=1GiB"], "there is no decision at event 99999999"),
        (["--size", "5=1EB"], "--size 5=1EB: a size must be a size such as"),
        (["--pin", "-1"], "--pin: '-1' is no number"),
        (["--keep", 1 << 62], f"--keep: {1 << 62} is not below 2**62"),
        (["--tie-break", ""], 'no tie-break ""'),
        (["--semantics", ""], 'no semantics ""'),
        (["--tie-break", "last"], "nothing is to be changed: this is how the run is"),
        (["--semantics", "simrd"], "nothing is to be changed: this is how the run is"),
        (["--forbid", "0", "--force", "1=2"], "--force, --forbid: two are about"),
        (["--tie-break", "heads"], 'no tie-break "heads"'),
        (["--cost", "5"], "--cost must be ID=FIGURE, not '5'"),
        (["--cost", "99999=5"], "cost 99999=5: the trace has no op 99999"),
        (["--size", "1=5", "--size", "1=6"], "--size: two are about 1"),
        (["--epsilon", "1.5"], "noise needs an epsilon in (0, 1)"),
        (["--noise-seed", "5"], "--noise-seed has no effect without"),
        (["--pin", "99999"], "pin 99999: the trace has no storage 99999"),
        (["--forbid", "@0"], "forbid 0: decision 0 is no eviction under pressure"),
        (["--repair", "all"], 'no defect "all"; there are '),
        (["--keep", "1", "-o", "no/where.jsonl"], "the folder does not exist"),
        (["--keep", "1", "-r", "0.5"], "--ratio does not apply to a saved log"),
        (["--keep", "1", "--dealloc", "ignore"], "--dealloc does not apply to a saved log"),
    ],
)
def test_what_is_refused(refuses, small, arguments, why):
    assert why in refuses("whatif", small, *arguments)


def test_files_are_not_replaced_unless_asked(answers, refuses, small, here):
    (here / "there.jsonl").write_text("mine")
    ask = ["whatif", small, "--tie-break", "first", "-o", "there.jsonl"]
    assert refuses(*ask) == "exists already; --replace replaces it (there.jsonl)"
    answers(*ask, "--replace")
    assert verify(open_log(here / "there.jsonl")).ok
    assert "--trace is for a saved log" in refuses(
        "whatif", "chain-64", "--keep", "1", "--trace", "chain-64"
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
@pytest.mark.parametrize("replace", [[], ["--replace"]])
def test_the_log_is_a_plain_file(refuses, small, here, replace):
    os.mkfifo(here / "pipe")
    for path in ("pipe", os.devnull):
        line = refuses("whatif", small, "--keep", "1", "-o", path, *replace)
        assert line == f"is not a plain file ({path})"


def test_a_link_that_leads_nowhere_is_replaced_if_asked(answers, refuses, small, here):
    (here / "link.jsonl").symlink_to("target.jsonl")
    ask = ["whatif", small, "--keep", "1", "-o", "link.jsonl"]
    assert "exists already; --replace replaces it" in refuses(*ask)
    assert "exists already; --force replaces it" in refuses("run", "chain-64", "-o", "link.jsonl")
    answers(*ask, "--replace")
    assert verify(open_log(here / "target.jsonl")).ok


def test_a_tie_break_is_undone(answers, here, fails):
    answers("whatif", fails, "--tie-break", "first", "-o", "tie.jsonl")
    ask = ["whatif", "tie.jsonl", "--tie-break", "last"]
    assert answers(*ask, "--keep", "612", "--json").json["interventions"] == "keep 612"
    undone = answers(*ask, "--json").json
    assert undone["base"]["interventions"] == "tie-break first"
    assert undone["interventions"] is None
    assert undone["run"]["decisions_sha256"] == end_of(fails).decisions_sha256


def test_a_limit_beyond_all_figures_is_none(answers, refuses, here, fails):
    first, rest = fails.read_text().split("\n", 1)
    header = json.loads(first) | {"overhead_limit": 1e308}
    (here / "limit.jsonl").write_text(f"{json.dumps(header)}\n{rest}")
    found = [
        answers("whatif", "limit.jsonl", "--keep", "3", "--engine", engine, "--json").json
        for engine in ("auto", "python")
    ]
    assert found[0]["run"]["decisions_sha256"] == found[1]["run"]["decisions_sha256"]
    assert found[0]["run"]["outcome"] == "oom"


@pytest.mark.parametrize("name", ["half.jsonl", "half.jsonl.zst", "half.parquet"])
def test_a_refused_intervention_leaves_no_log(answers, refuses, fails, pressed, name):
    index = pressed[-1][0]
    ask = ["whatif", fails, "-o", name, "--engine", "python"]
    assert "is not in the pool" in refuses(*ask, "--force", f"@{index}=0")
    assert "there is none of index" in refuses(*ask, "--forbid", f"@{index}0")
    answers(*ask, "--forbid", f"@{pressed[3][0]}")


def test_the_fit_check_of_a_run_out_of_memory_names_a_budget(answers, refuses, fails):
    events = list(open_log(fails))
    made = sum(event.kind in DECISIONS for event in events)
    check, stop, end = events[-3:]
    assert (check.kind, stop.kind, end.kind) == ("fit", "oom", "end")
    for seq in (check.seq, stop.seq):
        found = answers("whatif", fails, "--budget-from", f"{seq}=40MB", "--json").json
        assert found["interventions"] == f"budget {made}=40000000"
        assert found["common_prefix"] == made
    assert "there is no decision" in refuses("whatif", fails, "--budget-from", f"{end.seq}=40MB")
    assert "there is no decision" in refuses("whatif", fails, "--policy-from", f"{check.seq}=lru")


def test_repairs_add_nothing_to_repaired_semantics(answers, refuses, here):
    rules = ["tree-4", "-r", "0.5", "--semantics", "repaired"]
    answers("run", *rules, "-o", "repaired.jsonl")
    for run in (rules, ["repaired.jsonl"], ["repaired.jsonl", "--semantics", "repaired"]):
        assert "--repair has no effect" in refuses("whatif", *run, "--repair", "zero-stops")
    ask = ["whatif", "repaired.jsonl", "--semantics", "simrd", "--repair", "zero-stops", "--json"]
    assert answers(*ask).json["interventions"] == "repair zero-stops"


def test_runs_sweeps_and_maps_take_repairs(answers, here):
    rules = ["--dealloc", "ignore", "--repair", "zero-stops", "--repair", "stale-region"]
    run = answers("run", "tree-4", "-r", "0.5", *rules, "--json").json
    assert run["interventions"] == "repair stale-region; repair zero-stops"
    swept = answers("sweep", "tree-4", "--ratios", "0.5", *rules, "-o", "kept", "--json").json
    assert swept["runs"][0]["decisions_sha256"] == run["decisions_sha256"]
    again = answers("sweep", "--resume", "-o", "kept", "--json").json
    assert again["runs"][0]["reused_from"] is not None
    assert again["runs"][0]["interventions"] == run["interventions"]
    plain = answers("sweep", "tree-4", "--ratios", "0.5", *rules[:2], "-o", "kept", "--json").json
    assert plain["runs"][0]["decisions_sha256"] != run["decisions_sha256"]
    ask = ["chain-64", "--from", "0.4", "--to", "0.42", "--semantics", "repaired"]
    assert answers("map", *ask, "-j", "1", "--json").json["semantics"] == "repaired"


def test_a_sweep_is_not_resumed_under_other_semantics(answers, refuses, here):
    answers("sweep", "chain-64", "--ratios", "0.5", "-o", "kept")
    for change in (["--semantics", "repaired"], ["--repair", "zero-stops"]):
        line = refuses("sweep", "--resume", "-o", "kept", *change)
        assert f"{change[0]} is not what the sweep to resume was begun with" in line
    answers("sweep", "--resume", "-o", "kept", "--semantics", "simrd")


def _margins(answer):
    return answer.json["first_divergence"]["margin_bytes"]


def test_margins_are_those_of_the_budgets_in_force(answers, fails, here):
    changed = answers("whatif", fails, "--budget-from", "2000=20MB", "-o", "b.jsonl", "--json")
    assert _margins(changed) == {"a": 35_116, "b": -18_324_520}
    assert _margins(answers("diff", fails, "b.jsonl", "--json")) == _margins(changed)
    assert _margins(answers("diff", "b.jsonl", fails, "--json")) == {"a": -18_324_520, "b": 35_116}
    said = answers("diff", fails, "b.jsonl").out
    assert "fits in a with 35,116 B (34.3 KiB) to spare and misses in b by 18,324,520 B" in said
    assert "Run a, under dtr at a budget" in said
    assert "Run b, under dtr (with budget 356=20000000) at a budget" in said


def test_a_budget_that_begins_later_has_a_margin_beside_none(answers):
    found = answers("whatif", "recurrent-16", "--budget-from", "2000=37MB", "--json").json
    parted = found["first_divergence"]
    needed = parted["memory"] + parted["requested_bytes"]
    assert parted["margin_bytes"] == {"a": None, "b": 37_000_000 - needed}


def test_columns_give_the_same_margins(answers, fails, here):
    pytest.importorskip("pyarrow")
    place = ["--budget-from", "2000=20MB"]
    answers("run", "recurrent-16", *BUDGET, "-o", "a.parquet")
    answers("whatif", fails, *place, "-o", "b.parquet")
    found = _margins(answers("diff", "a.parquet", "b.parquet", "--json"))
    assert found == {"a": 35_116, "b": -18_324_520}


def test_a_stop_under_another_budget_keeps_the_two_budgets_apart(answers, fails, here):
    answers("whatif", fails, "--budget-from", "2000=20MB", "-o", "b.jsonl")
    found = answers("oom", "b.jsonl", "--json").json
    assert (found["budget"], found["header_budget"]) == (20_000_000, 38_359_636)
    assert (found["passes_at"], found["shortfall_bytes"]) == (21_023_016, 1_023_016)
    assert found["interval"] == [38_324_520, 38_848_808]
    assert found["interventions"] == "budget 356=20000000"
    said = answers("oom", "b.jsonl").out
    assert "the run begins with one of 38,359,636 B" in said
    assert "would pass from 21,023,016 B" in said
    assert "before that" not in said
    kept = "interventions kept, every budget from 38,324,520 B to below 38,848,808 B to begin with"
    assert kept in said


def test_every_answer_names_the_interventions_of_its_run(answers, fails, here):
    answers("whatif", fails, "--forbid", 2000, "-o", "b.jsonl")
    for verb in (["oom"], ["chains"], ["graph"], ["replay", "--at", 300], ["diff", fails]):
        said = answers(*verb, "b.jsonl").out
        assert "under dtr (with forbid 356)" in said, verb
        plain = [fails, fails] if verb[0] == "diff" else [*verb[1:], fails]
        assert "(with" not in answers(verb[0], *plain).out, verb
    answers("run", "recurrent-16", *BUDGET, "--semantics", "repaired", "-o", "c.jsonl")
    assert "under dtr (with repaired semantics)" in answers("diff", fails, "c.jsonl").out


@pytest.mark.parametrize(
    ("options", "says"),
    [(["--replace"], "--replace has no effect without -o"), (["-o", ""], "not an empty text")],
)
def test_an_output_that_makes_no_sense_is_refused(dtrdiag, options, says):
    assert says in dtrdiag("whatif", "chain-64", "-r", "0.5", "--keep", "3", *options).one_line()
