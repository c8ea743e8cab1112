"""What becomes of the standard streams where they are closed, full, or show what they are told?

Control characters that a file or a policy of the user brings along must not reach a terminal, and
a line stays a line that can be read.
"""

from __future__ import annotations

import os
import sys

MAX_LINE = 600
"""Characters of a line on standard error, the program's name not counted."""
MAX_WHERE = 250


def open_missing_streams() -> None:
    """Let a standard stream that is closed be the null device.

    Else the next file opened would get its number, and be written to by whoever writes there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is taken, which is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Kept for as long as the program runs, as the stream is that it stands for.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def drop_output() -> None:
    """Point both streams at nothing, so that the interpreter's last flush does not fail too."""
    for stream in (sys.stdout, sys.stderr):
        drop(stream)


def drop(stream: object) -> None:
    """Point one stream at nothing."""
    try:
        descriptor = stream.fileno()  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)


def one_line(what: str, where: str | None = None) -> str:
    """`WHAT (WHERE)` as a line of printable characters, at most `MAX_LINE` of them.

    What is too long loses its end; the place, which is the more useful half, its middle.
    """
    place = ""
    if where is not None:
        place = printable(where)
        if len(place) > MAX_WHERE:
            place = f"{place[:40]}...{place[40 + 3 - MAX_WHERE :]}"
        place = f" ({place})"
    text = printable(" ".join(what.split()))
    room = MAX_LINE - len(place)
    return (text if len(text) <= room else f"{text[: room - 3]}...") + place


def printable(text: str) -> str:
    r"""The text with every character that does not show as itself escaped, as in `\x1b`."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
