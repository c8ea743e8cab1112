"""How do a state, the events of a log and a dependency graph look as words and tables?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from dtrdiag import checker
from dtrdiag.analyses.graph import LOCKED, PINNED, RESIDENT, STATES
from dtrdiag.events import Event, encode
from dtrdiag.events.records import RunHeader
from dtrdiag.log import Problem, Replay, Verification
from dtrdiag.rendering.palette import look
from dtrdiag.units import (
    LONG_NAME,
    both_bytes,
    changes_words,
    count,
    duration,
    plain_name,
)

if TYPE_CHECKING:
    import networkx as nx

POOL_ROWS = 10
GRAPH_SCHEMA = "dtrdiag.graph/1"


def verification_words(found: Verification) -> list[str]:
    """Whether a log keeps the rules."""
    if found.ok:
        return [f"The log keeps every rule: {count(found.events, 'event')}, complete."]
    shape = "complete" if found.complete else "incomplete"
    problems = count(len(found.problems), "problem")
    if only_cut(found.complete, found.problems):
        return [
            f"The log is cut short: {count(found.events, 'event')} can be read, which keep every "
            "rule, and no event ends it."
        ]
    return [f"The log breaks rules: {problems} in {count(found.events, 'event')} read, {shape}."]


def only_cut(complete: bool, problems: Sequence[Problem | checker.Problem]) -> bool:
    """Whether nothing is wrong with a log but that its end is missing."""
    return not complete and [problem.rule for problem in problems] == ["end"]


def problems_table(problems: Iterable[Problem | checker.Problem]) -> Table:
    """The rules that a log breaks, one problem a row."""
    table = Table()
    table.add_column("seq", justify="right")
    table.add_column("rule")
    table.add_column("what is wrong", overflow="fold")
    for problem in problems:
        message = Text(plain_name(problem.message, width=400))
        table.add_row(f"{problem.seq:,}", problem.rule, message)
    return table


ENDED = {
    "ok": "finished",
    "oom": "ran out of memory",
    "thrashed": "was stopped by the overhead limit",
}
"""What is said of a run by its outcome."""


def events_words(header: RunHeader | None, events: Sequence[Event]) -> list[str]:
    """Which events a table shows, and how many of each kind."""
    if not events:
        return ["There are no events there."]
    kinds = Counter(encode(event)["event"] for event in events)
    listed = ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common())
    first, last = events[0].seq, events[-1].seq
    where = f"event {first}" if first == last else f"events {first} to {last}"
    run = "" if header is None else f" of a run of {_under(header)}"
    return [f"{where.capitalize()}{run}: {listed}."]


def _under(header: RunHeader) -> str:
    changes = changes_words(header.semantics, header.interventions)
    return f"{plain_name(header.trace_name)} under {plain_name(header.policy)}{changes}"


def events_table(events: Iterable[Event]) -> Table:
    """Events of a log, one a row, fields as in the log."""
    table = Table()
    table.add_column("seq", justify="right")
    table.add_column("because of", justify="right")
    table.add_column("event")
    table.add_column("fields", overflow="fold")
    for event in events:
        fields = encode(event)
        cause = fields.pop("cause_seq", None)
        kind, seq = fields.pop("event"), fields.pop("seq")
        words = " ".join(f"{name}={_value(value)}" for name, value in fields.items())
        table.add_row(f"{seq}", "" if cause is None else f"{cause}", kind, Text(words))
    return table


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ",".join(_value(item) for item in value) + "]"
    if value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    return plain_name(str(value), width=80)


def state_words(state: Replay, problem: str | None) -> list[str]:
    """The state of a run after an event.

    Args:
        state: the state.
        problem: where the log is cut, if that is why the state ends there.
    """
    words = []
    if state.header is not None:
        ended = ""
        if state.end is not None:
            outcome = state.end.outcome
            ended = f", which {ENDED.get(outcome, f'ended as {plain_name(outcome)}')}"
        words.append(f"A run of {_under(state.header)}{ended}.")
    if problem is not None:
        words.append(f"The log is incomplete: it {problem_words(problem)}.")
    words += [
        f"After event {state.seq}, at {duration(state.clock_ns)}, {both_bytes(state.memory_bytes)} "
        f"are in use by {count(len(state.resident), 'storage')}: {_parts(state)}.",
        f"{count(state.tally.computes, 'op')} ran for the first time, and "
        f"{count(state.tally.remats, 'rematerialisation')} took place.",
    ]
    if state.pending:
        chain = " > ".join(
            f"{frame.op} ({plain_name(state.ops[frame.op].name)})" for frame in state.pending[-4:]
        )
        more = "... > " if len(state.pending) > 4 else ""
        are = "is" if len(state.pending) == 1 else "are"
        words.append(f"{count(len(state.pending), 'op')} {are} pending: {more}{chain}.")
    return words


def problem_words(problem: str) -> str:
    """What is said of an incomplete log after "it": `LogReader.problem` with a verb."""
    return f"is {problem}" if problem.startswith("cut") else problem


def _parts(state: Replay) -> str:
    """The bytes in use by state; they add up."""
    pinned, locked, pool = (
        sum(state.size_bytes[storage] for storage in storages)
        for storages in (
            [storage for storage in state.pins if storage in state.resident],
            [s for s in state.locks if s in state.resident and s not in state.pins],
            state.pool,
        )
    )
    words = f"{both_bytes(pinned)} pinned, {both_bytes(locked)} locked"
    rest = state.memory_bytes - pinned - locked - pool
    if rest:
        words += f", {both_bytes(rest)} in no storage"
    return words + (f", {both_bytes(pool)} evictable" if state.pool else "; nothing is evictable")


def pool_table(state: Replay) -> Table:
    """The head of the pool of evictable storages, in its order."""
    title = f"pool: {count(len(state.pool), 'evictable storage')}"
    table = Table(title=title)
    table.add_column("storage", justify="right")
    table.add_column("of", overflow="fold")
    table.add_column("bytes", justify="right")
    for storage in list(state.pool)[:POOL_ROWS]:
        name = state.ops[state.producer[state.tensors_of[storage][0]]].name
        size = f"{state.size_bytes[storage]:,}"
        table.add_row(str(storage), Text(plain_name(name, LONG_NAME)), size)
    if len(state.pool) > POOL_ROWS:
        table.add_row("...", f"{len(state.pool) - POOL_ROWS:,} more", "")
    return table


def state_document(state: Replay) -> dict[str, Any]:
    """The state of a run in plain JSON types; `pool` in its order, the stack outermost first."""
    stop = state.stop
    return {
        "seq": state.seq,
        "memory_bytes": state.memory_bytes,
        "clock_ns": state.clock_ns,
        "resident": sorted(state.resident),
        "pool": list(state.pool),
        "locks": [
            {"storage": storage, "held_by": list(holders)}
            for storage, holders in sorted(state.locks.items())
        ],
        "pins": [
            {"storage": storage, "reason": reason} for storage, reason in sorted(state.pins.items())
        ],
        "banished": sorted(state.banished),
        "pending": [
            {
                "op": frame.op,
                "name": state.ops[frame.op].name,
                "kind": frame.reason,
                "tensor": frame.tensor,
                "locks": list(frame.locked),
                "executed": frame.executed_seq is not None,
            }
            for frame in state.pending
        ],
        "computes": state.tally.computes,
        "remats": state.tally.remats,
        "evictions": dict(state.tally.evictions),
        "outcome": state.end.outcome if state.end is not None else stop and stop.kind,
    }


def graph_words(graph: nx.MultiDiGraph[int]) -> list[str]:
    """What a dependency graph holds, and where it is."""
    changes = changes_words(graph.graph.get("semantics"), graph.graph.get("interventions"))
    under = f" under {plain_name(graph.graph['policy'])}{changes}" if changes else ""
    words = [
        f"{plain_name(graph.graph['trace'])}{under} after event {graph.graph['seq']}: "
        f"{count(len(graph), 'storage')} and {count(graph.number_of_edges(), 'edge')}."
    ]
    nodes = [data for _, data in graph.nodes(data=True)]
    if not nodes:
        return words
    here = [data for data in nodes if data["state"] in (PINNED, LOCKED, RESIDENT)]
    all_bytes, here_bytes = (sum(data["bytes"] for data in some) for some in (nodes, here))
    return [
        *words,
        f"{len(here):,} of these storages, {both_bytes(here_bytes)} of {both_bytes(all_bytes)}, "
        f"{'is' if len(here) == 1 else 'are'} in memory.",
    ]


def residency_table(graph: nx.MultiDiGraph[int]) -> Table:
    """Storages and bytes of a dependency graph by state."""
    nodes: Sequence[dict[str, Any]] = [data for _, data in graph.nodes(data=True)]
    numbers = Counter(data["state"] for data in nodes)
    table = Table()
    table.add_column("state")
    table.add_column("storages", justify="right")
    table.add_column("bytes", justify="right")
    for state in STATES:
        if numbers[state]:
            size = sum(data["bytes"] for data in nodes if data["state"] == state)
            style = look(state).terminal
            word = Text(look(state).word, style=style)
            table.add_row(word, f"{numbers[state]:,}", both_bytes(size))
    return table


def graph_document(graph: nx.MultiDiGraph[int]) -> dict[str, Any]:
    """A dependency graph as a `dtrdiag.graph/1` document of plain JSON types."""
    return {
        "schema": GRAPH_SCHEMA,
        "trace": graph.graph["trace"],
        "policy": graph.graph["policy"],
        "semantics": graph.graph.get("semantics"),
        "interventions": graph.graph.get("interventions"),
        "budget": graph.graph["budget_bytes"],
        "seq": graph.graph["seq"],
        "storages": [
            {"id": storage, **data, "tensors": list(data["tensors"])}
            for storage, data in graph.nodes(data=True)
        ],
        "edges": [
            {"from": source, "to": target, "op": data["op"], "op_name": data["op_name"]}
            for source, target, data in graph.edges(data=True)
        ],
    }
