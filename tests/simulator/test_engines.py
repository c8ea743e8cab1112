"""The native engine decides as the Python engine does, whatever the trace, and logs it alike."""

from itertools import islice, pairwise

import attrs
import numpy as np
import orjson
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from dtrdiag.errors import DtrdiagError
from dtrdiag.events import encode
from dtrdiag.hooks import Hooks
from dtrdiag.simulator import (
    DEALLOCS,
    RunConfig,
    baseline_peak_bytes,
    find_policy,
    native,
    policies,
    runs_between,
    simulate,
)
from dtrdiag.trace.catalog import resolve

pytestmark = pytest.mark.usefixtures("native_engine")

BUNDLED = ("chain-64", "residual-12", "recurrent-16", "tree-4")
POLICIES = tuple(entry.name for entry in policies() if native.built_in(entry))
WITH_REGIONS = tuple(name for name in POLICIES if "regions" in find_policy(name).uses)
BUDGETS = 20
CHUNKS, EXAMPLES = 8, 250

fixed = settings(
    max_examples=EXAMPLES,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


@st.composite
def configs(draw, trace, names=POLICIES):
    """Rules of a run, most of them too tight for comfort."""
    total_bytes = int(trace.tensor_size_bytes.sum())
    share = draw(st.sampled_from([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8]) | st.floats(0.05, 1))
    return RunConfig(
        draw(st.sampled_from(names)),
        max(1, int(total_bytes * share)),
        dealloc=draw(st.sampled_from(DEALLOCS)),
        overhead_limit=draw(st.sampled_from([None, 1, 1.5, 2, 10])),
        seed=draw(st.integers(0, 3)),
        candidates=draw(st.sampled_from([0, 0, 1, 3])),
    )


def facts(result):
    """All of a result but who decided and how long it took."""
    return result.header, attrs.evolve(result.end, seq=0), result.stop


def outcome(trace, config, hooks=None):
    """What a run comes to, be it an error."""
    try:
        return facts(simulate(trace, config, hooks))
    except DtrdiagError as error:
        return type(error), str(error)


def logged(trace, config):
    """What a run comes to, and the bytes of its log."""
    lines = []
    hooks = Hooks()
    hooks.subscribe(lambda event: lines.append(orjson.dumps(encode(event))))
    return outcome(trace, config, hooks), lines


def by(engine, config):
    return attrs.evolve(config, engine=engine)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_runs_and_their_logs_are_the_same(longer_random_traces, chunk):
    """2,000 traces in all, the same at every call."""
    seen = []

    @seed(chunk)
    @fixed
    @given(data=st.data())
    def check(data):
        trace = data.draw(longer_random_traces)
        config = data.draw(configs(trace))
        ours, lines = logged(trace, by("native", config))
        reference, expected = logged(trace, by("python", config))
        assert ours == reference
        assert lines == expected
        assert outcome(trace, by("native", config)) == ours
        seen.append(native._prepared(trace).only_to_new)

    check()
    assert len(seen) >= EXAMPLES
    assert {True, False} <= set(seen)


@pytest.mark.parametrize("chunk", range(2))
def test_fresh_walks_are_worth_the_same_as_cached_regions(
    native_engine, longer_random_traces, chunk
):
    @seed(100 + chunk)
    @fixed
    @given(data=st.data())
    def check(data):
        trace = data.draw(longer_random_traces)
        config = data.draw(configs(trace, WITH_REGIONS))
        try:
            fresh = native.run(trace, config, find_policy(config.policy), scores=False)
        except DtrdiagError:
            return
        arguments = (
            native._prepared(trace),
            config.budget_bytes,
            config.dealloc,
            native._limit(trace, config),
            *native._policy(find_policy(config.policy), config),
        )
        cached = native_engine.run(*arguments, 0, False, True)
        assert (cached.totals, cached.stop) == (fresh.totals, fresh._held.stop)
        assert native._digest(cached, cached.totals) == fresh.decisions_sha256

    check()


def budgets_of(trace):
    """From next to nothing up to what an unlimited run takes."""
    peak_bytes = baseline_peak_bytes(trace)
    return [int(budget) for budget in np.linspace(0.05, 1.0, BUDGETS) * peak_bytes]


def assert_same_at(trace, policy, dealloc, budgets):
    for budget_bytes in budgets:
        config = RunConfig(policy, budget_bytes, dealloc=dealloc)
        assert outcome(trace, by("native", config)) == outcome(trace, by("python", config))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_traces_at_some_budgets(name, policy):
    trace = resolve(name)
    first = POLICIES.index(policy) + BUNDLED.index(name)
    budgets = budgets_of(trace)
    for turn, dealloc in enumerate(DEALLOCS):
        # Twelve apart: one budget is tight, one is not, and neighbours in the list get others.
        some = {(first + 3 * turn) % BUDGETS, (first + 3 * turn + 12) % BUDGETS}
        assert_same_at(trace, policy, dealloc, [budgets[index] for index in some])


@pytest.mark.slow
@pytest.mark.parametrize("dealloc", DEALLOCS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_traces_at_all_budgets(name, policy, dealloc):
    trace = resolve(name)
    assert_same_at(trace, policy, dealloc, budgets_of(trace))


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_logs_are_the_same(name):
    trace = resolve(name)
    budget = baseline_peak_bytes(trace) * 45 // 100
    for policy, dealloc in (("dtr", "eager"), ("dtr-eq", "ignore"), ("dtr-full", "banish")):
        for candidates in (0, 3):
            config = RunConfig(policy, budget, dealloc=dealloc, candidates=candidates)
            ours = logged(trace, by("native", config))
            assert ours == logged(trace, by("python", config))
            assert len(ours[1]) > trace.ops


def listed(trace, config, from_bytes, to_bytes, most):
    """The first runs of a range, or the error in their stead."""
    try:
        return [
            facts(result)
            for result in islice(runs_between(trace, config, from_bytes, to_bytes), most)
        ]
    except DtrdiagError as error:
        return type(error), str(error)


def assert_range_is_exact(trace, config, from_bytes, to_bytes, most):
    """All runs of a range equal runs by themselves, at both ends of each interval."""
    runs = listed(trace, by("native", config), from_bytes, to_bytes, most)
    if isinstance(runs, tuple):
        assert runs == outcome(trace, attrs.evolve(config, budget_bytes=from_bytes))
        return
    assert runs[0][0].budget_bytes == from_bytes
    for (_, end, _), (header, _, _) in pairwise(runs):
        assert end.interval_hi_bytes == header.budget_bytes
    if len(runs) < most:
        assert (runs[-1][1].interval_hi_bytes or to_bytes + 1) > to_bytes
    for header, end, stop in runs:
        alone = by("native", attrs.evolve(config, budget_bytes=header.budget_bytes))
        assert (header, end, stop) == outcome(trace, alone)
        if end.interval_hi_bytes is not None:
            last = attrs.evolve(alone, budget_bytes=end.interval_hi_bytes - 1)
            assert (end, stop) == outcome(trace, last)[1:]


@pytest.mark.parametrize("chunk", range(4))
def test_random_ranges_are_exact(longer_random_traces, chunk):
    @seed(200 + chunk)
    @settings(fixed, max_examples=100)
    @given(data=st.data())
    def check(data):
        trace = data.draw(longer_random_traces)
        config = attrs.evolve(data.draw(configs(trace)), candidates=0)
        from_bytes = config.budget_bytes
        to_bytes = from_bytes + data.draw(st.sampled_from([0, 1, 30, 1 << 46, 1 << 50]))
        assert_range_is_exact(trace, config, from_bytes, to_bytes, 12)
        ours = listed(trace, by("native", config), from_bytes, to_bytes, 6)
        assert ours == listed(trace, by("python", config), from_bytes, to_bytes, 6)

    check()


@pytest.mark.parametrize("dealloc", DEALLOCS)
@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_ranges_are_exact(name, dealloc):
    trace = resolve(name)
    for turn, policy in enumerate(POLICIES):
        from_bytes = budgets_of(trace)[4 + turn % 9]
        to_bytes = budgets_of(trace)[-1]
        config = RunConfig(policy, dealloc=dealloc)
        assert_range_is_exact(trace, config, from_bytes, to_bytes, 10)
    ours = listed(trace, RunConfig("dtr", dealloc=dealloc, engine="native"), 1, to_bytes, 12)
    alike = listed(trace, RunConfig("dtr", dealloc=dealloc, engine="python"), 1, to_bytes, 12)
    assert ours == alike
