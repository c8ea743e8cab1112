import pytest

from dtrdiag.experiments import worker
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, budget_from_ratio, simulate
from dtrdiag.trace.catalog import resolve

from .test_run import KEYS, POLICIES

GRID = ["sweep", "chain-64", "--ratios", "0.1:0.5:0.1"]


def _decisions(answer):
    """What a sweep found, without what differs from one call to the next."""
    volatile = ("simulate_seconds", "reused_from")
    return [{k: v for k, v in run.items() if k not in volatile} for run in answer.json["runs"]]


@pytest.fixture
def simulated(monkeypatch):
    """The budgets that are simulated in this process."""
    budgets = []

    def counted(trace, config, hooks=None):
        budgets.append(config.budget_bytes)
        return simulate(trace, config, hooks)

    monkeypatch.setattr(worker, "simulate", counted)
    return budgets


def test_json_is_a_list_of_runs_in_the_order_of_the_grid(answers):
    document = answers(*GRID, "-p", "dtr", "-p", "lru", "-j", 1, "--json").json
    assert document["schema"] == "dtrdiag.sweep/1"
    assert [(run["policy"], run["ratio"]) for run in document["runs"]] == [
        (policy, ratio) for policy in ("dtr", "lru") for ratio in (0.1, 0.2, 0.3, 0.4, 0.5)
    ]
    assert all(set(run) == KEYS | {"reused_from"} for run in document["runs"])


def test_each_run_is_the_one_that_run_makes(answers):
    for run in answers(*GRID, "-p", "dtr-eq", "-j", 1, "--json").json["runs"]:
        alone = answers("run", "chain-64", "-p", "dtr-eq", "-r", run["ratio"], "--json").json
        assert run | {"simulate_seconds": 0} == alone | {"simulate_seconds": 0, "reused_from": None}


def test_processes_find_what_one_finds(answers):
    alone = answers(*GRID, "-p", "random", "-p", "dtr", "--seed", 3, "-j", 1, "--json")
    many = answers(*GRID, "-p", "random", "-p", "dtr", "--seed", 3, "-j", 3, "--json")
    assert _decisions(alone) == _decisions(many)


def test_processes_know_the_policies_of_the_user(answers, here):
    (here / "mine.py").write_text(POLICIES)
    sweep = [*GRID, "--policy-file", "mine.py", "--json"]
    runs = answers(*sweep, "-j", 2).json["runs"]
    assert {run["policy"] for run in runs} == {"squared-staleness"}


def test_an_error_in_a_process_is_one_line(refuses, here):
    (here / "mine.py").write_text(
        POLICIES.replace("    return Quotient", "    1 / 0\n    return Q")
    )
    sweep = [*GRID, "--policy-file", "mine.py"]
    line = "policy 'squared-staleness' failed: ZeroDivisionError: division by zero (mine.py:7)"
    assert refuses(*sweep, "-j", 2) == line
    assert refuses(*sweep, "-j", 1) == line


def test_people_get_the_stretches_and_a_table(answers):
    out = answers("sweep", "recurrent-16", "--ratios", "0.4:0.6:0.05", "-j", 1).out
    assert out.startswith(
        "recurrent-16 under dtr, at the 5 budgets tried: oom at 0.4 to 0.45, ok at 0.5, oom at "
        "0.55, ok at 0.6.\n"
    )
    assert "42,498,225" in out
    assert out.endswith("5 of 5 runs were simulated.\n")


def test_several_traces(answers):
    runs = answers("sweep", "chain-64", "tree-4", "chain-64", "--ratios", "0.9", "--json").json[
        "runs"
    ]
    assert [run["trace"]["name"] for run in runs] == ["chain-64", "tree-4"]


def test_budgets(answers):
    runs = answers("sweep", "chain-64", "--budgets", "8MB,4MiB", "--json").json["runs"]
    assert [(run["budget"], run["ratio"]) for run in runs] == [(8_000_000, None), (4_194_304, None)]


