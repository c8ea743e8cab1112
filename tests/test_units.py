"""Do people read the same sizes, times and names that the records hold?"""

# mypy: no-check-untyped-defs

import doctest
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtrdiag import units


def test_the_examples_of_the_docstrings_hold():
    results = doctest.testmod(units)
    assert results.attempted >= 7
    assert results.failed == 0


@given(st.integers(-(2**60), 2**60))
def test_the_exact_size_is_always_there(size_bytes):
    text = units.both_bytes(size_bytes)
    assert int(text.split(" B")[0].replace(",", "")) == size_bytes


@pytest.mark.parametrize("power", range(1, 6))
def test_a_size_just_below_a_unit_is_not_rounded_up_to_1024_of_the_last(power):
    below, at = 1024**power - 1, 1024**power
    assert not units.short_bytes(below).startswith("1024")
    assert units.short_bytes(at) == f"1.0 {'KMGTP'[power - 1]}iB"


@given(st.integers(0, 2**62))
def test_a_rounded_size_is_near_the_exact_one(size_bytes):
    number, unit = units.short_bytes(size_bytes).split()
    scale = 1024 ** ["B", "KiB", "MiB", "GiB", "TiB", "PiB"].index(unit)
    assert abs(float(number) * scale - size_bytes) <= 0.051 * scale


@given(st.integers(-(10**15), 10**15))
def test_a_rounded_time_is_near_the_exact_one(time_ns):
    number, unit = units.duration(time_ns).split()
    scale = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}[unit]
    assert abs(float(number) * scale - time_ns) <= 0.051 * scale


@given(st.text(alphabet=st.characters(), max_size=60), st.integers(1, 50))
def test_a_name_is_printable_and_short(name, width):
    text = units.plain_name(name, width)
    assert len(text) <= width
    assert all(unicodedata.category(char)[0] != "C" for char in text)
    assert "\n" not in text
    text.encode()


def test_an_ordinary_name_is_left_as_it_is():
    assert units.plain_name("aten::add_.Tensor") == "aten::add_.Tensor"
