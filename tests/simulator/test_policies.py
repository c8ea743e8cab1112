"""Policies are found, registered and refused; functions of the pool do what factors do."""

import numpy as np
import pytest

from dtrdiag.errors import PolicyError
from dtrdiag.simulator import Pick, Quotient, RunConfig, find_policy, policies, policy, simulate
from dtrdiag.simulator.policies import register, unregister

FUNCTIONS = {
    "dtr": (("regions",), lambda p: Quotient(p.estar_ns, (p.size_bytes, p.staleness_ns))),
    "dtr-eq": (("eqclasses",), lambda p: Quotient(p.eq_ns, (p.size_bytes, p.staleness_ns))),
    "dtr-local": ((), lambda p: Quotient(p.compute_ns, (p.size_bytes, p.staleness_ns))),
    "dtr-full": (
        ("neighbourhood",),
        lambda p: Quotient(p.neighbourhood_ns, (p.size_bytes, p.neighbourhood_staleness_ns)),
    ),
    "msps": (("regions",), lambda p: Quotient(p.compute_ns + p.backward_ns, (p.size_bytes,))),
    "lru": ((), lambda p: Quotient(p.last_access_ns)),
    "eq+stale": (("eqclasses",), lambda p: Quotient(p.eq_ns, (p.staleness_ns,))),
    "estar": (("regions",), lambda p: Quotient(p.compute_ns + p.forward_ns + p.backward_ns)),
    "size": ((), lambda p: 1 / p.size_bytes),
    "none": ((), lambda p: Pick(len(p) - 1)),
}


@pytest.fixture
def temporary():
    names = []
    yield names
    for name in names:
        unregister(name)


@pytest.fixture(scope="module")
def diamond_chain(trace_of):
    """Ops with two inputs, aliases and different costs and sizes, so that policies differ."""
    lines = [("constant", "w", 3)]
    previous = "w"
    for i in range(14):
        pair = [f"a{i}", f"b{i}"]
        lines.append(("call", pair, "split", [previous], 3 + i % 4, [5 + i % 3, 7], [-1, -1]))
        lines.append(("call", [f"v{i}"], "view", [f"a{i}"], 0, [0], [0]))
        lines.append(("call", [f"j{i}"], "join", [f"v{i}", f"b{i}"], 11 - i % 5, [6], [-1]))
        previous = f"j{i}"
    for i in reversed(range(14)):
        call = ("call", [f"g{i}"], "grad", [previous, f"v{i}", f"b{i}"], 4, [6], [-1])
        lines += [call, ("release", f"b{i}"), ("release", f"a{i}")]
        previous = f"g{i}"
    return trace_of(*lines)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_the_pool_decides_like_the_factors(name, temporary, diamond_chain):
    uses, function = FUNCTIONS[name]
    temporary.append(f"my-{name}")
    policy(f"my-{name}", uses=uses)(function)
    for budget in (60, 80, 100, 140):
        ends = [
            simulate(diamond_chain, RunConfig(chosen, budget, overhead_limit=50)).end
            for chosen in (name, f"my-{name}")
        ]
        assert ends[0] == ends[1]
    assert ends[0].evictions_pressure > 0


def test_policies_differ_on_this_trace(diamond_chain):
    digests = {
        name: simulate(diamond_chain, RunConfig(name, 100, overhead_limit=50)).end.decisions_sha256
        for name in FUNCTIONS
    }
    assert len(set(digests.values())) >= 6


def test_every_published_policy_and_all_sixteen_ablations_are_there():
    names = {entry.name for entry in policies()}
    published = {"dtr", "dtr-eq", "dtr-local", "dtr-full", "msps", "lru", "size", "random"}
    costs = ("estar", "eq", "local", "none")
    suffixes = ("", "+size", "+stale", "+size+stale")
    ablations = {cost + suffix for cost in costs for suffix in suffixes}
    assert names >= published | ablations


def test_the_random_policy_depends_on_its_seed_alone(diamond_chain):
    digests = [
        simulate(diamond_chain, RunConfig("random", 100, seed=seed)).end.decisions_sha256
        for seed in (1, 1, 2, 3)
    ]
    assert digests[0] == digests[1]
    assert len(set(digests)) > 1


def test_what_a_policy_reads_must_be_registered(temporary, diamond_chain):
    temporary.append("forgetful")
    policy("forgetful")(lambda pool: pool.estar_ns.astype(float))
    with pytest.raises(PolicyError, match='add uses=\\("regions",\\)'):
        simulate(diamond_chain, RunConfig("forgetful", 80))


def test_a_pool_shows_its_storages_as_arrays(temporary, diamond_chain):
    seen = []
    temporary.append("curious")

    @policy("curious", uses=["regions", "eqclasses", "neighbourhood"])
    def curious(pool):
        columns = (pool.size_bytes, pool.compute_ns, pool.staleness_ns, pool.estar_ns, pool.eq_ns)
        assert all(c.shape == (len(pool),) and c.dtype == np.int64 for c in columns)
        assert (pool.neighbourhood_ns >= pool.compute_ns).all()
        seen.append(len(pool))
        return pool.last_access_ns.astype(float)

    simulate(diamond_chain, RunConfig("curious", 80))
    assert seen


def test_a_taken_name_an_unknown_use_and_an_unknown_policy_are_refused():
    with pytest.raises(PolicyError, match="'dtr' is registered already"):
        register(find_policy("dtr"))
    for name in ("", " ", "a\x1b[31m"):
        with pytest.raises(PolicyError, match="cannot be named"):
            policy(name)(lambda pool: pool.size_bytes)
    with pytest.raises(PolicyError, match="unknown use 'magic'"):
        policy("magical", uses=["magic"])(lambda pool: pool.size_bytes)
    with pytest.raises(PolicyError, match="not the string 'regions'"):
        policy("stringy", uses="regions")
    with pytest.raises(PolicyError, match=r"did you mean .*dtr-local"):
        find_policy("dtr-locl")
    with pytest.raises(PolicyError, match="no policy named"):
        unregister("nobody")
