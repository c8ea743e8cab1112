"""What stands in each pane, line by line, for a cursor and a width? Text alone, no terminal.

Names come from files that anyone may have written: they get here through `plain_name` and go on as
`rich.text.Text`, which interprets nothing.
"""

from __future__ import annotations

import heapq
import textwrap
from collections.abc import Iterable

from rich.cells import cell_len
from rich.text import Text

from dtrdiag.cli.tui.cursor import SCHEDULE, Cursor
from dtrdiag.cli.tui.rewinding import RewindableReplay
from dtrdiag.errors import LogError
from dtrdiag.events.records import Event, Evict
from dtrdiag.ids import OpId, StorageId
from dtrdiag.log import Frame, Replay
from dtrdiag.rendering.eventwords import SHORT, event_words, score_words, short_words
from dtrdiag.rendering.palette import LOOKS, OUTCOME_STYLES, look
from dtrdiag.units import count, duration, exact_bytes, plain_name, short_bytes

FILLS = {"pinned": "█", "locked": "▓", "evictable": "░", "other": "?", "free": "·"}
"""What each part of the memory bar is drawn with."""
_STRONG = {"evict": "bold", "rematerialise": "bold", "oom": OUTCOME_STYLES["oom"]}
_STRONG["thrashed"] = OUTCOME_STYLES["thrashed"]
_HERE = "reverse"
_NAMED = 50
"""Columns from which there is room for scores and operator names beside each other."""


def _line(*parts: str | tuple[str, str], width: int) -> Text:
    line = Text.assemble(*parts, no_wrap=True)
    line.truncate(max(width, 1), overflow="ellipsis")
    return line


def _note(text: str, width: int) -> list[Text]:
    return [Text(part, style="dim") for part in textwrap.wrap(text, max(width, 10))]


def memory_parts(state: Replay) -> dict[str, int]:
    """Bytes in use by state, and what is free; they add up to the budget. O(storages in memory)."""
    size = state.size_bytes.get
    resident = state.resident
    parts = {
        "pinned": sum(size(storage, 0) for storage in state.pins if storage in resident),
        "locked": sum(
            size(storage, 0)
            for storage in state.locks
            if storage in resident and storage not in state.pins
        ),
        "evictable": sum(size(storage, 0) for storage in state.pool),
    }
    parts["other"] = max(0, state.memory_bytes - sum(parts.values()))
    parts["free"] = max(0, (state.budget_bytes or 0) - state.memory_bytes)
    return parts


def header_lines(cursor: Cursor, width: int, side: str = "") -> list[Text]:
    """Which run, where in it, and the memory in use: four lines."""
    header, state = cursor.events.header, cursor.state
    budget = state.budget_bytes
    exact = bool(side) or width >= 90
    size = exact_bytes if exact else short_bytes
    room = "no budget" if budget is None else f"budget {size(budget)}"
    if (
        budget is not None
        and not side
        and header.ratio is not None
        and not state.budget_is_switched
    ):
        room += f", {header.ratio:g} of the peak"
    who = f"{side}: " if side else ""
    names = [plain_name(header.trace_name), plain_name(header.policy)]
    title = ", ".join([*names, room] if width >= _NAMED else [room, *reversed(names)])
    changed = f", {plain_name(header.interventions)}" if header.interventions else ""
    ending = _ending(cursor)
    where = _where(cursor, max(0, width - sum(cell_len(_text(part)) for part in ending)))
    parts = memory_parts(state)
    return [
        _line((who, "bold"), (title, "bold"), changed, width=width),
        _line(where, *ending, width=width),
        memory_bar(state, parts, width),
        _legend(parts, width),
    ]


def _text(part: str | tuple[str, str]) -> str:
    return part if isinstance(part, str) else part[0]


def _where(cursor: Cursor, width: int) -> str:
    """Event, step and clock; where there is little room words go first, figures never."""
    steps = cursor.positions(SCHEDULE)
    step = max(int(steps.searchsorted(cursor.position, "right")) - 1, 0)
    last = cursor.events.event(len(cursor) - 1).seq
    here, clock = f"{cursor.event.seq:,}", duration(cursor.state.clock_ns)
    forms = [
        (f"event {here} of {last:,}", f"step {step:,} of {len(steps) - 1:,}", f"clock {clock}"),
        (f"event {here} of {last:,}", f"step {step:,} of {len(steps) - 1:,}", clock),
        (f"event {here} of {last:,}", f"step {step:,}", clock),
        (f"event {here}/{last:,}", f"step {step:,}", clock),
        (f"event {here}", f"step {step:,}", clock),
        (f"event {here}", "", clock),
    ]
    told = [", ".join(one for one in form if one) for form in forms]
    if not len(steps):
        told = [", ".join((form[0], form[2])) for form in forms]
    return next((one for one in told if cell_len(one) <= width), told[-1])


