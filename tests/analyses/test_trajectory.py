"""Does a diff follow two runs as their events, one by one, say it should?"""

# mypy: no-check-untyped-defs

from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtrdiag.analyses import diff_document, diff_runs, eviction_counts, first_divergence
from dtrdiag.errors import DtrdiagError
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import EventRecorder, ParquetWriter
from dtrdiag.log import open_log, read_events
from dtrdiag.log import parquet as reader_module
from dtrdiag.simulator import (
    RunConfig,
    baseline_peak_bytes,
    budget_from_ratio,
    simulate,
    simulate_in_columns,
)
from dtrdiag.trace import read_dtr_log

from .naive_trajectory import NaiveRun, accrued, compared_steps, jaccard, rejoined

FOREIGN = Path(__file__).parents[1] / "data" / "foreign-runtime.jsonl"
SETTINGS = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def simulated(trace, **config):
    hooks, recorder = Hooks(), EventRecorder()
    hooks.subscribe(recorder)
    simulate(trace, RunConfig(**config), hooks)
    return recorder.events


@st.composite
def pairs(draw, traces):
    """Two runs of one trace; None where the trace asks for what its dealloc does not define."""
    trace = draw(traces)
    try:
        most = simulate(trace, RunConfig("lru", None)).end.max_memory_bytes
        return tuple(
            simulated(
                trace,
                policy=draw(st.sampled_from(["dtr", "lru", "size"])),
                budget_bytes=max(1, int(most * draw(st.floats(0.1, 1)))),
                dealloc=draw(st.sampled_from(["eager", "ignore", "banish"])),
                overhead_limit=draw(st.sampled_from([2, 30])),
            )
            for _ in "ab"
        )
    except DtrdiagError:
        return None


def check_against_definitions(events_a, events_b):
    diff = diff_runs(events_a, events_b)
    if diff.divergence is None:
        assert (diff.trajectory, diff.re_evicted) == (None, None)
        return
    a, b = NaiveRun(events_a), NaiveRun(events_b)
    found = diff.trajectory
    parted = min(run.parted(diff.common_prefix) for run in (a, b))
    steps, stopped = compared_steps(a, b, parted)
    assert found.steps.tolist() == steps
    assert (found.alignment.parted, found.alignment.stopped) == (parted, stopped)
    check_arrays(found, a, b, steps)
    check_scalars(found, diff, a, b, steps)
    check_re_evictions(diff.re_evicted, a, b, stopped)


def check_arrays(found, a, b, steps):
    sizes = {**b.sizes, **a.sizes}
    states = [(a.state(step), b.state(step)) for step in steps]
    assert found.jaccard.tolist() == [jaccard(x, y, lambda _: 1) for (x, _), (y, _) in states]
    assert found.jaccard_bytes.tolist() == pytest.approx(
        [jaccard(x, y, sizes.__getitem__) for (x, _), (y, _) in states]
    )
    assert found.storages.a.tolist() == [len(x) for (x, _), _ in states]
    assert found.storages.both.tolist() == [len(x & y) for (x, _), (y, _) in states]
    assert found.bytes.b.tolist() == [sum(sizes[s] for s in y) for _, (y, _) in states]
    assert found.extra_ns.tolist() == [later - sooner for (_, sooner), (_, later) in states]


def check_scalars(found, diff, a, b, steps):
    extra = found.extra_ns.tolist()
    for percent in (50, 90, 100):
        place = found.accrued(percent)
        assert (None if place is None else place.step) == accrued(extra, steps, percent)
    met = rejoined(a, b, steps) if diff.a.outcome == diff.b.outcome else None
    assert (found.rejoined.step if found.rejoined else None) == met
    assert (found.rejoined_is == "yes") == (met is not None)
    equal = [a.state(step)[0] == b.state(step)[0] for step in steps]
    assert found.equal_steps == sum(equal)
    for run, beyond in ((a, found.beyond_a_ns), (b, found.beyond_b_ns)):
        within = run.state(steps[-1])[1] if steps else paid_before(run, found.alignment.parted)
        assert beyond == run.total_ns - within
    if steps:
        lowest = found.lowest_jaccard
        assert lowest.value == min(found.jaccard)
        assert lowest.place.step == steps[found.jaccard.tolist().index(lowest.value)]
        assert (found.lowest_extra.value, found.highest_extra.value) == (min(extra), max(extra))
        assert (found.first.step, found.last.step) == (steps[0], steps[-1])


def paid_before(run, step):
    return max((run.paid_ns[s] for s in run.begun if s < step), default=0)


