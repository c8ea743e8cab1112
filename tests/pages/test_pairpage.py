"""A page of two runs shows where they part and why, and lays them side by side."""

import shlex
from pathlib import Path

import attrs
import pytest

from dtrdiag.analyses import diff_runs
from dtrdiag.cli import main
from dtrdiag.cli.sources import record
from dtrdiag.log import open_log
from dtrdiag.rendering.pages.pairpage import pair_page
from dtrdiag.rendering.pages.parts import Chart, Commands, Table, Words
from dtrdiag.rendering.pictures import chart_picture
from dtrdiag.simulator import RunConfig, baseline_peak_bytes
from dtrdiag.trace.catalog import resolve

WORKS, FAILS = 38_359_635, 38_359_636


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Logs of runs, by what they are made with."""
    folder, made = tmp_path_factory.mktemp("logs"), {}

    def log(trace="recurrent-16", budget=WORKS, policy="dtr", candidates=5):
        key = f"{trace}-{budget}-{policy}-{candidates}"
        if key not in made:
            loaded = resolve(trace)
            config = RunConfig(
                policy, budget, peak_bytes=baseline_peak_bytes(loaded), candidates=candidates
            )
            made[key] = folder / f"{key}.jsonl"
            record(loaded, config, made[key])
        return open_log(str(made[key]))

    return log


@pytest.fixture(scope="module")
def page(saved):
    return pair_page(saved(), saved(budget=FAILS), "dtrdiag report a b")


def parts_of(page, kind, section=None):
    return [
        part
        for each in page.sections
        if section in (None, each.id)
        for part in each.parts
        if isinstance(part, kind)
    ]


def chart_of(page, name):
    return next(chart for chart in parts_of(page, Chart) if chart.id == name)


def table_of(page, begins):
    return next(each for each in parts_of(page, Table) if each.caption.startswith(begins))


def test_the_answer_says_what_became_of_both_and_where_they_part(page):
    first, second = page.answer[:2]
    assert "finished" in first
    assert "stopped out of memory" in first
    assert "it fits in b with 0 B to spare and misses in a by 1 B" in second


def test_the_check_is_worked_out_to_the_byte(page):
    check = dict(table_of(page, "The check").rows)
    figures = {name: int(text.split(" B")[0].replace(",", "")) for name, text in check.items()
               if text[0].isdigit()}  # fmt: skip
    assert figures["in use"] + figures["wanted"] == figures["together"] == FAILS
    assert figures["budget of a at this check"] == WORKS
    assert check["so in a"] == "too little by 1 B"
    assert check["so in b"] == "to spare: 0 B"


def test_candidates_are_listed_with_the_margin(page, saved):
    table = table_of(page, "What a chose from")
    victim, *losers = table.rows
    assert victim[-1] == "evicted"
    assert len(losers) == 5
    scores = [float(row[4]) for row in table.rows]
    assert scores == sorted(scores)
    divergence = diff_runs(saved(), saved(budget=FAILS)).divergence
    assert victim[1] == str(divergence.a.storage)
    assert f"{divergence.a.candidates[0][1] - divergence.a.score:.6g}" in table.note


def test_without_candidates_the_page_says_how_to_get_them(saved):
    page = pair_page(saved(candidates=0), saved(budget=FAILS, candidates=0), "")
    said = [text for words in parts_of(page, Words, "parting") for text in words.paragraphs]
    assert any("--candidates N" in text for text in said)


def test_an_equal_score_is_told_as_a_tie(saved):
    found = diff_runs(saved(), saved(budget=FAILS))
    decision = found.divergence.a
    tied = attrs.evolve(decision, candidates=((9, decision.score),))
    found = attrs.evolve(found, divergence=attrs.evolve(found.divergence, a=tied))
    page = pair_page(saved(), saved(budget=FAILS), "", found)
    assert "Storage 9 has the same one" in table_of(page, "What a chose from").note


def test_charts_lie_along_one_axis_and_mark_where_the_runs_part(page, saved):
    charts = parts_of(page, Chart)
    assert [chart.id for chart in charts] == ["a-memory", "b-memory", "extra", "jaccard"]
    assert len({(chart.group, chart.domain) for chart in charts}) == 1
    trajectory = diff_runs(saved(), saved(budget=FAILS)).trajectory
    for chart in charts:
        assert chart.more["parted"]["x"] == [trajectory.alignment.parted]
        assert chart_picture(chart, "svg").count(b">they part<") == 1
    tops = {str(chart.spec["encoding"]["y"]["scale"]["domain"]) for chart in charts[:2]}
    assert len(tops) == 1


def test_curves_are_those_of_the_analysis(page, saved):
    found = diff_runs(saved(), saved(budget=FAILS)).trajectory
    columns = chart_of(page, "jaccard").columns
    assert columns["x"][1:] == found.steps.tolist()
    assert columns["jaccard"][0] == 1
    assert columns["jaccard"][1:] == pytest.approx(found.jaccard.tolist(), abs=1e-6)
    assert columns["x"][1:] == columns["x2"][:-1]
    assert columns["extra"][0] == 0


def test_sets_by_cause_are_counts(page, saved):
    rows = {row[0]: row[1:] for row in table_of(page, "Storages evicted").rows}
    sets = diff_runs(saved(), saved(budget=FAILS)).sets.by_cause
    pressure = sets["pressure"]
    assert rows["pressure"][:3] == tuple(
        f"{each:,}" for each in (pressure.a, pressure.b, pressure.intersection)
    )


def test_commands_can_be_run(page, capsys):
    (commands,) = parts_of(page, Commands)
    lines = [shlex.split(line) for line in commands.lines]
    assert {line[1] for line in lines} == {"diff", "whatif", "chains"}
    for line in lines:
        assert line[0] == "dtrdiag"
        assert main([*line[1:], "--json"]) == 0
        assert capsys.readouterr().out


def test_runs_of_two_policies(saved):
    page = pair_page(saved("chain-64", 8_000_000), saved("chain-64", 8_000_000, "lru"), "")
    assert page.title == "chain-64: dtr beside lru"
    assert "they part over what to evict" in page.answer[1]
    assert table_of(page, "What b chose from").rows


def test_equal_runs(saved):
    page = pair_page(saved(), saved(), "")
    assert "the runs are the same" in page.answer[-1]
    assert [chart.id for chart in parts_of(page, Chart)] == ["a-memory", "b-memory"]
    assert "parted" not in chart_of(page, "a-memory").more


def test_a_log_that_is_cut(saved, tmp_path):
    path = tmp_path / "cut.jsonl"
    lines = Path(saved().path).read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: len(lines) // 2]))
    page = pair_page(saved(budget=FAILS), open_log(str(path)), "")
    assert "has an incomplete log" in page.answer[0]
    assert len(chart_of(page, "a-memory").columns["x"]) > 0


def test_both_runs_are_read_where_the_pointer_is(show_page, page):
    shown = show_page(page)
    shown.locator("#a-memory .plot").scroll_into_view_if_needed()
    box = shown.locator("#a-memory .plot").bounding_box()
    shown.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 100)
    shown.wait_for_selector("#b-memory-reading dl")
    for chart in ("a-memory", "b-memory"):
        assert "evictable" in shown.inner_text(f"#{chart}-reading")
    assert "in both" in shown.inner_text("#jaccard-reading")
    assert "extra cost so far" in shown.inner_text("#extra-reading")
    shown.click("#extra button[data-do=in]")
    shown.wait_for_selector("#b-memory[data-domain]")
    ends = {shown.get_attribute(f"#{chart}", "data-domain") for chart in ("a-memory", "jaccard")}
    assert len(ends) == 1
    assert shown.evaluate("document.documentElement.scrollWidth") == 1280
