"""Can every state be read, and told from the others, by those who see few colours?"""

# mypy: no-check-untyped-defs

import itertools
import math

import pytest

from dtrdiag.analyses.graph import STATES
from dtrdiag.rendering.palette import (
    CAUSE_COLOURS,
    LOOKS,
    OUTCOME_COLOURS,
    REMAT_COLOUR,
    look,
)

PAPERS = ("#ffffff", "#12161b")
"""Behind charts of a page, where it is light and where it is dark."""
# What those see who lack a kind of cone, of linear light (Machado, Oliveira, Fernandes 2009).
SIGHTS = {
    "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no long waves": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "no middle waves": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "no short waves": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
_CONES = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
_OKLAB = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)


def linear(colour):
    values = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]


def luminance(colour):
    return sum(map(float.__mul__, (0.2126, 0.7152, 0.0722), linear(colour)))


def contrast(one, other):
    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def distance(one, other, sight="all"):
    """Of two colours in Oklab, in hundredths of the way from black to white."""
    points = []
    for colour in (one, other):
        seen = [min(max(value, 0), 1) for value in times(SIGHTS[sight], linear(colour))]
        points.append(times(_OKLAB, [cone ** (1 / 3) for cone in times(_CONES, seen)]))
    return 100 * math.dist(*points)


@pytest.mark.parametrize("state", LOOKS)
def test_text_stands_out_from_its_background(state):
    assert contrast(LOOKS[state].fill, LOOKS[state].ink) >= 4.5


@pytest.mark.parametrize("sight", SIGHTS)
def test_outcomes_are_told_apart_by_those_who_lack_a_kind_of_cone(sight):
    for one, other in itertools.combinations(OUTCOME_COLOURS.values(), 2):
        assert distance(one, other, sight) > 12


@pytest.mark.parametrize("outcome", OUTCOME_COLOURS)
def test_the_colour_of_an_outcome_means_nothing_else_and_stands_out_on_either_paper(outcome):
    colour = OUTCOME_COLOURS[outcome]
    taken = {look.fill for look in LOOKS.values()} | {*CAUSE_COLOURS.values(), REMAT_COLOUR}
    assert min(distance(colour, each) for each in taken) > 8
    assert min(contrast(colour, paper) for paper in PAPERS) >= 3


def test_every_state_of_the_analyses_has_a_look():
    assert all(look(state) for state in (*STATES, "evictable", "requested", "op"))


def test_no_two_states_look_alike():
    states = [LOOKS[state] for state in STATES]
    for one, other in itertools.combinations(states, 2):
        assert (one.fill, one.outline) != (other.fill, other.outline)
        assert one.word != other.word
