"""The storage with the lowest score is found as simrd's walk finds it, in exact arithmetic."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtrdiag.errors import PolicyError
from dtrdiag.simulator import Pick, Quotient
from dtrdiag.simulator.pool import SplitMix64
from dtrdiag.simulator.scoring import choose, choose_from, quotients

numerators = st.integers(-(2**62), 2**62) | st.integers(-3, 3)
denominators = st.integers(0, 2**62) | st.integers(0, 3)


def walk(scores):
    """The rule, word for word."""
    best, best_position = math.inf, None
    for position, score in enumerate(scores):
        if score <= best:
            best, best_position = score, position
        if score == 0:
            break
    return best_position


@given(st.lists(st.tuples(numerators, denominators, denominators), min_size=1, max_size=30))
def test_choice_is_that_of_the_walk(rows):
    scores = [n / (a * b) if a * b else math.inf for n, a, b in rows]
    choice = choose(range(len(rows)), scores)
    assert choice.storage == walk(scores)
    assert choice.score == scores[choice.storage]


@given(
    st.lists(st.tuples(numerators, denominators), min_size=1, max_size=20),
    st.integers(0, 25),
)
def test_candidates_are_the_losers_in_the_order_in_which_they_would_win(rows, count):
    scores = quotients(*zip(*rows, strict=True))
    choice = choose(range(len(rows)), scores, count)
    zero = next((i for i, score in enumerate(scores) if score == 0), len(scores))
    remaining = {i: s for i, s in enumerate(scores) if i <= zero and i != choice.storage}
    for storage, score in choice.candidates:
        assert score == min(remaining.values())
        assert storage == max(i for i, s in remaining.items() if s == score)
        del remaining[storage]
    assert len(choice.candidates) == count or not remaining


def test_products_beyond_double_precision_are_not_rounded():
    # As doubles both products are 2**53 * 2**10; exactly, the second is larger.
    sizes, stale = (2**53, 2**53 + 1), (2**10, 2**10)
    exact = Quotient([2**63, 2**63], (sizes, stale)).scores()
    assert exact == [1.0, 2**63 / ((2**53 + 1) * 2**10)]
    assert quotients([10**18 + 1, 10**18], [10**18, 10**18]) == [1.0, 1.0]


def test_the_last_of_equals_wins_and_a_zero_ends_the_walk():
    assert choose([7, 8, 9], [2, 1, 1]).storage == 9
    assert choose([7, 8, 9], [2, 0, -5]).storage == 8
    assert choose([7, 8, 9], [-2, 0, -5]).storage == 7
    assert choose([7, 8], [math.inf, math.inf]).storage == 8


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (np.array([1.0]), "1 scores for a pool of 2"),
        (np.array([1.0, math.nan]), "nan for storage 6"),
        (Quotient(np.array([1.5, 2.5])), "made of integers"),
        (Quotient([1, 2], ([1],)), "must return"),
        (Pick(2), "position 2 of a pool of 2"),
        (Pick(-1), "position -1"),
        (None, "must return"),
        (["a", "b"], "scores are numbers"),
    ],
)
def test_unusable_answers_of_a_policy_are_refused(answer, complaint):
    with pytest.raises(PolicyError, match=complaint):
        choose_from([5, 6], answer, 0, "mine")


def test_splitmix64_gives_its_published_sequence():
    draws = SplitMix64(0)
    assert [draws.below(2**64) for _ in range(3)] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]


@given(st.integers(0, 2**64 - 1), st.integers(1, 1000))
def test_draws_stay_below_their_bound(seed, bound):
    draws = SplitMix64(seed)
    assert all(0 <= draws.below(bound) < bound for _ in range(20))