def check_re_evictions(found, a, b, until):
    in_a, in_b = ({s: c for s, c in run.re_evictions(until).items() if c[1]} for run in (a, b))
    assert (found.storages_a, found.storages_b) == (len(in_a), len(in_b))
    assert found.storages_both == len(in_a.keys() & in_b.keys())
    assert found.re_evictions_a == sum(c[1] for c in in_a.values())
    for side, own, other in ((found.only_a, in_a, in_b), (found.only_b, in_b, in_a)):
        only = {storage: counts for storage, counts in own.items() if storage not in other}
        assert {each.storage for each in side.storages} == set(only)
        assert side.re_evictions == sum(counts[1] for counts in only.values())
        executions = {event.seq: event for counts in only.values() for event in counts[2]}
        assert side.cost_ns == sum(event.cost_ns for event in executions.values())
        for each in side.storages:
            pressure, again, brought, _ = only[each.storage]
            assert (each.pressure, each.re_evictions) == (pressure, again)
            assert each.returns == len(brought)
            assert each.cost_ns == sum(event.cost_ns for event in brought)
        order = [(-each.cost_ns, -each.re_evictions, each.storage) for each in side.storages]
        assert order == sorted(order)


@SETTINGS
@given(data=st.data())
def test_random_pairs_are_followed_by_the_definitions(data, longer_random_traces):
    runs = data.draw(pairs(longer_random_traces))
    if runs is not None:
        check_against_definitions(*runs)


@pytest.mark.parametrize("cut", [None, 40, 90])
@pytest.mark.parametrize("budgets", [(0.45, 0.5), (0.3, 0.8), (0.5, 0.45)])
def test_runs_that_rematerialise_much_are_followed_by_the_definitions(layered_trace, budgets, cut):
    trace = layered_trace("busy", 12, {"w": 8, "x": 4})
    most = simulate(trace, RunConfig("lru", None)).end.max_memory_bytes
    a, b = (simulated(trace, policy="dtr", budget_bytes=int(most * share)) for share in budgets)
    check_against_definitions(a, b[:cut])
    check_against_definitions(a[:cut], b)


@pytest.mark.parametrize("victims", [(0, 1), (0, -1), (1, 2)])
@pytest.mark.parametrize("budget", [95, 130, 170])
def test_runs_of_another_runtime_are_followed_by_the_definitions(
    toy_log, block_ops, victims, budget
):
    ops = [*block_ops, ("relu", 3, (1, 4), 40), ("add", 2, (2, 6), 40)]
    check_against_definitions(*(toy_log(ops, budget, victim) for victim in victims))


@st.composite
def toy_ops(draw):
    """Ops that use what was made shortly before or long ago, for the toy runtime."""
    ops = [("constant", 0, (), -5)]
    for op in range(1, draw(st.integers(4, 16))):
        near = draw(st.integers(max(0, op - 2), op - 1))
        far = draw(st.integers(0, op - 1))
        inputs = (near,) if draw(st.booleans()) else tuple(dict.fromkeys((near, far)))
        ops.append(("op", draw(st.integers(0, 9)), inputs, draw(st.sampled_from([20, 30, 40]))))
    return ops


@settings(SETTINGS, max_examples=100)
@given(data=st.data(), ops=toy_ops())
def test_random_runs_of_another_runtime_are_followed_by_the_definitions(data, ops, toy_log):
    budgets = st.integers(90, 190)
    victims = st.sampled_from([0, 0, 1])
    runs = [toy_log(ops, data.draw(budgets), data.draw(victims)) for _ in "ab"]
    check_against_definitions(*runs)


def test_runs_that_differ_for_a_while_are_equal_again(toy_log):
    ops = [("constant", 0, (), -5), ("f", 3, (0,), 40), ("g", 3, (0,), 40), ("h", 2, (1,), 10)]
    ops += [("x", 1, (3,), 10), ("y", 1, (4,), 10)]
    a, b = toy_log(ops, 84), toy_log(ops, 200)
    check_against_definitions(a, b)
    found = diff_runs(a, b).trajectory
    # g pushes f out of a alone, and h brings it back.
    assert found.steps.tolist() == [2, 3, 4, 5]
    assert found.jaccard.tolist() == [1 / 2, 1, 1, 1]
    assert found.jaccard_bytes.tolist() == [5 / 45, 1, 1, 1]
    assert found.extra_ns.tolist() == [0, -3, -3, -3]
    assert (found.accrued(50), found.accrued(90)) == (found.rejoined, found.rejoined)
    assert attrs.astuple(found.rejoined) == (3, 3, "h", 4 / 6)
    assert found.rejoined_is == "yes"
    cut = diff_runs(a, b[:-1]).trajectory
    assert (cut.rejoined, cut.rejoined_is) == (None, "unknown")


