"""Maps of many policies at once are the maps of each."""

# mypy: no-check-untyped-defs

from functools import partial

import attrs
import pytest

from dtrdiag.errors import PolicyError, UsageError
from dtrdiag.experiments.ablation import (
    ABLATIONS,
    NAMED,
    ablation_document,
    make_ablation,
    map_all,
    plan_noise,
    plan_variants,
    reference_of,
    rules_of,
    terms_of,
)
from dtrdiag.experiments.policyfile import forget_policy_files, load_policy_file
from dtrdiag.interventions import Interventions, Noise
from dtrdiag.simulator import RunConfig, find_policy, runs_between
from dtrdiag.trace.catalog import resolve

CHAIN = resolve("chain-64")
RULES = RunConfig(peak_bytes=17_039_360)
BUDGETS = (1_000_000, 3_000_000)


def ablation(names=(), noise=(None,), rules=RULES):
    return make_ablation(rules, plan_variants(names), noise, BUDGETS, 17_039)


def facts(outcomes):
    return [(o.end.interval_lo_bytes, o.end.outcome, o.end.decisions_sha256) for o in outcomes]


def expected(policy):
    runs = runs_between(CHAIN, attrs.evolve(RULES, policy=policy), *BUDGETS)
    return [(r.end.interval_lo_bytes, r.end.outcome, r.end.decisions_sha256) for r in runs]


@pytest.fixture(scope="module")
def mapped():
    found = ablation()
    map_all(CHAIN, found)
    return found


def test_the_ablations_are_four_costs_over_four_denominators():
    assert len(set(ABLATIONS)) == 16
    assert all(find_policy(name).name == name for name in (*ABLATIONS, *NAMED))


def test_a_score_with_two_names_is_run_once():
    variants = plan_variants(["ablations", "named"])
    assert len(variants) == 16 + 4
    assert {v.policy: v.also for v in variants if v.also} == {
        "estar+size+stale": ("dtr",),
        "eq+size+stale": ("dtr-eq",),
        "local+size+stale": ("dtr-local",),
        "none+size": ("size",),
    }
    assert [v.policy for v in plan_variants(["dtr", "lru", "estar+size+stale"])] == ["dtr", "lru"]


def test_an_unknown_policy_is_refused():
    with pytest.raises(PolicyError):
        plan_variants(["dtr", "dtl"])


def test_each_map_is_that_of_its_policy(mapped):
    for key, known in zip(mapped.keys, mapped.known, strict=True):
        assert facts(known) == expected(key.variant.policy)


def test_processes_find_what_one_finds(mapped):
    names = ["estar+size+stale", "none", "local+stale"]
    shared = ablation(names)
    told = []
    map_all(
        CHAIN,
        shared,
        jobs=2,
        alone_seconds=0,
        tell=lambda which, found: told.append((which, found)),
    )
    for which, name in enumerate(names):
        assert facts(shared.known[which]) == expected(name)
        lows = {run.end.interval_lo_bytes for at, found in told if at == which for run in found}
        assert lows == {run.end.interval_lo_bytes for run in shared.known[which]}


def test_known_intervals_are_not_run_again(mapped):
    again = ablation()
    for one, other in zip(again.known, mapped.known, strict=True):
        for outcome in list(other)[:-1]:
            one.add(outcome)
    told = []
    map_all(CHAIN, again, tell=lambda which, found: told.append((which, len(found))))
    assert told == [(which, 1) for which in range(16)]


def test_policies_of_a_file_are_mapped_in_other_processes(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dtrdiag.simulator import Quotient, policy\n"
        "@policy('smallest')\n"
        "def smallest(pool):\n"
        "    return Quotient(pool.size_bytes)\n"
    )
    load_policy_file(str(file))
    try:
        found = ablation(["smallest", "dtr"])
        prepare = partial(load_policy_file, str(file))
        map_all(CHAIN, found, jobs=2, alone_seconds=0, prepare=prepare)
        assert facts(found.known[0]) == expected("smallest")
        assert ablation_document(found)["variants"][0]["factors"] is None
    finally:
        forget_policy_files()