def _ending(cursor: Cursor) -> list[str | tuple[str, str]]:
    """How the run ended, once there; how much of the log is still to be read."""
    state = cursor.state
    stop = None if state.stop is None else state.stop.kind
    outcome = stop if state.end is None else state.end.outcome
    told: list[str | tuple[str, str]] = []
    if outcome is not None:
        words = {"ok": "finished", "oom": "OUT OF MEMORY", "thrashed": "STOPPED BY THE LIMIT"}
        style = OUTCOME_STYLES.get(outcome, "bold")
        told += [", ", (words.get(outcome, plain_name(outcome)), style)]
    if cursor.events.problem is not None and cursor.position == len(cursor) - 1:
        told += [", ", ("LOG ENDS HERE", OUTCOME_STYLES["incomplete"])]
    if not cursor.reading.complete:
        told.append((f"  (reading: {100 * cursor.reading.done // len(cursor)} %)", "dim"))
    return told


def memory_bar(state: Replay, parts: dict[str, int], width: int) -> Text:
    """Memory in use of the budget; without one, of the most that was in use so far."""
    whole = state.budget_bytes or max(state.tally.max_memory_bytes, state.memory_bytes, 1)
    words = f" {short_bytes(state.memory_bytes)} of {short_bytes(whole)}"
    room = max(width - len(words) - 2, 4)
    bar = Text("[", no_wrap=True)
    used = done = 0
    for name in ("pinned", "locked", "evictable", "other"):
        used += parts[name]
        until = min(room, round(room * used / max(whole, used)))
        if parts[name] and until == done < room:
            until += 1  # a part that is there is seen
        bar.append(FILLS[name] * (until - done), style=_fill(name))
        done = max(done, until)
    bar.append(FILLS["free"] * (room - done), style="dim")
    return bar.append("]").append(words)


def _fill(name: str) -> str:
    return look(name).fill if name in ("pinned", "locked", "evictable") else "default"


def _legend(parts: dict[str, int], width: int) -> Text:
    """What each part of the bar is and holds; where there is little room words go first."""
    brief = {"pinned": "pin", "locked": "lock", "evictable": "evict", "other": "oth"}
    shown = {name: size for name, size in parts.items() if size or name != "other"}
    used = {name: size for name, size in shown.items() if name != "free"}
    for sizes, close, short in (
        (shown, False, {}),
        (used, False, {}),
        (used, True, {name: brief[name] for name in ("pinned", "locked")}),
        (used, True, brief),
    ):
        told: list[str | tuple[str, str]] = []
        for name, size in sizes.items():
            words = f" {short.get(name, name)} {short_bytes(size)}"
            if close:
                words = f"{short.get(name, name)} {_close(short_bytes(size))}"
            gap = (" " if close else "  ") if told else ""
            told += [gap, (FILLS[name], _fill(name)), words]
        if cell_len("".join(map(_text, told))) <= width:
            break
    return _line(*told, width=width)


def _close(size: str) -> str:
    return size.replace(" ", "").removesuffix("iB")


def sentence_lines(cursor: Cursor, width: int, height: int) -> list[Text]:
    """The event at the cursor, explained."""
    event = cursor.event
    words = event_words(event, cursor.state)
    if cursor.position == len(cursor) - 1 and cursor.events.problem is not None:
        words += f" The log {_problem(cursor.events.problem)}."
    lines = textwrap.wrap(words, max(width, 10))
    if len(lines) > height:
        lines = [*lines[: height - 1], lines[height - 1][: width - 1] + "…"]
    return [Text(line) for line in lines]


def _problem(problem: str) -> str:
    return (
        f"is {plain_name(problem, 160)}" if problem.startswith("cut") else plain_name(problem, 160)
    )


