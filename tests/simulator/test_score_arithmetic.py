"""The native engine's scores are the doubles that Python's integers give, near ties included."""

import math

import numpy as np
import pytest

BIGGEST = (1 << 63) - 1


@pytest.fixture
def rng():
    return np.random.default_rng(20_220_701)


def ints(values):
    return np.array(values, dtype=np.int64)


def powers(rng, count, least, most):
    """Numbers of [least, most] bits, each bit length as likely as another."""
    bits = rng.integers(least, most + 1, count)
    low = np.left_shift(np.int64(1), bits - 1)
    return low + (rng.random(count) * low).astype(np.int64).clip(0, low - 1)


def quotients(numerators, sizes, staleness):
    """What Python makes of exact integers, as the Python engine does."""
    below = [size * stale for size, stale in zip(sizes.tolist(), staleness.tolist(), strict=True)]
    above = numerators.tolist()
    return np.array([n / d if d else math.inf for n, d in zip(above, below, strict=True)])


def assert_exact(engine, numerators, sizes, staleness):
    """Values, and the order of each pair of neighbours, of hundreds of thousands of scores."""
    expected = quotients(numerators, sizes, staleness)
    got = engine.rounded(numerators, sizes, staleness)
    assert got.dtype == np.float64
    wrong = np.flatnonzero(got.view(np.int64) != expected.view(np.int64))
    assert not len(wrong), [
        (int(numerators[i]), int(sizes[i]), int(staleness[i]), got[i]) for i in wrong[:3]
    ]
    ordered = engine.ordered(numerators, sizes, staleness)
    wrong = np.flatnonzero(ordered != (expected[:-1] <= expected[1:]))
    assert not len(wrong), [
        [(int(numerators[j]), int(sizes[j]), int(staleness[j])) for j in (i, i + 1)]
        for i in wrong[:3]
    ]
    return expected


def interleaved(*pairs):
    """Columns in which each row is followed by its rival."""
    return [np.stack(pair, axis=1).reshape(-1) for pair in pairs]


def test_figures_as_runs_have_them(native_engine, rng):
    count = 300_000
    numerators = powers(rng, count, 1, 40) - 1
    assert_exact(native_engine, numerators, powers(rng, count, 1, 35), powers(rng, count, 1, 40))


def test_products_up_to_125_bits(native_engine, rng):
    count = 300_000
    columns = powers(rng, count, 1, 62), powers(rng, count, 40, 62), powers(rng, count, 40, 63)
    expected = assert_exact(native_engine, *columns)
    assert expected.min() < 2.0**-100


def test_negative_numerators(native_engine, rng):
    """Values of equivalence classes can fall below 0."""
    count = 200_000
    numerators = powers(rng, count, 1, 62) * rng.choice([-1, 1], count)
    assert_exact(native_engine, numerators, powers(rng, count, 1, 50), powers(rng, count, 1, 50))


def test_neighbours_that_differ_by_one_in_one_integer(native_engine, rng):
    """Many are equal after rounding though they differ, many are one ulp apart."""
    count = 200_000
    numerators, sizes, staleness = (powers(rng, count, low, 62) for low in (50, 30, 30))
    which, step = rng.integers(0, 3, count), rng.choice([-1, 1], count)
    rivals = [
        np.clip(column + np.where(which == place, step, 0), 1, BIGGEST)
        for place, column in enumerate((numerators, sizes, staleness))
    ]
    pairs = zip((numerators, sizes, staleness), rivals, strict=True)
    expected = assert_exact(native_engine, *interleaved(*pairs))
    equal = expected[0::2] == expected[1::2]
    apart = np.nextafter(expected[0::2], math.inf) == expected[1::2]
    assert equal.sum() > 20_000
    assert apart.sum() > 5_000


def test_exact_ties_written_differently(native_engine, rng):
    """Both sides multiplied by the same, and factors moved about."""
    count = 200_000
    factor = powers(rng, count, 1, 12)
    numerators, sizes, staleness = (powers(rng, count, 1, most) for most in (50, 45, 50))
    columns = interleaved(
        (numerators, numerators * factor), (sizes * factor, staleness), (staleness, sizes)
    )
    assert_exact(native_engine, *columns)
    tied = interleaved((numerators, numerators * factor), (sizes, sizes * factor), (staleness,) * 2)
    expected = assert_exact(native_engine, *tied)
    assert (expected[0::2] == expected[1::2]).all()


def test_halfway_between_two_doubles(native_engine, rng):
    """A numerator of 54 bits over a power of two is halfway where its last bit is set: to even."""
    count = 200_000
    halfway = powers(rng, count, 54, 54) | 1
    numerators = halfway + rng.integers(-1, 2, count)
    sizes = np.left_shift(np.int64(1), rng.integers(0, 62, count))
    staleness = np.left_shift(np.int64(1), rng.integers(0, 62, count))
    assert_exact(native_engine, numerators, sizes, staleness)
    rivals = interleaved((numerators, halfway), (sizes, sizes), (staleness, staleness))
    assert_exact(native_engine, *rivals)


def test_just_beside_halfway(native_engine, rng):
    """Quotients whose 54 leading bits are halfway, with the rest of a long division after them."""
    count = 200_000
    below = powers(rng, count, 2, 8) | 1
    halfway = powers(rng, count, 54, 54) | 1
    numerators = halfway * below + rng.integers(-1, 2, count)
    assert numerators.max() < BIGGEST
    staleness = np.left_shift(np.int64(1), rng.integers(0, 62, count))
    assert_exact(native_engine, numerators, below, staleness)


def test_powers_of_two_and_their_neighbours(native_engine):
    near = {0, 1, 2, 3, BIGGEST, BIGGEST - 1}
    for bit in (1, 2, 26, 27, 31, 32, 52, 53, 54, 61, 62):
        near |= {(1 << bit) + step for step in (-1, 0, 1)}
    some = ints(sorted(near))
    signed = np.concatenate([some, -some])
    grid = np.meshgrid(signed, some, some, indexing="ij")
    expected = assert_exact(native_engine, *(column.reshape(-1) for column in grid))
    assert np.isinf(expected).any()
    assert (expected == 0).any()
    shuffled = np.random.default_rng(1).permutation(len(expected))
    assert_exact(native_engine, *(column.reshape(-1)[shuffled] for column in grid))


def test_a_denominator_of_zero_is_infinite_whatever_is_above(native_engine):
    columns = ints([0, 5, -5, 3, 0]), ints([0, 0, 7, 1, 4]), ints([1, 9, 0, 1, 4])
    assert native_engine.rounded(*columns).tolist() == [math.inf] * 3 + [3.0, 0.0]
    assert native_engine.ordered(*columns).tolist() == [True, True, False, False]
