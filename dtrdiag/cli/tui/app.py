"""The replay in a terminal: panes of textual around one cursor, or two."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static

from dtrdiag.cli.tui.cursor import DECISION, EVICTION, REMAT, STOP, Cursor, Positions, after, before
from dtrdiag.cli.tui.keys import KEYS, OF_PAIRS, bar
from dtrdiag.cli.tui.pair import Pair
from dtrdiag.cli.tui.screens import Ask, Help, StorageScreen
from dtrdiag.cli.tui.storageview import storage_lines, storage_of_event
from dtrdiag.cli.tui.views import View
from dtrdiag.errors import AnalysisError, LogError
from dtrdiag.events.records import Event
from dtrdiag.log import open_log
from dtrdiag.units import plain_name

if TYPE_CHECKING:
    from dtrdiag.analyses import Divergence

LEAST = (72, 20)
"""Columns and lines without which nothing can be read."""
WIDE = 110
"""Columns from which stack and pool stand side by side."""
AT_ONCE = 2_000
"""Events that are read before the screen shows."""
PIECE = 400
"""Events read at a time while nothing else is to be done."""


class _Closed(Exception):  # noqa: N818 - no error: nobody waits for the answer any more
    """The application has gone."""


class ReplayApp(App[None]):
    """One log, or two side by side."""

    TITLE = "dtrdiag replay"
    CSS_PATH = "replay.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        # Where something is open, or has the focus, tab would go no further than that.
        Binding(key.keys, key.action, key.help, show=False, priority=key.keys == "tab")
        for key in KEYS
    ]

    def __init__(self, cursors: tuple[Cursor, ...]) -> None:
        """One cursor, or the two of a pair."""
        # The terminal's own colours alone can be left out altogether.
        super().__init__(ansi_color="NO_COLOR" in os.environ)
        self.cursors = cursors
        self.pair = Pair(cursors[0], cursors[1]) if len(cursors) == 2 else None
        self.leader = 0
        self.status = ""
        self._drawn: tuple[str, Text] | None = None
        self.sought: tuple[str, Callable[[], Positions]] | None = None
        self._gone = threading.Event()
        for cursor in cursors:
            cursor.reading.read_to(AT_ONCE)

    @property
    def cursor(self) -> Cursor:
        """The one that keys move."""
        return self.cursors[self.leader]

    def compose(self) -> ComposeResult:
        yield Static(id="small")
        with Horizontal(id="views"):
            for cursor, side in zip(self.cursors, "ab", strict=False):
                yield View(cursor, side if self.pair else "", self.pair is not None)
        yield Static(id="status")
        yield Static(id="bar")

    def on_mount(self) -> None:
        self.show()
        self.run_worker(self._read_on(), group="reading")
        if self.pair is not None:
            self.run_worker(self._compare(), group="comparing")

    def on_unmount(self) -> None:
        self._gone.set()

    def on_resize(self, event: Resize) -> None:
        self._fit(event.size.width, event.size.height)

    def _fit(self, width: int, height: int) -> None:
        least = (LEAST[0], LEAST[1] + 4) if self.pair else LEAST
        small = width < least[0] or height < least[1]
        self.screen.set_class(small, "-small")
        self.screen.set_class(width >= WIDE * len(self.cursors), "-wide")
        self.query_one("#small", Static).update(
            Text(
                f"This terminal has {width} columns and {height} lines; the replay needs "
                f"{least[0]} and {least[1]}. Make it larger, or press q to quit."
            )
        )
        self.call_after_refresh(self.show)

    def show(self) -> None:
        """Show everything as it is now."""
        for number, view in enumerate(self.query(View)):
            view.set_class(self.pair is not None and number == self.leader, "leads")
            view.update()
        words = self._status_words()
        keys = self._bar()
        if self._drawn != (words, keys):
            # Both may change the layout, which takes longer than all else.
            self._drawn = (words, keys)
            self.query_one("#status").set_class(not words, "-empty")
            self.query_one("#status", Static).update(Text(words))
            self.query_one("#bar", Static).update(keys)

    def _bar(self) -> Text:
        """The keys, each of which can be clicked."""
        shown = {key.shown for key in KEYS}
        lines = []
        for line in bar(self.pair is not None, self.sought is not None, self.size.width - 2):
            made = Text()
            for text, action in line:
                click = {"@click": f"app.{action}"} if action else {}
                made.append(text, Style(bold=text in shown, reverse=text in shown, meta=click))
            lines.append(made)
        return Text("\n", no_wrap=True).join(lines)

    def _status_words(self) -> str:
        if self.status:
            return self.status
        if self.pair is None:
            return ""
        if not self.pair.compared:
            return "Looking for the first difference of the two runs..."
        divergence = self.pair.divergence
        if divergence is None:
            return "The two runs decide alike to the end."
        if self.pair.is_parting():
            # Two runs alone need it, and it takes a while to load.
            from dtrdiag.rendering.words import parting_words

            return "FIRST DIFFERENCE: " + parting_words(divergence)
        if self.pair.parted(self.leader):
            return "After the first difference: both are as far in the schedule."
        return f"Before the first difference (after {divergence.index:,} equal decisions)."

    async def _read_on(self) -> None:
        """Read the logs to their ends, in pieces, between one key and the next."""
        shown = 0
        for cursor in self.cursors:
            while not cursor.reading.complete:
                cursor.reading.read_on(PIECE)
                await asyncio.sleep(0.001)
                shown += 1
                if shown % 20 == 0 or cursor.reading.complete:
                    self._reread()
        self._reread()

    def _reread(self) -> None:
        """Show how far reading is; a log may have turned out to end before the cursor."""
        for cursor in self.cursors:
            if cursor.position >= len(cursor):
                cursor.seek(len(cursor) - 1)
        if self.is_running and self._screen_stack:
            self.show()

    async def _compare(self) -> None:
        """Find the first difference, in a thread of its own."""
        from dtrdiag.analyses import first_divergence

        a, b = (self._until_closed(cursor.events.path) for cursor in self.cursors)
        try:
            found = await asyncio.to_thread(lambda: first_divergence(a, b))
        except _Closed:
            return
        except (AnalysisError, LogError) as error:
            self.status = f"The runs cannot be compared: {plain_name(error.what, 200)}"
            found = None
        self._compared(found)

    def _until_closed(self, path: str) -> Iterator[Event]:
        for event in open_log(path):
            if self._gone.is_set():
                raise _Closed
            yield event

    def _compared(self, found: Divergence | None) -> None:
        if self.pair is not None:
            self.pair.tell(found)
            self._reread()

    async def _go(self, position: int | None, none: str) -> None:
        """Move the leader to a position, reading up to it where need be, and the other along."""
        self.status = ""
        if position is None:
            self.status = none
        else:
            await self._read_to(position)
            self.status = ""
            self.cursor.seek(position)
            self._follow()
        self.show()

    def _follow(self) -> None:
        if self.pair is not None:
            self.pair.follow(self.leader)

    async def _read_to(self, position: int) -> None:
        reading = self.cursor.reading
        while reading.done <= position and not reading.complete:
            reading.read_on(PIECE)
            self.status = f"Reading on: event {reading.done:,} of {len(self.cursor):,}..."
            if reading.done % (10 * PIECE) < PIECE:
                self.show()
            await asyncio.sleep(0)

    async def _jump(self, goal: str, way: int, name: str) -> None:
        found = self.cursor.next_of(goal) if way > 0 else self.cursor.previous_of(goal)
        side = "after" if way > 0 else "before"
        await self._go(found, f"There is no {name} {side} this event.")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether an action makes sense now; the key of one that does not has its usual use."""
        return action != "other" or len(self.screen_stack) == 1

    async def action_step(self, events: int) -> None:
        here = self.cursor.position
        ends = (events < 0 and here == 0) or (events > 0 and here == len(self.cursor) - 1)
        edge = "first" if events < 0 else "last"
        target = min(max(here + events, 0), len(self.cursor) - 1)
        await self._go(None if ends else target, f"This is the {edge} event.")

    async def action_first(self) -> None:
        await self._go(0, "")

    async def action_decide(self, way: int) -> None:
        if self.sought is None:
            await self._jump(DECISION, way, "decision")
            return
        words, find = self.sought
        await self._read_to(len(self.cursor))
        found, here = find(), self.cursor.position
        position = after(found, here) if way > 0 else before(found, here)
        side = "after" if way > 0 else "before"
        await self._go(position, f"Nothing about {words} {side} this event.")
        if position is not None:
            at = int(found.searchsorted(position)) + 1
            self.status = f"{words}: match {at:,} of {len(found):,} (n next, N previous, esc ends)"
            self.show()

    async def action_evict(self, way: int) -> None:
        await self._jump(EVICTION, way, "eviction to make room")

    async def action_remat(self, way: int) -> None:
        await self._jump(REMAT, way, "rematerialisation")

    async def action_stop(self) -> None:
        stop, last = self.cursor.next_of(STOP), len(self.cursor) - 1
        ends = self.cursor.position == last
        target = stop if stop is not None else last
        await self._go(None if ends else target, "This is the end of the log.")

    async def action_part(self) -> None:
        if self.pair is None:
            self.status = "There is one log alone: give another with --with."
        elif not self.pair.compared:
            self.status = "Still looking for the first difference: try again in a moment."
        elif self.pair.divergence is None:
            self.status = self.status or "The two runs decide alike to the end."
        else:
            for self.leader in (1, 0):
                await self._read_to((self.pair.parts_at or (0, 0))[self.leader])
            self.status = ""
            self.pair.to_divergence()
        self.show()

    def action_other(self) -> None:
        if self.pair is None:
            self.status = "There is one log alone: give another with --with."
        else:
            self.leader = 1 - self.leader
            self.status = f"Log {'ab'[self.leader]} leads now."
        self.show()

    def action_go(self) -> None:
        last = self.cursor.events.event(len(self.cursor) - 1).seq
        self.push_screen(Ask(f"Go to which event? 0 to {last:,}"), self._go_to)

    async def _go_to(self, answer: str | None) -> None:
        if not answer:
            return
        digits = answer.replace(",", "").replace("_", "")
        if not digits.isdigit():
            hint = ""
            if digits[:1] in ("s", "S") and digits[1:].isdigit():
                hint = f": s shows storage {digits[1:]}, / finds what happens to it"
            await self._go(None, f"{plain_name(answer)} is no number of an event{hint}.")
            return
        position = self.cursor.events.position_of(int(digits))
        await self._go(position, f"The log has no event {int(digits):,}.")

    def action_search(self) -> None:
        self.push_screen(Ask("Search which storage (number) or operator (name)?"), self._search)

    async def _search(self, answer: str | None) -> None:
        if not answer:
            return
        cursor, digits = self.cursor, answer.removeprefix("s")
        if digits.isdigit():
            self.sought = (f"storage {int(digits)}", lambda: cursor.about_storage(int(digits)))
        else:
            name = plain_name(answer, 30)
            self.sought = (f"operators like {name}", lambda: cursor.about_operator(answer))
        await self.action_decide(1)
        if self.status.startswith("Nothing"):
            await self.action_decide(-1)
        if self.status.startswith("Nothing"):
            self.status = f"Nothing in the log is about {self.sought[0]}."
            self.sought = None
            self.show()

    def action_forget(self) -> None:
        self.sought, self.status = None, ""
        self.show()

    def action_storage(self) -> None:
        cursor = self.cursor
        self.push_screen(
            StorageScreen(
                storage_of_event(cursor), lambda number, width: storage_lines(cursor, number, width)
            )
        )

    def action_help(self) -> None:
        self.push_screen(Help())

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Every key's action by name, and those of textual that make sense here."""
        for key in KEYS:
            if self.pair is not None or key.action not in OF_PAIRS:
                run = self._runs(key.action)
                yield SystemCommand(key.help, f"key {key.shown}", run)
        for command in super().get_system_commands(screen):
            if command.title in ("Theme", "Screenshot"):
                yield command

    def _runs(self, action: str) -> Callable[[], Any]:
        async def run() -> None:
            await self.run_action(action)

        return run
