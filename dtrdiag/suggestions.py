"""What was meant by a name that there is not?

Every message about such a name reads alike: what there is none of, what was given, and the names
that are close to it, or else all that there are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import islice

MAX_GIVEN = 60
"""Characters of what was given that a message repeats."""
MAX_CLOSE = 3
_CUTOFF = 0.65
_SPREAD = 0.15
"""Names that are less like it than the closest by more than this are not what was meant."""
_MAX_ENTRIES = 2_000


def close_names(given: str, known: Iterable[str], most: int = MAX_CLOSE) -> list[str]:
    """The known names that are most like the one given, the closest first, in any case of letters.

    >>> close_names("DTR-eqq", ["dtr", "dtr-eq", "lru"])
    ['dtr-eq']
    """
    import difflib  # seldom needed, and slow to load

    def likeness(name: str) -> float:
        return difflib.SequenceMatcher(None, name, given).ratio()

    by_lower: dict[str, str] = {}
    for name in known:
        by_lower.setdefault(name.lower(), name)
    given = given[:200].lower()
    found = difflib.get_close_matches(given, by_lower, most, _CUTOFF)
    found = [name for name in found if likeness(name) > likeness(found[0]) - _SPREAD]
    # A part of a name, such as `eq`, is too short to be like it.
    parts = [name for name in by_lower if len(given) > 2 and given in name and name not in found]
    return [by_lower[name] for name in [*found, *parts][:most]]


def no_such(what: str, given: object, known: Iterable[str], otherwise: str | None = None) -> str:
    """The message about a name that there is not.

    Args:
        what: it was to be the name of, such as `policy`.
        given: the name; anything else if it is not even a text.
        known: the names that there are, in the order to list them in.
        otherwise: what to say where none is close, in place of listing them all; empty: nothing.

    >>> no_such("policy", "dtr-eqq", ["dtr-eq", "lru"])
    'no policy "dtr-eqq"; did you mean dtr-eq?'
    >>> no_such("engine", "fast", ["auto", "native", "python"])
    'no engine "fast"; there are auto, native, python'
    """
    names = list(known)
    close = close_names(given, names) if isinstance(given, str) else []
    if close:
        hint = f"did you mean {one_of(close)}?"
    elif otherwise is None:
        hint = f"there are {', '.join(names)}" if len(names) > 1 else _only(names)
    else:
        hint = otherwise
    return f"no {what} {quoted(given)}" + (f"; {hint}" if hint else "")


def _only(names: list[str]) -> str:
    return f"there is {names[0]} alone" if names else "there is none"


def one_of(names: Iterable[str]) -> str:
    """Names of which one is meant.

    >>> one_of(["a"]), one_of(["a", "b", "c"])
    ('a', 'a, b or c')
    """
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def quoted(given: object) -> str:
    """What was given, in double quotes if it is a text, and not longer than a line can bear."""
    text = given if isinstance(given, str) else repr(given)
    text = text if len(text) <= MAX_GIVEN else f"{text[:MAX_GIVEN]}..."
    return f'"{text}"' if isinstance(given, str) else text


def close_files(path: str) -> list[str]:
    """Files in the folder of a path that are named much like it; none where there is no folder."""
    folder, name = os.path.split(path)
    try:
        with os.scandir(folder or ".") as entries:
            names = sorted(entry.name for entry in islice(entries, _MAX_ENTRIES))
    except (OSError, ValueError):
        return []
    return [os.path.join(folder, close) for close in close_names(name, names, 1)]
