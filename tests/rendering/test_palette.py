"""Can every state be read, and told from the others, by those who see few colours?"""

# mypy: no-check-untyped-defs

import itertools

import pytest

from dtrdiag.analyses.graph import STATES
from dtrdiag.rendering.palette import LOOKS, look


def luminance(colour):
    def linear(channel):
        value = channel / 255
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[i : i + 2], 16)) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("state", LOOKS)
def test_text_stands_out_from_its_background(state):
    bright, dark = sorted((luminance(LOOKS[state].fill), luminance(LOOKS[state].ink)), reverse=True)
    assert (bright + 0.05) / (dark + 0.05) >= 4.5


def test_every_state_of_the_analyses_has_a_look():
    assert all(look(state) for state in (*STATES, "evictable", "requested", "op"))


def test_no_two_states_look_alike():
    states = [LOOKS[state] for state in STATES]
    for one, other in itertools.combinations(states, 2):
        assert (one.fill, one.outline) != (other.fill, other.outline)
        assert one.word != other.word
