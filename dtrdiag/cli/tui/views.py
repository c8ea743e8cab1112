"""Panes as textual shows them: each makes its lines anew for whatever size it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.segment import Segment
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from dtrdiag.cli.tui import panes
from dtrdiag.cli.tui.cursor import Cursor

Lines = Callable[[int, int], list[Text]]


class Pane(Widget):
    """Lines of text, made for whatever size it has."""

    def __init__(self, lines: Lines, title: Callable[[], str] | None = None, **given: Any) -> None:
        super().__init__(**given)
        self._lines = lines
        self._title = title
        self._made: tuple[Size, list[Text]] | None = None
        self._strips: list[Strip] | None = None
        self._blank = Strip([])

    def render_line(self, y: int) -> Strip:
        """One line of the pane."""
        if self._strips is None:
            # Once for all lines: asking for the style takes longer than all that is done with it.
            style, width = self.rich_style, self.size.width
            self._strips = [
                Strip(Segment.apply_style(line.render(self.app.console), style)).adjust_cell_length(
                    width, style
                )
                for line in self._current()
            ]
            self._blank = Strip.blank(width, style)
        return self._strips[y] if y < len(self._strips) else self._blank

    def notify_style_update(self) -> None:
        """Draw anew in whatever style there is now."""
        self._strips = None
        super().notify_style_update()

    def _current(self) -> list[Text]:
        if self._made is None or self._made[0] != self.size:
            width, height = self.size
            self._made = (self.size, self._lines(width, height) if width and height else [])
            self._strips = None
        return self._made[1]

    def on_resize(self) -> None:
        self._current()

    def update(self) -> None:
        """Show what is so now, if it is not what is shown."""
        if self._title is not None:
            self.border_title = self._title()
        before, self._made = self._made, None
        if before is None or before[1] != self._current():
            self.refresh()


class View(Vertical):
    """All panes of one log."""

    def __init__(self, cursor: Cursor, side: str, pair: bool) -> None:
        super().__init__(classes="pair" if pair else "single")
        self.cursor = cursor
        self.side = side

    def compose(self) -> ComposeResult:
        at = self.cursor
        yield Pane(lambda w, h: panes.header_lines(at, w, self.side), classes="header")
        yield Pane(lambda w, h: panes.sentence_lines(at, w, h), classes="sentence")
        with Horizontal(classes="panes"):
            yield Pane(
                lambda w, h: panes.event_lines(at, w, h), self._events_title, classes="events"
            )
            with Horizontal(classes="state"):
                yield Pane(
                    lambda w, h: panes.stack_lines(at, w, h),
                    lambda: panes.stack_title(at),
                    classes="stack",
                )
                yield Pane(
                    lambda w, h: panes.pool_lines(at, w, h),
                    lambda: panes.pool_title(at),
                    classes="pool",
                )

    def _events_title(self) -> str:
        return f"events of {self.side}, which leads" if self.has_class("leads") else "events"

    def update(self) -> None:
        """Show where the cursor is now."""
        for pane in self.query(Pane):
            pane.update()
