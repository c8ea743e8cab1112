"""Are the intervals that are found those that trying every budget finds?"""

# mypy: no-check-untyped-defs

from functools import partial, partialmethod
from itertools import islice, pairwise

import attrs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dtrdiag.cli.policyfile import forget_policy_files, load_policy_file
from dtrdiag.errors import ContradictionError, PolicyError, UsageError
from dtrdiag.events.records import End
from dtrdiag.experiments import workers
from dtrdiag.experiments.budget_map import Mapper
from dtrdiag.experiments.outcomes import Outcomes, add_checked
from dtrdiag.experiments.workers import Ranges, Walker
from dtrdiag.simulator import RunConfig, runs_between, simulate
from dtrdiag.trace import TraceBuilder
from dtrdiag.trace.catalog import resolve

CHAIN = resolve("chain-64")
RULES = RunConfig("dtr")


def tiny():
    """A residual chain of a few bytes, small enough to try every budget."""
    builder = TraceBuilder("tiny")
    builder.constant("x0", 3)
    for step in range(1, 9):
        skip = [f"x{step - 3}"] if step % 3 == 0 else []
        builder.call([f"x{step}"], "op", [f"x{step - 1}", *skip], 2 + step, [2 + step % 3], [-1])
    for step in range(8, 0, -1):
        before = [f"g{step + 1}"] if step < 8 else []
        builder.call([f"g{step}"], "back", [*before, f"x{step}", f"x{step - 1}"], 5, [2], [-1])
    return builder.build("0" * 64)


TINY = tiny()
OUTCOME = [field.name for field in attrs.fields(End)].index("outcome")


def mapped(trace, low, high, rules=RULES, known=None, **options):
    found = Outcomes(known or ())
    Mapper(trace, rules, found, **options).map_range(low, high)
    return found


def fact(end):
    """All that a map says of an interval, whichever of its budgets was run."""
    return tuple(getattr(end, field.name) for field in attrs.fields(End) if field.name != "extra")


def facts(outcomes):
    return [fact(outcome.end) for outcome in outcomes]


def at(trace, budget_bytes, rules=RULES):
    return fact(simulate(trace, attrs.evolve(rules, budget_bytes=budget_bytes)).end)


@pytest.mark.parametrize("name", ["dtr", "dtr-eq", "lru", "random", "dtr-full"])
@pytest.mark.parametrize("dealloc", ["eager", "ignore", "banish"])
def test_a_map_is_what_trying_every_budget_finds(name, dealloc):
    rules = RunConfig(name, dealloc=dealloc, overhead_limit=3, seed=5)
    tried = {budget: at(TINY, budget, rules) for budget in range(1, 80)}
    assert len({end[OUTCOME] for end in tried.values()}) > 1
    assert facts(mapped(TINY, 1, 79, rules)) == list(dict.fromkeys(tried.values()))


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_intervals_of_random_traces_are_contiguous_and_true(random_traces, data):
    trace = data.draw(random_traces)
    total = int(trace.tensor_size_bytes.sum())
    low = data.draw(st.integers(1, 60))
    high = data.draw(st.sampled_from([low, low + 20, low + 200, total + low, (1 << 46) + low]))
    found = list(mapped(trace, low, high))
    assert found[0].covers(low)
    assert found[-1].covers(high)
    for one, other in pairwise(found):
        assert one.end.interval_hi_bytes == other.end.interval_lo_bytes
        assert one.end.decisions_sha256 != other.end.decisions_sha256
    outcome = data.draw(st.sampled_from(found))
    lo, hi = outcome.end.interval_lo_bytes, outcome.end.interval_hi_bytes
    top = lo + 1000 if hi is None else hi
    for budget in {max(lo, 1), top - 1, data.draw(st.integers(max(lo, 1), top - 1))}:
        assert at(trace, budget) == fact(outcome.end)


def test_processes_find_what_one_finds():
    low, high = 900_000, 7_000_000
    alone = mapped(CHAIN, low, high)
    assert len(alone) > 20
    together = mapped(CHAIN, low, high, jobs=3, alone_seconds=0)
    assert facts(together) == facts(alone)


