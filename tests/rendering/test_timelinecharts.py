"""Are charts of a timeline drawn along each axis, with the words and units that people need?"""

import pytest

from dtrdiag.analyses import find_chains, pinned_frontier, run_timelines
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import EventRecorder
from dtrdiag.rendering.palette import look
from dtrdiag.rendering.pictures import chart_picture
from dtrdiag.rendering.timelinecharts import timeline_charts
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace.catalog import resolve


@pytest.fixture(scope="module")
def events():
    hooks, recorder = Hooks(), EventRecorder()
    hooks.subscribe(recorder)
    simulate(resolve("recurrent-16"), RunConfig("dtr", 38_359_636), hooks)
    return recorder.events


@pytest.fixture(scope="module")
def found(events):
    return run_timelines(events)


def svg(chart):
    return chart_picture(chart, "svg").decode()


@pytest.mark.parametrize(
    ("axis", "title"),
    [("clock", "clock, ms"), ("decision", "decision"), ("step", "step of the schedule")],
)
def test_along_each_axis(found, axis, title):
    charts = timeline_charts(found[axis])
    assert [chart.id for chart in charts] == ["memory", "evictions", "remats", "depth"]
    for chart in charts:
        assert f">{title}<" in svg(chart)
        assert chart.readings[0].label == axis
        for reading in chart.readings:
            assert len(chart.columns[reading.field]) == len(found[axis])


def test_memory_is_in_the_colours_of_its_states_with_budget_and_stop_in_words(events, found):
    spells = find_chains(events).onset.spells
    (memory, *_) = timeline_charts(found["clock"], pinned_frontier(events), spells)
    drawn = svg(memory)
    for state in ("pinned", "locked", "evictable", "requested"):
        assert look(state).fill in drawn
    for word in ("budget 36.6 MiB", "out of memory: 0.5 MiB too little", "in memory, MiB"):
        assert f">{word}<" in drawn
    assert ">thrashing<" in drawn
    assert ">thrashing<" not in svg(timeline_charts(found["clock"])[0])


def test_a_spell_of_thrash_is_where_its_steps_are(events, found):
    spells = find_chains(events).onset.spells
    (memory, *_) = timeline_charts(found["step"], None, spells)
    ends = zip(memory.more["thrash"]["x"], memory.more["thrash"]["x2"], strict=True)
    for (x, x2), spell in zip(ends, spells, strict=True):
        assert x <= spell.first_step
        assert spell.stop_step <= x2


def test_evictions_to_make_room_go_up_and_all_others_down(found):
    (_, evictions, *_) = timeline_charts(found["step"])
    rows = found["step"].evicted_bytes["pressure"] > 0
    heights = [y for y in evictions.more["pressure"]["y"] if y]
    assert len(heights) == rows.sum()
    assert min(heights) > 0
    assert max(y for y in evictions.more["release"]["y"] if y is not None) <= 0


def test_several_timelines_of_a_page_have_names_of_their_own(found):
    charts = timeline_charts(found["step"], prefix="a-")
    assert {chart.group for chart in charts} == {"a-timeline"}
    assert charts[0].id == "a-memory"
