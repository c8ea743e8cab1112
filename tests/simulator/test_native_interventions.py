"""Under interventions and repairs the native engine decides and logs as the Python engine does."""

from itertools import islice, pairwise
from random import Random

import attrs
import orjson
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from dtrdiag.errors import DtrdiagError, UsageError
from dtrdiag.events import encode
from dtrdiag.events.conversion import events_of
from dtrdiag.events.records import Compute, End, Evict, Rematerialise
from dtrdiag.hooks import Hooks
from dtrdiag.interventions import REPAIRS, TIE_BREAKS, Interventions, Noise, Victim
from dtrdiag.simulator import (
    DEALLOCS,
    Quotient,
    RunConfig,
    as_run,
    find_policy,
    native,
    policies,
    runs_between,
    simulate,
    simulate_in_columns,
    unregister,
)
from dtrdiag.simulator import policy as register
from dtrdiag.trace.catalog import resolve

from .densetraces import dense_trace

pytestmark = pytest.mark.usefixtures("native_engine")

POLICIES = tuple(entry.name for entry in policies() if native.built_in(entry))
WITH_REGIONS = tuple(name for name in POLICIES if "regions" in find_policy(name).uses)
DECISIONS = (Compute, Rematerialise, Evict)
EXAMPLES = 120
LATER = [pytest.param(chunk, marks=pytest.mark.slow) for chunk in (2, 3)]

fixed = settings(
    max_examples=EXAMPLES,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="session")
def mixed_traces(longer_random_traces):
    """A strategy: small traces with all that there is, and dense ones."""
    return longer_random_traces | st.integers(0, 1 << 30).map(dense_trace)


def some(items, most=2):
    """A few of these, ascending."""
    return st.lists(st.sampled_from(items), max_size=most, unique=True).map(sorted).map(tuple)


@st.composite
def configs(draw, trace, names=POLICIES):
    """Rules of a run with repairs and with interventions that hold for all of it."""
    dealloc = draw(st.sampled_from(DEALLOCS))
    most_bytes = simulate(trace, RunConfig(dealloc=dealloc)).end.max_memory_bytes
    share = draw(st.sampled_from([0.4, 0.6, 0.8, 0.9, 0.95, 1.0]) | st.floats(0.1, 1))
    storages = [t for t, root in enumerate(trace.tensor_storage.tolist()) if t == root]
    repairs = draw(some(REPAIRS, 1) | some(REPAIRS, 6) | st.just(REPAIRS))
    changes = Interventions(
        repairs=tuple(name for name in REPAIRS if name in repairs),
        tie_break=draw(st.sampled_from(("last", *TIE_BREAKS))),
        pins=draw(some(storages)) if draw(st.booleans()) else (),
        keeps=draw(some(storages)) if draw(st.booleans()) else (),
        cost_noise=Noise(0.5, 7) if draw(st.integers(0, 7)) == 0 else None,
        sizes=((storages[-1], 3),) if draw(st.integers(0, 7)) == 0 else (),
    )
    return RunConfig(
        draw(st.sampled_from(names)),
        max(1, int(most_bytes * share)),
        dealloc=dealloc,
        overhead_limit=draw(st.sampled_from([None, 1, 1.5, 2, 10])),
        seed=draw(st.integers(0, 3)),
        candidates=draw(st.sampled_from([0, 0, 1, 3])),
        semantics=draw(st.sampled_from(["simrd"] * 5 + ["repaired"])),
        interventions=changes,
    )


