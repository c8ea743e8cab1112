"""Records to render, made by hand: rendering needs no run."""

# mypy: no-check-untyped-defs

import attrs
import pytest

from dtrdiag.analyses.diff import OperatorCost, RunDiff
from dtrdiag.analyses.divergence import Decision, Divergence
from dtrdiag.analyses.frontier import Frontier, FrontierStep, FrontierStorage
from dtrdiag.analyses.sets import EvictionSets, SetComparison
from dtrdiag.analyses.summary import CauseCounts, RunSummary
from dtrdiag.events.records import SCHEMA, RunHeader

HEADER = RunHeader(
    seq=0,
    schema=SCHEMA,
    runtime="toy",
    runtime_version="1",
    trace_name="by hand",
    trace_sha256=None,
    trace_ops=None,
    trace_tensors=None,
    policy="lru",
    dealloc="eager",
    semantics="toy",
    budget_bytes=1000,
    overhead_limit=None,
    seed=0,
    candidates=0,
    baseline_cost_ns=1000,
)

# Names that mean something to DOT, to terminals, to rich, or to XML.
NASTY_NAMES = [
    'say "hi"',
    'ends with "',
    "back\\slash",
    "ends with \\",
    "\\N \\G \\E \\l",
    "<b>bold</b>",
    "<unclosed",
    "two\nlines\rand\ttab",
    "a & b &amp; c &lt;",
    "[red]not red[/red]",
    "[/nothing]",
    "\x1b[31mescape\x07",
    "nul\x00",
    "lone \ud800 surrogate",
    "right\u202eleft",
    "{a|b} -> c; }",
    "",
    "ünï × 漢字",  # noqa: RUF001
]


@pytest.fixture(params=NASTY_NAMES, ids=ascii)
def nasty_name(request):
    return request.param


def frontier_of(steps, pinned_bytes=7, name="conv", **changes):
    """A frontier of `steps`, each given as its locked bytes: one storage, or none for 0."""
    stack, storages = [], [FrontierStorage(0, name, pinned_bytes, "pinned", (100,))]
    for depth, size_bytes in enumerate(steps):
        op, storage = 100 + depth, 500 + depth
        locks = (storage,) if size_bytes else ()
        if size_bytes:
            storages.append(FrontierStorage(storage, name, size_bytes, "locked", (op,)))
        kind = "remat" if depth else "first"
        locked = (0, *locks) if not depth else locks
        stack.append(FrontierStep(op, name, kind, op, 50, locked, size_bytes, size_bytes))
    locked_bytes = sum(steps)
    resident_bytes = pinned_bytes + locked_bytes
    frontier = Frontier(
        header=HEADER,
        seq=999,
        op=stack[-1].op,
        op_name=name,
        requested_bytes=50,
        budget_bytes=resident_bytes + 20,
        resident_bytes=resident_bytes,
        pinned_bytes=pinned_bytes,
        locked_bytes=locked_bytes,
        evictable_bytes=0,
        unaccounted_bytes=0,
        depth=len(stack),
        interval_lo_bytes=resident_bytes,
        interval_hi_bytes=resident_bytes + 50,
        stack=tuple(stack),
        storages=tuple(storages),
    )
    return attrs.evolve(frontier, **changes)


@pytest.fixture(scope="session")
def make_frontier():
    return frontier_of


def summary_of(outcome="ok", remat_cost_ns=500, **header):
    return RunSummary(
        header=attrs.evolve(HEADER, **header),
        outcome=outcome,
        computes=10,
        remats=3,
        remat_cost_ns=remat_cost_ns,
        evictions=CauseCounts(12, 5, 7, 0),
        distinct_evicted=CauseCounts(8, 3, 7, 0),
        max_memory_bytes=980,
        interval_lo_bytes=980,
        interval_hi_bytes=1010,
        decisions_sha256="0" * 64,
    )


@pytest.fixture(scope="session")
def make_summary():
    return summary_of


def fit():
    return Divergence(
        index=17,
        kind="fit",
        op=4,
        op_name="conv",
        memory_bytes=960,
        requested_bytes=50,
        fits_in="b",
        margin_a_bytes=-10,
        margin_b_bytes=90,
        reason="first",
        depth=1,
        during_op=4,
        during_op_name="conv",
        seq_a=80,
        seq_b=80,
        a=Decision("E 3", 81, "evict", op=4, storage=3, bytes=40, cause="pressure", score=0.25),
        b=Decision("C 4", 81, "compute", op=4, op_name="conv", cost_ns=9),
        a_next=(Decision("C 4", 83, "compute", op=4),),
        b_next=(Decision("oom", 90, "stop"),),
    )


@pytest.fixture(scope="session")
def fit_divergence():
    return fit()


def diff_of(divergence=..., name="conv", **changes):
    sets = EvictionSets(
        {
            "all": SetComparison(8, 9, 7, 10),
            "pressure": SetComparison(3, 4, 2, 5),
            "release": SetComparison(7, 7, 7, 7),
        },
        12,
        15,
    )
    diff = RunDiff(
        a=summary_of(),
        b=summary_of(remat_cost_ns=2000, budget_bytes=1100),
        common_prefix=17,
        divergence=fit() if divergence is ... else divergence,
        sets=sets,
        operators=(OperatorCost(name, 1, 2, 100, 1600), OperatorCost("same", 1, 1, 5, 5)),
    )
    return attrs.evolve(diff, **changes)


@pytest.fixture(scope="session")
def make_diff():
    return diff_of
