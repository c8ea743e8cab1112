"""Questions that an event log alone answers, one module each."""

# This folder stands at the root of the repository, so Python would load it from there as a second
# package of its own, whose classes would not be equal to the installed ones.
if not __name__.startswith("dtrdiag."):
    raise ImportError("import dtrdiag.analyses, not analyses")

from typing import TYPE_CHECKING

from dtrdiag.ondemand import on_demand

if TYPE_CHECKING:
    from dtrdiag.analyses.allocations import Allocations, memory_history
    from dtrdiag.analyses.budget_map import (
        BudgetMap,
        Cliff,
        MapSummary,
        Segment,
        map_segments,
        summarise_map,
        worst_cliff,
    )
    from dtrdiag.analyses.chains import Chain, Chains, Cycle, find_chains
    from dtrdiag.analyses.chains_document import chains_document, document_of_chains
    from dtrdiag.analyses.diff import RunDiff, diff_document, diff_runs
    from dtrdiag.analyses.divergence import Decision, Divergence, first_divergence
    from dtrdiag.analyses.effects import EffectFinding, find_effects
    from dtrdiag.analyses.evictions import eviction_counts
    from dtrdiag.analyses.frontier import Frontier, frontier_document, pinned_frontier
    from dtrdiag.analyses.graph import dependency_graph, neighbourhood
    from dtrdiag.analyses.instability import (
        Instability,
        Variation,
        instability_document,
        measure_instability,
    )
    from dtrdiag.analyses.map_document import map_document, run_of_interval
    from dtrdiag.analyses.programs import ProgramDifference, program_difference
    from dtrdiag.analyses.reevicted import ReEvictions, re_evictions_document
    from dtrdiag.analyses.sets import EvictionSets, SetComparison, eviction_sets, sets_document
    from dtrdiag.analyses.summary import (
        RunSummary,
        run_document,
        summarise,
        summary_document,
        summary_of,
    )
    from dtrdiag.analyses.timeline import Timeline, run_timeline, run_timelines
    from dtrdiag.analyses.trajectory import Trajectory, trajectory_document

__all__ = [
    "Allocations",
    "BudgetMap",
    "Chain",
    "Chains",
    "Cliff",
    "Cycle",
    "Decision",
    "Divergence",
    "EffectFinding",
    "EvictionSets",
    "Frontier",
    "Instability",
    "MapSummary",
    "ProgramDifference",
    "ReEvictions",
    "RunDiff",
    "RunSummary",
    "Segment",
    "SetComparison",
    "Timeline",
    "Trajectory",
    "Variation",
    "chains_document",
    "dependency_graph",
    "diff_document",
    "diff_runs",
    "document_of_chains",
    "eviction_counts",
    "eviction_sets",
    "find_chains",
    "find_effects",
    "first_divergence",
    "frontier_document",
    "instability_document",
    "map_document",
    "map_segments",
    "measure_instability",
    "memory_history",
    "neighbourhood",
    "pinned_frontier",
    "program_difference",
    "re_evictions_document",
    "run_document",
    "run_of_interval",
    "run_timeline",
    "run_timelines",
    "sets_document",
    "summarise",
    "summarise_map",
    "summary_document",
    "summary_of",
    "trajectory_document",
    "worst_cliff",
]

# Each question loads its own module when it is asked: all of them together take longer than most
# answers.
__getattr__, __dir__ = on_demand(
    __name__,
    {
        "allocations": ("Allocations", "memory_history"),
        "budget_map": (
            "BudgetMap",
            "Cliff",
            "MapSummary",
            "Segment",
            "map_segments",
            "summarise_map",
            "worst_cliff",
        ),
        "chains": ("Chain", "Chains", "Cycle", "find_chains"),
        "chains_document": ("chains_document", "document_of_chains"),
        "diff": ("RunDiff", "diff_document", "diff_runs"),
        "divergence": ("Decision", "Divergence", "first_divergence"),
        "effects": ("EffectFinding", "find_effects"),
        "evictions": ("eviction_counts",),
        "frontier": ("Frontier", "frontier_document", "pinned_frontier"),
        "graph": ("dependency_graph", "neighbourhood"),
        "instability": ("Instability", "Variation", "instability_document", "measure_instability"),
        "map_document": ("map_document", "run_of_interval"),
        "programs": ("ProgramDifference", "program_difference"),
        "reevicted": ("ReEvictions", "re_evictions_document"),
        "sets": ("EvictionSets", "SetComparison", "eviction_sets", "sets_document"),
        "summary": ("RunSummary", "run_document", "summarise", "summary_document", "summary_of"),
        "timeline": ("Timeline", "run_timeline", "run_timelines"),
        "trajectory": ("Trajectory", "trajectory_document"),
    },
)