@st.composite
def with_decisions(draw, trace, config):
    """The same with interventions at decisions, the first of which is nearly always possible."""
    decisions = [
        event
        for event in events(trace, attrs.evolve(config, candidates=4))
        if isinstance(event, DECISIONS)
    ]
    index = st.integers(0, len(decisions))
    chosen = [i for i, event in enumerate(decisions) if getattr(event, "cause", 0) == "pressure"]
    victims = []
    for at in draw(some(chosen, 1) | some(chosen)) if chosen else ():
        among = [decisions[at].storage, *(storage for storage, _ in decisions[at].candidates)]
        forced = draw(st.booleans())
        storage = draw(st.sampled_from(among if forced else (None, None, *among)))
        victims.append(Victim(at, storage, forced))
    if draw(st.integers(0, 9)) == 0:
        victims = [Victim(draw(index), 0, draw(st.booleans()))]
    rows = st.lists(index, max_size=2, unique=True).map(sorted)
    budget = st.integers(1, 2 * config.budget_bytes)
    changes = attrs.evolve(
        config.interventions,
        victims=tuple(victims),
        policies=tuple((at, draw(st.sampled_from(POLICIES))) for at in draw(rows)),
        budgets=tuple((at, draw(budget)) for at in draw(rows)) if draw(st.booleans()) else (),
    )
    return attrs.evolve(config, interventions=changes)


def events(trace, config):
    """All events of a run, up to its error if there is one."""
    said, hooks = [], Hooks()
    hooks.subscribe(said.append)
    outcome(trace, config, hooks)
    return said


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


def in_columns(trace, config):
    """The same by batches of columns."""
    batches = []
    try:
        result = facts(simulate_in_columns(trace, config, batches.append, 40))
    except DtrdiagError as error:
        result = type(error), str(error)
    return result, [orjson.dumps(encode(event)) for batch in batches for event in events_of(batch)]


def by(engine, config):
    return attrs.evolve(config, engine=engine)


def assert_same(trace, config):
    """Both engines say the same in every way. Returns the outcome."""
    expected, lines = logged(trace, by("python", config))
    ours = by("native", config)
    assert outcome(trace, ours) == expected
    by_events, by_columns = logged(trace, ours), in_columns(trace, ours)
    assert (by_events[0], by_columns[0]) == (expected, expected)
    if len(expected) == 3:
        assert by_events[1] == lines
        assert by_columns[1] == lines
    return expected


@pytest.mark.parametrize("chunk", [0, 1, *LATER])
def test_random_runs_and_their_logs_are_the_same(native_engine, mixed_traces, chunk):
    victims = errors = 0

    @seed(500 + chunk)
    @fixed
    @given(data=st.data())
    def check(data):
        nonlocal victims, errors
        trace = data.draw(mixed_traces)
        config = data.draw(configs(trace))
        if data.draw(st.integers(0, 3)):
            config = data.draw(with_decisions(trace, config))
        found = assert_same(trace, config)
        if len(found) == 2:
            errors += 1
            return
        victims += len(config.interventions.victims)
        if config.policy in WITH_REGIONS:
            assert plain_walks_outcome(native_engine, trace, config) == found[1:]

    check()
    assert victims > 2
    assert 2 < errors < EXAMPLES // 2


def plain_walks_outcome(engine, trace, config):
    """As `outcome` has it, without the header, where regions are cached sets, or plain walks."""
    trace = as_run(trace, config)
    held = engine.run(
        native.prepare(trace),
        config.budget_bytes,
        config.dealloc,
        native._limit(trace, config),
        *native._policy(find_policy(config.policy), config),
        *(0, False, True),
        native._interventions(config),
    )
    done = native.Finished(held, 0)
    return End(seq=0, decisions_sha256=done.decisions_sha256, **done.totals), done.stop()


def test_every_repair_and_every_tie_break_changes_some_run():
    """So the comparisons above are about something."""
    changes = [
        *(Interventions(repairs=(name,)) for name in REPAIRS),
        *(Interventions(tie_break=name) for name in TIE_BREAKS),
    ]
    changed = set()
    for number in range(300):
        rng = Random(number)
        trace, dealloc = dense_trace(number), rng.choice(DEALLOCS)
        most_bytes = simulate(trace, RunConfig(dealloc=dealloc)).end.max_memory_bytes
        config = RunConfig(
            rng.choice(("dtr", "dtr-eq", "dtr-full", "eq", "msps")),
            int(most_bytes * rng.choice((0.5, 0.6, 0.7, 0.8))),
            dealloc=dealloc,
            engine="native",
        )
        plain = simulate(trace, config).end.decisions_sha256
        for change in changes:
            other = simulate(trace, attrs.evolve(config, interventions=change))
            if other.end.decisions_sha256 != plain:
                changed.add(change.text())
    assert changed == {change.text() for change in changes} - {None}


