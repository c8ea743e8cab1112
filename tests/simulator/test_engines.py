"""The native engine decides as the Python engine does, whatever the trace, and logs it alike."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice, pairwise

import attrs
import numpy as np
import orjson
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from dtrdiag.errors import DtrdiagError, PolicyError, UsageError
from dtrdiag.events import encode
from dtrdiag.events.records import End
from dtrdiag.hooks import Hooks
from dtrdiag.simulator import (
    DEALLOCS,
    Pick,
    Quotient,
    RunConfig,
    baseline_peak_bytes,
    find_policy,
    native,
    policies,
    runs_between,
    simulate,
    unregister,
)
from dtrdiag.simulator import policy as register
from dtrdiag.trace.catalog import resolve

pytestmark = pytest.mark.usefixtures("native_engine")

BUNDLED = ("chain-64", "residual-12", "recurrent-16", "tree-4")
POLICIES = tuple(entry.name for entry in policies() if native.built_in(entry))
WITH_REGIONS = tuple(name for name in POLICIES if "regions" in find_policy(name).uses)
BUDGETS = 20
CHUNKS, EXAMPLES = 8, 250
later = partial(pytest.param, marks=pytest.mark.slow)

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


@pytest.mark.parametrize("chunk", [*range(4), *map(later, range(4, CHUNKS))])
def test_random_runs_and_their_logs_are_the_same(native_engine, longer_random_traces, chunk):
    """1,000 traces, the same at every call, 2,000 with the long tests; fresh walks besides."""
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
        if config.policy in WITH_REGIONS and len(ours) == 3:
            assert cached_regions_outcome(native_engine, trace, config) == ours[1:]
        seen.append(native.prepare(trace).only_to_new)

    check()
    assert len(seen) >= EXAMPLES
    assert {True, False} <= set(seen)


def cached_regions_outcome(engine, trace, config):
    """As `outcome` has it, without the header, from the plain port of simrd's cached regions."""
    arguments = (
        native.prepare(trace),
        config.budget_bytes,
        config.dealloc,
        native._limit(trace, config),
        *native._policy(find_policy(config.policy), config),
    )
    held = native.Finished(engine.run(*arguments, 0, False, True), 0)
    end = End(seq=0, decisions_sha256=held.decisions_sha256, **held.totals)
    return end, held.stop()


def budgets_of(trace):
    """From next to nothing up to what an unlimited run takes."""
    peak_bytes = baseline_peak_bytes(trace)
    return [int(budget) for budget in np.linspace(0.05, 1.0, BUDGETS) * peak_bytes]


def assert_same_at(trace, policy, dealloc, budgets, limit=10):
    for budget_bytes in budgets:
        config = RunConfig(policy, budget_bytes, dealloc=dealloc, overhead_limit=limit)
        assert outcome(trace, by("native", config)) == outcome(trace, by("python", config))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_traces_at_some_budgets(name, policy):
    trace = resolve(name)
    first = POLICIES.index(policy) + BUNDLED.index(name)
    budgets = budgets_of(trace)
    for turn, dealloc in enumerate(DEALLOCS):
        # Seven apart, so that tight and generous ones take turns.
        at = (first + 7 * turn) % BUDGETS
        assert_same_at(trace, policy, dealloc, [budgets[at]], (10, 1.5, 2)[at % 3])


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
        for candidates in (0, 3) if dealloc == "eager" else (3,):
            config = RunConfig(policy, budget, dealloc=dealloc, candidates=candidates)
            ours = logged(trace, by("native", config))
            assert ours == logged(trace, by("python", config))
            assert len(ours[1]) > trace.ops


def listed(trace, config, from_bytes, to_bytes, most):
    """The first runs of a range, and the error that ended it."""
    runs = []
    try:
        for result in islice(runs_between(trace, config, from_bytes, to_bytes), most):
            runs.append(facts(result))
    except DtrdiagError as error:
        runs.append((type(error), str(error)))
    return runs


