"""Does every result show in a notebook: its own numbers, in well-formed HTML, names as text?"""

# mypy: no-check-untyped-defs

from html.parser import HTMLParser

import attrs
import pytest

from dtrdiag import notebook
from dtrdiag.analyses import (
    diff_runs,
    pinned_frontier,
    summarise,
    summarise_map,
)
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import EventRecorder, log_writer
from dtrdiag.log import open_log
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace.catalog import resolve

HOSTILE = '</script><script>alert(1)</script>"><img src=x onerror=alert(1)>'
WORKS, FAILS = 38_359_635, 38_359_636


class Outline(HTMLParser):
    """The text of some HTML, its tags and their attributes; tags must be closed in order."""

    def __init__(self, content):
        super().__init__()
        self.tags, self.words, self.attributes, self._open = [], [], [], []
        self.feed(content)
        self.close()
        assert self._open == []

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attributes]
        self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attributes]

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def events_at(budget_bytes, name=None):
    hooks, recorder = Hooks(), EventRecorder()
    hooks.subscribe(recorder)
    simulate(resolve("recurrent-16"), RunConfig("dtr", budget_bytes), hooks)
    if name is None:
        return recorder.events
    return [attrs.evolve(e, **_renamed(e, name)) for e in recorder.events]


def _renamed(event, name):
    fields = {"op": "name", "run": "trace_name"}
    return {fields[event.kind]: name} if event.kind in fields else {}


@pytest.fixture(scope="module")
def works():
    return events_at(WORKS)


@pytest.fixture(scope="module")
def fails():
    return events_at(FAILS)


@pytest.fixture(scope="module")
def budget_map(map_between):
    return map_between("recurrent-16", 37_900_000, 39_500_000)


def shown(value):
    return Outline(value._repr_html_())


def test_a_run_shows_what_it_came_to(works):
    run = summarise(works)
    text = shown(run).text
    assert "recurrent-16 under dtr" in text
    assert "outcome finishes" in text
    assert f"{run.overhead:.4f}x" in text
    assert f"{run.computes:,} first, {run.remats:,} repeated" in text
    assert f"{run.evictions.pressure:,} to make room" in text
    assert f"{run.max_memory_bytes:,} B" in text


def test_what_simulate_returns_shows_the_same(works):
    result = simulate(resolve("recurrent-16"), RunConfig("dtr", WORKS))
    text = shown(result).text
    assert text.startswith(shown(summarise(works)).text)
    assert f"the {result.engine} engine" in text


def test_the_overhead_of_a_run_that_stopped_is_that_until_then(fails):
    assert f"{summarise(fails).overhead:.4f}x until then" in shown(summarise(fails)).text


def test_a_difference_shows_where_the_runs_part(works, fails):
    diff = diff_runs(works, fails)
    text = shown(diff).text
    assert f"{diff.common_prefix:,} decisions are equal. Then a evicts storage" in text
    assert f"fit in {diff.divergence.fits_in} alone" in text
    for compared in diff.sets.by_cause.values():
        assert f"{compared.jaccard:.4f}" in text
    assert "finishes out of memory" in text
    same = shown(diff_runs(works, works)).text
    assert "decisions are equal." in same
    assert "Jaccard" not in same


def test_a_frontier_shows_its_arithmetic(fails):
    frontier = pinned_frontier(fails)
    text = shown(frontier).text
    for size in (frontier.shortfall_bytes, frontier.pinned_bytes, frontier.passes_at_bytes):
        assert f"{size:,} B" in text
    assert f"(the first 5 and the last 3 of {frontier.depth:,})" in text
    assert f"op {frontier.op} ({frontier.op_name})" in text


def test_a_map_shows_its_outcomes_as_a_strip(budget_map):
    content = budget_map._repr_html_()
    outline = Outline(content)
    outcomes = [run.outcome for run in budget_map.runs]
    assert set(outcomes) == {"ok", "oom"}
    assert outline.tags.count("rect") <= len(outcomes)
    for outcome in set(outcomes):
        assert notebook.OUTCOME_COLOURS[outcome] in content
        assert notebook.OUTCOME_WORDS[outcome] in outline.text
    assert 'role="img"' in content
    assert 'aria-label="Outcomes of budgets from 37,900,000 B' in content
    assert "not known" not in outline.text
    partly = attrs.evolve(budget_map, runs=budget_map.runs[:-1])
    assert "Parts of it are not known." in shown(partly).text


def test_a_summary_of_a_map_shows_inversions_and_cliffs(budget_map):
    summary = summarise_map(budget_map, 1_000_000)
    text = shown(summary).text
    assert f"{summary.inversion_bytes:,} budgets in all" in text
    assert f"{summary.smallest_feasible_bytes:,} B" in text
    assert f"{summary.worst_exact_cliff.factor:.4g} times" in text
    first = attrs.evolve(budget_map, runs=budget_map.runs[:1])
    assert "out of memory above one that finishes" in shown(summarise_map(first, 9)).text


def test_a_strip_stays_small_and_shows_slivers():
    spans = [("ok", at, at + 1) for at in range(100_000)] + [("oom", 50_000, 50_001)]
    drawn = notebook.strip(spans, 0, 100_000, "x")
    assert len(drawn) < 700_000
    assert drawn.count(notebook.OUTCOME_COLOURS["oom"]) == 1
    # The worst is on top.
    assert notebook.OUTCOME_COLOURS["oom"] in drawn[drawn.rindex("<rect") :]


def test_outcomes_are_told_apart_without_colours():
    drawn = [
        notebook.strip([(outcome, 0, 1)], 0, 1, "x").replace(colour, "")
        for outcome, colour in notebook.OUTCOME_COLOURS.items()
    ]
    assert len(set(drawn)) == len(notebook.OUTCOME_COLOURS)


def test_names_stay_text(budget_map):
    works, fails = events_at(WORKS, HOSTILE), events_at(FAILS, HOSTILE)
    header = attrs.evolve(budget_map.header, trace_name=HOSTILE, policy=HOSTILE)
    for value in (
        summarise(works),
        diff_runs(works, fails),
        pinned_frontier(fails),
        attrs.evolve(budget_map, header=header),
    ):
        outline = shown(value)
        assert not {"script", "img"} & set(outline.tags)
        assert not [name for name in outline.attributes if name.startswith("on")]
        assert "</script><script>alert(1)" in outline.text


def test_no_text_has_a_colour_of_its_own(works, fails, budget_map):
    for value in (summarise(works), diff_runs(works, fails), pinned_frontier(fails), budget_map):
        content = value._repr_html_()
        assert ";color:" not in content
        assert '"color:' not in content
        # The swatches of a legend are empty.
        assert content.count("background:") == content.count('"></span>')


def test_of_many_ops_that_wait_the_innermost_and_the_outermost_are_shown(fails):
    frontier = pinned_frontier(fails)
    assert len(frontier.stack) > 20
    text = shown(frontier).text
    assert f"(the first 5 and the last 3 of {len(frontier.stack):,})" in text
    for step in (*frontier.stack[:3], *frontier.stack[-5:]):
        assert f" {step.op} {step.name} " in text


def test_a_log_is_shown_by_its_header(tmp_path, fails):
    for name, reader in (("fails.jsonl", "LogReader"), ("fails.parquet", "ParquetReader")):
        log = tmp_path / name
        with log_writer(log) as writer:
            for event in fails:
                writer(event)
        told = repr(open_log(str(log)))
        shown_as = f"<{reader} {notebook.plain_name(str(log), 200)}: recurrent-16 under dtr"
        assert told.startswith(shown_as)
        assert told.endswith(f"budget {FAILS:,} B>")