def listed(trace, config, from_bytes, to_bytes, most):
    """The first runs of a range, and the error that ended it."""
    runs = []
    try:
        for result in islice(runs_between(trace, config, from_bytes, to_bytes), most):
            runs.append(facts(result))
    except DtrdiagError as error:
        runs.append((type(error), str(error)))
    return runs


@pytest.mark.parametrize("chunk", range(2))
def test_random_ranges_are_exact(mixed_traces, chunk):
    """All runs of a range equal runs by themselves, at both ends of each interval."""

    @seed(700 + chunk)
    @settings(fixed, max_examples=100)
    @given(data=st.data())
    def check(data):
        trace = data.draw(mixed_traces)
        config = attrs.evolve(data.draw(configs(trace)), candidates=0)
        if data.draw(st.integers(0, 2)) == 0:
            config = data.draw(with_decisions(trace, config))
        from_bytes = config.budget_bytes
        to_bytes = from_bytes + data.draw(st.sampled_from([0, 1, 30, 1 << 46, 1 << 50]))
        runs = listed(trace, by("native", config), from_bytes, to_bytes, 8)
        assert runs == listed(trace, by("python", config), from_bytes, to_bytes, 8)
        exact = [run for run in runs if len(run) == 3]
        for (_, end, _), (header, _, _) in pairwise(exact):
            assert end.interval_hi_bytes == header.budget_bytes
        for header, end, stop in exact:
            for budget_bytes in (header.budget_bytes, (end.interval_hi_bytes or to_bytes + 1) - 1):
                alone = by("native", attrs.evolve(config, budget_bytes=budget_bytes))
                assert outcome(trace, alone)[1:] == (end, stop)

    check()


@pytest.mark.parametrize("dealloc", DEALLOCS)
@pytest.mark.parametrize("name", ["residual-12", "recurrent-16", "tree-4"])
def test_bundled_traces_without_defects(name, dealloc):
    """Also by ranges, where what is known of the regions is carried on from run to run."""
    trace = resolve(name)
    total_bytes = int(trace.tensor_size_bytes.sum())
    for policy, repairs in (("dtr", REPAIRS), ("dtr-eq", REPAIRS[:1]), ("msps", REPAIRS[1:2])):
        changes = Interventions(repairs=repairs)
        rules = {"dealloc": dealloc, "overhead_limit": 1.5, "interventions": changes}
        config = RunConfig(policy, total_bytes // 3, **rules)
        assert outcome(trace, by("native", config)) == outcome(trace, by("python", config))
        config = RunConfig(policy, dealloc=dealloc, semantics="repaired", engine="native")
        for result in islice(runs_between(trace, config, total_bytes // 6, total_bytes), 12):
            budget_bytes = result.header.budget_bytes
            alone = attrs.evolve(config, budget_bytes=budget_bytes)
            assert facts(result) == outcome(trace, alone)


def test_losers_are_those_of_a_walk_without_the_victim():
    """Where the victim's score of 0 would end the walk, there are losers behind it."""
    behind = 0
    for number in range(0, 120, 8):
        trace = dense_trace(number)
        most_bytes = simulate(trace, RunConfig()).end.max_memory_bytes
        config = RunConfig("dtr-local", int(most_bytes * 0.6), candidates=2)
        decided = [e for e in events(trace, config) if isinstance(e, DECISIONS)]
        zero = [at for at, event in enumerate(decided) if getattr(event, "score", None) == 0]
        for at, victim in ((at, decided[at].storage) for at in zero[:2]):
            for named in (Victim(at, victim, True), Victim(at, None, False)):
                changes = Interventions(victims=(named,))
                changed = attrs.evolve(config, interventions=changes)
                if len(assert_same(trace, changed)) == 3 and named.forced:
                    evicted = [e for e in events(trace, changed) if isinstance(e, DECISIONS)][at]
                    behind += len(evicted.candidates) > len(decided[at].candidates)
    assert behind > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"victims": (Victim(0, 0, True),)}, "force 0=0: decision 0 is no eviction"),
        ({"victims": (Victim(4, 3, True),)}, "storage 3 is not in the pool"),
        ({"victims": (Victim(4, 3, False),)}, "storage 3 is not in the pool"),
        ({"victims": (Victim(4, 1, False),), "keeps": (2,)}, "storage 1 is alone"),
        ({"victims": (Victim(4, None, False),), "keeps": (1,)}, "storage 2 is alone"),
        ({"victims": (Victim(4, 1, True), Victim(5, 2, False))}, "decision 5 is no eviction"),
        ({"victims": (Victim(999, None, False),)}, "there is none of index 999"),
        ({"policies": ((999, "lru"),)}, "there is none of index 999"),
        ({"budgets": ((999, 50),)}, "there is none of index 999"),
        ({"policies": ((4, "lruu"),)}, 'no policy "lruu"'),
        ({"pins": (99,)}, "the trace has no storage 99"),
    ],
)
def test_what_cannot_take_place_is_the_same_error(chain_of, changes, message):
    config = RunConfig("dtr", 40, interventions=Interventions(**changes))
    error = assert_same(chain_of(8), config)
    assert len(error) == 2
    assert message in error[1]
    ranges = [listed(chain_of(8), by(one, config), 40, 45, 3) for one in ("native", "python")]
    assert ranges == [[error], [error]]


