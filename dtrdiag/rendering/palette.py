"""Which colour stands for which state, in every picture and table alike.

The hues are those of Okabe and Ito (Color Universal Design, 2008), told apart by people with any
common colour vision deficiency; outcomes have three more. A picture never says a thing by colour
alone: it also prints the state's word or draws another outline.
"""

from __future__ import annotations

import attrs

from dtrdiag import notebook


@attrs.frozen
class Look:
    """How a state is drawn.

    Attributes:
        word: what people call it.
        fill: background, `#RRGGBB`.
        ink: text on that background, `#RRGGBB`, with a contrast of at least 4.5 to it.
        outline: DOT style of the outline besides `filled`.
        terminal: style of the word in a terminal, for rich.
    """

    word: str
    fill: str
    ink: str
    outline: str
    terminal: str


_BLACK, _WHITE = "#000000", "#ffffff"

LOOKS = {
    "pinned": Look("pinned", "#0072b2", _WHITE, "solid", "bold blue"),
    "locked": Look("locked", "#e69f00", _BLACK, "solid", "bold yellow"),
    "requested": Look("requested", "#f0e442", _BLACK, "bold", "bold red"),
    "resident": Look("evictable", "#56b4e9", _BLACK, "solid", "cyan"),
    "evicted": Look("evicted", _WHITE, _BLACK, "dashed", "dim"),
    "uncomputed": Look("not computed yet", _WHITE, "#595959", "dotted", "dim"),
    "banished": Look("freed for good", "#d9d9d9", _BLACK, "dotted", "dim"),
    "op": Look("pending op", "#f2f2f2", _BLACK, "solid", "default"),
    "omitted": Look("steps left out", _WHITE, _BLACK, "dashed", "dim"),
}
"""How each state is drawn, by the name that analyses give it."""

CAUSE_COLOURS = {"pressure": "#d55e00", "release": "#009e73", "banish": "#8c8c8c"}
"""Of evictions, by cause."""
REMAT_COLOUR = "#cc79a7"
"""Of what is computed again."""

OUTCOME_COLOURS = notebook.OUTCOME_COLOURS
"""Of what becomes of a run, and of nothing else: apart from each other for every kind of sight, and
from white and from dark paper by a contrast of 3."""
UNKNOWN_COLOUR = "#8c8c8c"
"""Of budgets that were not looked at."""

OUTCOME_STYLES = {
    "ok": "green",
    "oom": "bold red",
    "thrashed": "bold magenta",
    "incomplete": "bold",
}
"""Terminal style of an outcome's word."""


def look(state: str) -> Look:
    """The look of a state; `evictable` and `resident` are the same."""
    return LOOKS["resident" if state == "evictable" else state]
