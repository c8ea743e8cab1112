"""How far is a map, or the check of one, for people who watch a terminal?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

from dtrdiag.cli.activity import bar
from dtrdiag.experiments.outcomes import Outcomes


@contextmanager
def map_progress(
    known: Outcomes, low_bytes: int, high_bytes: int, sampled: bool
) -> Iterator[Callable[[], None]]:
    """Shows how much of a range is known; gives a function to be called when more is.

    Args:
        known: what is known, also later.
        low_bytes: lowest budget of the range.
        high_bytes: highest budget, included.
        sampled: not all of the range will be known, so there is no share and no time left.
    """
    columns = [TextColumn("{task.fields[found]:,} intervals, {task.fields[rate]:,.1f}/s")]
    share = [TextColumn("budgets"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()]
    total = high_bytes - low_bytes + 1
    before, started = len(known), time.monotonic()
    with bar(*([] if sampled else share), *columns) as shown:
        if shown is None:
            yield lambda: None
            return
        task = shown.add_task("map", total=total, found=before, rate=0.0)

        def show() -> None:
            gaps = known.gaps(low_bytes, high_bytes)
            done = total - sum(high - low + 1 for low, high in gaps)
            rate = (len(known) - before) / max(time.monotonic() - started, 1e-3)
            shown.update(task, completed=done, found=len(known), rate=rate)

        show()
        yield show


@contextmanager
def maps_progress(
    known: Sequence[Outcomes], low_bytes: int, high_bytes: int
) -> Iterator[Callable[[int], None]]:
    """The same for several maps of one range; the function is given the index of one.

    Args:
        known: what is known of each, also later.
        low_bytes: lowest budget of the range.
        high_bytes: highest budget, included.
    """

    def rest(which: int) -> int:
        return sum(high - low + 1 for low, high in known[which].gaps(low_bytes, high_bytes))

    left = [rest(which) for which in range(len(known))]
    total = len(known) * (high_bytes - low_bytes + 1)
    words = TextColumn("{task.fields[whole]} of {task.fields[maps]} maps")
    found_words = TextColumn("{task.fields[found]:,} intervals")
    columns = [BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), words, found_words]
    with bar(*columns) as shown:
        if shown is None:
            yield lambda which: None
            return
        task = shown.add_task("maps", total=total, found=0, whole=0, maps=len(known))

        def show(which: int) -> None:
            left[which] = rest(which)
            whole = sum(not each for each in left)
            found = sum(map(len, known))
            shown.update(task, completed=total - sum(left), found=found, whole=whole)

        show(0)
        yield show


@contextmanager
def check_progress() -> Iterator[Callable[[int, int], None]]:
    """Shows how many intervals were checked; gives a function to be told that, and of how many."""
    columns = (TextColumn("intervals"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    counts = TextColumn("{task.completed:,} of {task.total:,}")
    with bar(*columns, counts) as shown:
        if shown is None:
            yield lambda done, total: None
            return
        task = shown.add_task("verify", total=1)
        yield lambda done, total: shown.update(task, completed=done, total=total)
