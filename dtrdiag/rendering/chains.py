"""How do re-eviction chains, thrash loops and what they cost look in a terminal?"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

import networkx as nx
from rich.table import Table
from rich.text import Text

from dtrdiag.analyses.chains import Chain, Chains, Cycle
from dtrdiag.analyses.displacement import Component
from dtrdiag.analyses.loops import Loop
from dtrdiag.analyses.remat_cost import Share
from dtrdiag.units import (
    LONG_NAME,
    NOT_KNOWN,
    both_bytes,
    changes_words,
    count,
    cut_words,
    duration,
    plain_name,
    short_bytes,
)

ASKED_WORDS = {
    "model": "the model, for an output",
    "first": "an op's first execution",
    "recursive": "a rematerialisation",
    "unknown": "nobody that the log names",
}
CAUSE_WORDS = {
    "pressure": "an eviction under pressure",
    "release": "an eviction on release",
    "banish": "a banishment",
    "never": "no eviction before it",
}
SHOWN = 6
"""Storages of a loop, and names of operators, that a sentence lists at most."""
_CSV = (
    "source", "source_op", "source_op_name", "source_bytes", "target", "target_op",
    "target_op_name", "target_bytes", "times", "cost_ns",
)  # fmt: skip


def chains_words(chains: Chains) -> list[str]:
    """What was evicted again and again, what it cost, and where; the most important first."""
    return [
        *_disagrees(chains),
        _re_evictions(chains),
        *_spent(chains),
        *_where(chains),
        *_components(chains),
        *_changed(chains),
    ]


def _changed(chains: Chains) -> list[str]:
    header = chains.header
    changes = changes_words(header.semantics, header.interventions)
    return [f"The run is under {plain_name(header.policy)}{changes}."] if changes else []


def _re_evictions(chains: Chains) -> str:
    pressed, distinct = chains.evictions["pressure"], chains.distinct["pressure"]
    if not pressed:
        return "Nothing was evicted under pressure, so nothing was evicted again."
    again = chains.re_evictions["pressure"]
    released = chains.evictions["release"]
    are = "is" if released == 1 else "are"
    rest = f" ({count(released, 'eviction')} on release {are} counted apart.)" if released else ""
    if not again:
        return (
            f"{count(pressed, 'eviction')} under pressure hit {count(distinct, 'storage')}: "
            f"nothing evicted so came back and was evicted so again.{rest}"
        )
    return (
        f"{count(pressed, 'eviction')} under pressure hit {count(distinct, 'storage')}: "
        f"{again:,} of these evictions ({percent(again, pressed)}) evicted again what had been "
        f"evicted under pressure before and had come back.{rest}"
    )


def _spent(chains: Chains) -> list[str]:
    total = chains.cost.total
    if not total.remats:
        return []
    asked = chains.cost.asked
    direct = asked["first"].cost_ns + asked["model"].cost_ns
    return [
        f"{count(total.remats, 'rematerialisation')} cost {duration(total.cost_ns)}: "
        f"{percent(direct, total.cost_ns)} asked for by the model and by ops that ran for the "
        f"first time, {percent(asked['recursive'].cost_ns, total.cost_ns)} recursively, by ops "
        f"that were being rematerialised themselves. "
        f"{percent(chains.cost.again.cost_ns, total.cost_ns)} went to undo re-evictions."
    ]


def _where(chains: Chains) -> list[str]:
    onset = chains.onset
    if not onset.spells:
        none = (
            "No step of the schedule thrashes: none evicts what it brought back itself while its "
            "working set exceeds the budget."
        )
        return [none] if chains.cost.total.remats else []
    main = onset.spells[0]
    budget = onset.most_touched_budget_bytes
    against = "" if budget is None else f", against a budget of {both_bytes(budget)}"
    sentences = [
        f"Thrash begins at step {main.first_step:,} of the schedule "
        f"({plain_name(main.first)}) and ends with step {main.stop_step - 1:,} "
        f"({plain_name(main.last)}): {count(main.steps, 'step')} there cost "
        f"{duration(main.cost_ns)}, {percent(main.cost_ns, chains.cost.total.cost_ns)} of all "
        f"rematerialisation. The largest working set of a step is "
        f"{both_bytes(onset.most_touched_bytes)}{against}."
    ]
    if len(onset.spells) > 1:
        other = count(len(onset.spells) - 1, "spell")
        cost = duration(onset.cost_ns - main.cost_ns)
        sentences.append(f"{other} of thrash elsewhere cost {cost}.")
    return sentences


def _components(chains: Chains) -> list[str]:
    if not chains.components:
        if not chains.graph.number_of_edges():
            return []
        return ["No storages push each other out in a circle."]
    largest = chains.components[0]
    dearest = "" if len(chains.components) == 1 else ". The dearest"
    sentences = [
        f"{count(len(chains.components), 'thrash loop')}{dearest}: "
        f"{count(largest.storages, 'storage')} ({both_bytes(largest.bytes)} together) push each "
        f"other out when they are rematerialised: {count(largest.times, 'eviction')} from step "
        f"{largest.first_step:,} to {largest.stop_step - 1:,}, and bringing the victims back cost "
        f"{duration(largest.cost_ns)}. They are made by {_operators(largest)}."
    ]
    if chains.loops:
        widest = max(chains.loops, key=lambda loop: loop.turns)
        sentences.append(f"The loop gone round most often, {_loop_words(widest)}.")
    return sentences


def _operators(part: Component) -> str:
    names = [f"{plain_name(name)} ({times:,})" for name, times in part.operators[:SHOWN]]
    more = len(part.operators) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _loop_words(loop: Loop) -> str:
    period = ""
    if loop.period_ns is not None:
        period = f", once in {duration(loop.period_ns)} or {loop.period_decisions:,} decisions"
    return (
        f"{count(loop.turns, 'time')} at least{period}: {_path(loop)}; "
        f"{count(sum(loop.times), 'eviction')} along it cost {duration(loop.cost_ns)}"
    )


def _path(loop: Loop) -> str:
    """The loop's storages, without the middle of a long one."""
    nodes = [
        f"{storage} ({plain_name(name)})"
        for storage, name in zip(loop.storages, loop.names, strict=True)
    ]
    if len(nodes) > SHOWN:
        nodes = [*nodes[: SHOWN - 2], f"{len(nodes) - SHOWN + 1} more", nodes[-1]]
    return " -> ".join([*nodes, str(loop.storages[0])])