def test_the_document_has_each_policy_with_its_measures(mapped):
    document = ablation_document(mapped)
    assert document["schema"] == "dtrdiag.ablate/1"
    assert [v["policy"] for v in document["variants"]] == list(ABLATIONS)
    assert document["reference"] == "estar+size+stale"
    assert (document["from"], document["to"]) == BUDGETS
    for variant in document["variants"]:
        measures = variant["measures"]
        assert measures["known_bytes"] == measures["range_bytes"] == BUDGETS[1] - BUDGETS[0] + 1
        assert measures["intervals"]["total"] == len(expected(variant["policy"]))
        assert variant["noise"] is None
    for effect in document["effects"].values():
        assert set(effect["policies"]) == set(ABLATIONS)


def test_terms_divide_the_ablations():
    terms = {term.name: term for term in terms_of(plan_variants([]))}
    assert {name: len(term.having) for name, term in terms.items()} == {
        "size": 8,
        "staleness": 8,
        "size-staleness": 4,
        "neighbours": 8,
        "estar": 4,
        "eq": 4,
        "local": 4,
    }
    assert {name: term.alone for name, term in terms.items()} == {
        "size": "none+size",
        "staleness": "none+stale",
        "size-staleness": "none+size+stale",
        "neighbours": None,
        "estar": "estar",
        "eq": "eq",
        "local": "local",
    }


def test_policies_that_are_no_ablations_are_measured_and_not_compared_by_term():
    found = ablation(["dtr", "lru", "none+size"])
    map_all(CHAIN, found)
    document = ablation_document(found)
    assert [v["policy"] for v in document["variants"]] == ["dtr", "lru", "none+size"]
    assert set(document["effects"]["entropy"]["policies"]) == {"dtr", "none+size"}


def test_the_reference_is_dtr_or_else_the_first():
    assert reference_of(plan_variants(["lru", "dtr"])).policy == "dtr"
    assert reference_of(plan_variants(["lru", "size"])).policy == "lru"


def test_noise_is_an_intervention_on_the_costs():
    noise = plan_noise(0.01, 2)
    assert noise == (None, Noise(0.01, 0), Noise(0.01, 1))
    keys = ablation(["dtr"], noise).keys
    texts = [rules_of(RULES, key).interventions.text() for key in keys]
    assert texts == [None, "costs 0.01@0", "costs 0.01@1"]


@pytest.mark.parametrize(("epsilon", "seeds"), [(0.0, 1), (1.0, 1), (float("nan"), 1), (0.1, 0)])
def test_noise_that_is_none_is_refused(epsilon, seeds):
    with pytest.raises(UsageError):
        plan_noise(epsilon, seeds)


def test_noise_goes_with_other_interventions_but_not_with_noise():
    changed = attrs.evolve(RULES, interventions=Interventions(tie_break="first"))
    key = ablation(["dtr"], plan_noise(0.1, 1), changed).keys[1]
    assert rules_of(changed, key).interventions.text() == "tie-break first; costs 0.1@0"
    noisy = attrs.evolve(RULES, interventions=Interventions(cost_noise=Noise(0.1, 0)))
    with pytest.raises(UsageError):
        ablation(["dtr"], plan_noise(0.1, 1), noisy)


def test_rules_are_repaired_where_that_is_asked_for():
    repaired = attrs.evolve(RULES, interventions=Interventions(repairs=("zero-stops",)))
    found = ablation(["lru"], rules=repaired)
    map_all(CHAIN, found)
    document = ablation_document(found)
    assert document["interventions"] == "repair zero-stops"


def test_noise_has_a_spread_over_its_seeds():
    found = ablation(["dtr", "none+size"], plan_noise(0.05, 3))
    map_all(CHAIN, found)
    document = ablation_document(found)
    assert document["noise"] == {"epsilon": 0.05, "seeds": [0, 1, 2]}
    for variant in document["variants"]:
        noise = variant["noise"]
        changes = [each["measures"]["outcome_changes"] for each in noise["seeds"]]
        spread = noise["spread"]["outcome_changes"]
        assert (spread["min"], spread["max"]) == (min(changes), max(changes))
        assert set(noise["effects"]) == set(document["effects"])
