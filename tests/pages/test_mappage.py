"""A page on maps answers first, leaves no interval out, and says how to see each run again."""

import json
import re
import shlex

import attrs
import pytest

from dtrdiag.analyses import BudgetMap, map_segments
from dtrdiag.cli import main
from dtrdiag.errors import UsageError
from dtrdiag.experiments.budget_map import Mapper
from dtrdiag.experiments.outcomes import Outcomes
from dtrdiag.interventions import parse_interventions
from dtrdiag.rendering.commands import run_command
from dtrdiag.rendering.mapcharts import x_axis
from dtrdiag.rendering.maprows import map_rows, row_columns, shared_stretches
from dtrdiag.rendering.pages.mappage import map_page
from dtrdiag.rendering.pages.parts import Chart, Commands, Table
from dtrdiag.rendering.palette import OUTCOME_COLOURS
from dtrdiag.rendering.pictures import chart_picture
from dtrdiag.simulator import RunConfig, baseline_peak_bytes
from dtrdiag.trace.catalog import resolve

TRACE = "recurrent-16"
LOW, HIGH = 37_540_099, 40_373_314
"""0.53 and 0.57 of the peak."""
FOREIGN = "</script><script>alert(1)</script>"


def mapped(policy="dtr", low=LOW, high=HIGH, name=TRACE):
    """The exact map of a bundled trace."""
    trace, known = resolve(name), Outcomes()
    rules = RunConfig(policy, peak_bytes=baseline_peak_bytes(trace))
    Mapper(trace, rules, known).map_range(low, high)
    found = list(known)
    return BudgetMap(found[0].header, tuple(run.end for run in found), low, high)


@pytest.fixture(scope="module")
def real():
    return mapped()


def parts(page, kind):
    return [part for section in page.sections for part in section.parts if isinstance(part, kind)]


def table(page, caption):
    return next(part for part in parts(page, Table) if part.caption.startswith(caption))


def reading(chart, row):
    """What the page shows of a row, by label."""

    def number(found):
        value = chart.columns[found[1]][row]
        return f"{value:,}" if found[2] else str(value)

    shown = {}
    for each in chart.readings:
        if chart.columns[each.field][row] is None:
            continue
        text = str(chart.columns[each.field][row])
        if each.template is not None:
            text = re.sub(r"\{(\w+)(:,)?\}", number, each.template)
        shown[each.label] = text
    return shown


def test_the_answer_has_shares_inversions_and_the_worst_cliff(made_map, by_hand):
    page = map_page([made_map(by_hand)], "made by hand", within_bytes=10)
    (answer,) = page.answer
    assert "from 1,000 B (0.001 of the peak) to 1,000,999 B (1.001 of the peak)" in answer
    assert "89.9 % finish, 0.1 % run out of memory and 10 % are stopped by the limit" in answer
    assert "In 1 stretch, 1 B in all, the run is out of memory although less memory is" in answer
    assert "within 10 B: the overhead is" in answer
    assert "a factor of at least 8.33." in answer
    low, high = (int(n.replace(",", "")) for n in re.findall(r"x at ([\d,]+) B", answer))
    assert 0 < high - low <= 10
    assert f"{high - low} B more" in answer


def test_every_interval_is_a_row_that_begins_where_the_one_before_it_ends(real):
    for chart in parts(map_page([real], ""), Chart):
        assert chart.columns["lo"] == [run.interval_lo_bytes for run in real.runs]
        assert chart.columns["hi"][:-1] == chart.columns["lo"][1:]
        assert chart.domain == (real.from_bytes, real.to_bytes + 1)


def test_a_reading_has_the_interval_to_the_byte_and_what_happens_there(made_map, by_hand):
    chart = parts(map_page([made_map(by_hand, overhead_limit=9)], ""), Chart)[0]
    assert reading(chart, 2) == {
        "budgets": "[500,000, 500,001) B",
        "width": "1 B",
        "outcome": "out of memory",
        "evictions to make room": f"{chart.columns['evictions'][2]:,}",
        "rematerialisations": f"{chart.columns['remats'][2]:,}",
        "the same run": "dtrdiag run tree-4 -p lru -b 500000 --overhead-limit 9",
    }
    stopped = reading(chart, 4)
    assert stopped["outcome"] == "stopped by the limit"
    assert stopped["overhead (of a stopped run: at its stop)"] == "10.0x"