def _disagrees(chains: Chains) -> list[str]:
    if chains.agrees is None:
        return ["The log is incomplete: all of this is about the part that is there."]
    if not chains.agrees:
        return ["Careful: the counts of the log's last event are not those of its events."]
    return []


def percent(part: int, whole: int) -> str:
    """A share of a whole, with one digit after the point."""
    if not whole:
        return "0 %"
    if 0 < 1000 * part < whole:
        return "< 0.1 %"
    return f"{100 * part / whole:.1f} %"


def cost_table(chains: Chains) -> Table:
    """The cost of rematerialisation by who asked, and by what made it necessary."""
    table = Table(title="cost of rematerialisation")
    table.add_column("", overflow="fold")
    for name in ("times", "cost", "share"):
        table.add_column(name, justify="right")
    cost = chains.cost
    _add_shares(table, "asked by ", ASKED_WORDS, cost.asked, cost.total)
    _add_shares(table, "after ", CAUSE_WORDS, cost.caused, cost.total)
    _add_share(table, "after a re-eviction under pressure", cost.again, cost.total)
    _add_share(table, "not the first of its op", cost.repeated, cost.total)
    siblings = Share(cost.collateral.remats, cost.collateral.cost_ns)
    _add_share(table, "spent on siblings of what was wanted", siblings, cost.total, True)
    _add_share(table, "all", cost.total, cost.total)
    return table


def _add_shares(
    table: Table, prefix: str, words: Mapping[str, str], shares: Mapping[str, Share], total: Share
) -> None:
    shown = [name for name in words if shares[name].remats]
    for name in shown:
        end = name == shown[-1]
        _add_share(table, prefix + words[name], shares[name], total, end)


def _add_share(table: Table, what: str, share: Share, total: Share, end: bool = False) -> None:
    part = percent(share.cost_ns, total.cost_ns)
    table.add_row(what, f"{share.remats:,}", duration(share.cost_ns), part, end_section=end)


def operators_table(chains: Chains, top: int) -> Table:
    """The operators whose rematerialisation cost most."""
    operators = chains.cost.operators
    table = Table(title=cut_words("rematerialisation by operator", top, len(operators)))
    table.add_column("operator", overflow="fold")
    for name in ("times", "cost", "share"):
        table.add_column(name, justify="right")
    for name, share in operators[:top]:
        row = Text(plain_name(name, LONG_NAME))
        part = percent(share.cost_ns, chains.cost.total.cost_ns)
        table.add_row(row, f"{share.remats:,}", duration(share.cost_ns), part)
    return table


def steps_table(chains: Chains) -> Table:
    """The steps of the schedule that cost most while they were served.

    Working set, bytes held, and how many ops were pending at most are those of steps that thrash.
    """
    thrashing = {step.number: step for step in chains.onset.steps}
    title = cut_words("steps of the schedule", len(chains.dearest_steps), chains.costly_steps)
    table = Table(title=f"{title} (- : the step does not thrash)")
    table.add_column("step", justify="right")
    table.add_column("calls", overflow="fold")
    for name in ("times", "cost", "working set", "held", "pending ops"):
        table.add_column(name, justify="right")
    for number, name, share in chains.dearest_steps:
        step = thrashing.get(number)
        sizes = (NOT_KNOWN,) * 3 if step is None else (
            short_bytes(step.touched_bytes), short_bytes(step.held_bytes), f"{step.depth:,}"
        )  # fmt: skip
        table.add_row(
            f"{number:,}",
            Text(plain_name(name, LONG_NAME)),
            f"{share.remats:,}",
            duration(share.cost_ns),
            *sizes,
        )
    return table


