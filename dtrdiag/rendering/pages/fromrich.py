"""How does a table for a terminal become a table of a page?"""

from __future__ import annotations

from typing import Any

import rich.table
from rich.text import Text

from dtrdiag.rendering.pages.parts import LEFT, RIGHT, Column, Table


def page_table(table: rich.table.Table, caption: str | None = None, note: str = "") -> Table:
    """A terminal's table as a page's, without colours. O(cells).

    Args:
        table: cells are texts.
        caption: in place of the table's title.
        note: what is to be said under it.
    """
    columns = tuple(
        Column(_plain(column.header), RIGHT if column.justify == "right" else LEFT)
        for column in table.columns
    )
    rows = list(
        zip(*([_plain(cell) for cell in column.cells] for column in table.columns), strict=True)
    )
    title = caption or _plain(table.title or "")
    return Table(title[:1].upper() + title[1:], columns, rows, note or None)


def _plain(cell: Any) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)