@pytest.mark.parametrize("at", [0, 14, -1])
def test_the_command_of_a_reading_makes_just_that_run(real, at, capsys):
    chart = parts(map_page([real], ""), Chart)[0]
    row = at % len(real.runs)
    command = shlex.split(reading(chart, row)["the same run"])
    assert command[0] == "dtrdiag"
    assert main([*command[1:], "--json"]) == 0
    run = json.loads(capsys.readouterr().out)
    end = real.runs[row]
    assert run["interval"] == [end.interval_lo_bytes, end.interval_hi_bytes]
    assert run["decisions_sha256"] == end.decisions_sha256


def test_all_commands_of_a_page_are_understood(real, capsys):
    for part in parts(map_page([real], ""), Commands):
        for line in part.lines:
            assert main(shlex.split(line)[1:]) == 0, line
    assert "error" not in capsys.readouterr().err


def test_a_command_has_every_option_that_is_not_usual(real):
    header = attrs.evolve(
        real.header,
        trace_name="a b",
        dealloc="ignore",
        overhead_limit=None,
        seed=7,
        semantics="repaired",
        interventions="repair stale-region",
    )
    assert run_command(header, 5) == (
        "dtrdiag run 'a b' -p dtr -b 5 --dealloc ignore --overhead-limit none --seed 7 "
        "--semantics repaired --repair stale-region"
    )


def test_what_only_whatif_can_change_is_said_with_whatif(real):
    text = "tie-break first; force 3=77; forbid 9; policy 4=lru; budget 5=600; keep 1; cost 2=30"
    text += "; costs 0.01@3"
    parse_interventions(text)
    header = attrs.evolve(real.header, interventions=text)
    assert run_command(header, 5, verb="diff") == (
        "dtrdiag whatif recurrent-16 -p dtr -b 5 --tie-break first --force @3=77 --forbid @9 "
        "--policy-from @4=lru --budget-from @5=600 --keep 1 --cost 2=30 --epsilon 0.01 "
        "--noise-seed 3"
    )
    page = map_page([attrs.evolve(real, header=header)], "")
    lines = [line for part in parts(page, Commands) for line in part.lines]
    assert all(line.startswith("dtrdiag whatif ") for line in lines)


def test_gaps_are_rows_and_a_table_and_shares_are_of_what_is_known(made_map):
    known = made_map([(100, 200, "ok", 0), (300, 400, "oom", 0)], low=50, high=499)
    page = map_page([known], "")
    chart = parts(page, Chart)[0]
    columns = (chart.columns[field] for field in ("lo", "hi", "outcome"))
    assert list(zip(*columns, strict=True)) == [
        (50, 100, "not looked at"),
        (100, 200, "finishes"),
        (200, 300, "not looked at"),
        (300, 400, "out of memory"),
        (400, 500, "not looked at"),
    ]  # fmt: skip
    assert "Of 55.6 % of the range nothing is known" in page.answer[0]
    assert "50 % finish and 50 % run out of memory" in page.answer[0]
    gaps = table(page, "lru: 250 B in 3 stretches")
    assert [row[:2] for row in gaps.rows] == [("200", "300"), ("400", "500"), ("50", "100")]


def test_an_interval_without_an_upper_end_says_so(made_map):
    known = made_map([(10, 20, "ok", 3), (20, None, "ok", 0)], high=99)
    chart = parts(map_page([known], ""), Chart)[0]
    assert reading(chart, 1)["above"] == "every larger budget is the same"
    assert "above" not in reading(chart, 0)


