"""Interventions have one text each, and every text gives them back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtrdiag.errors import UsageError
from dtrdiag.interventions import (
    REPAIRS,
    TIE_BREAKS,
    Interventions,
    Noise,
    Victim,
    parse_interventions,
)

figures = st.integers(0, (1 << 62) - 1)


def ascending(values):
    return st.dictionaries(figures, values, max_size=3).map(lambda d: tuple(sorted(d.items())))


victims = ascending(st.one_of(st.tuples(figures, st.booleans()), st.just((None, False)))).map(
    lambda rows: tuple(Victim(at, storage, forced) for at, (storage, forced) in rows)
)
sets = st.sets(figures, max_size=3).map(lambda values: tuple(sorted(values)))
noises = st.none() | st.builds(
    Noise, st.floats(1e-9, 1, exclude_max=True), st.integers(0, (1 << 63) - 1)
)
interventions = st.builds(
    Interventions,
    repairs=st.sets(st.sampled_from(REPAIRS)).map(lambda s: tuple(sorted(s, key=REPAIRS.index))),
    tie_break=st.sampled_from(TIE_BREAKS),
    victims=victims,
    policies=ascending(st.sampled_from(["lru", "dtr-eq", "estar+size"])),
    budgets=ascending(st.integers(1, 1 << 40)),
    pins=sets,
    keeps=sets,
    op_costs=ascending(figures),
    sizes=ascending(figures),
    cost_noise=noises,
    size_noise=noises,
)


@given(interventions)
def test_a_text_gives_the_interventions_back(given_ones):
    assert parse_interventions(given_ones.text()) == given_ones
    assert bool(given_ones) == (given_ones.text() is not None)


def test_a_policy_whose_name_would_break_the_text_is_refused():
    for name in ("", " lru", "a; keep 3", "a\nb"):
        with pytest.raises(UsageError, match="no intervention can name a policy"):
            Interventions(policies=((3, name),))
    assert parse_interventions("policy 3=a = b").policies == ((3, "a = b"),)


def test_no_interventions_have_no_text():
    assert Interventions().text() is None
    assert parse_interventions(None) == Interventions()
    assert not Interventions().on_decisions
    assert not Interventions().on_trace


@pytest.mark.parametrize(
    "text",
    [
        "",
        "repair everything",
        "improve 3",
        "force 3",
        "force 3=",
        "force x=3",
        "force -3=4",
        "forbid 3=4; forbid 3=5",
        "pin 3; pin 3",
        "pin 4; pin 3",
        "tie-break none",
        "tie-break first; tie-break last",
        "budget 3=0",
        "budget 3",
        "policy 3",
        "costs 2@1",
        "costs nan@1",
        "costs 0.1",
        "size ٣=4",
        f"cost 1={1 << 62}",
        "keep 77; forbid 356",
        "forbid 356;keep 77",
        " keep 77",
        "keep 77;",
        "keep 077",
        "forbid 3=04",
        "tie-break last",
        "costs 1e-2@3",
        "costs 0.0_1@3",
        "costs \uff10.5@3",
        "costs 0.5@03",
        "policy 3= lru",
        "policy 3=\x1b[31m",
    ],
)
def test_other_texts_are_refused(text):
    with pytest.raises(UsageError):
        parse_interventions(text)
