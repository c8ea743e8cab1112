"""What does a run's page say of an out-of-memory stop: the arithmetic, the graph, the stack?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dtrdiag.analyses.frontier import Frontier, FrontierStep, FrontierStorage
from dtrdiag.analyses.histories import History, Move
from dtrdiag.errors import DtrdiagError
from dtrdiag.ids import OpId, StorageId
from dtrdiag.rendering.commands import whatif_command
from dtrdiag.rendering.dot import frontier_dot, frontier_groups
from dtrdiag.rendering.pages.fromrich import page_table
from dtrdiag.rendering.pages.parts import Commands, Drawing, Section, Words
from dtrdiag.rendering.pictures import dot_picture
from dtrdiag.rendering.tables import frontier_table, state_table
from dtrdiag.rendering.words import (
    asked_back_words,
    forbid_option,
    loss_words,
    pending_words,
    stack_words,
)
from dtrdiag.units import both_bytes, count, plain_name, short_bytes

LISTED = 12
"""Storages that the details of one node list at most."""
_CAUSES = {"pressure": "to make room", "release": "on release", "banish": "freed for good"}

Details = list[tuple[str, str]]


def arithmetic_words(frontier: Frontier) -> str:
    """Why the request does not fit, as a sum to the byte."""
    parts = [
        f"{frontier.pinned_bytes:,} B pinned",
        f"{frontier.locked_bytes:,} B locked",
        f"{frontier.evictable_bytes:,} B evictable",
    ]
    if frontier.unaccounted_bytes:
        parts.append(f"{frontier.unaccounted_bytes:,} B in no storage")
    return (
        f"{' + '.join(parts)} = {frontier.resident_bytes:,} B in use; with the "
        f"{frontier.requested_bytes:,} B requested that makes {frontier.passes_at_bytes:,} B, "
        f"which is {frontier.shortfall_bytes:,} B more than the budget of "
        f"{frontier.budget_bytes:,} B."
    )


def shown_storages(frontier: Frontier) -> set[StorageId]:
    """The storages that the graph shows as nodes of their own."""
    locked = {storage.id for storage in frontier.storages if storage.state != "pinned"}
    drawn = [group[0] for group in frontier_groups(frontier.stack) if len(group) == 1]
    return {storage for step in drawn for storage in step.locks} & locked


def frontier_section(frontier: Frontier, histories: Mapping[StorageId, History]) -> Section:
    """The section about an out-of-memory stop.

    Args:
        frontier: as `pinned_frontier` finds it.
        histories: of the `shown_storages`.
    """
    return Section(
        "out-of-memory",
        "Why it is out of memory",
        (
            Words((" ".join(pending_words(frontier)), *asked_back_words(frontier))),
            *_whatif(frontier),
            page_table(state_table(frontier)),
            _drawing(frontier, histories),
            page_table(frontier_table(frontier), note=" ".join(stack_words(frontier))),
        ),
    )


def _whatif(frontier: Frontier) -> list[Commands]:
    """How to see what comes of another victim in place of what was asked back first."""
    option = forbid_option(frontier)
    if option is None:
        return []
    words = (
        "See what the run would have done, had the policy's next choice been evicted there. A "
        "trace of your own is to be named by its file:"
    )
    return [Commands(words, (whatif_command(frontier.header, option),))]


def _drawing(frontier: Frontier, histories: Mapping[StorageId, History]) -> Drawing:
    source = frontier_dot(frontier, bare=True)
    try:
        svg: str | None = dot_picture(source, "svg").decode()
    except DtrdiagError:
        # No program `dot`, or one that gave up: the text is shown.
        svg = None
    return Drawing(
        id="frontier",
        heading="The pinned frontier",
        words=(
            "The ops that wait for each other, from the one that the model asked for at the top "
            "down to the one that does not fit, and beside each the storages that it locks. "
            "Choose a box for its size, who holds it, and its history."
        ),
        svg=svg,
        source=source,
        details=_details(frontier, histories),
    )


def _details(
    frontier: Frontier, histories: Mapping[StorageId, History]
) -> dict[str, Sequence[tuple[str, str]]]:
    names = {step.op: step.name for step in frontier.stack}
    details: dict[str, Sequence[tuple[str, str]]] = {
        "requested": _request(frontier),
        "pinned": _pinned(frontier),
    }
    storages = {storage.id: storage for storage in frontier.storages}
    waits = {
        outer.op: inner
        for outer, inner in zip(frontier.stack[:-1], frontier.stack[1:], strict=True)
    }
    for group in frontier_groups(frontier.stack):
        node = f"op_{group[0].op}"
        if len(group) == 1:
            details[node] = _step(frontier, group[0], waits.get(group[0].op), storages)
        else:
            details[node] = _group(group)
    for storage in sorted(shown_storages(frontier)):
        details[f"s_{storage}"] = _storage(storages[storage], names, histories.get(storage))
    return details


def _request(frontier: Frontier) -> Details:
    return [
        ("requested by", f"op {frontier.op} ({plain_name(frontier.op_name)})"),
        ("requested", both_bytes(frontier.requested_bytes)),
        ("in use", both_bytes(frontier.resident_bytes)),
        ("budget", both_bytes(frontier.budget_bytes)),
        ("too little by", both_bytes(frontier.shortfall_bytes)),
        ("passes from a budget of", both_bytes(frontier.passes_at_bytes)),
    ]


def _pinned(frontier: Frontier) -> Details:
    pinned = [storage for storage in frontier.storages if storage.state == "pinned"]
    pinned.sort(key=lambda storage: (-storage.bytes, storage.id))
    rows = [
        ("pinned", count(len(pinned), "storage")),
        ("size", both_bytes(frontier.pinned_bytes)),
        ("what that is", "model inputs, parameters and outputs: kept until the end"),
    ]
    rows += [
        (f"storage {storage.id}", f"{plain_name(storage.name)}, {both_bytes(storage.bytes)}")
        for storage in pinned[:LISTED]
    ]
    return _cut(rows, len(pinned), "storage")


def _step(
    frontier: Frontier,
    step: FrontierStep,
    inner: FrontierStep | None,
    storages: Mapping[StorageId, FrontierStorage],
) -> Details:
    kind = "for the first time" if step.kind == "first" else "again"
    waits = "room" if inner is None else f"op {inner.op} ({plain_name(inner.name)})"
    rows = [
        (f"op {step.op}", plain_name(step.name)),
        ("computes", f"tensor {step.tensor}, {kind}"),
        *([] if step.kind == "first" else [("its result was", loss_words(frontier, step))]),
        ("its outputs need", both_bytes(step.output_bytes)),
        ("waits for", waits),
        ("locks", both_bytes(step.held_bytes) + ", pinned storages apart"),
        ("of that not locked further up", both_bytes(step.added_bytes)),
    ]
    for storage in step.locks[:LISTED]:
        known = storages.get(storage)
        what = "not in memory"
        if known is not None:
            what = f"{plain_name(known.name)}, {short_bytes(known.bytes)}, {known.state}"
        rows.append((f"locks storage {storage}", what))
    return _cut(rows, len(step.locks), "storage")


def _group(steps: Sequence[FrontierStep]) -> Details:
    rows = [
        ("steps left out", f"{len(steps):,}"),
        ("they add", both_bytes(sum(step.added_bytes for step in steps)) + " of locked storages"),
    ]
    rows += [
        (f"op {step.op}", f"{plain_name(step.name)}, adds {short_bytes(step.added_bytes)}")
        for step in steps[:LISTED]
    ]
    return _cut(rows, len(steps), "op")


def _storage(
    storage: FrontierStorage, names: Mapping[OpId, str], history: History | None
) -> Details:
    holders = [
        f"op {op} ({plain_name(names[op])})" if op in names else f"op {op}"
        for op in storage.held_by
    ]
    rows = [
        (f"storage {storage.id}", f"made by {plain_name(storage.name)}"),
        ("size", both_bytes(storage.bytes)),
        ("state", storage.state),
        ("held by", ", ".join(holders) or "nobody"),
    ]
    if history is None:
        return rows
    evictions = [
        f"{number:,} {_CAUSES[cause]}" for cause, number in history.evictions.items() if number
    ]
    rows.append(("evicted", ", ".join(evictions) or "never"))
    rows.append(("computed again", count(history.remats, "time") if history.remats else "never"))
    # The end of the story is what explains why it is here.
    rows += _moves(history.moves)
    return rows


def _moves(moves: Iterable[Move]) -> Iterable[tuple[str, str]]:
    for move in moves:
        what = move.what
        if move.cause is not None:
            what += f" {_CAUSES[move.cause]}"
            if move.op is not None:
                what += f" for op {move.op}"
        elif move.op is not None:
            what += f" by op {move.op}"
        yield f"step {move.step:,}, event {move.seq:,}", what


def _cut(rows: Details, number: int, noun: str) -> Details:
    more = number - LISTED
    return [*rows, ("and", count(more, f"more {noun}"))] if more > 0 else rows
