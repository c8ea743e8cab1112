"""What does a run's page say of re-evictions, of the cost of rematerialisation, and of loops?"""

from __future__ import annotations

from collections.abc import Mapping

from dtrdiag.analyses.chains import Chain, Chains, Cycle
from dtrdiag.analyses.remat_cost import Share
from dtrdiag.rendering.chains import (
    ASKED_WORDS,
    CAUSE_WORDS,
    chains_table,
    chains_words,
    loops_table,
    operators_table,
    percent,
    steps_table,
)
from dtrdiag.rendering.pages.fromrich import page_table
from dtrdiag.rendering.pages.parts import RIGHT, Column, Part, Section, Table, Words
from dtrdiag.units import NOT_KNOWN, both_bytes, count, duration, plain_name

TOP = 12
"""Storages, loops, operators and steps to show."""
DESCRIBED, CYCLES = 3, 10
"""How many storages have a table of their cycles, and of how many cycles."""
_WHO = {"model": "the model", "unknown": "nobody that the log names", "collateral": "a sibling"}


def chain_sections(chains: Chains) -> list[Section]:
    """The sections about a run's chains; none where nothing was evicted to make room."""
    if not chains.chains and not chains.cost.total.remats:
        return []
    sections = [Section("re-evictions", "What was evicted again and again", _re_evicted(chains))]
    if chains.cost.total.remats:
        sections.append(Section("cost", "Where the cost of recomputing goes", _cost(chains)))
    if chains.loops or chains.onset.spells:
        sections.append(Section("loops", "Where it thrashes", _loops(chains)))
    return sections


def _re_evicted(chains: Chains) -> tuple[Part, ...]:
    parts: list[Part] = [Words(tuple(chains_words(chains)))]
    if chains.chains:
        note = (
            "pressure: evictions to make room; release: when the last reference went; cost: that "
            "of bringing it back."
        )
        parts.append(page_table(chains_table(chains), note=note))
    parts += [_cycles(chain) for chain in chains.chains[:DESCRIBED] if chain.returns]
    return tuple(parts)


def _cycles(chain: Chain) -> Table:
    """The chain of one storage, an eviction and its undoing a row."""
    shown = chain.cycles[:CYCLES]
    more = sum(chain.evictions.values()) - len(shown)
    name = f"storage {chain.storage} of {plain_name(chain.name)}, {both_bytes(chain.bytes)}"
    columns = (
        Column("evicted at step", RIGHT),
        Column("why"),
        Column("back at step", RIGHT),
        Column("asked for by"),
        Column("cost", RIGHT),
    )
    return Table(
        f"The chain of {name}",
        columns,
        [_cycle(cycle) for cycle in shown],
        f"And {count(more, 'eviction')} more." if more > 0 else None,
    )


def _cycle(cycle: Cycle) -> tuple[str, ...]:
    why = {"release": "released", "banish": "freed for good"}.get(cycle.cause, "to make room")
    if cycle.for_op is not None:
        why = f"for op {cycle.for_op} ({'again' if cycle.for_remat else 'first time'})"
    if cycle.returned_step is None:
        back, who, cost = "never", "", NOT_KNOWN
    else:
        back, cost = f"{cycle.returned_step:,}", duration(cycle.cost_ns)
        who = _WHO.get(cycle.returned, f"op {cycle.returned_asked_by}")
    return f"{cycle.evicted_step:,}", why, back, who, cost


def _cost(chains: Chains) -> tuple[Part, ...]:
    return (
        _shares("Recomputing by who asked for it", ASKED_WORDS, chains.cost.asked, chains),
        _shares("Recomputing by what had made it needed", CAUSE_WORDS, chains.cost.caused, chains),
        Words((_besides(chains),)),
        page_table(operators_table(chains, TOP)),
        page_table(steps_table(chains)),
    )


def _shares(
    caption: str, words: Mapping[str, str], shares: Mapping[str, Share], chains: Chains
) -> Table:
    """Parts of the cost that add up to all of it."""
    total = chains.cost.total
    columns = (Column(""), Column("ops", RIGHT), Column("cost", RIGHT), Column("share", RIGHT))
    rows = [
        (word, f"{share.remats:,}", duration(share.cost_ns), percent(share.cost_ns, total.cost_ns))
        for word, share in ((word, shares[name]) for name, word in words.items())
        if share.remats
    ]
    rows.append(("all", f"{total.remats:,}", duration(total.cost_ns), "100 %"))
    return Table(caption, columns, rows)


def _besides(chains: Chains) -> str:
    cost, all_ns = chains.cost, chains.cost.total.cost_ns
    return (
        f"{duration(cost.again.cost_ns)} ({percent(cost.again.cost_ns, all_ns)}) undid evictions "
        "of what had been evicted to make room before, and "
        f"{duration(cost.repeated.cost_ns)} ({percent(cost.repeated.cost_ns, all_ns)}) computed "
        f"ops for the third time or more often. {duration(cost.collateral.cost_ns)} "
        f"({percent(cost.collateral.cost_ns, all_ns)}) went into outputs that came along with the "
        "one that was wanted."
    )


def _loops(chains: Chains) -> tuple[Part, ...]:
    onset = chains.onset
    words = [
        "Serving a step thrashes if what it touches does not fit into the budget, and it evicts "
        "what it had itself brought back.",
    ]
    parts: list[Part] = []
    if onset.spells:
        parts.append(_spells(chains))
    if chains.loops:
        parts.append(
            page_table(
                loops_table(chains, TOP),
                note="turns: how often, at least, each pushed out the next; period: from one turn "
                "to the next.",
            )
        )
        words.append(
            "In a loop, bringing one storage back pushes out the next, and so on round to the "
            "first."
        )
    return (Words((" ".join(words),)), *parts)


def _spells(chains: Chains) -> Table:
    shown = chains.onset.spells[:TOP]
    columns = (
        Column("from step", RIGHT),
        Column("calls"),
        Column("to step", RIGHT),
        Column("calls"),
        Column("steps that thrash", RIGHT),
        Column("cost of recomputing", RIGHT),
    )
    rows = [
        (
            f"{spell.first_step:,}",
            plain_name(spell.first),
            f"{spell.stop_step - 1:,}",
            plain_name(spell.last),
            f"{spell.steps:,}",
            duration(spell.cost_ns),
        )
        for spell in shown
    ]
    more = len(chains.onset.spells) - len(shown)
    note = f"And {count(more, 'spell')} of less cost." if more else None
    return Table("Spells of thrash, the dearest first", columns, rows, note)
