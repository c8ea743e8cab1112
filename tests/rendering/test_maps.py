"""What a map says in words, and what its table shows."""

# mypy: no-check-untyped-defs

import attrs
import pytest
from rich.console import Console

from dtrdiag.analyses import BudgetMap, summarise_map
from dtrdiag.events.records import End
from dtrdiag.rendering.fitting import fit
from dtrdiag.rendering.maps import SEGMENT_ROWS, map_words, segment_table

from .conftest import HEADER

HEADER = attrs.evolve(HEADER, overhead_limit=4, peak_bytes=10_000)


def run(low, high, outcome, remat_cost_ns):
    counts = dict.fromkeys(
        ("computes", "remats", "max_memory_bytes", "memory_bytes", "clock_ns"), 1
    )
    for cause in ("pressure", "release", "banish"):
        counts |= {f"evictions_{cause}": 1, f"distinct_{cause}": 1}
    return End(
        seq=0,
        outcome=outcome,
        remat_cost_ns=remat_cost_ns,
        distinct_evicted=1,
        interval_lo_bytes=low,
        interval_hi_bytes=high,
        decisions_sha256="0" * 64,
        **counts,
    )


def words(*runs, low=1000, high=1999, within=10, resolution=None, **header):
    ends = tuple(run(*each) for each in runs)
    budget_map = BudgetMap(attrs.evolve(HEADER, **header), ends, low, high)
    return " ".join(map_words(budget_map, summarise_map(budget_map, within), resolution))


def shown(budget_map, width=100):
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(segment_table(budget_map, summarise_map(budget_map, 1).segments))
    return console.export_text()


def test_shares_entropy_and_variation_are_told():
    text = words(
        (1000, 1500, "ok", 0),
        (1500, 1600, "oom", 0),
        (1600, 1800, "ok", 100),
        (1800, 2000, "ok", 0),
    )
    assert "(0.1999 of the peak): 90 % of them finish, 10 % run out of memory." in text
    assert "10 % of the budgets are in inversions. The outcome of the budgets changes 2 t" in text
    assert "and has an entropy of 0.469 bits." in text
    assert "the overhead rises by 0.09531 in all and falls by 0.09531;" in text


def test_variation_with_stopped_runs_is_a_lower_bound():
    text = words((1000, 1500, "ok", 0), (1500, 2000, "thrashed", 9000))
    assert "50 % of them finish, 50 % are stopped." in text
    assert "changes 1 time, and has an entropy of 1.000 bits" in text
    assert "rises by at least 2.303 in all and falls by at least 0;" in text


def test_an_inversion_is_told_with_its_ends():
    text = words(
        (1000, 1200, "oom", 0),
        (1200, 1300, "ok", 100),
        (1300, 1340, "oom", 0),
        (1340, 1350, "ok", 0),
        (1350, 1360, "oom", 0),
        (1360, 2000, "ok", 0),
    )
    assert "6 intervals in all" in text
    assert "on 3 the run finishes, on 3 it runs out of memory." in text
    assert "smallest feasible budget is 1,200 B (0.12 of the peak)" in text
    assert "from 1,360 B (0.136 of the peak) on every one in the range is" in text
    assert "Feasibility inversions: 2 stretches of 50 B in all, the widest [1,300, 1,340)" in text
    assert "stopped" not in text


def test_runs_that_were_stopped_bound_from_below():
    text = words((1000, 1100, "ok", 1000), (1100, 1200, "thrashed", 3100), (1200, 2000, "ok", 0))
    assert "on 1 the overhead limit of 4 stops it" in text
    assert "censored" in text
    assert "at least 4.1000x at 1,199 B and 1.0000x with 1 B more, a factor of at least" in text
    assert "There is no feasibility inversion" in text
    assert "one stretch of 100 B, [1,100, 1,200), although a smaller budget finishes" in text
    assert "both finish" not in text  # they are too far apart


def test_a_cliff_between_runs_that_finish_is_told_beside_a_bound():
    text = words((1000, 1100, "thrashed", 3100), (1100, 1200, "ok", 1000), (1200, 2000, "ok", 0))
    assert "Between runs that both finish: the overhead is 2.0000x at 1,199 B" in text


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([(1000, 2000, "oom", 0)], "No budget is feasible"),
        ([(1000, 1500, "ok", 0), (1500, 2000, "oom", 0)], "highest budget of the range is not"),
        ([(1000, 2000, "ok", 0)], "from there on every one in the range is"),
        ([(1000, 2000, "ok", 0)], "where the range begins, so that smaller ones may be feasible"),
        ([(900, 2000, "ok", 0)], "900 B (0.09 of the peak), where the interval that holds the low"),
        ([(1000, 2000, "ok", 0)], "No two budgets within 10 B (0.1 % of the peak)"),
    ],
)
def test_what_there_is_not_is_told_too(runs, said):
    assert said in words(*runs)


