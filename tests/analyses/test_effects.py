"""What follows for a term of a score from who shows an effect, on measures made by hand."""

# mypy: no-check-untyped-defs

import math

import pytest

from dtrdiag.analyses import measure_instability
from dtrdiag.analyses.effects import (
    Bounds,
    Term,
    effect_document,
    find_effects,
    outlasts_noise,
    spread,
    state_of,
)

from .test_budget_map import map_of

PERCENT = 1000


def inverted(percent, stopped=0):
    """Measures of 100,000 budgets of which so many percent are inverted, and others stopped."""
    at = 10 + PERCENT
    runs = [(10, at, "ok", 0)]
    for outcome, share in (("oom", percent), ("thrashed", stopped)):
        if share:
            runs.append((at, at + share * PERCENT, outcome, 0))
            at += share * PERCENT
    if at < 10 + 100 * PERCENT:
        runs.append((at, 10 + 100 * PERCENT, "ok", 0))
    return measure_instability(map_of(*runs), 1)


def nothing_finishes():
    return measure_instability(map_of((10, 20, "oom", 0)), 1)


SIZE = Term("size", frozenset({"both", "size"}), "size")


def finding(effect="inversions", **measures):
    found = find_effects(measures, "both", [SIZE])
    return next(each for each in found if each.name == effect)


def about_size(**measures):
    (term,) = finding(**measures).terms
    return term.necessary, term.sufficient


@pytest.mark.parametrize(
    ("low", "high", "state"),
    [
        (5, 5, "shows"),
        (5, math.inf, "shows"),
        (4.9, 4.9, "weaker"),
        (1, 1, "weaker"),
        (0.9, 0.9, "lacks"),
        (0.9, 1, "censored"),
        (1, 5, "censored"),
        (0, math.inf, "censored"),
    ],
)
def test_a_policy_shows_half_of_the_reference_and_lacks_less_than_a_tenth(low, high, state):
    assert state_of(Bounds(low, high), 10) == state


def test_a_policy_without_a_figure_cannot_show_it():
    assert state_of(None, 10) == "cannot_show"


def test_a_term_is_necessary_where_all_others_lack_the_effect():
    assert about_size(both=inverted(40), size=inverted(30), stale=inverted(3)) == ("yes", "yes")


def test_one_policy_that_shows_the_effect_without_the_term_is_enough():
    assert about_size(both=inverted(40), size=inverted(2), stale=inverted(20)) == ("no", "no")
    measures = {"both": inverted(40), "stale": inverted(20), "none": nothing_finishes()}
    assert about_size(**measures)[0] == "no"


def test_what_is_weaker_is_necessary_in_part():
    measures = {"both": inverted(40), "size": inverted(10), "stale": inverted(10)}
    assert about_size(**measures) == ("in_part", "in_part")


def test_where_nothing_finishes_no_inversion_can_be_shown():
    measures = {"both": inverted(40), "size": nothing_finishes(), "stale": nothing_finishes()}
    assert about_size(**measures) == ("undecided", "undecided")


def test_stopped_runs_leave_it_undecided_where_they_could_matter():
    assert about_size(both=inverted(40), stale=inverted(0, stopped=10))[0] == "undecided"
    assert about_size(both=inverted(40), stale=inverted(1, stopped=2))[0] == "yes"


def test_without_policies_to_compare_nothing_is_decided():
    assert about_size(both=inverted(40)) == ("undecided", "undecided")


def test_without_an_effect_there_is_nothing_to_explain():
    found = finding(both=inverted(0), stale=inverted(40))
    assert (found.reference, found.states, found.terms) == (0, {}, ())


def test_a_rise_of_a_few_promille_is_no_effect():
    slight = measure_instability(map_of((10, 20, "ok", 0), (20, 30, "ok", 1)), 1)
    assert finding("upward", both=slight).terms == ()
    more = measure_instability(map_of((10, 20, "ok", 0), (20, 30, "ok", 9)), 1)
    assert len(finding("upward", both=more).terms) == 1


def test_variation_with_stopped_runs_has_no_upper_bound():
    stopped = measure_instability(map_of((10, 20, "thrashed", 0), (20, 30, "ok", 1)), 1)
    risen = measure_instability(map_of((10, 20, "ok", 0), (20, 30, "ok", 100)), 1)
    found = finding("upward", both=risen, stale=stopped)
    assert found.states["stale"] == "censored"
    document = effect_document(found)["policies"]
    assert document["stale"]["most"] is None
    assert document["both"]["most"] == document["both"]["least"] == pytest.approx(math.log(2))


@pytest.mark.parametrize(
    ("plain", "seeds", "verdict"),
    [
        (40, (20, 40, 90), "robust"),
        (40, (19, 40, 90), "sensitive"),
        (40, (3, 3, 40), "knife_edge"),
        (40, (3, 5, 40), "sensitive"),
        (0, (0, 0, 0), "absent"),
    ],
)
def test_noise_tells_a_knife_edge_from_a_robust_effect(plain, seeds, verdict):
    found = outlasts_noise("inversions", inverted(plain), [inverted(each) for each in seeds])
    assert (found.verdict, found.appears) == (verdict, False)
    figures = [found.plain, found.least, found.median, found.most]
    assert figures == [plain / 100, seeds[0] / 100, seeds[1] / 100, seeds[2] / 100]


def test_an_effect_may_appear_under_noise_alone():
    found = outlasts_noise("inversions", inverted(0), [inverted(0), inverted(5)])
    assert (found.verdict, found.appears) == ("absent", True)


def test_spread_is_that_of_each_number():
    documents = [
        {"a": {"x": 1, "is": "exact"}, "b": None, "c": None},
        {"a": {"x": 5, "is": "exact"}, "b": 2.0, "c": None},
        {"a": {"x": 2, "is": "exact"}, "b": 3.0, "c": None},
    ]
    assert spread(documents) == {
        "a": {"x": {"min": 1, "median": 2, "max": 5}},
        "b": {"min": 2.0, "median": 2.5, "max": 3.0},
        "c": None,
    }
