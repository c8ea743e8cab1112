"""Two runs of one trace serve one program; a program that differs is told apart at its op."""

import attrs
import pytest

from dtrdiag.analyses import ProgramDifference, first_divergence, program_difference
from dtrdiag.events.records import End, OpDefined, ReferenceChanged
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import EventRecorder
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, simulate
from dtrdiag.trace.catalog import resolve


def log(ratio):
    trace, hooks, recorder = resolve("chain-64"), Hooks(), EventRecorder()
    hooks.subscribe(recorder)
    simulate(trace, RunConfig("dtr", int(ratio * baseline_peak_bytes(trace))), hooks)
    return recorder.events


@pytest.fixture(scope="module")
def events():
    return log(0.5)


def position(events, kind, number):
    """Where the event of a kind is that has so many of its kind before it."""
    return [at for at, event in enumerate(events) if isinstance(event, kind)][number]


def changed(events, at, **fields):
    return [*events[:at], attrs.evolve(events[at], **fields), *events[at + 1 :]]


def test_runs_of_one_trace_serve_one_program_whatever_they_decide(events):
    other = log(0.3)
    assert first_divergence(events, other) is not None
    assert program_difference(events, other) is None


def test_a_run_that_stopped_had_the_beginning_of_the_program(events):
    stopped = log(0.01)
    assert stopped[-1].outcome == "oom"
    assert program_difference(events, stopped) is None
    assert program_difference(stopped, events) is None


@pytest.mark.parametrize(
    ("what", "fields", "said"),
    [
        ("name", {"name": "other"}, "other"),
        ("inputs", {"inputs": (0, 1)}, "of tensors 0, 1"),
        ("sizes", {"sizes_bytes": (7,)}, "making 7 bytes"),
        ("cost", {"cost_ns": 7}, "of 7 ns"),
        ("aliases", {"storages": (0,)}, "into storages 0"),
    ],
)
def test_the_first_op_that_differs_is_named_with_both_sides(events, what, fields, said):
    at = position(events, OpDefined, 30)
    later = position(events, OpDefined, 40)
    other = changed(changed(events, at, **fields), later, name="later")
    found = program_difference(events, other)
    assert found is not None
    assert (found.op, found.what) == (events[at].op, what)
    assert said in found.b
    assert said not in found.a
    swapped = program_difference(other, events)
    assert (swapped.a, swapped.b) == (found.b, found.a)


def test_another_release_is_a_difference_at_the_op_after_it(events):
    at = position(events, ReferenceChanged, 5)
    found = program_difference(events, [*events[:at], *events[at + 1 :]])
    following = next(event for event in events[at:] if isinstance(event, OpDefined))
    assert found == ProgramDifference(
        following.op,
        "references",
        found.a,
        found.b,
    )
    assert "releasing" in found.a


def test_a_program_that_ended_early_is_told_from_one_that_was_stopped(events):
    last = position(events, OpDefined, -1)
    shorter = [*events[:last], events[-1]]
    assert isinstance(events[-1], End)
    found = program_difference(events, shorter)
    assert (found.op, found.what, found.b) == (events[last].op, "missing", None)
    assert program_difference(shorter, events).a is None
    assert program_difference(events, events[:last]) is None
