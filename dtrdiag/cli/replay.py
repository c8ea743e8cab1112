"""``dtrdiag replay``: what was the state of a run at any point, and does its log keep the rules?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from dtrdiag.cli.options import Json
from dtrdiag.cli.output import print_json, print_sentences, print_table
from dtrdiag.cli.sources import check_no_map, watched_log
from dtrdiag.errors import UsageError
from dtrdiag.events import Event, encode
from dtrdiag.log import LogReader, Replay, Verification, verify
from dtrdiag.rendering.replays import (
    events_table,
    events_words,
    pool_table,
    problems_table,
    state_document,
    state_words,
    verification_words,
)

REPLAY_SCHEMA = "dtrdiag.replay/1"
CHECK_FAILED = 1


def replay(
    log: Annotated[str, typer.Argument(metavar="LOG", help="Saved event log.")],
    check: Annotated[
        bool, typer.Option("--verify", help="Check every rule; exit status 1 if one is broken.")
    ] = False,
    at: Annotated[
        int | None, typer.Option(metavar="SEQ", help="The state right after this event (the last).")
    ] = None,
    first: Annotated[
        int | None, typer.Option("--from", metavar="SEQ", help="List the events from this one on,")
    ] = None,
    last: Annotated[
        int | None, typer.Option("--to", metavar="SEQ", help="to this one, included.")
    ] = None,
    tui: Annotated[
        bool, typer.Option("--tui", help="Step through the log on the screen (extra [tui]).")
    ] = False,
    other: Annotated[
        str | None,
        typer.Option("--with", metavar="LOG", help="With --tui: another log, side by side."),
    ] = None,
    json: Json = False,
) -> None:
    """Rebuild a run's state from its log; check the log.

    The log may come from any runtime and may be cut: then the state is that at the cut.
    """
    if tui:
        given = {"--json": json, "--verify": check, "--at": at is not None}
        given |= {"--from": first is not None, "--to": last is not None}
        _show([log] if other is None else [log, other], [name for name in given if given[name]])
        return
    if other is not None:
        raise UsageError("--with goes with --tui; in words, diff compares two logs")
    _check_range(at, first, last)
    _tell(log, check, at, (first, last), json)


def _tell(
    log: str, check: bool, at: int | None, span: tuple[int | None, int | None], json: bool
) -> None:
    first, last = span
    check_no_map(log)
    reader = watched_log(log)
    if check:
        found = verify(reader)
        document: dict[str, Any] = _verification(found)
        if not json:
            print_sentences(verification_words(found))
            if found.problems:
                print_table(problems_table(found.problems))
    else:
        document = {}
    if first is not None or last is not None:
        events = list(_between(reader, first or 0, last))
        document["range"] = [encode(event) for event in events]
        if not json:
            print_sentences(events_words(reader.header, events))
            print_table(events_table(events))
    if at is not None or not document:
        state = _state(reader, at)
        document["state"] = state_document(state)
        if not json:
            print_sentences(state_words(state, reader.problem if at is None else None))
            if state.pool:
                print_table(pool_table(state))
    if json:
        print_json({"schema": REPLAY_SCHEMA, **document})
    if check and not document["ok"]:
        raise typer.Exit(CHECK_FAILED)


def _show(logs: list[str], others: list[str]) -> None:
    from dtrdiag.cli.tui.starting import replay_in_terminal

    replay_in_terminal(logs, others)


def _check_range(at: int | None, first: int | None, last: int | None) -> None:
    for name, seq in (("--at", at), ("--from", first), ("--to", last)):
        if seq is not None and seq < 0:
            raise UsageError(f"{name} must be at least 0, not {seq}")
    if first is not None and last is not None and last < first:
        raise UsageError(f"--to {last} is before --from {first}")


def _verification(found: Verification) -> dict[str, Any]:
    return {
        "ok": found.ok,
        "events": found.events,
        "complete": found.complete,
        "problems": [
            {"seq": problem.seq, "rule": problem.rule, "message": problem.message}
            for problem in found.problems
        ],
    }


def _between(reader: LogReader, first: int, last: int | None) -> Iterator[Event]:
    end = -1
    for event in reader:
        end = event.seq
        if last is not None and end > last:
            return
        if end >= first:
            yield event
    if first > end:
        raise UsageError(f"the log has no event {first}, its last is {end}", path=reader.path)


def _state(reader: LogReader, at: int | None) -> Replay:
    if at is not None:
        return Replay.at(reader, at)
    state = Replay()
    for event in reader:
        state.apply(event)
    return state
