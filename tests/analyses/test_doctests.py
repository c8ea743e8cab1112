"""Do the examples in the docstrings of the analyses hold?"""

# mypy: no-check-untyped-defs

import doctest

from dtrdiag.analyses import sets


def test_the_examples_hold():
    results = doctest.testmod(sets)
    assert results.attempted >= 2
    assert results.failed == 0