def assert_range_is_exact(trace, config, from_bytes, to_bytes, most):
    """All runs of a range equal runs by themselves, at both ends of each interval."""
    runs = listed(trace, by("native", config), from_bytes, to_bytes, most)
    if len(runs[-1]) == 2:
        ended_by = runs.pop()
        at = runs[-1][1].interval_hi_bytes if runs else from_bytes
        assert ended_by == outcome(trace, by("native", attrs.evolve(config, budget_bytes=at)))
        if not runs:
            return
        to_bytes = at - 1
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


@pytest.mark.parametrize("part", [0, later(1), later(2)])
@pytest.mark.parametrize("dealloc", DEALLOCS)
@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_ranges_are_exact(name, dealloc, part):
    """A third of the policies each time; every one of them meets every trace."""
    trace = resolve(name)
    first = (DEALLOCS.index(dealloc) + part) % 3
    for turn, policy in list(enumerate(POLICIES))[first::3]:
        from_bytes = budgets_of(trace)[4 + turn % 9]
        to_bytes = budgets_of(trace)[-1]
        config = RunConfig(policy, dealloc=dealloc)
        assert_range_is_exact(trace, config, from_bytes, to_bytes, 6)
    ours = listed(trace, RunConfig("dtr", dealloc=dealloc, engine="native"), 1, to_bytes, 12)
    alike = listed(trace, RunConfig("dtr", dealloc=dealloc, engine="python"), 1, to_bytes, 12)
    assert ours == alike


def test_a_range_goes_on_where_a_check_before_the_last_copy_set_the_end(trace_of):
    """The run at 7 goes on from the check of 7 bytes; its `hi` of 8 was set before that."""
    trace = trace_of(("call", ["a"], "f", [], 0, [1], [-1]), ("call", ["b"], "f", [], 0, [7], [-1]))
    runs = list(runs_between(trace, RunConfig("dtr", engine="native"), 1, 100))
    assert [run.end.interval_hi_bytes for run in runs] == [7, 8, None]
    assert [run.end.outcome for run in runs] == ["oom", "oom", "ok"]


def test_an_alias_may_add_an_edge_between_older_storages(trace_of):
    """The view of `a` reads `d` too, so `a` is next to `d` from then on."""
    trace = trace_of(
        ("constant", "x", 0),
        ("call", ["a"], "f", [], 2, [2], [-1]),
        ("call", ["b"], "f", ["a"], 5, [1], [-1]),
        ("call", ["c"], "f", ["b"], 3, [3], [-1]),
        ("call", ["d"], "f", [], 5, [1], [-1]),
        ("call", ["view"], "f", ["d", "a"], 3, [0], [1]),
    )
    for policy in ("eq", "dtr-eq", "dtr"):
        for budget_bytes in range(1, 8):
            config = RunConfig(policy, budget_bytes, dealloc="ignore", overhead_limit=None)
            assert outcome(trace, by("native", config)) == outcome(trace, by("python", config))