def test_processes_take_over_from_one(monkeypatch):
    monkeypatch.setattr(Walker, "walk", partialmethod(Walker.walk, seconds=0))
    told = []
    found = mapped(CHAIN, 900_000, 7_000_000, jobs=2, alone_seconds=0.2, tell=told.extend)
    assert facts(found) == facts(mapped(CHAIN, 900_000, 7_000_000))
    assert set(facts(told)) == set(facts(found))


def test_processes_are_prepared(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dtrdiag.simulator import policy\n\n\n"
        "@policy('mine')\ndef mine(pool):\n    return pool.size_bytes\n"
    )
    prepare = partial(load_policy_file, str(file))
    prepare()
    try:
        rules = RunConfig("mine")
        alone = mapped(CHAIN, 6_000_000, 7_000_000, rules)
        options = {"jobs": 2, "alone_seconds": 0, "prepare": prepare}
        assert facts(mapped(CHAIN, 6_000_000, 7_000_000, rules, **options)) == facts(alone)
        file.write_text("1 / 0")
        with pytest.raises(PolicyError, match="ZeroDivisionError"):
            mapped(CHAIN, 6_000_000, 7_000_000, rules, **options)
    finally:
        forget_policy_files()


def test_known_intervals_are_not_run_again(monkeypatch):
    whole = mapped(TINY, 1, 79)
    half = mapped(TINY, 20, 40)
    runs = []

    one_step = Walker.walk

    def counted(walker, budgets):
        found, left = one_step(walker, budgets, 0)
        runs.extend(found)
        return found, left

    monkeypatch.setattr(Walker, "walk", counted)
    wider = mapped(TINY, 1, 79, known=half)
    assert facts(wider) == facts(whole)
    assert len(runs) == len(whole) - len(half)
    runs.clear()
    mapped(TINY, 5, 60, known=wider)
    assert runs == []


@settings(deadline=None, max_examples=40)
@given(st.sets(st.integers(0, 30)), st.integers(1, 79), st.integers(1, 79))
def test_any_known_part_is_completed(kept, low, high):
    assume(low <= high)
    whole = list(mapped(TINY, 1, 79))
    known = [outcome for index, outcome in enumerate(whole) if index in kept]
    found = mapped(TINY, low, high, known=known)
    assert found.gaps(low, high) == []
    assert facts(found) == [end for end in facts(whole) if end in facts(found)]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 79), st.integers(1, 79), st.integers(1, 100))
def test_a_quick_look_never_contradicts_the_map(low, high, step):
    assume(low <= high)
    rules = RunConfig("dtr", overhead_limit=3)
    whole = mapped(TINY, 1, 79, rules)
    found = Outcomes()
    Mapper(TINY, rules, found).sample_range(low, high, step)
    assert set(facts(found)) <= set(facts(whole))
    for budget in [*range(low, high + 1, step), high]:
        assert found.find(budget) is not None
    for outcome in whole:  # what is as wide as the step and lies in the range
        lo, hi = outcome.end.interval_lo_bytes, outcome.end.interval_hi_bytes
        if low <= lo and hi is not None and hi - 1 <= high and hi - lo >= step:
            assert fact(outcome.end) in facts(found)
    for one, other in pairwise(found):
        if one.end.outcome != other.end.outcome:
            assert one.end.interval_hi_bytes == other.end.interval_lo_bytes


def test_a_quick_look_takes_fewer_runs():
    found = Outcomes()
    Mapper(CHAIN, RULES, found).sample_range(900_000, 7_000_000, 500_000)
    assert len(found) < len(mapped(CHAIN, 900_000, 7_000_000))
    together = Outcomes()
    Mapper(CHAIN, RULES, together, jobs=2, alone_seconds=0).sample_range(
        900_000, 7_000_000, 500_000
    )
    assert facts(together) == facts(found)


@pytest.mark.parametrize(("low", "high"), [(0, 5), (6, 5), (-3, -1)])
def test_a_range_without_budgets_is_refused(low, high):
    with pytest.raises(UsageError):
        mapped(TINY, low, high)


@pytest.mark.parametrize("step", [0, -1, 3])
def test_a_resolution_that_cannot_be_used_is_refused(step):
    with pytest.raises(UsageError, match="resolution"):
        Mapper(TINY, RULES, Outcomes()).sample_range(1, 10**6, step)


def forged(original, changes):
    return attrs.evolve(original, end=attrs.evolve(original.end, **changes))