def test_a_result_answers_every_budget_of_its_interval(answers, simulated):
    peak = baseline_peak_bytes(resolve("chain-64"))
    first = budget_from_ratio(peak, 0.3)
    end = simulate(resolve("chain-64"), RunConfig("dtr", first)).end
    inside = [end.interval_lo_bytes, first, end.interval_hi_bytes - 1]
    budgets = ",".join(map(str, [*inside, end.interval_hi_bytes]))
    runs = answers("sweep", "chain-64", "--budgets", budgets, "-j", 1, "--json").json["runs"]
    assert simulated == [inside[0], end.interval_hi_bytes]
    assert [run["reused_from"] for run in runs] == [None, inside[0], inside[0], None]
    assert [run["budget"] for run in runs] == [*inside, end.interval_hi_bytes]
    for run in runs:
        alone = simulate(resolve("chain-64"), RunConfig("dtr", run["budget"])).end
        assert run["decisions_sha256"] == alone.decisions_sha256


def test_a_second_call_simulates_nothing(answers, simulated, here):
    first = answers(*GRID, "-j", 1, "-o", "kept", "--json")
    assert len(simulated) == 5
    second = answers(*GRID, "-j", 1, "-o", "kept", "--json")
    assert len(simulated) == 5
    assert _decisions(first) == _decisions(second)
    assert all(run["reused_from"] == run["budget"] for run in second.json["runs"])
    assert (
        "0 of 5 runs were simulated. The results are kept in kept."
        in answers(*GRID, "-j", 1, "-o", "kept").out
    )


def test_a_finer_sweep_uses_what_a_coarser_one_found(answers, simulated):
    answers(*GRID, "-j", 1, "-o", "kept")
    finer = ["sweep", "chain-64", "--ratios", "0.1:0.5:0.05", "-j", 1, "-o", "kept", "--json"]
    runs = answers(*finer).json["runs"]
    assert len(simulated) == 9
    assert [run["reused_from"] is None for run in runs] == [False, True] * 4 + [False]


def test_what_was_done_before_an_error_is_kept(dtrdiag, answers, simulated, monkeypatch):
    def failing(trace, config, hooks=None):
        if config.ratio == 0.4:
            raise KeyboardInterrupt
        return simulate(trace, config, hooks)

    with monkeypatch.context() as patched:
        patched.setattr(worker, "simulate", failing)
        assert dtrdiag(*GRID, "-j", 1, "-o", "kept").status == 130
    answers(*GRID, "-j", 1, "-o", "kept")
    assert len(simulated) == 2


@pytest.mark.parametrize(
    "other",
    [
        ["-p", "lru"],
        ["--dealloc", "ignore"],
        ["--overhead-limit", "100"],
        ["--seed", "1"],
    ],
)
def test_results_under_other_rules_are_apart(answers, simulated, here, other):
    answers(*GRID, "-j", 1, "-o", "kept")
    answers(*GRID, *other, "-j", 1, "-o", "kept")
    assert len(simulated) == 10
    assert len(list(here.glob("kept/runs/*"))) == 2


def test_results_of_a_policy_file_stand_for_its_content(answers, simulated, here):
    sweep = [*GRID, "--policy-file", "mine.py", "-j", 1, "-o", "kept"]
    for source in (POLICIES, POLICIES, POLICIES + "# other\n"):
        (here / "mine.py").write_text(source)
        answers(*sweep)
    assert len(simulated) == 10


def test_results_of_another_version_are_not_used(answers, simulated, monkeypatch):
    answers(*GRID, "-j", 1, "-o", "kept")
    monkeypatch.setattr("dtrdiag.experiments.rows.__version__", "99")
    answers(*GRID, "-j", 1, "-o", "kept")
    assert len(simulated) == 10


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ([], "needs --ratios A:B:STEP or --budgets"),
        (["--ratios", "0.5", "--budgets", "1GiB"], "not both"),
        (["--ratios", "0.5", "-j", "0"], "-j must be 1 to 256"),
        (["--ratios", "0.5", "-j", "-2"], "-j must be 1 to 256"),
        (["--ratios", "0.5:0.1:0.1"], "its end is below its start"),
        (["--ratios", "0.5", "-p", "nope"], 'no policy "nope"'),
    ],
)
def test_grids_that_are_refused(refuses, options, why):
    assert why in refuses("sweep", "chain-64", *options, "-o", "kept")


def test_a_policy_file_that_fails_in_workers_alone_is_told_as_such(refuses, here):
    source = "import multiprocessing\nif multiprocessing.parent_process(): raise SystemExit(0)\n"
    (here / "mine.py").write_text(source + POLICIES)
    line = refuses(*GRID, "--policy-file", "mine.py", "-j", 2)
    assert line == "the policy file failed: SystemExit: 0 (mine.py:2)"
