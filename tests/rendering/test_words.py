"""Do the sentences name the op, the bytes and the budgets that the records hold?"""

# mypy: no-check-untyped-defs

import attrs
import pytest

from dtrdiag.analyses.divergence import Decision
from dtrdiag.analyses.losses import Loss
from dtrdiag.ids import OpId
from dtrdiag.rendering.words import (
    diff_words,
    divergence_words,
    forbid_option,
    frontier_words,
    stack_words,
)


def test_a_frontier_is_told_with_exact_bytes(make_frontier):
    text = " ".join(frontier_words(make_frontier([2000, 0, 300])))
    assert "at op 102 (conv): it needs 50 B, 2,307 B" in text
    assert "the budget is 2,327 B (2.3 KiB): 30 B too little" in text
    assert "2,300 B (2.2 KiB) in 2 storages are locked" in text
    assert "7 B in 1 storage are pinned; nothing is evictable" in text
    assert "3 ops are pending" in text
    assert "from op 100 (conv) on, which runs for the first time" in text
    assert "2 of them hold the locked bytes, the most by op 100 (conv): 2,000 B" in text
    assert "from 2,307 B to below 2,357 B" in text
    assert "From a budget of 2,357 B this very request passes" in text


def test_a_frontier_that_an_earlier_eviction_decides_says_so(make_frontier):
    text = " ".join(frontier_words(make_frontier([10], interval_hi_bytes=60)))
    assert "would pass from a budget of 67 B; before that, from 60 B, an earlier eviction" in text
    assert "Only that op is pending" in text


def test_a_frontier_of_another_runtime_says_what_does_not_add_up(make_frontier):
    frontier = make_frontier([10], evictable_bytes=3, unaccounted_bytes=5)
    text = " ".join(frontier_words(frontier))
    assert "5 B are in no storage that the log names" in text
    assert "3 B were evictable all the same" in text
    assert frontier_words(attrs.evolve(frontier, stack=(), depth=0))


@pytest.mark.parametrize(
    ("loss", "says", "option"),
    [
        (
            Loss(17, 3, "pressure", OpId(7), 0.25, 9),
            "evicted at event 17 (step 3 of the schedule) to make room for op 7 (relu), out of 9 "
            "candidates, with a score of 0.25.",
            "--forbid 17",
        ),
        (
            Loss(17, 3, "pressure", None, None, None),
            "evicted at event 17 (step 3 of the schedule) to make room, for which op the log does "
            "not say.",
            "--forbid 17",
        ),
        (
            Loss(17, 3, "release", None, None, None),
            "freed at event 17 (step 3 of the schedule), when the model dropped its last "
            "reference to it.",
            None,
        ),
        (None, "the log does not say when it left memory.", None),
    ],
)
def test_what_was_asked_back_first_is_told_as_the_log_knows_it(loss, says, option, make_frontier):
    frontier = make_frontier([10, 0, 20], room_for={7: "relu"})
    outer, inner, last = frontier.stack
    stack = (outer, attrs.evolve(inner, storage=5, loss=loss), last)
    frontier = attrs.evolve(frontier, stack=stack)
    begins = "Op 100 (conv) first asked back storage 5, made by op 101 (conv): "
    assert begins + says in frontier_words(frontier)
    assert forbid_option(frontier) is None
    own = attrs.evolve(frontier.header, runtime="dtrdiag")
    assert forbid_option(attrs.evolve(frontier, header=own)) == option


def test_a_fit_divergence_is_told_with_both_margins(make_diff):
    text = " ".join(diff_words(make_diff()))
    assert "The first 17 decisions are equal" in text
    assert "op 4 (conv) wants 50 B with 960 B in use" in text
    assert "it fits in b with 90 B to spare and misses in a by 10 B" in text
    assert "a: E 3, C 4; b: C 4, oom" in text
    assert "differ by a factor of 2.0000." in text
    assert "conv (1 and 2 times, 100 ns and 1.6 us), first a and then b" in text
    assert "3 in a and 4 in b, 2 in both (Jaccard 0.400)" in text


def test_an_unlimited_budget_has_nothing_to_keep(fit_divergence):
    divergence = attrs.evolve(fit_divergence, margin_b_bytes=None)
    assert "it fits in b with no budget to keep" in " ".join(divergence_words(divergence))


