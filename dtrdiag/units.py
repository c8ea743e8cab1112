"""How are bytes, times, counts and foreign names written for people?

Every size is given exactly first, because two budgets may differ in a few bytes, and rounded after
it, because nobody reads nine digits.
"""

from __future__ import annotations

import re
import unicodedata

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_TIMES = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"))
NOT_KNOWN = "-"
PROSE_NAME = 72
"""Characters of a name in a sentence, which breaks before it and after it."""
LONG_NAME = 120
"""Characters of a name in a table, where it may fold."""
_COMMON = re.compile(r"\Aaten(?:\.|::)|\.default\Z")
"""What names of operators begin and end with, however different they are."""
_JOINTS = re.compile(r"(?<=[.:/])(?=[^\W\d])|(?<=[^\W_]_)(?=[^\W\d_])")


def short_bytes(size_bytes: int) -> str:
    """A size rounded to four digits.

    >>> short_bytes(179_830_912), short_bytes(-512), short_bytes(1023)
    ('171.5 MiB', '-512 B', '1023 B')
    """
    value, unit = float(abs(size_bytes)), 0
    # 1023.95 would round to "1024.0 KiB", which is the next unit's 1.0.
    while value >= (1023.95 if unit else 1024) and unit < len(_BINARY) - 1:
        value, unit = value / 1024, unit + 1
    sign = "-" if size_bytes < 0 else ""
    return f"{sign}{value:.0f} B" if unit == 0 else f"{sign}{value:.1f} {_BINARY[unit]}"


def exact_bytes(size_bytes: int) -> str:
    """A size to the byte.

    >>> exact_bytes(179_830_912)
    '179,830,912 B'
    """
    return f"{size_bytes:,} B"


def both_bytes(size_bytes: int) -> str:
    """A size to the byte and, from 1 KiB, rounded.

    >>> both_bytes(179_830_912), both_bytes(64)
    ('179,830,912 B (171.5 MiB)', '64 B')
    """
    exact = exact_bytes(size_bytes)
    return exact if abs(size_bytes) < 1024 else f"{exact} ({short_bytes(size_bytes)})"


def interval_words(low_bytes: int, high_bytes: int | None) -> str:
    """A half-open interval of budgets; None: without an upper bound.

    >>> interval_words(1_000, 2_000), interval_words(1_000, None)
    ('from 1,000 B to below 2,000 B', 'from 1,000 B on')
    """
    if high_bytes is None:
        return f"from {exact_bytes(low_bytes)} on"
    return f"from {exact_bytes(low_bytes)} to below {exact_bytes(high_bytes)}"


def duration(time_ns: int) -> str:
    """A time in nanoseconds, rounded, in the unit that suits it.

    >>> duration(356_960_170), duration(1_500), duration(12), duration(61_000_000_000)
    ('357.0 ms', '1.5 us', '12 ns', '61.0 s')
    """
    for scale, unit in _TIMES:
        # The rounded figure decides, so that 999.96 us is written as 1.0 ms.
        if round(abs(time_ns) / scale, 1) >= 1:
            return f"{time_ns / scale:.1f} {unit}"
    return f"{time_ns} ns"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun.

    >>> count(1, "step"), count(43_292, "eviction"), count(2, "copy", "copies")
    ('1 step', '43,292 evictions', '2 copies')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def changes_words(semantics: str | None, interventions: str | None) -> str:
    """What tells a run from one of the same policy and budget, to put after the policy's name.

    >>> changes_words("simrd", None), changes_words("simrd", "forbid 356; keep 77")
    ('', ' (with forbid 356; keep 77)')
    >>> changes_words("repaired", "keep 77")
    ' (with repaired semantics; keep 77)'
    """
    parts = [] if semantics in (None, "simrd") else [f"{plain_name(semantics)} semantics"]
    if interventions is not None:
        parts.append(plain_name(interventions, LONG_NAME))
    return f" (with {'; '.join(parts)})" if parts else ""


def cut_words(what: str, shown: int, number: int, order: str = "the dearest") -> str:
    """The title of a table that may show only the first rows of all.

    >>> cut_words("steps", 5, 19), cut_words("steps", 5, 3)
    ('steps: the dearest 5 of 19', 'steps')
    """
    return what if number <= shown else f"{what}: {order} {shown:,} of {number:,}"


def overhead_words(overhead: float | None) -> str:
    """An overhead as a factor of the baseline, `-` where it is not known.

    >>> overhead_words(1.382602), overhead_words(None)
    ('1.3826x', '-')
    """
    return NOT_KNOWN if overhead is None else f"{overhead:.4f}x"


def name_parts(name: str) -> list[str]:
    """The parts of a name between which a line may break.

    >>> name_parts("aten._max_pool2d.default"), name_parts("1.5e-09")
    (['aten.', '_max_', 'pool2d.', 'default'], ['1.5e-09'])
    """
    return _JOINTS.split(name)


def plain_name(name: str | None, width: int = PROSE_NAME) -> str:
    r"""A name from a file, safe to print: one line, no control characters, at most `width` long.

    Names come from logs that anyone may have written; a terminal would obey an escape sequence.
    What is too long loses what names of a runtime have in common, and then its middle: operators
    that belong together begin alike and differ in how they end.

    >>> plain_name("aten::add\n"), plain_name("forwards_backwards", width=9), plain_name(None)
    ('aten::add\\n', 'forw…ards', '?')
    >>> plain_name("aten._unsafe_view.default", width=24)
    '_unsafe_view'
    """
    if name is None:
        return "?"
    if len(name) > 8 * width:
        name = name[: 4 * width] + name[-4 * width :]
    # repr-like escapes for what is invisible: control, format, surrogate, private, line separators.
    text = "".join(
        char
        if unicodedata.category(char)[0] != "C" and unicodedata.category(char) not in ("Zl", "Zp")
        else char.encode("unicode_escape").decode()
        for char in name
    )
    if len(text) > width and " " not in text:
        text = _COMMON.sub("", text) or text
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"