def test_inversions_stand_in_a_table_the_widest_first(made_map):
    known = made_map(
        [(1, 5, "ok", 0), (5, 6, "oom", 0), (6, 9, "ok", 0), (9, 12, "oom", 0), (12, 13, "ok", 0)]
    )
    rows = table(map_page([known], ""), "Feasibility inversions").rows
    assert [row[:4] for row in rows] == [("1", "9", "12", "3 B"), ("2", "5", "6", "1 B")]


def test_without_an_inversion_it_says_that_there_is_none(made_map):
    page = map_page([made_map([(1, 5, "oom", 0), (5, 9, "ok", 0)])], "")
    section = next(each for each in page.sections if each.id == "inversions")
    assert "lies above one that finishes" in section.parts[0].paragraphs[0]
    assert "Nowhere in it does more memory make a run fail" in page.answer[0]


def test_slivers_are_listed_the_narrowest_first(real):
    rows = table(map_page([real], ""), "dtr: intervals").rows
    widths = [int(row[0].replace(",", "")) for row in rows]
    assert widths == sorted(widths)
    assert widths[0] == min(run.interval_hi_bytes - run.interval_lo_bytes for run in real.runs[:-1])
    assert len(rows) == 20


def columns_drawn(svg, colour):
    """Left ends and widths of the columns over the whole height."""
    found = re.findall(rf'd="M([\d.]+),0h([\d.]+)v240h-[\d.]+Z" fill="{colour}"', svg)
    return [(float(left), float(width)) for left, width in found]


def test_a_sliver_of_one_byte_is_drawn_two_pixels_wide(made_map, by_hand):
    chart = parts(map_page([made_map(by_hand)], ""), Chart)[0]
    drawn = columns_drawn(chart_picture(chart, "svg").decode(), OUTCOME_COLOURS["oom"])
    assert [width for _, width in drawn] == [pytest.approx(2), pytest.approx(2)]
    assert drawn[1][0] == pytest.approx(720 * 499_000 / 1_000_000, abs=1)


def test_zoomed_in_a_sliver_is_as_wide_as_it_is(made_map, by_hand):
    chart = parts(map_page([made_map(by_hand)], ""), Chart)[0]
    near = attrs.evolve(chart, domain=(499_995, 500_005))
    assert columns_drawn(chart_picture(near, "svg").decode(), OUTCOME_COLOURS["oom"]) == [
        (pytest.approx(360), pytest.approx(72))
    ]


def test_stopped_runs_are_striped_and_what_was_not_looked_at_too(made_map, by_hand):
    svg = chart_picture(parts(map_page([made_map(by_hand)], ""), Chart)[0], "svg").decode()
    colour = OUTCOME_COLOURS["thrashed"]
    stripes = re.findall(rf'<line [^>]*stroke="{colour}"[^>]*>', svg)
    assert len(stripes) == 1
    assert 'stroke-dasharray="3,4"' in stripes[0]
    width = float(re.search(r'stroke-width="([\d.]+)"', stripes[0])[1])
    assert width == pytest.approx(72, abs=0.1)


def test_several_maps_stand_side_by_side_on_one_axis(made_map, by_hand):
    one, other = made_map(by_hand), made_map([(900, 1_500_000, "ok", 5)], policy="dtr")
    page = map_page([one, other], "")
    charts = parts(page, Chart)
    assert [chart.id for chart in charts] == [
        "outcomes", "steps-linear-1", "steps-linear-2", "steps-logarithmic-1",
        "steps-logarithmic-2",
    ]  # fmt: skip
    assert {chart.group for chart in charts} == {"budget"}
    assert {chart.domain for chart in charts} == {(900, 1_500_000)}
    scales = [layer["encoding"]["y"]["scale"] for chart in charts[1:3]
              for layer in chart.spec["layer"] if "y2" in layer["encoding"]]  # fmt: skip
    assert scales[0] == scales[1]
    shown = reading(charts[0], charts[0].columns["lo"].index(500_000))
    assert shown == {
        "budgets": "[500,000, 500,001) B",
        "lru": "out of memory",
        "dtr": "finishes, 1.0500x",
    }
    assert reading(charts[0], 0)["lru"] == "not in this map's range"
    assert charts[1].columns is charts[3].columns