@pytest.mark.parametrize(
    ("outcome_a", "outcome_b", "says"),
    [
        ("ok", "thrashed", "a factor of at least 2.0000"),
        ("thrashed", "ok", "says little"),
        ("oom", "oom", "says little"),
    ],
)
def test_a_censored_factor_is_told_as_such(outcome_a, outcome_b, says, make_diff, make_summary):
    diff = make_diff(a=make_summary(outcome_a), b=make_summary(outcome_b, remat_cost_ns=2000))
    assert says in " ".join(diff_words(diff))


def test_different_victims_are_told_with_their_scores(fit_divergence):
    divergence = attrs.evolve(
        fit_divergence,
        kind="evict",
        b=Decision("E 5", 81, "evict", op=4, storage=5, bytes=20, score=None),
    )
    text = " ".join(divergence_words(divergence))
    assert "storage 3 (40 B, score 0.25) in a, storage 5 (20 B) in b" in text


def test_executions_and_stops_are_told_as_such(fit_divergence):
    executes = attrs.evolve(
        fit_divergence, kind="execute", a=Decision("R 2", 81, "rematerialise", op=2)
    )
    assert "Then a does `R 2` where b does `C 4`." in divergence_words(executes)
    stops = attrs.evolve(fit_divergence, kind="stop", a=Decision("thrashed", 81, "stop"))
    assert "Then a ends (thrashed), where the other run goes on with `C 4`." in divergence_words(
        stops
    )


def test_equal_runs_are_told_to_be_the_same(make_diff):
    text = " ".join(diff_words(make_diff(divergence=None)))
    assert "All 17 decisions are equal" in text
    assert "factor" not in text


def test_foreign_names_cannot_break_a_sentence(nasty_name, make_frontier, make_diff):
    sentences = frontier_words(make_frontier([5, 6], name=nasty_name))
    sentences += diff_words(make_diff(name=nasty_name))
    for sentence in sentences:
        assert sentence.isprintable()


@pytest.mark.parametrize(
    ("outcome_a", "outcome_b", "says"),
    [
        ("ok", "ok", "The overheads are equal."),
        ("ok", "incomplete", "so far are equal; that of b, which did not end, could grow"),
        ("incomplete", "ok", "so far are equal; that of a, which did not end, could grow"),
        ("oom", "oom", "so far are equal, which says little: neither run reached its end"),
    ],
)
def test_equal_overheads_are_told_as_such(outcome_a, outcome_b, says, make_diff, make_summary):
    diff = make_diff(a=make_summary(outcome_a), b=make_summary(outcome_b))
    text = " ".join(diff_words(diff))
    assert says in text
    assert "factor" not in text


def test_the_letters_of_decisions_and_the_columns_of_bytes_are_explained(make_diff, make_frontier):
    text = " ".join(diff_words(make_diff()))
    assert "(C computes an op for the first time, R recomputes one, E evicts a storage)" in text
    (line,) = stack_words(make_frontier([5]))
    assert "held: " in line
    assert "added: " in line
    assert stack_words(attrs.evolve(make_frontier([5]), stack=())) == []


def test_no_parentheses_in_parentheses(make_diff, fit_divergence):
    evicts = attrs.evolve(
        fit_divergence,
        kind="evict",
        a=Decision("E 3", 81, "evict", storage=3, bytes=4096, score=0.25),
        b=Decision("E 5", 81, "evict", storage=5, bytes=8192, score=0.5),
    )
    for sentence in diff_words(make_diff(divergence=evicts)):
        depth = 0
        for char in sentence:
            depth += (char == "(") - (char == ")")
            assert depth in (0, 1), sentence


def test_a_stop_under_an_interventions_budget_without_a_bound(make_frontier):
    frontier = make_frontier([30, 20], budget_is_switched=True, interval_hi_bytes=None)
    said = " ".join(frontier_words(frontier))
    assert "That budget is an intervention's; the run begins with" in said
    assert "every budget from 57 B on to begin with stops here in the same way." in said
    assert f"would pass from {frontier.passes_at_bytes:,} B." in said