def loops_table(chains: Chains, top: int | None = None) -> Table:
    """The loops of the displacement graph, the dearest first.

    Args:
        chains: with at most `top` loops.
        top: how many were asked for; None: as many as there are.
    """
    # Loops are looked for one by one, so nobody knows how many more there are.
    more = " (there may be more loops)" if top is not None and len(chains.loops) >= top else ""
    table = Table(title=f"storages that push each other out in turn{more}")
    for name in ("turns", "storages", "bytes", "cost", "period"):
        table.add_column(name, justify="right")
    table.add_column("loop", overflow="fold")
    for loop in chains.loops:
        table.add_row(
            f"{loop.turns:,}",
            f"{len(loop.storages):,}",
            short_bytes(loop.bytes),
            duration(loop.cost_ns),
            "" if loop.period_ns is None else duration(loop.period_ns),
            Text(_path(loop)),
        )
    return table


def chains_table(chains: Chains) -> Table:
    """The storages whose way back cost most."""
    table = Table(title=cut_words("storages brought back", len(chains.chains), chains.chained))
    table.add_column("storage", justify="right")
    table.add_column("op", overflow="fold")
    for name in ("bytes", "pressure", "release", "came back", "cost"):
        table.add_column(name, justify="right")
    for chain in chains.chains:
        table.add_row(
            str(chain.storage),
            Text(plain_name(chain.name, LONG_NAME)),
            short_bytes(chain.bytes),
            f"{chain.evictions['pressure']:,}",
            f"{chain.evictions['release']:,}",
            f"{chain.returns:,}",
            duration(chain.cost_ns),
        )
    return table


def chain_words(chain: Chain, most: int = 4) -> list[str]:
    """The first cycles of a chain, a line each."""
    lines = [f"The chain of storage {chain.storage} ({plain_name(chain.name)}) begins:"]
    lines += [f"- {_cycle_words(cycle)}" for cycle in chain.cycles[:most]]
    more = sum(chain.evictions.values()) - min(most, len(chain.cycles))
    return [*lines, f"- and {count(more, 'cycle')} more"] if more > 0 else lines


def _cycle_words(cycle: Cycle) -> str:
    why = f"on {cycle.cause}"
    if cycle.cause == "pressure":
        doing = {None: "", True: "again", False: "first"}[cycle.for_remat]
        why = "under pressure" if cycle.for_op is None else f"for op {cycle.for_op} ({doing})"
    left = f"step {cycle.evicted_step:,}: evicted {why}"
    if cycle.returned_step is None:
        return f"{left}; never back"
    who = {"model": "the model", "unknown": "?", "collateral": "a sibling"}
    asker = who.get(cycle.returned, f"op {cycle.returned_asked_by}")
    return f"{left}; back at step {cycle.returned_step:,} for {asker}, {duration(cycle.cost_ns)}"


def displacement_csv(graph: nx.DiGraph[Any]) -> bytes:
    """The displacement graph as CSV, an edge a line, the dearest first."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_CSV)
    rows = sorted(
        graph.edges(data=True), key=lambda e: (-e[2]["cost_ns"], -e[2]["times"], e[0], e[1])
    )
    for source, target, data in rows:
        ends = []
        for node in (source, target):
            about = graph.nodes[node]
            ends += [node, about["op"], plain_name(about["op_name"], LONG_NAME), about["bytes"]]
        writer.writerow([*ends, data["times"], data["cost_ns"]])
    return stream.getvalue().encode()


def displacement_dot(graph: nx.DiGraph[Any], most: int) -> str:
    """The dearest edges of the displacement graph as DOT, those on a loop in another colour."""
    edges = sorted(
        graph.edges(data=True), key=lambda e: (-e[2]["cost_ns"], -e[2]["times"], e[0], e[1])
    )[:most]
    part: dict[Any, int] = {}
    for number, nodes in enumerate(nx.strongly_connected_components(graph)):
        part.update(dict.fromkeys(nodes, number))
    shown = {node for source, target, _ in edges for node in (source, target)}
    lines = ["digraph displacement {", '  node [shape=box, fontname="sans-serif"];']
    left_out = graph.number_of_edges() - len(edges)
    if left_out:
        lines.append(f'  label="{left_out} edges of less cost are left out";')
    for node in sorted(shown):
        about = graph.nodes[node]
        label = f"{node} {_quoted(about['op_name'])}\\n{short_bytes(about['bytes'])}"
        lines.append(f'  {node} [label="{label}"];')
    for source, target, data in edges:
        colour = "#b2182b" if part[source] == part[target] else "#777777"
        label = f"{data['times']}x, {duration(data['cost_ns'])}"
        lines.append(f'  {source} -> {target} [label="{label}", color="{colour}"];')
    return "\n".join([*lines, "}", ""])


def _quoted(name: str) -> str:
    return plain_name(name).replace("\\", "\\\\").replace('"', '\\"')
