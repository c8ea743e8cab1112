"""How do re-eviction chains look as JSON?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from dtrdiag.analyses.chains import Chain, Chains, find_chains
from dtrdiag.analyses.displacement import Component
from dtrdiag.analyses.onset import Onset
from dtrdiag.analyses.remat_cost import RematCost, Share
from dtrdiag.events.records import Event

CHAINS_SCHEMA = "dtrdiag.chains/1"


def chains_document(events: Iterable[Event], top: int = 10) -> dict[str, Any]:
    """The chains of a run as a `dtrdiag.chains/1` document; see `find_chains`."""
    return document_of_chains(find_chains(events, top))


def document_of_chains(chains: Chains) -> dict[str, Any]:
    """The same of chains that have been found, as plain JSON types."""
    header = chains.header
    return {
        "schema": CHAINS_SCHEMA,
        "trace": header.trace_name,
        "policy": header.policy,
        "dealloc": header.dealloc,
        "semantics": header.semantics,
        "interventions": header.interventions,
        "budget": header.budget_bytes,
        "ratio": header.ratio,
        "outcome": chains.outcome,
        "agrees_with_end": chains.agrees,
        "evictions": _with_total(chains.evictions),
        "distinct_evicted": dict(chains.distinct),
        "re_evictions": dict(chains.re_evictions),
        "made_room_for": dict(chains.made_room_for),
        "returns": {cause: dict(how) for cause, how in chains.returns.items()},
        "remat_cost_ns": chains.cost.total.cost_ns,
        "remats": chains.cost.total.remats,
        "cost": _cost(chains.cost),
        "dearest_steps": [
            {"step": number, "name": name, **attrs.asdict(share)}
            for number, name, share in chains.dearest_steps
        ],
        "graph": _graph(chains),
        "thrash_loops": len(chains.components),
        "largest_thrash_loop": max((part.storages for part in chains.components), default=0),
        "components": [_component(part) for part in chains.components],
        "loops": [attrs.asdict(loop) for loop in chains.loops],
        "onset": _onset(chains.onset),
        "chains": [_chain(chain) for chain in chains.chains],
    }


def _with_total(counts: Mapping[str, int]) -> dict[str, int]:
    return {"total": sum(counts.values()), **counts}


def _shares(shares: Mapping[str, Share]) -> dict[str, Any]:
    return {name: attrs.asdict(share) for name, share in shares.items()}


def _cost(cost: RematCost) -> dict[str, Any]:
    return {
        "asked": _shares(cost.asked),
        "caused": _shares(cost.caused),
        "again": attrs.asdict(cost.again),
        "repeated": attrs.asdict(cost.repeated),
        "collateral": attrs.asdict(cost.collateral),
        "operators": [{"name": name, **attrs.asdict(share)} for name, share in cost.operators],
        "positions": [
            {"steps": [part.first, part.stop], **attrs.asdict(part.share)}
            for part in cost.positions
        ],
    }


def _graph(chains: Chains) -> dict[str, Any]:
    graph = chains.graph
    return {
        "storages": graph.number_of_nodes(),
        "edges": graph.number_of_edges(),
        "times": sum(data["times"] for _, _, data in graph.edges(data=True)),
        "cost_ns": sum(data["cost_ns"] for _, _, data in graph.edges(data=True)),
    }


def _component(part: Component) -> dict[str, Any]:
    return attrs.asdict(part) | {
        "operators": [{"name": name, "evictions": times} for name, times in part.operators]
    }


def _chain(chain: Chain) -> dict[str, Any]:
    return attrs.asdict(chain) | {"cycles": [attrs.asdict(cycle) for cycle in chain.cycles]}


def _onset(onset: Onset) -> dict[str, Any]:
    main = onset.spells[0] if onset.spells else None
    return {
        "begins": None if main is None else main.first_step,
        "ends": None if main is None else main.stop_step,
        "begins_with": None if main is None else main.first,
        "ends_with": None if main is None else main.last,
        "thrashing_steps": len(onset.steps),
        "cost_ns": onset.cost_ns,
        "most_touched_bytes": onset.most_touched_bytes,
        "most_held_bytes": onset.most_held_bytes,
        "spells": [attrs.asdict(spell) for spell in onset.spells],
        "steps": [attrs.asdict(step) for step in onset.steps],
    }
