"""What opens over the replay: a question with one line for the answer, a storage, the help."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from dtrdiag.cli.tui.keys import KEYS
from dtrdiag.cli.tui.panes import joined


class Ask(ModalScreen[str | None]):
    """Asks for a line of text; None: escaped."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Back")]

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = question

    def compose(self) -> ComposeResult:
        with Vertical(classes="ask"):
            yield Static(Text(f"{self.question}  (enter: go, esc: back)"))
            yield Input(compact=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())


class StorageScreen(ModalScreen[None]):
    """One storage in full, and a line to ask for another."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back"),
        Binding("up", "scroll(-1)", priority=True),
        Binding("down", "scroll(1)", priority=True),
        Binding("pageup", "scroll(-10)", priority=True),
        Binding("pagedown", "scroll(10)", priority=True),
    ]

    def __init__(self, storage: int | None, tell: Callable[[int, int], list[Text]]) -> None:
        """Show a storage.

        Args:
            storage: which; None: none yet.
            tell: the lines about a storage, of at most a width.
        """
        super().__init__()
        self.storage = storage
        self._tell = tell

    def compose(self) -> ComposeResult:
        with Vertical(classes="sheet"):
            with VerticalScroll(can_focus=False):
                yield Static(id="about")
            yield Static(
                Text("number of another storage (enter: show, up/down: scroll, esc: back)")
            )
            yield Input("" if self.storage is None else str(self.storage), type="integer")

    def on_mount(self) -> None:
        self.call_after_refresh(self._show)
        self.query_one(Input).focus()

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.storage = int(event.value) if event.value.lstrip("+-").isdigit() else None
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self._show()

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def _show(self) -> None:
        width = self.query_one(VerticalScroll).size.width - 2
        if self.storage is None:
            lines = [Text("Which storage? Give its number.")]
        else:
            lines = self._tell(self.storage, width)
        self.query_one("#about", Static).update(joined(lines))


class Help(ModalScreen[None]):
    """All keys, and how to read the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "dismiss(None)", "Back"),
        Binding("up,k", "scroll(-1)"),
        Binding("down,j", "scroll(1)"),
        Binding("pageup", "scroll(-10)"),
        Binding("pagedown,space", "scroll(10)"),
    ]
    READING: ClassVar[str] = (
        "Everything shown is the state right after the event marked ▶. An op waits on the stack "
        "until its inputs are in memory, locks them, asks whether its outputs fit the budget, and "
        "runs; where they do not fit, a storage is evicted. What is pinned or locked cannot be "
        "evicted; what is evictable makes the pool. `idle` is the time since an op last asked for "
        "a storage. s12 is storage 12.\n\nTwo logs move together: up to their first difference "
        "both have made as many decisions, after it both have come as far in the schedule. The log "
        "that leads is marked; tab changes that.\n\nctrl+p opens the command palette, in which "
        "every command is found by name; the words in the last lines can be clicked.\n"
    )

    def compose(self) -> ComposeResult:
        lines = Text()
        for key in KEYS:
            names = key.keys.replace("question_mark", "?").replace("slash", "/").replace(",", " ")
            lines.append(f"{names:>14}", style="bold").append(f"  {key.help}\n")
        lines.append(f"\n{self.READING}").append("\nesc: back", style="dim")
        with Vertical(classes="sheet"), VerticalScroll():
            yield Static(lines)

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)