@pytest.mark.parametrize(
    "change",
    [
        lambda end: {"decisions_sha256": "0" * 64},
        lambda end: {"interval_hi_bytes": end.interval_hi_bytes + 1},
        lambda end: {"interval_lo_bytes": end.interval_lo_bytes - 1},
        lambda end: {"interval_hi_bytes": None},
        lambda end: {"outcome": "thrashed"},
    ],
)
def test_runs_that_must_be_equal_and_are_not_are_a_fault(change):
    known = mapped(TINY, 1, 79)
    outcome = list(known)[2]
    add_checked(known, outcome)
    with pytest.raises(ContradictionError) as caught:
        add_checked(known, forged(outcome, change(outcome.end)))
    assert caught.value.exit_status == 70


def test_a_failing_run_in_a_process_is_told_as_it_is():
    with pytest.raises(UsageError, match='no policy "nobody-knows-it"'):
        mapped(CHAIN, 1, 9, RunConfig("nobody-knows-it"), jobs=2, alone_seconds=0)


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)), max_size=4),
    st.integers(1, 20),
    st.randoms(),
)
def test_ranges_are_handed_out_once(widths, pieces, chance):
    ranges, at_bytes = [], 1
    for gap, width in widths:
        ranges.append((at_bytes + gap, at_bytes + gap + width))
        at_bytes += gap + width + 1
    waiting = Ranges(ranges, pieces)
    seen = []
    while waiting:
        low, high = waiting.take(chance.randint(1, 4))
        if low < high and chance.random() < 0.3:
            waiting.put_back((low + 1, high))
            high = low
        seen += range(low, high + 1)
    assert sorted(seen) == [b for low, high in ranges for b in range(low, high + 1)]


def test_a_walk_stops_after_an_interval_and_says_what_is_left():
    walker = Walker(TINY, RULES)
    found, left = walker.walk((20, 79), 0)
    assert len(found) == 1
    assert left == (found[0].end.interval_hi_bytes, 79)
    found, left = walker.walk((20, 20), 0)
    assert left is None


def test_a_walk_goes_on_with_the_enumeration_that_it_left(monkeypatch):
    begun = []

    def counted(trace, rules, low, high):
        begun.append((low, high))
        return runs_between(trace, rules, low, high)

    monkeypatch.setattr(workers, "runs_between", counted)
    walker, left, found = Walker(TINY, RULES), (1, 79), []
    while left is not None:
        some, left = walker.walk(left, 0)
        found += some
    assert begun == [(1, 79)]
    assert [run.end for run in found] == [run.end for run in mapped(TINY, 1, 79)]
    begun.clear()
    walker.walk((30, 40), 0)
    _, left = walker.walk((30, 40), 0)
    walker.walk((left[0], 35), 0)  # a part of what is left
    walker.walk((left[0], 79), 0)  # more than was asked for before
    assert begun == [(30, 40), (30, 40), (left[0], 79)]


def ends_early(trace, rules, low, high):
    return islice(runs_between(trace, rules, low, high), 2)


def skips_one(trace, rules, low, high):
    runs = runs_between(trace, rules, low, high)
    yield next(runs)
    next(runs)
    yield from runs


def test_completeness_is_checked_and_not_believed(monkeypatch):
    whole = facts(mapped(TINY, 1, 79))
    monkeypatch.setattr(workers, "runs_between", ends_early)
    assert facts(mapped(TINY, 1, 79)) == whole
    for faulty in (skips_one, lambda *arguments: iter(())):
        monkeypatch.setattr(workers, "runs_between", faulty)
        with pytest.raises(ContradictionError):
            mapped(TINY, 1, 79)


def test_the_main_inversion_of_resnet32(traces_archive, monkeypatch):
    """Out of memory on [1024657200, 1069656160), and feasible on both sides."""
    monkeypatch.setenv("DTRDIAG_TRACES", str(traces_archive))
    trace = resolve("resnet32")
    rules = RunConfig("dtr", overhead_limit=100)
    below, above = (
        mapped(trace, 1024657199, 1024657200, rules),
        mapped(trace, 1069656159, 1069656160, rules),
    )
    assert [o.end.outcome for o in below] == ["ok", "oom"]
    assert [o.end.outcome for o in above] == ["oom", "ok"]
    assert list(below)[1].end.interval_lo_bytes == 1024657200
    assert list(above)[1].end.interval_lo_bytes == 1069656160
