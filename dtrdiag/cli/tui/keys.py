"""Which key does what? One table for bindings, key bar, help and command palette."""

from __future__ import annotations

import attrs


@attrs.frozen
class Key:
    """One thing that can be done.

    Attributes:
        keys: textual's names of its keys, the first one shown.
        shown: how the key bar writes the first.
        action: of the application, with its argument.
        help: what it does, for help and palette.
        group: keys of a group share a word in the key bar.
        word: that word; given by the last key of a group.
    """

    keys: str
    shown: str
    action: str
    help: str
    word: str = ""


KEYS = (
    Key("left,k,up", "←", "step(-1)", "One event back"),
    Key("right,j,down", "→", "step(1)", "One event forward", "step"),
    Key("N", "N", "decide(-1)", "Previous decision, or match of a search"),
    Key("n", "n", "decide(1)", "Next decision, or match of a search", "decision"),
    Key("E", "E", "evict(-1)", "Previous eviction to make room"),
    Key("e", "e", "evict(1)", "Next eviction to make room", "evict"),
    Key("R", "R", "remat(-1)", "Previous rematerialisation"),
    Key("r", "r", "remat(1)", "Next rematerialisation", "remat"),
    Key("o", "o", "stop", "Out-of-memory or limit stop, then the end", "oom/end"),
    Key("d", "d", "part", "First difference of two logs", "difference"),
    Key("g", "g", "go", "Go to the event of a number", "go to"),
    Key("slash", "/", "search", "Search a storage by number, an operator by name", "search"),
    Key("s", "s", "storage", "Details and history of a storage", "storage"),
    Key("tab", "tab", "other", "Let the other log lead", "other log"),
    Key("pageup", "pgup", "step(-20)", "20 events back"),
    Key("pagedown", "pgdn", "step(20)", "20 events forward", "20 steps"),
    Key("home", "home", "first", "First event", "first"),
    Key("escape", "esc", "forget", "End a search", "end search"),
    Key("question_mark", "?", "help", "This help", "help"),
    Key("q", "q", "quit", "Quit", "quit"),
)
IN_BAR: tuple[str, ...] = (
    "step",
    "decision",
    "evict",
    "remat",
    "oom/end",
    "difference",
    "go to",
    "search",
)
IN_BAR += ("storage", "other log", "help", "quit")
"""Words that the key bar shows, in order; the rest is in the help."""
OF_PAIRS = ("part", "other")
"""Actions that make sense with two logs alone."""


def bar(pair: bool, searching: bool, width: int) -> list[list[tuple[str, str]]]:
    """The key bar: lines of (text, action); the action is empty where nothing is to click."""
    lines: list[list[tuple[str, str]]] = [[]]
    used, group = 0, []
    for key in KEYS:
        group.append(key)
        if not key.word:
            continue
        keys, group = group, []
        word = "match" if key.word == "decision" and searching else key.word
        if key.word == "end search" and searching:
            pass
        elif key.word not in IN_BAR or (key.action in OF_PAIRS and not pair):
            continue
        size = sum(len(one.shown) + 1 for one in keys) + len(word)
        if used and used + 2 + size > width:
            lines.append([])
            used = 0
        if used:
            lines[-1].append(("  ", ""))
            used += 2
        for one in keys:
            lines[-1] += [(one.shown, one.action), (" ", "")]
        lines[-1].append((word, keys[-1].action))
        used += size
    return lines
