"""What is one storage, and what happened to it: computed, evicted why, rematerialised for whom?"""

from __future__ import annotations

import textwrap

from rich.text import Text

from dtrdiag.cli.tui.cursor import Cursor
from dtrdiag.events.records import (
    Banish,
    Compute,
    Event,
    Evict,
    Materialise,
    Pin,
    ReferenceChanged,
    Rematerialise,
)
from dtrdiag.ids import OpId, StorageId
from dtrdiag.log import Replay
from dtrdiag.rendering.eventwords import op_words, score_words
from dtrdiag.rendering.palette import look
from dtrdiag.units import both_bytes, count, duration, plain_name

MOST = 400
"""Entries of a history; those around the cursor stay."""
LISTED = 8


def storage_of_event(cursor: Cursor) -> StorageId | None:
    """The storage that the event at the cursor is about; of an op, its first output's."""
    event = cursor.event
    storage: StorageId | None = getattr(event, "storage", None)
    if storage is not None:
        return storage
    op: OpId | None = getattr(event, "op", None)
    known = None if op is None else cursor.state.ops.get(op)
    return known.storages[0] if known is not None and known.storages else None


def storage_state(state: Replay, storage: StorageId) -> str:
    """The state of a storage, as `palette.look` knows it."""
    if storage in state.banished:
        return "banished"
    if storage in state.pins and storage in state.resident:
        return "pinned"
    if storage in state.locks and storage in state.resident:
        return "locked"
    if storage in state.resident:
        return "resident"
    return (
        "evicted"
        if any(storage in found for found in state.tally.evicted.values())
        else "uncomputed"
    )


def storage_lines(cursor: Cursor, storage: int, width: int) -> list[Text]:
    """A storage in full: what it is now, what makes and uses it, and its history in the log.

    O(events that name it), and O(events) to find them.
    """
    whole = cursor.reading.state
    number = StorageId(storage)
    if number not in whole.size_bytes:
        read = "" if cursor.reading.complete else " in what has been read so far"
        return [Text(f"The log names no storage {storage}{read}.")]
    return [*_facts(cursor, number, width), Text(""), *_history(cursor, number, width)]


def _facts(cursor: Cursor, storage: StorageId, width: int) -> list[Text]:
    state, whole = cursor.state, cursor.reading.state
    lines = [_title(cursor, storage)]
    facts = []
    makers = list(dict.fromkeys(whole.producer[tensor] for tensor in whole.tensors_of[storage]))
    op = whole.ops[makers[0]]
    facts.append(f"Made by {op_words(whole, op.op)} in {duration(op.cost_ns)}.")
    if op.inputs:
        before = list(dict.fromkeys(whole.storage_of.get(tensor) for tensor in op.inputs))
        facts.append(f"Computed from {_listed([f's{number}' for number in before])}.")
    views = len(whole.tensors_of[storage]) - 1
    if views:
        facts.append(f"{count(views, 'view')} of it, by {_ops(whole, makers[1:] or makers)}.")
    users = [
        user
        for tensor in whole.tensors_of[storage]
        for user in whole.consumers(tensor)
        if user not in makers
    ]
    users = list(dict.fromkeys(users))
    facts.append(f"Used by {_ops(whole, users)}." if users else "No op uses it.")
    if storage in state.locks:
        facts.append(f"Locked by {_ops(state, state.locks[storage])}.")
    if storage in state.pins:
        facts.append(f"Pinned: {plain_name(state.pins[storage])}.")
    if storage in state.references:
        facts.append(f"{count(state.references[storage], 'reference')} of the model.")
    for fact in facts:
        lines += [Text(line) for line in textwrap.wrap(fact, max(width, 20))]
    return lines


def _title(cursor: Cursor, storage: StorageId) -> Text:
    state = cursor.state
    size = both_bytes(cursor.reading.state.size_bytes[storage])
    if storage not in state.size_bytes:
        return Text.assemble((f"storage {storage}", "bold"), f": {size}, not called yet")
    shown = look(storage_state(state, storage))
    idle = state.clock_ns - state.last_used_ns.get(storage, state.clock_ns)
    return Text.assemble(
        (f"storage {storage}", "bold"),
        f": {size}, ",
        (shown.word, shown.terminal),
        f", last used {duration(idle)} ago",
    )


def _ops(state: Replay, ops: list[OpId]) -> str:
    return _listed([op_words(state, op) for op in ops])


def _listed(words: list[str]) -> str:
    more = f" and {len(words) - LISTED:,} more" if len(words) > LISTED else ""
    return ", ".join(words[:LISTED]) + more


def _history(cursor: Cursor, storage: StorageId, width: int) -> list[Text]:
    entries: list[tuple[int, str]] = []
    for position in cursor.about_storage(storage).tolist():
        words = _entry(cursor, storage, cursor.events.event(position))
        if words:
            entries.append((position, words))
    gone = sum(words.startswith("evicted") for _, words in entries)
    again = sum(words.startswith("rematerialised") for _, words in entries)
    read = "" if cursor.reading.complete else ", as far as the log has been read"
    title = f"History: evicted {_times(gone)}, rematerialised {_times(again)}{read}"
    lines = [Text(title, style="bold")]
    passed = sum(position <= cursor.position for position, _ in entries)
    first = max(0, min(passed - MOST // 2, len(entries) - MOST))
    if first:
        lines.append(Text(f"… {first:,} earlier", style="dim"))
    marked = False
    for position, words in entries[first : first + MOST]:
        if position > cursor.position and not marked:
            lines.append(_marker(cursor))
            marked = True
        here = position == cursor.position
        marked = marked or here
        seq = cursor.events.event(position).seq
        line = Text(f"{'▶' if here else ' '}{seq:>11,}  {words}", no_wrap=True)
        line.truncate(max(width, 20), overflow="ellipsis")
        if here:
            line.stylize("reverse")
        elif position > cursor.position:
            line.stylize("dim")
        lines.append(line)
    if len(entries) > first + MOST:
        lines.append(Text(f"… {len(entries) - first - MOST:,} later", style="dim"))
    return lines if marked else [*lines, _marker(cursor)]


def _times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number:,} times")


def _marker(cursor: Cursor) -> Text:
    return Text(f"▶{cursor.event.seq:>11,}  (the cursor is here)", style="reverse")


def _entry(cursor: Cursor, storage: StorageId, event: Event) -> str | None:
    """What an event means for the storage; None: nothing worth a line."""
    whole = cursor.reading.state
    if isinstance(event, Compute | Rematerialise):
        if storage not in event.resident:
            return None
        if isinstance(event, Compute):
            return f"computed by {op_words(whole, event.op)}"
        return f"rematerialised for {op_words(whole, _asked_by(cursor, event))}"
    if isinstance(event, Evict):
        if event.cause == "pressure":
            score = "" if event.score is None else f", score {score_words(event.score)}"
            return f"evicted to make room for {op_words(whole, event.op)}{score}"
        why = "the model dropped it" if event.cause == "release" else "freed for good"
        return f"evicted: {why}"
    if isinstance(event, Pin):
        return f"pinned: {plain_name(event.reason)}"
    if isinstance(event, Banish):
        return "freed for good"
    if isinstance(event, ReferenceChanged) and event.references == 0:
        return "the model's last reference goes"
    return None


def _asked_by(cursor: Cursor, event: Rematerialise) -> OpId | None:
    position = cursor.events.position_of(event.cause_seq)
    asked = None if position is None else cursor.events.event(position)
    return asked.for_op if isinstance(asked, Materialise) else None
