"""Predicates: what they can say, what they refuse, and what bounds decide."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtrdiag.errors import LedgerError
from dtrdiag.experiments.claims import bounds
from dtrdiag.experiments.claims.bounds import Bound
from dtrdiag.experiments.claims.predicates import parse_predicate

DOCUMENT = {
    "a": {"overhead": 8.778919, "outcome": "ok", "interval": [10, 20]},
    "b": {"overhead": Bound(10.5), "outcome": "thrashed", "remats": 0},
    "first_divergence": None,
    "runs": [{"n": 1, "s": {"t": "x"}}, {"n": 5, "s": {"t": "y"}}],
    "empty": [],
    "flag": True,
    "share": Bound(0.0, 1.0),
    "sets": {"all-of": 3},
}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("a.outcome == 'ok'", True),
        ('a["outcome"] != "ok"', False),
        ("a.overhead >= 6.3 and b.outcome == 'thrashed'", True),
        ("a.overhead < 1 or not a.overhead < 1", True),
        ("1 < a.overhead < 8", False),
        ("close(a.overhead, 8.77892, 1e-5)", True),
        ("close(a.overhead, 8.77892, 1e-7)", False),
        ("a.interval == [10, 20]", True),
        ("a.interval[1] - a.interval[0] == 10", True),
        ("a.interval[-1] == 2_0", True),
        ("sets['all-of'] * 2 / 3 == 2", True),
        ("-sets['all-of'] == 0 - 3", True),
        ("abs(0 - sets['all-of']) + 1 == 4", True),
        ("flag == true", True),
        ("flag == 1", False),
        ("a.outcome in ['ok', 'oom']", True),
        ("3 not in a.interval", True),
        ("each(runs, 'n') == [1, 5]", True),
        ("each(runs, 's.t') == ['x', 'y']", True),
        ("max(each(runs, 'n')) == 5 and min(each(runs, 'n')) == 1", True),
        ("sum(each(runs, 'n')) == 6 and len(runs) == 2", True),
        ("sum(empty) == 0 and max(empty) == null", True),
        ("subset([10], a.interval)", True),
        ("subset(a.interval, [10])", False),
        # null equals null alone, has no order, and gives null
        ("first_divergence == null", True),
        ("first_divergence.kind == 'fit'", False),
        ("first_divergence.index > 5", False),
        ("first_divergence.index <= 5", False),
        ("first_divergence.index + 1 == null", True),
        ("a.overhead / b.remats == null", True),
        # b.overhead is at least 10.5, share is within [0, 1]
        ("b.overhead >= 10.5", True),
        ("b.overhead > 10", True),
        ("b.overhead >= 11", None),
        ("b.overhead < 10.5", False),
        ("b.overhead == 10.5", None),
        ("b.overhead == 10", False),
        ("b.overhead != 10", True),
        ("b.overhead / a.overhead > 1.19", True),
        ("b.overhead / a.overhead > 1.2", None),
        ("a.overhead - b.overhead < 0", True),
        ("close(b.overhead, 3, 1)", False),
        ("close(b.overhead, 30, 1)", None),
        ("share <= 1 and share >= 0", True),
        ("share == 0.5", None),
        ("b.overhead >= 11 and a.outcome == 'oom'", False),
        ("b.overhead >= 11 or a.outcome == 'ok'", True),
        ("not b.overhead >= 11", None),
        ("[b.overhead, 1] == [b.overhead, 2]", False),
        ("max([b.overhead, 12]) >= 12", True),
    ],
)
def test_a_predicate_has_an_answer(text, answer):
    assert parse_predicate(text).holds(DOCUMENT) is answer


def test_what_it_looks_at_is_reported():
    predicate = parse_predicate("b.overhead > a.interval[0] and sets['all-of'] == a.interval[0]")
    assert predicate.measured(DOCUMENT) == {
        "b.overhead": {"at_least": 10.5},
        "a.interval[0]": 10,
        "sets['all-of']": 3,
    }


def test_lists_are_reported_as_they_are_used():
    predicate = parse_predicate("each(runs, 'n') == [1, 5] and len(runs) == len(a.interval)")
    assert predicate.measured(DOCUMENT) == {
        "each(runs, 'n')": [1, 5],
        "len(runs)": 2,
        "len(a.interval)": 2,
    }
    long = parse_predicate("steps != []").measured({"steps": list(range(1000))})
    assert long == {"steps": {"items": 1000, "first": [0, 1, 2], "last": [997, 998, 999]}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a.overhead",
        "a.overhead + 1",
        "a.overhead >",
        "1 < 2",
        "a = 1",
        "a.overhead and a.outcome == 'ok'",
        "not flag",
        "lambda: 1",
        "[x for x in runs] == []",
        "a.outcome.upper() == 'OK'",
        "__import__('os').system('true') == 0",
        "open('x') == 1",
        "len(runs, runs) == 1",
        "close(a.overhead, 1)",
        "each(runs, 5) == []",
        "a.overhead ** 2 > 1",
        "a.overhead is null",
        "f'{a}' == 'x'",
        "a[flag] == 1",
        "a[0:1] == []",
        "(a := 1) == 1",
        "a.overhead == b'x'",
        "a.overhead == 1j",
        "(" * 300 + "a" + ")" * 300 + " == 1",
        "a == " + "-" * 100 + "1",
        "a == 1 or " * 200 + "a == 1",
        "a == '\x00'",
    ],
)
def test_anything_else_is_no_predicate(text):
    with pytest.raises(LedgerError, match="predicate"):
        parse_predicate(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a.overheads > 1", "no field 'a.overheads': 'a' has interval, outcome, overhead"),
        ("c == 1", "no field 'c': the document has a, b, empty"),
        ("a.outcome.length == 1", "'a.outcome' is no table"),
        ("runs[2].n == 1", "'runs' has 2 items"),
        ("a.outcome == 'oom' and c == 1", "no field 'c'"),
        ("a.outcome > 1", "'ok' has no order"),
        ("a.outcome + 1 == 1", "'ok' is no number"),
        ("flag > 0", "True has no order"),
        ("len(a.outcome) == 2", "len takes a list, not 'ok'"),
        ("each(runs, 'm') == []", "no field '.m'"),
        ("sum(each(runs, 's')) == 1", "is no number"),
    ],
)
def test_what_a_document_cannot_answer_is_an_error(text, says):
    with pytest.raises(LedgerError) as caught:
        parse_predicate(text).holds(DOCUMENT)
    assert says in caught.value.what


POINTS = st.integers(-4, 4)


@st.composite
def figures(draw):
    """A figure, and some values that it may stand for."""
    low = draw(POINTS)
    high = draw(st.one_of(st.just(low), st.integers(low, 5), st.just(math.inf)))
    top = low + 3 if high == math.inf else high
    values = draw(st.lists(st.integers(low, top), min_size=1, max_size=3))
    return (low if low == high else Bound(low, high)), values


@given(figures(), figures())
def test_a_decided_answer_is_that_of_every_value_that_a_bound_stands_for(one, other):
    (a, a_values), (b, b_values) = one, other
    questions = [
        (bounds.less, lambda x, y: x < y),
        (bounds.at_most, lambda x, y: x <= y),
        (bounds.equal, lambda x, y: x == y),
    ]
    for ask, exact in questions:
        answer = ask(a, b)
        if answer is not None:
            assert all(exact(x, y) == answer for x in a_values for y in b_values)


@given(figures(), figures())
def test_arithmetic_holds_every_value_that_it_stands_for(one, other):
    (a, a_values), (b, b_values) = one, other
    for compute, exact in [
        (bounds.add, lambda x, y: x + y),
        (bounds.subtract, lambda x, y: x - y),
        (bounds.multiply, lambda x, y: x * y),
    ]:
        low, high = bounds.ends(compute(a, b))
        assert all(low <= exact(x, y) <= high for x in a_values for y in b_values)
    quotient = bounds.divide(a, b)
    if quotient is not None:
        low, high = bounds.ends(quotient)
        assert all(low <= x / y <= high for x in a_values for y in b_values if y)
    low, high = bounds.ends(bounds.magnitude(a))
    assert all(low <= abs(x) <= high for x in a_values)
