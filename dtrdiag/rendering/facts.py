"""How do facts of a trace, and the traces that have a name, look as words and tables?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from rich.table import Table
from rich.text import Text

from dtrdiag.rendering.recorded import recording_rows
from dtrdiag.units import NOT_KNOWN, both_bytes, count, duration, plain_name

Document = Mapping[str, Any]


class Known(Protocol):
    """What a table of known traces shows of each."""

    @property
    def name(self) -> str:
        """What the command line takes."""

    @property
    def kind(self) -> str:
        """Where it comes from."""

    @property
    def available(self) -> bool:
        """Whether it is on this machine."""

    @property
    def ops(self) -> int:
        """Number of ops."""

    @property
    def description(self) -> str:
        """What it is, in a line."""


def known_words(known: Sequence[Known]) -> list[str]:
    """How many traces have a name, and where they are."""
    here = sum(entry.available for entry in known)
    kinds = Counter(entry.kind for entry in known)
    listed = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
    which = "All" if here == len(known) else f"{here} of the"
    return [f"{which} {len(known)} known traces ({listed}) are on this machine."]


def traces_table(known: Iterable[Known]) -> Table:
    """Known traces, one a row."""
    table = Table()
    for name in ("name", "kind", "here"):
        table.add_column(name, no_wrap=True)
    table.add_column("ops", justify="right")
    table.add_column("what it is")
    for entry in known:
        here = Text("yes", style="green") if entry.available else Text("no", style="dim")
        table.add_row(entry.name, entry.kind, here, f"{entry.ops:,}", Text(entry.description))
    return table


def trace_words(trace: Document) -> list[str]:
    """What a trace is.

    Args:
        trace: a `dtrdiag.trace/1` document.
    """
    peak = trace["peak"]
    words = [
        f"{plain_name(trace['name'])} is a step of {count(trace['ops'], 'op')} that takes "
        f"{duration(trace['baseline_cost'])} when nothing is computed twice."
    ]
    if peak is None:
        words.append("It uses a tensor after its last release, so ratios have no peak to refer to.")
    else:
        words.append(f"It needs {both_bytes(peak)} when dead storages are freed.")
    return words


def trace_table(trace: Document) -> Table:
    """Facts of a trace, one a row.

    Args:
        trace: a `dtrdiag.trace/1` document.
    """
    peak = trace["peak"]
    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right", overflow="fold")
    rows = {
        "ops": f"{trace['ops']:,}",
        "tensors": f"{trace['tensors']:,}",
        "storages": f"{trace['storages']:,}",
        "schedule steps": f"{trace['steps']:,}",
        "constants": both_bytes(trace["constant_bytes"]),
        "all storages together": both_bytes(trace["total_bytes"]),
        "largest storage": both_bytes(trace["largest_storage_bytes"]),
        "peak (ratio 1)": NOT_KNOWN if peak is None else both_bytes(peak),
        "cost of each op once": duration(trace["baseline_cost"]),
        **recording_rows(trace.get("recording") or {}),
        "sha256": trace["sha256"],
        "read from": plain_name(trace["path"], width=200),
    }
    for name, value in rows.items():
        table.add_row(name, Text(value))
    return table