def test_a_run_stopped_where_they_part_leaves_nothing_to_compare(toy_log):
    ops = [("constant", 0, (), -5), ("f", 3, (0,), 40), ("g", 3, (1,), 40), ("h", 2, (2,), 10)]
    a, b = toy_log(ops, 84), toy_log(ops, 200)
    check_against_definitions(a, b)
    document = diff_document(diff_runs(a, b))["trajectory"]
    assert (document["steps"], document["points"]) == (0, [])
    assert document["parted"] == document["stopped"]
    for name in ("last", "lowest_jaccard", "final_jaccard", "extra_ns", "highest_extra"):
        assert document[name] is None


def written(folder, name, events):
    path = folder / f"{name}.parquet"
    with ParquetWriter(path, force=True) as writer:
        for event in events:
            writer(event)
    return open_log(path)


def check_columns(folder, a, b):
    by_columns = diff_runs(written(folder, "a", a), written(folder, "b", b))
    by_events = diff_runs(a, b)
    assert diff_document(by_columns) == diff_document(by_events)
    assert by_columns.divergence == by_events.divergence


@settings(SETTINGS, max_examples=15)
@given(data=st.data())
def test_columns_and_events_give_the_same_answer(data, tmp_path, random_traces):
    runs = data.draw(pairs(random_traces))
    if runs is None:
        return
    cut = data.draw(st.sampled_from([None, -1, 20]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader_module, "BATCH", data.draw(st.sampled_from([5, 40, 1 << 18])))
        check_columns(tmp_path, runs[0], runs[1][:cut])
        check_columns(tmp_path, runs[0], runs[0])


@settings(SETTINGS, max_examples=15)
@given(data=st.data())
def test_logs_that_make_no_sense_get_the_same_answer_both_ways(data, tmp_path, random_traces):
    runs = data.draw(pairs(random_traces))
    if runs is None:
        return
    damaged = []
    for events in map(list, runs):
        for _ in range(data.draw(st.integers(0, 3))):
            at = data.draw(st.integers(1, len(events) - 2))
            how = data.draw(st.sampled_from(["drop", "double", "swap"]))
            if how == "drop":
                del events[at]
            elif how == "double":
                events.insert(at, events[at])
            elif at > 1:
                events[at - 1], events[at] = events[at], events[at - 1]
        if len(events) < 3:
            return
        damaged.append([attrs.evolve(event, seq=seq) for seq, event in enumerate(events)])
    check_columns(tmp_path, *damaged)


def test_a_log_without_checks_is_compared_with_one_that_has_them(tmp_path, toy_log, block_ops):
    a, b = toy_log(block_ops, 130, 0), toy_log(block_ops, 130, 1)
    bare = [event for event in b if event.kind != "fit"]
    check_columns(tmp_path, a, bare)
    check_columns(tmp_path, bare, a)
    check_columns(tmp_path, bare, bare)


def test_the_divergence_in_columns_is_that_of_the_events(tmp_path, public_run):
    a, b = public_run("resnet32", "dtr", 0.101), public_run("resnet32", "dtr", 0.102)
    diff = diff_runs(written(tmp_path, "a", a), written(tmp_path, "b", b))
    assert diff.divergence == first_divergence(a, b)
    assert diff.divergence.op_name == "cudnn_convolution"


def test_an_incomplete_parquet_log_still_says_where_it_ends(tmp_path, toy_log, block_ops):
    a = toy_log(block_ops, 130)
    logs = written(tmp_path, "a", a), written(tmp_path, "b", a[:-4])
    diff_runs(*logs)
    assert logs[0].problem is None
    assert "without an end event" in logs[1].problem


def test_a_foreign_log_against_itself_with_another_victim():
    events = read_events(FOREIGN)
    other = [attrs.evolve(e, cause="release") if e.seq == 22 else e for e in events]
    other = [attrs.evolve(e, storage=2) if e.seq == 22 else e for e in other]
    found = diff_runs(events, other).trajectory
    # Parted in step 3, of steps 3, 4 and 5; both stop in step 5. Sets {0,2,3} and {0,1,3}, then
    # {0,3} and {0,1,3}.
    assert found.steps.tolist() == [3, 4]
    assert found.jaccard.tolist() == [1 / 2, 2 / 3]
    assert found.jaccard_bytes.tolist() == [60 / 120, 60 / 90]
    assert found.alignment.schedule_steps is None
    assert (found.rejoined, found.rejoined_is) == (None, "no")
    assert (found.beyond_a_ns, found.beyond_b_ns) == (10, 10)


def test_points_keep_the_ends_and_the_extremes(public_run):
    a, b = public_run("resnet32", "dtr", 0.101), public_run("resnet32", "dtr", 0.107)
    found = diff_runs(a, b).trajectory
    assert len(found.steps) > 1000
    for most in (200, 50):
        kept = found.points(most)
        assert len(kept) <= most
        assert (np.diff(kept) > 0).all()
        assert {0, len(found.steps) - 1} <= set(kept.tolist())
        for values in (found.jaccard, found.jaccard_bytes, found.extra_ns):
            assert (values[kept].min(), values[kept].max()) == (values.min(), values.max())
    assert found.points(len(found.steps)).tolist() == list(range(len(found.steps)))


def test_the_document_has_stable_fields(public_run):
    a, b = public_run("resnet32", "dtr", 0.101), public_run("resnet32", "dtr", 0.102)
    diff = diff_runs(a, b)
    document = diff_document(diff)
    trajectory = document["trajectory"]
    assert trajectory["parted"]["op"] == document["first_divergence"]["op"]
    assert trajectory["parted"]["op_name"] == "cudnn_convolution"
    assert trajectory["lowest_jaccard"]["value"] == diff.trajectory.jaccard.min()
    assert trajectory["accrued"].keys() == {"p50", "p90"}
    assert 0 < trajectory["accrued"]["p90"]["fraction"] <= 1
    assert trajectory["last"]["step"] < trajectory["stopped"]["step"]
    assert trajectory["points"][-1]["extra_ns"] == trajectory["extra_ns"]
    paid = trajectory["extra_ns"] + trajectory["beyond_ns"]["b"] - trajectory["beyond_ns"]["a"]
    assert paid == diff.b.remat_cost_ns - diff.a.remat_cost_ns
    assert document["re_evicted"]["until_step"] == trajectory["stopped"]["step"]
    assert len(document["re_evicted"]["only_b"]["top"]) <= 10


def test_numbers_beyond_64_bits_are_exact(toy_log, block_ops):
    large = 1 << 62
    ops = [(name, cost_ns, inputs, size) for name, cost_ns, inputs, size in block_ops]
    a, b = toy_log(ops, 95, 0), toy_log(ops, 500, 0)

    def scaled(events):
        for event in events:
            if event.kind == "rematerialise":
                yield attrs.evolve(event, cost_ns=large)
            elif event.kind == "op":
                yield attrs.evolve(event, sizes_bytes=(large,))
            else:
                yield event

    check_against_definitions(list(scaled(a)), list(scaled(b)))


def test_the_classic_pair_differs_by_what_is_evicted_under_pressure_alone(tmp_path, traces_archive):
    trace = read_dtr_log(f"{traces_archive}::/lstm-", name="lstm")
    peak_bytes = baseline_peak_bytes(trace)
    logs = []
    for ratio in (0.264, 0.265):
        config = RunConfig("dtr", budget_from_ratio(peak_bytes, ratio), overhead_limit=10)
        path = tmp_path / f"{ratio}.parquet"
        with ParquetWriter(path) as writer:
            simulate_in_columns(trace, config, writer.write_batch)
        logs.append(open_log(path))
    diff = diff_runs(*logs)
    sets = diff.sets.by_cause
    assert (sets["pressure"].a, sets["pressure"].b) == (4339, 1255)
    assert [round(sets[cause].jaccard, 4) for cause in ("all", "pressure")] == [0.9994, 0.2892]
    assert [round(run.overhead, 6) for run in (diff.a, diff.b)] == [8.778919, 1.382602]
    counts = [eviction_counts(log, "pressure") for log in logs]
    again = [{s for s, number in each.items() if number > 1} for each in counts]
    found = diff.re_evicted
    assert (found.storages_a, found.storages_b) == tuple(map(len, again))
    assert {each.storage for each in found.only_a.storages} == again[0] - again[1]
    assert found.re_evictions_a == sum(counts[0].values()) - len(counts[0])
    assert diff.trajectory.final_extra_ns == diff.b.remat_cost_ns - diff.a.remat_cost_ns
    assert diff.trajectory.accrued(50).fraction > 0.99