@pytest.fixture
def user_policy():
    """A policy in Python that looks at all there is."""

    @register("user-intervened", uses=("regions", "eqclasses", "neighbourhood"))
    def score(pool):
        costs = pool.estar_ns + pool.eq_ns * 2 + pool.neighbourhood_ns - 4
        return Quotient(costs, (pool.size_bytes // 2, pool.staleness_ns // 3))

    yield "user-intervened"
    unregister("user-intervened")


def test_policies_in_python_see_the_same_pool(user_policy, mixed_traces):
    @seed(800)
    @settings(fixed, max_examples=60)
    @given(data=st.data())
    def check(data):
        trace = data.draw(mixed_traces)
        config = data.draw(configs(trace, [user_policy]))
        budget = (data.draw(st.integers(0, 9)), config.budget_bytes * 2)
        changes = attrs.evolve(config.interventions, budgets=(budget,))
        config = attrs.evolve(config, interventions=changes)
        assert_same(trace, config)

    check()


@pytest.mark.parametrize(
    "changes",
    [
        Interventions(victims=(Victim(4, None, False),)),
        Interventions(policies=((4, "lru"),)),
        Interventions(policies=((4, "user-intervened"),)),
    ],
)
def test_decisions_beside_a_policy_in_python_are_left_to_the_python_engine(
    user_policy, chain_of, changes
):
    first = "dtr" if changes.policies == ((4, user_policy),) else user_policy
    config = RunConfig(first, 40, interventions=changes)
    assert not native.supports(config)
    assert simulate(chain_of(8), config).engine == "python"
    with pytest.raises(UsageError, match="native engine"):
        simulate(chain_of(8), by("native", config))


def test_a_switched_budget_is_no_bound_of_the_interval(chain_of):
    """Each budget of a range goes its own way up to the switch; checks after it do not count."""
    trace = chain_of(12, backward=True)
    changes = Interventions(budgets=((9, 60),))
    config = RunConfig("dtr", 50, interventions=changes, engine="native")
    runs = list(runs_between(trace, config, 40, 300))
    assert runs[0].end.evictions_pressure > 0
    assert runs[-1].end.evictions_pressure > 0
    assert runs[-1].end.interval_hi_bytes is None
    assert {run.engine for run in runs} == {"native"}
