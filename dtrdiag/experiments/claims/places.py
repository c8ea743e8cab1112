"""In which line of a TOML file is a key, a table or a text?

The reader of TOML keeps no lines. This looks for them in the text, for messages alone: where a file
is laid out in a way that it does not know, the line is that of the table, or none.
"""

from __future__ import annotations

import re
from itertools import pairwise

_HEADER = re.compile(r"\s*\[(\[?)\s*([^\]\[]+?)\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"""\s*["']?([A-Za-z0-9_-]+)["']?\s*(?:\.[^=]*)?=""")
_LONG_QUOTES = ('"' * 3, "'" * 3)


class Places:
    """Lines of one TOML text.

    Args:
        text: the whole file.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._starts: list[tuple[str, int, int]] = [("", 0, 1)]
        self._keys: dict[tuple[str, int, str], int] = {}
        self._scan()

    def _scan(self) -> None:
        counts: dict[str, int] = {}
        table, index, open_quotes = "", 0, ""
        for number, line in enumerate(self._lines, start=1):
            if open_quotes:
                if line.count(open_quotes) % 2:
                    open_quotes = ""
                continue
            header = _HEADER.fullmatch(line)
            key = _KEY.match(line)
            if header is not None:
                name = header[2]
                table = name.partition(".")[0]
                if header[1] and table == name:
                    counts[table] = counts.get(table, -1) + 1
                index = counts.get(table, 0)
                if table == name:
                    self._starts.append((table, index, number))
            elif key is not None:
                self._keys.setdefault((table, index, key[1]), number)
            open_quotes = next((q for q in _LONG_QUOTES if line.count(q) % 2), "")

    def of(
        self, table: str = "", index: int = 0, key: str | None = None, holding: str | None = None
    ) -> int | None:
        """The line of a key, or of a text, in a table; else that of the table.

        Args:
            table: its name; empty: the top of the file.
            index: which of the tables of that name.
            key: what is looked for.
            holding: a text that is looked for instead.
        """
        if key is not None and (table, index, key) in self._keys:
            return self._keys[table, index, key]
        starts = [*self._starts, ("", -1, len(self._lines) + 1)]
        for (name, which, first), (_, _, after) in pairwise(starts):
            if (name, which) != (table, index):
                continue
            for number in range(first, after):
                if holding is not None and holding in self._lines[number - 1]:
                    return number
            return first if table else None
        return None
