"""A page on a sweep shows what its folder keeps, each run by trace, policy and budget."""

import attrs
import pytest

from dtrdiag.cli import main
from dtrdiag.errors import InputError, UsageError
from dtrdiag.experiments.resultsfolder import kept_outcomes
from dtrdiag.rendering.pages.page import page_html
from dtrdiag.rendering.pages.parts import Chart, Commands, Table
from dtrdiag.rendering.pages.sweeppage import sweep_page
from dtrdiag.rendering.pictures import chart_picture

FOREIGN = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep") / "results"
    grid = ("-p", "dtr", "-p", "lru", "--ratios", "0.2:0.4:0.1", "-j", "1", "-o", str(path))
    assert main(["sweep", "chain-64", "tree-4", *grid]) == 0
    return path


@pytest.fixture(scope="module")
def kept(folder):
    return kept_outcomes(folder)


def parts(page, kind):
    return [part for section in page.sections for part in section.parts if isinstance(part, kind)]


def changed(runs, **ends):
    """Runs with another last event: by position, what changes."""
    return [
        attrs.evolve(run, end=attrs.evolve(run.end, **ends.get(f"at{at}", {})))
        for at, run in enumerate(runs)
    ]


def test_the_folder_gives_the_runs_of_each_definition(kept):
    found = {(runs[0].header.trace_name, runs[0].header.policy): len(runs) for runs in kept}
    assert found == {
        ("chain-64", "dtr"): 3, ("chain-64", "lru"): 3, ("tree-4", "dtr"): 3, ("tree-4", "lru"): 3,
    }  # fmt: skip


def test_each_trace_has_a_grid_with_a_column_for_each_policy(kept):
    page = sweep_page(kept, "")
    assert [section.heading for section in page.sections] == ["chain-64", "tree-4"]
    for grid, name in zip(parts(page, Table), ("chain-64", "tree-4"), strict=True):
        assert [column.name for column in grid.columns] == [
            "budget (B)", "of the peak", "dtr", "lru",
        ]  # fmt: skip
        for at, policy in ((2, "dtr"), (3, "lru")):
            runs = next(
                runs
                for runs in kept
                if (runs[0].header.trace_name, runs[0].header.policy) == (name, policy)
            )
            cells = {row[0]: row[at] for row in grid.rows}
            for run in runs:
                cell = cells[f"{run.header.budget_bytes:,}"]
                if run.end.outcome == "ok":
                    baseline = run.header.baseline_cost_ns
                    assert cell == f"{(baseline + run.end.remat_cost_ns) / baseline:.4f}x"
                else:
                    assert cell.startswith(
                        {"oom": "out", "thrashed": "stopped, >"}[run.end.outcome]
                    )


def test_the_chart_reads_every_policy_at_a_budget(kept):
    chart, grid = (parts(sweep_page(kept, ""), kind)[0] for kind in (Chart, Table))
    assert [reading.label for reading in chart.readings] == [
        "budget", "dtr", "lru", "the run under dtr",
    ]  # fmt: skip
    assert [f"{budget:,}" for budget in chart.columns["budget"]] == [row[0] for row in grid.rows]
    assert chart.columns["policy1"] == [row[3] for row in grid.rows]
    assert chart.readings[-1].template == "dtrdiag run chain-64 -p dtr -b {budget}"


def test_a_failure_above_a_budget_that_finishes_is_told_first(kept):
    runs = next(runs for runs in kept if all(run.end.outcome == "ok" for run in runs))
    failing = changed(runs, at2={"outcome": "oom"})
    page = sweep_page([failing], "")
    assert page.answer[0] == "Of 3 runs, 2 finish, 1 runs out of memory."
    name, policy = runs[0].header.trace_name, runs[0].header.policy
    assert page.answer[1].endswith(f"finishes: {name} under {policy} at 1 budget.")
    assert "Nowhere on the grid" in sweep_page([runs], "").answer[1]


def test_a_run_answers_for_every_budget_of_its_interval(kept):
    runs = next(runs for runs in kept if runs[0].header.policy == "dtr")
    low = runs[0].end.interval_lo_bytes
    header = attrs.evolve(runs[0].header, policy="lru", budget_bytes=low)
    other = [attrs.evolve(runs[0], header=header)]
    grid = parts(sweep_page([runs, other], ""), Table)[0]
    row = next(row for row in grid.rows if row[0] == f"{low:,}")
    assert row[2] == row[3]
    assert [row[3] for row in grid.rows][-1] == "-"


def test_maps_of_what_lies_between_can_be_asked_for(kept):
    lines = parts(sweep_page(kept, ""), Commands)[0].lines
    budgets = [run.header.budget_bytes for run in kept[0]]
    assert len(lines) == 2
    ends = {line.split(" --from ")[1] for line in lines}
    chain = next(runs for runs in kept if runs[0].header.trace_name == "chain-64")
    budgets = [run.header.budget_bytes for run in chain]
    assert ends == {f"{min(budgets)}B --to {max(budgets)}B"}


def test_rules_tell_sets_of_one_policy_apart(kept):
    runs = kept[0]
    header = {"overhead_limit": 3}
    others = [attrs.evolve(run, header=attrs.evolve(run.header, **header)) for run in runs]
    names = [column.name for column in parts(sweep_page([runs, others], ""), Table)[0].columns[2:]]
    policy = runs[0].header.policy
    assert sorted(names) == [policy, f"{policy}, overhead limit 3"]


def test_foreign_names_stay_text(kept):
    runs = [
        attrs.evolve(run, header=attrs.evolve(run.header, trace_name=FOREIGN, policy=FOREIGN))
        for run in kept[0]
    ]
    page = sweep_page([runs], "")
    assert FOREIGN not in page_html(page)
    assert "<script" not in chart_picture(parts(page, Chart)[0], "svg").decode()


def test_what_holds_no_run_is_refused(kept, tmp_path):
    with pytest.raises(UsageError, match="no run with a budget"):
        sweep_page([], "")
    endless = [
        attrs.evolve(run, header=attrs.evolve(run.header, budget_bytes=None)) for run in kept[0]
    ]
    with pytest.raises(UsageError, match="no run with a budget"):
        sweep_page([endless], "")
    (tmp_path / "other.txt").write_text("something else")
    with pytest.raises(InputError, match="something else than results"):
        kept_outcomes(tmp_path)


def test_report_writes_the_page_of_a_folder(folder, tmp_path, capsys):
    path = tmp_path / "sweep.html"
    capsys.readouterr()
    assert main(["report", str(folder), "-o", str(path)]) == 0
    assert capsys.readouterr().out.startswith("Of 12 runs, ")
    assert "A sweep of chain-64, tree-4" in path.read_text()


def test_a_folder_that_keeps_no_run_has_no_page(tmp_path, capsys):
    (tmp_path / "request.json").write_text(
        '{"schema": "dtrdiag.sweep-request/1", "version": "0", "request": null}'
    )
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "a.html")]) == 2
    assert "there is nothing to show" in capsys.readouterr().err
    assert not (tmp_path / "a.html").exists()