USER = {
    "plain": ((), lambda pool: Quotient(pool.compute_ns, (pool.size_bytes, pool.staleness_ns))),
    "regions": (
        ("regions",),
        lambda pool: Quotient(
            pool.estar_ns + pool.forward_ns * 2 + pool.backward_ns,
            (pool.staleness_ns, pool.staleness_ns, pool.size_bytes),
        ),
    ),
    "eqclasses": (("eqclasses",), lambda pool: Quotient(pool.eq_ns, (pool.size_bytes,))),
    "neighbourhood": (
        ("neighbourhood",),
        lambda pool: Quotient(pool.neighbourhood_ns, (pool.neighbourhood_staleness_ns,)),
    ),
    "all": (
        ("regions", "eqclasses", "neighbourhood"),
        lambda pool: pool.estar_ns * 0.3 + pool.eq_ns * 0.1 + pool.neighbourhood_ns,
    ),
    "floats": ((), lambda pool: pool.size_bytes / (pool.staleness_ns + 0.5)),
    "pick": ((), lambda pool: Pick(pool.rng.below(len(pool)) // 2)),
}


@pytest.fixture
def user_policy():
    """Registers a function for the length of a test."""
    names = []

    def add(function, uses=()):
        names.append(f"user-{len(names)}")
        register(names[-1], uses=uses)(function)
        return names[-1]

    yield add
    for name in names:
        unregister(name)


@pytest.mark.parametrize("limit", [1.5, later(10)])
@pytest.mark.parametrize("name", USER)
def test_policies_in_python_see_the_same_pool(user_policy, longer_random_traces, name, limit):
    uses, function = USER[name]
    policy = user_policy(function, uses)
    evictions = 0

    @seed(300)
    @settings(fixed, max_examples=30)
    @given(data=st.data())
    def check(data):
        nonlocal evictions
        trace = data.draw(longer_random_traces)
        config = data.draw(configs(trace, [policy]))
        ours = logged(trace, by("native", config))
        assert ours == logged(trace, by("python", config))
        if len(ours[0]) == 3:
            evictions += ours[0][1].evictions_pressure

    check()
    assert evictions > 30
    trace = resolve("tree-4")
    for dealloc in DEALLOCS:
        assert_same_at(trace, policy, dealloc, budgets_of(trace)[8:9], limit)


@pytest.mark.parametrize(
    ("column", "use"),
    [
        ("forward_ns", "regions"),
        ("backward_ns", "regions"),
        ("estar_ns", "regions"),
        ("eq_ns", "eqclasses"),
        ("neighbourhood_ns", "neighbourhood"),
        ("neighbourhood_staleness_ns", "neighbourhood"),
    ],
)
@pytest.mark.parametrize("engine", ["native", "python"])
def test_a_policy_must_register_for_what_it_reads(user_policy, chain_of, engine, column, use):
    policy = user_policy(lambda pool: getattr(pool, column))
    with pytest.raises(PolicyError, match=f'add uses=\\("{use}",\\)'):
        simulate(chain_of(8), RunConfig(policy, 35, engine=engine))


@pytest.mark.parametrize("engine", ["native", "python"])
def test_what_a_policy_raises_comes_out(user_policy, chain_of, engine):
    def fails(pool):
        raise ZeroDivisionError("of the policy's own")

    policy = user_policy(fails)
    with pytest.raises(ZeroDivisionError, match="of the policy's own"):
        simulate(chain_of(8), RunConfig(policy, 35, engine=engine))


@pytest.mark.parametrize("engine", ["native", "python"])
@pytest.mark.parametrize("answer", [[1.0] * 99, Pick(99), Pick(-1), "text", None])
def test_unusable_answers_are_refused_alike(user_policy, chain_of, engine, answer):
    policy = user_policy(lambda pool: answer)
    with pytest.raises(PolicyError, match=f"'{policy}'"):
        simulate(chain_of(8), RunConfig(policy, 35, engine=engine))


@pytest.fixture
def beyond_64_bits(trace_of):
    """Costs whose sum over regions may exceed 2**60."""
    lines = [("constant", "c", 1)]
    lines += [
        ("call", [f"x{i}_{j}" for j in range(64)], "f", ["c"], 1 << 50, [1] * 64, [-1] * 64)
        for i in range(17)
    ]
    return trace_of(*lines)


def test_too_large_figures_go_to_the_python_engine(beyond_64_bits):
    config = RunConfig("dtr-local", 700)
    assert simulate(beyond_64_bits, config).engine == "python"
    assert next(runs_between(beyond_64_bits, config, 700, 800)).engine == "python"
    for run in (simulate, lambda trace, rules: next(runs_between(trace, rules, 700, 800))):
        with pytest.raises(UsageError, match=r"^the native engine cannot take this run: .*2\*\*60"):
            run(beyond_64_bits, by("native", config))


def test_a_thread_can_work_while_the_engine_runs_elsewhere(chain_of):
    """No state is shared: runs in four threads come out as runs one after the other."""
    trace = chain_of(60, backward=True)
    rules = [RunConfig(policy, 70 + 10 * i) for i in range(8) for policy in ("dtr", "dtr-eq")]
    alone = [outcome(trace, by("native", config)) for config in rules]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda config: outcome(trace, by("native", config)), rules))
    assert together == alone