def test_gaps_are_never_glossed_over():
    text = words((1000, 1100, "oom", 0), (1500, 2000, "ok", 0), resolution=300)
    assert "of those known finish, " in text
    assert "2 intervals known so far" in text
    assert "not complete: 400 B of budgets in 1 gap were not looked at" in text
    assert "samples 300 B apart" in text
    assert "islands narrower than that may be missing" in text
    assert "smallest known feasible budget" in text
    assert "There is no known feasibility inversion: no known budget that runs out" in text
    known = words(
        (1000, 1100, "ok", 0),
        (1150, 1200, "oom", 0),
        (1200, 1300, "thrashed", 3100),
        (1500, 2000, "oom", 0),
        resolution=300,
    )
    assert "Known feasibility inversions: 2 stretches of 550 B in all, the widest [1,500" in known
    assert "stops runs in one known stretch of 100 B, [1,200, 1,300), although" in known
    assert "The highest known budget of the range is not feasible." in known


def test_a_trace_without_a_peak_has_no_ratios():
    text = words((1000, 2000, "ok", 0), peak_bytes=None)
    assert "of the peak" not in text
    assert "budgets from 1,000 B to 1,999 B" in text


def test_names_from_files_do_not_reach_the_terminal(nasty_name):
    text = words((1000, 2000, "ok", 0), trace_name=nasty_name, policy=nasty_name)
    assert text.isprintable()


def test_the_table_has_a_row_for_each_segment_and_gap():
    ends = (run(1000, 1100, "oom", 0), run(1100, 1101, "ok", 0), run(1101, 1200, "ok", 500))
    text = shown(BudgetMap(HEADER, (*ends, run(1500, None, "thrashed", 3100)), 1000, 1999))
    rows = [line.replace("│", " ").split() for line in text.splitlines() if "│" in line]
    assert rows == [
        ["oom", "1,000", "1,100", "100", "B", "0.100000", "1", "-"],
        ["ok", "1,100", "1,200", "100", "B", "0.110000", "2", "1.000-1.500"],
        ["unknown", "1,200", "1,500", "300", "B", "0.120000", "-", "-"],
        ["thrashed", "1,500", "-", "-", "0.150000", "1", ">4.100"],
    ]


def test_of_very_many_segments_the_widest_are_shown():
    ends, at = [], 1000
    for index in range(3 * SEGMENT_ROWS):
        width = 7 if index % 3 == 0 else 1
        ends.append(run(at, at + width, ("ok", "oom")[index % 2], 0))
        at += width
    text = shown(BudgetMap(HEADER, tuple(ends), 1000, at - 1))
    assert f"the {SEGMENT_ROWS} widest of {3 * SEGMENT_ROWS} segments" in text
    assert text.count(" 7 B ") == SEGMENT_ROWS


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([(1000, 2000, "ok", 0)], "Of these intervals, on 1 the run finishes."),
        ([(1000, 2000, "oom", 0)], "Of these intervals, on 1 the run runs out of memory."),
        ([(1000, 2000, "thrashed", 3100)], "on 1 the overhead limit of 4 stops the run."),
    ],
)
def test_outcomes_that_no_interval_has_are_not_counted(runs, said):
    text = words(*runs)
    assert said in text
    assert "on 0" not in text


def test_the_narrow_table_fits_80_columns_with_budgets_of_eleven_digits():
    low = 10_061_179_152
    ends = [
        run(low, low + 1_032_192, "thrashed", 3100),
        run(low + 1_032_192, low + 2_064_384, "ok", 100),
        run(low + 2_064_384, low + 3_096_576, "ok", 9250),
    ]
    budget_map = BudgetMap(attrs.evolve(HEADER, peak_bytes=low), tuple(ends), low, low + 3_096_575)
    table = segment_table(budget_map, summarise_map(budget_map, 1).segments, left_out=2)
    assert fit(table, 80)
    text = Console(width=80)
    with text.capture() as captured:
        text.print(table)
    assert "│ 10,062,211,344 │ 10,064,275,728 │         2 │ 1.10-10.25 │" in captured.get()
    assert max(map(len, captured.get().splitlines())) <= 80
