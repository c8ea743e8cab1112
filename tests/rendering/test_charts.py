"""Charts lose no sliver of a map, and come out as SVG that says what it shows."""

import xml.etree.ElementTree as ET

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtrdiag.analyses import BudgetMap
from dtrdiag.errors import UsageError
from dtrdiag.rendering.charts import (
    dot_chart,
    line_chart,
    map_chart,
    map_columns,
    strip_chart,
    svg_text,
)
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace.catalog import resolve

PEAK, BASELINE = 1_000, 100
RESULT = simulate(resolve("tree-4"), RunConfig("lru"))


def budget_map(intervals, low=1, peak=PEAK):
    """A map of (lo, hi, outcome, remat cost)."""
    header = attrs.evolve(RESULT.header, peak_bytes=peak, baseline_cost_ns=BASELINE)
    runs = tuple(
        attrs.evolve(
            RESULT.end,
            interval_lo_bytes=lo,
            interval_hi_bytes=hi,
            outcome=outcome,
            remat_cost_ns=remat,
        )
        for lo, hi, outcome, remat in intervals
    )
    return BudgetMap(header, runs, low, runs[-1].interval_hi_bytes - 1)


@st.composite
def maps(draw):
    widths = draw(st.lists(st.integers(1, 60), min_size=1, max_size=12))
    low, rows = draw(st.integers(1, 50)), []
    at = low
    for width in widths:
        outcome = draw(st.sampled_from(["ok", "oom", "thrashed"]))
        rows.append((at, at + width, outcome, draw(st.integers(0, 900))))
        at += width
    return budget_map(rows, low)


@given(maps(), st.integers(1, 80))
def test_a_column_has_the_extremes_of_all_budgets_in_it(made, columns):
    first, count = made.from_bytes, made.to_bytes + 1 - made.from_bytes
    columns = min(columns, count)
    expected = {}
    for interval in made.runs:
        for budget in range(interval.interval_lo_bytes, interval.interval_hi_bytes):
            at = (budget - first) * columns // count
            expected.setdefault(at, []).append((interval.outcome, made.overhead(interval)))
    found = map_columns(made, columns)
    assert len(found) == len(expected)
    for column, (_, here) in zip(found, sorted(expected.items()), strict=True):
        finished = [cost for outcome, cost in here if outcome == "ok"]
        stopped = [cost for outcome, cost in here if outcome == "thrashed"]
        assert column.least == min(finished, default=None)
        assert column.most == max(finished, default=None)
        assert column.stopped == max(stopped, default=None)
        assert column.oom == any(outcome == "oom" for outcome, _ in here)


def test_a_map_without_a_peak_has_no_chart():
    with pytest.raises(UsageError, match="needs the peak"):
        map_columns(budget_map([(1, 9, "ok", 0)], peak=None))


CHARTS = {
    "map": lambda: map_chart(
        budget_map([(1, 400, "oom", 0), (400, 500, "ok", 50), (500, 501, "oom", 0),
                    (501, 600, "thrashed", 900), (600, 900, "ok", 20)]), "a title"),
    "strip": lambda: strip_chart(
        [{"name": "one", "low": 0.1, "high": 0.2, "outcome": "oom"}], "a title", ["one"], "ratio"),
    "dots": lambda: dot_chart(
        [{"name": "one", "value": 2.0, "series": "s", "bound": True}], "a title", ["one"], "x"),
    "lines": lambda: line_chart(
        [{"x": 0, "y": 1.0, "series": "s"}, {"x": 1, "y": 0.0, "series": "s"}], "a title", "x", "y",
        log=True),
}  # fmt: skip


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_the_same_svg_each_time(name):
    pytest.importorskip("vl_convert")
    text = svg_text(CHARTS[name]())
    assert text == svg_text(CHARTS[name]())
    assert ET.fromstring(text).tag.endswith("svg")
    assert "a title" in text


def test_the_words_of_outcomes_are_on_the_chart():
    pytest.importorskip("vl_convert")
    text = svg_text(CHARTS["map"]())
    assert all(words in text for words in ("finishes", "out of memory", "stopped by the limit"))
