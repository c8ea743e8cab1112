from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtrdiag.cli.values import parse_limit, parse_many, parse_ratio, parse_size
from dtrdiag.errors import UsageError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("1500000", 1_500_000),
        (" 12 ", 12),
        ("500MB", 500_000_000),
        ("500mb", 500_000_000),
        ("1.5GiB", 1_610_612_736),
        ("1.5 gib", 1_610_612_736),
        ("0.1GiB", 107_374_182),
        ("2kB", 2_000),
        ("2KiB", 2_048),
        ("7B", 7),
        ("4611686018427387903", 2**62 - 1),
    ],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    [
        *("", "0", "0.4", "-1", "+1", "nan", "inf", "1e9", "1_000", "1,000", "GiB", "1.5XB", "1 2"),
        *("1GiBs", "0x10", ".5GiB", "1.5.2", str(2**62), "9" * 50, "9999999PiB", "\u0663"),
    ],
)
def test_sizes_that_are_refused(text):
    with pytest.raises(UsageError, match="a budget must be"):
        parse_size(text)


@pytest.mark.parametrize(
    "text", ["0", "-0.5", "nan", "inf", "-inf", "1e999", "x", "", "1/2", "0x1"]
)
def test_ratios_that_are_refused(text):
    with pytest.raises(UsageError, match=r"a ratio must be a positive number such as 0\.5, not "):
        parse_ratio(text)


def test_limits_keep_their_kind():
    assert parse_limit("none") is None
    assert parse_limit("NONE") is None
    assert parse_limit("100") == 100
    assert isinstance(parse_limit("100"), int)
    assert parse_limit("1.5") == 1.5
    assert isinstance(parse_limit("2.0"), float)


@pytest.mark.parametrize("text", ["0", "0.99", "-1", "nan", "inf", "x", "", str(2**53)])
def test_limits_that_are_refused(text):
    with pytest.raises(UsageError, match="an overhead limit must be"):
        parse_limit(text)


def test_a_range_holds_the_doubles_as_written_and_its_end():
    written = [0.098, 0.099, 0.1, 0.101, 0.102, 0.103, 0.104, 0.105, 0.106, 0.107, 0.108]
    assert parse_many("0.098:0.108:0.001", parse_ratio, "--ratios") == written


def test_a_range_stops_below_an_end_that_it_does_not_meet():
    assert parse_many("0.1:0.5:0.15", parse_ratio, "--ratios") == [0.1, 0.25, 0.4]


def test_a_range_of_one_point():
    assert parse_many("0.3:0.3:0.1", parse_ratio, "--ratios") == [0.3]


def test_a_range_of_sizes():
    assert parse_many("1KiB:3kB:1000", parse_size, "--budgets") == [1024, 2024]


def test_a_list_keeps_its_order_and_each_value_once():
    assert parse_many("0.5, 0.2,0.50", parse_ratio, "--ratios") == [0.5, 0.2]


@given(st.integers(1, 500), st.integers(0, 60), st.integers(1, 50), st.integers(0, 3))
def test_a_range_equals_its_points_written_out(start, points, step, digits):
    first, width = Decimal(start).scaleb(-digits), Decimal(step).scaleb(-digits)
    text = f"{first}:{first + points * width}:{width}"
    expected = [float(str(first + index * width)) for index in range(points + 1)]
    assert parse_many(text, parse_ratio, "--ratios") == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0.1:0.2", "must be A:B:STEP"),
        ("0.1:0.2:0.1:1", "must be A:B:STEP"),
        ("0.2:0.1:0.1", "its end is below its start"),
        ("0.1:0.2:0", "a positive number"),
        ("0.1:0.2:-0.1", "a positive number"),
        ("0.1:nan:0.1", "a positive number"),
        ("0.1:0.9:0.0000001", "points, more than"),
        ("1e-300:1e300:1e-300", "points, more than"),
        ("", "must be A:B:STEP or"),
        ("0.1,,0.2", "must be A:B:STEP or"),
        ("0.1,x", "a positive number"),
    ],
)
def test_ranges_that_are_refused(text, why):
    with pytest.raises(UsageError, match=why):
        parse_many(text, parse_ratio, "--ratios")


@pytest.mark.parametrize("text", ["1e-300:1e300:1e-300", "0.5:0." + "4" * 999 + ":0.1"])
def test_a_message_is_short_whatever_the_option_says(text):
    with pytest.raises(UsageError) as raised:
        parse_many(text, parse_ratio, "--ratios")
    assert len(str(raised.value)) < 200