def event_lines(cursor: Cursor, width: int, height: int) -> list[Text]:
    """The events around the cursor, one a line, the current one marked."""
    first = max(0, min(cursor.position - height // 2, len(cursor) - height))
    last = min(len(cursor), first + height)
    number = len(f"{cursor.events.event(last - 1).seq:,}")
    known = cursor.reading.state.ops

    def name(op: OpId) -> str | None:
        return known[op].name if op in known else None

    lines = []
    for position in range(first, last):
        event = _readable(cursor, position)
        if event is None:
            break
        here = position == cursor.position
        kind = event.kind
        text = f"{'▶' if here else ' '}{event.seq:>{number},} {SHORT[kind]:<9} "
        line = _line(
            (text, _STRONG.get(kind, "")),
            (short_words(event, name), "" if kind in _STRONG or here else "dim"),
            width=width,
        )
        if here:
            line.pad_right(max(0, width - line.cell_len))
            line.stylize(_HERE)
        lines.append(line)
    return lines


def _readable(cursor: Cursor, position: int) -> Event | None:
    """An event that may lie beyond what was read, and so beyond what can be read."""
    try:
        return cursor.events.event(position)
    except LogError:
        return None


def stack_lines(cursor: Cursor, width: int, height: int) -> list[Text]:
    """The pending stack, top first: what runs or waits, for whom, and what it locks."""
    state = cursor.state
    if not state.pending:
        return _note("No op is pending.", width)
    shown = height if len(state.pending) <= height else height - 1
    lines = [
        _frame(state, frame, width, top=index == 0)
        for index, frame in enumerate(state.pending[: -shown - 1 : -1])
    ]
    if len(state.pending) > shown:
        base = state.pending[0]
        more = len(state.pending) - shown
        lines.append(_line((f"… {more:,} more, down to op {base.op}", "dim"), width=width))
    return lines


def _frame(state: Replay, frame: Frame, width: int, top: bool) -> Text:
    op = state.ops.get(frame.op)
    why = "first" if frame.reason == "first" else "remat"
    whom = "" if frame.for_op is None else f" for {frame.for_op}"
    locked = list(dict.fromkeys(frame.locked))
    size = sum(state.size_bytes.get(storage, 0) for storage in locked)
    held = f", locks {short_bytes(size)}" if locked else ", locks nothing"
    if frame.executed_seq is not None:
        held = ", has run"
    elif locked and width >= _NAMED:
        held += ": " + " ".join(f"s{storage}" for storage in locked[:12])
    return _line(
        "▶" if top else " ",
        (f"{frame.op} {plain_name(op.name if op else None, 14)} ", "bold" if top else ""),
        (why, LOOKS["locked"].terminal if why == "remat" else ""),
        whom,
        (held, "dim"),
        width=width,
    )


def pool_title(cursor: Cursor) -> str:
    """What the pool's pane is about."""
    event = cursor.event
    if isinstance(event, Evict) and event.cause == "pressure":
        of = "" if event.pool_size is None else f" of {event.pool_size:,}"
        listed = count(len(event.candidates), "loser")
        return f"eviction: the victim{of}, {listed} logged"
    return f"pool: {len(cursor.state.pool):,} evictable"


def pool_lines(cursor: Cursor, width: int, height: int) -> list[Text]:
    """What could be evicted; at an eviction the victim and the losers that the log lists."""
    state, event = cursor.state, cursor.event
    scored = "  score     " if isinstance(event, Evict) and event.cause == "pressure" else ""
    maker = "" if scored and width < _NAMED else "  of"
    lines = [_line((f"{'':9}{'size':>10}{'idle':>9}{scored}{maker}", "dim"), width=width)]
    shown: set[StorageId] = set()
    if isinstance(event, Evict):
        score = "" if event.score is None else score_words(event.score, 5)
        lines.append(_storage(state, event.storage, "✗", score, "bold", width))
        for rank, (storage, loser) in enumerate(event.candidates, 1):
            lines.append(
                _storage(state, storage, f"{min(rank, 9)}", score_words(loser, 5), "", width)
            )
            shown.add(storage)
        if event.cause == "pressure":
            lines += _note(_losers(cursor, event), width)
    room = height - len(lines)
    rest = [storage for storage in state.pool if storage not in shown]
    if not state.pool:
        return [*lines, *_note("Nothing can be evicted.", width)][:height]
    used = state.last_used_ns
    kept = room if len(rest) <= room else room - 1
    for storage in heapq.nsmallest(max(kept, 0), rest, key=lambda s: (used.get(s, 0), s)):
        lines.append(_storage(state, storage, " ", "", look("evictable").terminal, width))
    if len(rest) > max(kept, 0):
        more = len(rest) - max(kept, 0)
        lines.append(_line((f"… {more:,} more, idle for less", "dim"), width=width))
    return lines[:height]


def _losers(cursor: Cursor, event: Evict) -> str:
    listed = cursor.events.header.candidates
    if not listed:
        return "The log lists no losers (run --candidates K does)."
    if not event.candidates:
        return "There was no other to choose."
    return f"1 to {len(event.candidates)}: the best losers, with their scores."


def _storage(
    state: RewindableReplay, storage: StorageId, mark: str, score: str, style: str, width: int
) -> Text:
    idle = state.clock_ns - state.last_used_ns.get(storage, state.clock_ns)
    size = state.size_bytes.get(storage, 0)
    words = f"{mark} {f's{storage}':<7}{short_bytes(size):>10}{duration(idle):>9}"
    maker = "" if score and width < _NAMED else f"  {maker_name(state, storage)}"
    scored = f"  {score:<10}" if score else ""
    return _line((words, style), scored, (maker, "dim"), width=width)


def maker_name(state: Replay, storage: StorageId) -> str:
    """Name of the op that computes a storage."""
    for tensor in state.tensors_of.get(storage, ())[:1]:
        op = state.ops.get(state.producer[tensor])
        return plain_name(op.name if op else None, 16)
    return "?"


def joined(lines: Iterable[Text]) -> Text:
    """Lines as one text."""
    return Text("\n", no_wrap=True).join(lines)


def stack_title(cursor: Cursor) -> str:
    """What the stack's pane is about."""
    depth = len(cursor.state.pending)
    return "stack" if not depth else f"stack: {count(depth, 'op')} pending, top first"
