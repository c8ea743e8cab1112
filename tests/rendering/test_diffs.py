"""Do the words and tables of a diff tell what happens after two runs have parted?"""

# mypy: no-check-untyped-defs

import io

import attrs
import numpy as np
import pytest
from rich.console import Console

from dtrdiag.analyses import diff_runs
from dtrdiag.analyses.alignment import Residents
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import EventRecorder
from dtrdiag.rendering.diffs import (
    re_evicted_table,
    re_evicted_words,
    trajectory_table,
    trajectory_words,
)
from dtrdiag.rendering.words import diff_words
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.units import duration


def told(sentences):
    return " ".join(sentences)


def shown(table, width=80):
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None, markup=False).print(table)
    return stream.getvalue()


@pytest.fixture(scope="module")
def run(layered_trace):
    trace = layered_trace("busy", 12, {"w": 8, "x": 4})
    most = simulate(trace, RunConfig("lru", None)).end.max_memory_bytes

    def events(share, **config):
        hooks, recorder = Hooks(), EventRecorder()
        hooks.subscribe(recorder)
        config = {"policy": "dtr", "budget_bytes": int(most * share), **config}
        simulate(trace, RunConfig(**config), hooks)
        return recorder.events

    return events


@pytest.fixture(scope="module")
def diff(run):
    return diff_runs(run(0.4), run(0.8))


def with_extra(diff, extra_ns, **changes):
    """The same runs with another course of the extra cost, and whatever else."""
    found = diff.trajectory
    extra = np.concatenate([extra_ns, np.full(len(found.steps) - len(extra_ns), extra_ns[-1])])
    zero = np.zeros(len(found.steps), np.int64)
    evolved = attrs.evolve(found, cost_a_ns=zero, cost_b_ns=extra.astype(np.int64), **changes)
    return attrs.evolve(diff, trajectory=evolved)


def test_a_finished_pair_is_told_from_the_parting_to_the_end(diff):
    found = diff.trajectory
    said = told(trajectory_words(diff))
    assert f"They part in step {found.alignment.parted:,} (op {diff.divergence.op}, " in said
    assert f"to the end, {len(found.steps)} steps." in said
    lowest = found.lowest_jaccard
    assert f"least alike after step {lowest.place.step:,} (op" in said
    assert f"Jaccard {lowest.value:.3f} by storages" in said
    paid = diff.a.remat_cost_ns - diff.b.remat_cost_ns
    assert f"By then a has paid {duration(paid)} more for rematerialisation than b" in said
    assert f"from step {found.accrued(50).step:,} (op" in said
    assert "cannot be compared" not in said


def test_the_whole_answer_has_what_follows_the_parting(diff):
    said = told(diff_words(diff))
    assert told(trajectory_words(diff)) in said
    assert told(re_evicted_words(diff.re_evicted)) in said


def test_cost_that_goes_up_and_down_is_told_with_its_turns(diff):
    said = told(trajectory_words(with_extra(diff, [0, -3000, 9000, 4000])))
    assert "By then b has paid 4.0 us more" in said
    assert "On the way a had paid up to 3.0 us more, and b had paid up to 9.0 us more." in said
    assert "On the way" not in told(trajectory_words(with_extra(diff, [0, 1000, 4000])))


def test_equal_cost_is_told_as_such(diff):
    said = told(trajectory_words(with_extra(diff, [0, 0])))
    assert "both have paid the same for rematerialisation." in said
    assert "On the way" not in said
    said = told(trajectory_words(with_extra(diff, [0, 2000, 0])))
    assert "both have paid the same for rematerialisation. On the way b had paid" in said


def test_one_place_for_both_shares_is_told_once(diff):
    said = told(trajectory_words(with_extra(diff, [0, 1000])))
    assert said.count("half of that, and 90 %, from step") == 1


