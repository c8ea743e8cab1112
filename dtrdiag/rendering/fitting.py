"""How wide is each column of a table, so that no number is cut in a narrow terminal?

rich takes width from wide columns first and cuts words that no longer fit. Here each column keeps
its longest word; only where a column folds (`overflow="fold"`) may words, numbers apart, be broken
over lines: names between their parts, where these are short enough.
"""

from __future__ import annotations

import re

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from dtrdiag.units import name_parts

FOLDED = (32, 20, 12)
"""Widths that a column which folds must have at least, if it has longer words: the first that fits,
so that names of operators are broken only where they have to be."""
_NUMBER = re.compile(r"-?[0-9.,]+x?")
_UNIT = re.compile(r"(?<=[0-9]) (?=(?:[KMGTP]i)?B\b|[mun]?s\b|%)")


def fit(table: Table, width: int) -> bool:
    """Set the widths of a table's columns; False, with nothing changed, if it does not fit.

    Numbers are parted from their units only where they would not fit otherwise.

    Args:
        table: with padding of one character a side (outermost ones only if `pad_edge`) and a box.
        width: characters that there are.
    """
    return any(_fit(table, width, units, folded) for units in (True, False) for folded in FOLDED)


def _fit(table: Table, width: int, units: bool, folded: int) -> bool:
    columns = table.columns
    space = width - 3 * len(columns) - (1 if table.pad_edge else -1)
    needs = [_needs(column, table.show_header, units, folded) for column in columns]
    widths = [least for least, _, _ in needs]
    if sum(widths) > space:
        return False
    # A header takes a line or two more, a cell as many for each row: cells come first.
    for goal in ([rows for _, rows, _ in needs], [whole for _, _, whole in needs]):
        _widen(widths, goal, space - sum(widths))
    for column, width in zip(columns, widths, strict=True):
        column.width = width
        if column.overflow == "fold":
            column._cells = [_folded(cell, width) for cell in column.cells]
    return True


def _widen(widths: list[int], goal: list[int], spare: int) -> None:
    """Bring columns nearer to a goal; those that want little more first, so that few wrap."""
    order = sorted(range(len(widths)), key=lambda at: goal[at] - widths[at])
    for left, at in zip(range(len(order), 0, -1), order, strict=True):
        more = max(0, min(goal[at] - widths[at], spare // left))
        widths[at] += more
        spare -= more


def _folded(cell: RenderableType, width: int) -> RenderableType:
    """A cell whose words, where they are too long, are broken between their parts."""
    words = _plain(cell).split(" ")
    if all(cell_len(word) <= width for word in words) or (isinstance(cell, Text) and cell.spans):
        return cell
    folded = " ".join(word if cell_len(word) <= width else _broken(word, width) for word in words)
    return Text(folded, style=cell.style if isinstance(cell, Text) else "")


def _broken(word: str, width: int) -> str:
    lines = [""]
    for part in name_parts(word):
        # rich breaks what is still too long.
        if lines[-1] and cell_len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _needs(column: Column, header: bool, units: bool, folded: int) -> tuple[int, int, int]:
    """The least width of a column, and those at which no cell, and nothing in it wraps."""
    cells = [*([column.header] if header else []), *column.cells]
    lines = [line for cell in cells for line in _plain(cell).splitlines()]
    words = [word for line in lines for word in (_UNIT.sub("_", line) if units else line).split()]
    longest = max(map(cell_len, words), default=1)
    whole = max(map(cell_len, lines), default=1)
    rows = max((cell_len(line) for c in column.cells for line in _plain(c).splitlines()), default=1)
    if column.no_wrap:
        return whole, whole, whole
    if column.overflow == "fold":
        numbers = max((len(word) for word in words if _NUMBER.fullmatch(word)), default=1)
        longest = max(numbers, min(longest, folded))
    return longest, max(longest, rows), whole


def _plain(cell: object) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)