def test_maps_of_one_policy_are_told_apart_by_their_rules(made_map, by_hand):
    one = made_map(by_hand)
    names = [
        [column.name for column in table(map_page([one, other], ""), "Measures").columns[1:]]
        for other in (
            made_map(by_hand, overhead_limit=3),
            made_map(by_hand, interventions="keep 7"),
            made_map(by_hand),
        )
    ]
    assert names == [
        ["lru", "lru, overhead limit 3"],
        ["lru", "lru (with keep 7)"],
        ["lru (1)", "lru (2)"],
    ]


def test_no_map_has_no_page():
    with pytest.raises(UsageError, match="a page on maps needs a map"):
        map_page([], "")


def test_maps_of_different_traces_are_refused(made_map, by_hand):
    other = made_map(by_hand, trace_sha256="0" * 64, trace_name="other")
    what = "maps of different traces have no axis in common: tree-4 and other"
    with pytest.raises(UsageError, match=what):
        map_page([made_map(by_hand), other], "")


def test_a_trace_without_a_peak_has_no_ratios(made_map, by_hand):
    page = map_page([made_map(by_hand, peak=None)], "")
    assert "of the peak" not in page.answer[0]
    axis = parts(page, Chart)[0].spec["layer"][0]["encoding"]["x"]["axis"]
    assert axis["title"] == "budget (B)"


def test_foreign_names_stay_text(made_map, by_hand):
    page = map_page([made_map(by_hand, trace_name=FOREIGN, policy='"><img src=x>')], "")
    chart = parts(page, Chart)[0]
    assert shlex.split(reading(chart, 0)["the same run"])[2:5] == [FOREIGN, "-p", '"><img src=x>']
    svg = chart_picture(chart, "svg").decode()
    assert "<img" not in svg


def test_many_intervals_share_rows_and_outcomes_stay_apart(made_map):
    cycle = [("ok", 5), ("ok", 6), ("oom", 0), ("ok", 7), ("ok", 9)]
    known = made_map([(at + 1, at + 2, *cycle[at % 5]) for at in range(1_000)])
    rows = map_rows(known, most_rows=20)
    assert sum(row.intervals for row in rows) == 1_000
    assert [row.hi_bytes for row in rows[:-1]] == [row.lo_bytes for row in rows[1:]]
    assert sum(row.intervals for row in rows if row.outcome == "oom") == 200
    assert all(row.intervals == 1 for row in rows if row.outcome == "oom")
    columns = row_columns(rows, 1_000)
    at = next(at for at, row in enumerate(rows) if row.intervals == 4)
    assert (columns["overhead"][at], columns["most"][at]) == (1.05, 1.09)
    assert columns["intervals"][at] == 4
    assert len(map_rows(known)) == 1_000


def test_a_page_of_a_very_large_map_has_no_more_rows_than_it_can_hold(made_map):
    known = made_map([(at + 1, at + 2, "ok", at % 7) for at in range(40_000)])
    chart = parts(map_page([known], ""), Chart)[0]
    assert len(chart.columns["lo"]) == 30_000
    assert reading(chart, 0)["budgets"] == "[1, 3) B"
    assert reading(chart, 0)["put together"].startswith("2 intervals; overheads up to 1.01x")


def test_stretches_that_maps_have_in_common_are_cut_wherever_one_changes(real):
    page = map_page([real], "")
    assert page.title == f"{TRACE} under dtr, at every budget of a range"
    segments = map_segments(real)
    found = shared_stretches([segments, ()], LOW, real.to_bytes)
    assert [(low, high) for low, high, _ in found] == [
        (max(s.lo_bytes, LOW), min(s.hi_bytes or 1 << 62, real.to_bytes + 1)) for s in segments
    ]
    assert all(here[1] is None and here[0] is not None for _, _, here in found)


def test_ratios_of_ticks_have_as_many_digits_as_the_zoom_asks_for(real):
    label = x_axis(real.header.peak_bytes)["axis"]["labelExpr"]
    assert f"log({real.header.peak_bytes} / (domain[1] - domain[0]))" in label