def test_equal_sets_are_told_as_such(diff):
    held = np.full(len(diff.trajectory.steps), 4)
    same = Residents(held, held, held)
    said = told(trajectory_words(with_extra(diff, [0], storages=same, bytes=same)))
    assert "The resident sets are equal after each of these steps." in said


@pytest.mark.parametrize(
    ("at", "words"),
    [(2, "they are equal again: the same storages"), (-1, "equal again only after the last")],
)
def test_runs_that_meet_again_are_told_where(diff, at, words):
    found = diff.trajectory
    place = found.alignment.place(int(found.steps[at]))
    met = attrs.evolve(found, rejoined=place, rejoined_is="yes")
    said = told(trajectory_words(attrs.evolve(diff, trajectory=met)))
    assert words in said
    assert "equal again" in shown(trajectory_table(met))
    assert "do not" not in said


def test_a_stopped_run_is_told_with_what_cannot_be_compared(run):
    a, b = run(0.4), run(0.8)
    last_remat = max(event.seq for event in a if event.kind == "rematerialise")
    diff = diff_runs(a[: last_remat + 1], b)
    said = told(diff_words(diff))
    found = diff.trajectory
    assert f"to step {found.last.step:,}, the last that both completed" in said
    assert f"a has an incomplete log that ends in step {found.alignment.stopped:,}." in said
    assert "What they pay after that cannot be compared" in said
    assert "a run was cut short, so whether they would have is not known" in said
    assert "In a that is only up to the stop." in said
    assert f"up to step {found.alignment.stopped:,}, in which the first of them ends" in said


def test_runs_that_stop_where_they_part_are_told_as_such(run):
    a, b = run(0.4), run(0.8)
    parted = diff_runs(a, b).divergence.seq_a
    diff = diff_runs(a[: parted + 2], b)
    (said, *beyond) = trajectory_words(diff)
    assert "A run is stopped in the very step in which they part, step" in said
    assert all("cannot be compared" in sentence for sentence in beyond)


def test_re_evictions_of_one_run_are_told_by_cost(diff):
    found = diff.re_evicted
    top = found.only_a.storages[0]
    said = told(re_evicted_words(found))
    assert f"{found.storages_a:,} storages in a and {found.storages_b:,} in b" in said
    assert f"Only a re-evicts {len(found.only_a.storages):,} storage" in said
    assert f"most of all storage {top.storage} (of op {top.op}, {top.op_name})" in said
    rows = [line for line in shown(re_evicted_table(found)).splitlines() if "│ a " in line]
    assert len(rows) == min(10, len(found.only_a.storages))
    assert rows[0].split("│")[2].strip() == str(top.storage)


def test_a_table_that_is_cut_says_of_how_many(diff):
    number = len(diff.re_evicted.only_a.storages)
    assert number > 2
    one = shown(re_evicted_table(diff.re_evicted, 1))
    assert f": the dearest 1 of {number} in a" in " ".join(one.split())
    assert one.count("│ a ") == 1
    whole = shown(re_evicted_table(diff.re_evicted, number + 99))
    assert "the dearest" not in whole
    assert whole.count("│ a ") == number


def test_runs_without_re_evictions_say_so(run):
    diff = diff_runs(run(0.9), run(1.0))
    assert diff.divergence is not None
    assert re_evicted_words(diff.re_evicted) == [
        "Neither run evicts a storage under pressure that it had evicted so before."
    ]
    assert re_evicted_words(None) == []


def test_foreign_names_cannot_break_sentences_or_tables(nasty_name, run):
    def renamed(events):
        return [attrs.evolve(e, name=nasty_name) if e.kind == "op" else e for e in events]

    diff = diff_runs(renamed(run(0.4)), renamed(run(0.8)))
    said = told(diff_words(diff))
    table = shown(trajectory_table(diff.trajectory)) + shown(re_evicted_table(diff.re_evicted))
    for text in (said, table.replace("\n", "")):
        assert text.isprintable()
