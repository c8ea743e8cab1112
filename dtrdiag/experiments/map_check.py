"""Is a map true: contiguous, complete, and each interval what the runs at its ends come to?

An interval is checked by running the trace again at its lowest and its highest budget, with every
event of both runs checked by `dtrdiag.checker`, which knows nothing of the simulator, and what they
come to compared with the map. A wrong map, a wrong run and a wrong log are told apart by the rule.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import attrs

from dtrdiag.checker import MAX_PROBLEMS, Checker, Problem
from dtrdiag.checkerscores import CHECKED_POLICIES
from dtrdiag.errors import UsageError
from dtrdiag.events.records import End
from dtrdiag.experiments.map_document_check import document_problems
from dtrdiag.experiments.map_files import SavedMap
from dtrdiag.experiments.outcomes import Outcome
from dtrdiag.files import read_bytes
from dtrdiag.hooks import Hooks
from dtrdiag.interventions import parse_interventions
from dtrdiag.log import is_parquet
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, budget_from_ratio, simulate
from dtrdiag.trace import Trace


@attrs.frozen
class MapCheck:
    """What came of checking a map.

    Attributes:
        intervals: how many the map has.
        sampled: how many of them were run again.
        events: events that were checked.
        complete: whether the map has no gaps.
        scores: whether the victims were compared with the policy's choices.
        problems: at most `MAX_PROBLEMS`; their `seq` is the position of the interval in the map,
            counted from 0.
    """

    intervals: int
    sampled: int
    events: int
    complete: bool
    scores: bool
    problems: tuple[Problem, ...]


def check_map(
    saved: SavedMap,
    trace: Trace,
    *,
    sample: int | None = None,
    seed: int = 0,
    scores: bool = False,
    overheads: Mapping[int, float | None] | None = None,
    document: Mapping[str, Any] | None = None,
    policy_sha256: str | None = None,
    tell: Callable[[int, int], None] | None = None,
) -> MapCheck:
    """Check a map against its trace.

    Args:
        saved: the map.
        trace: the trace that it is of.
        sample: how many intervals to run again, drawn with `seed`; None: all.
        seed: of the draw.
        scores: compare the victims of these runs with the policy's choices.
        overheads: what the file of the map says of them; see `recorded_overheads`.
        document: what else it says; see `recorded_document`.
        policy_sha256: SHA-256 of the policy file with which intervals are run again, if any.
        tell: is told after each interval how many have been run again, and of how many.

    Raises:
        UsageError: the sample is below 1; `scores`, and the policy is not one of dtrdiag's.
        DtrdiagError: of a run that fails.
    """
    rows = list(saved.outcomes)
    drawn = _drawn(len(rows), sample, seed)
    if saved.definition["trace_sha256"] != trace.sha256:
        return MapCheck(len(rows), 0, 0, False, scores, (Problem(0, "trace", "of another trace"),))
    problems = [*_shape(saved, rows), *_figures(trace, rows, overheads or {})]
    problems += [*_of_policy_file(saved, policy_sha256), *document_problems(saved, document)]
    complete = not saved.outcomes.gaps(saved.from_bytes, saved.to_bytes)
    events = checked = 0
    for at in drawn:
        if len(problems) >= MAX_PROBLEMS:
            break
        for budget_bytes in _ends(rows[at].end):
            count, found = _run_again(trace, rows[at], budget_bytes, scores)
            events += count
            problems += [attrs.evolve(problem, seq=at) for problem in found]
        checked += 1
        if tell is not None:
            tell(checked, len(drawn))
    return MapCheck(len(rows), checked, events, complete, scores, tuple(problems[:MAX_PROBLEMS]))


def _drawn(intervals: int, sample: int | None, seed: int) -> Sequence[int]:
    if sample is not None and sample < 1:
        raise UsageError(f"a sample must have at least 1 interval, not {sample}")
    every = range(intervals)
    if sample is None or sample >= intervals:
        return every
    return sorted(random.Random(seed).sample(every, sample))


def _shape(saved: SavedMap, rows: Sequence[Outcome]) -> Iterator[Problem]:
    """What the intervals themselves tell."""
    for at, (lower, upper) in enumerate(pairwise(rows), start=1):
        if lower.end.decisions_sha256 == upper.end.decisions_sha256:
            message = "makes the same decisions as the interval below it, so the two are one"
            yield Problem(at, "neighbours", message)
    if saved.resolution_bytes is None:
        for low, high in saved.outcomes.gaps(saved.from_bytes, saved.to_bytes):
            after = sum(row.end.interval_lo_bytes < low for row in rows)
            message = f"no interval holds the budgets from {low} to {high} bytes"
            yield Problem(after, "complete", message)


def _figures(
    trace: Trace, rows: Sequence[Outcome], overheads: Mapping[int, float | None]
) -> Iterator[Problem]:
    """What follows from the trace, and from the other figures of an interval."""
    peak_bytes = None
    if any(row.header.peak_bytes is not None for row in rows):
        peak_bytes = baseline_peak_bytes(trace)
    for at, row in enumerate(rows):
        header, end = row.header, row.end
        stated = (header.trace_ops, header.trace_tensors, header.baseline_cost_ns)
        if stated != (trace.ops, trace.tensors, trace.baseline_cost_ns):
            yield Problem(at, "trace", f"ops, tensors and baseline cost of the trace are {stated}")
        if header.peak_bytes not in (None, peak_bytes):
            yield Problem(at, "trace", f"peak_bytes is {header.peak_bytes}, not {peak_bytes}")
        ratio, budget_bytes = header.ratio, header.budget_bytes
        if ratio is not None and not _fits(ratio, peak_bytes, budget_bytes):
            message = f"the ratio is {ratio}, and the budget {budget_bytes} of {peak_bytes} bytes"
            yield Problem(at, "counts", message)
        if header.candidates != rows[0].header.candidates:
            message = f"keeps {header.candidates} candidates, and the first interval another number"
            yield Problem(at, "document", message)
        cost_ns = trace.baseline_cost_ns
        overhead = (cost_ns + end.remat_cost_ns) / cost_ns if cost_ns else None
        if overheads.get(end.interval_lo_bytes, overhead) != overhead:
            found = overheads[end.interval_lo_bytes]
            yield Problem(at, "counts", f"the overhead is {found} in the map, not {overhead}")


def _fits(ratio: float, peak_bytes: int | None, budget_bytes: int | None) -> bool:
    """Whether a budget is what a ratio of the peak stands for."""
    try:
        return budget_from_ratio(peak_bytes or 0, ratio) == budget_bytes
    except UsageError:
        return False


def _of_policy_file(saved: SavedMap, policy_sha256: str | None) -> Iterator[Problem]:
    named = saved.definition.get("policy_file_sha256")
    needed = named is not None or saved.definition["policy"] not in CHECKED_POLICIES
    if policy_sha256 is not None and needed and named != policy_sha256:
        message = f"made with the policy file of digest {named}, not with the one given"
        yield Problem(0, "document", message)


def recorded_overheads(path: str) -> dict[int, float | None]:
    """The overheads that a map in Parquet lists, by the lowest budget of the interval.

    They follow from other figures of the file, and `read_map`, which has to accept the file before,
    does without them. Of JSON `recorded_document` has them, and nothing is returned.
    """
    if not is_parquet(path):
        return {}
    arrow, parquet = map(importlib.import_module, ("pyarrow", "pyarrow.parquet"))
    names = ["interval_lo_bytes", "overhead"]
    held = arrow.BufferReader(read_bytes(path))
    table = parquet.read_table(held, columns=names, use_threads=False)
    return dict(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def _ends(end: End) -> list[int | None]:
    """The lowest and the highest budget of an interval; None: unlimited."""
    low = max(end.interval_lo_bytes, 1)
    high = None if end.interval_hi_bytes is None else end.interval_hi_bytes - 1
    return [low] if high == low else [low, high]


def _run_again(
    trace: Trace, row: Outcome, budget_bytes: int | None, scores: bool
) -> tuple[int, list[Problem]]:
    """Events of one run, and what is wrong with it or with the row."""
    header = row.header
    rules = RunConfig(
        header.policy,
        budget_bytes,
        dealloc=header.dealloc,
        overhead_limit=header.overhead_limit,
        seed=header.seed,
        semantics=header.semantics,
        interventions=parse_interventions(header.interventions),
    )
    checker = Checker(trace, scores=scores)
    hooks = Hooks()
    hooks.subscribe(checker.feed)
    end = simulate(trace, rules, hooks).end
    checker.finish()
    where = "unlimited" if budget_bytes is None else f"at {budget_bytes} bytes"
    problems = [
        attrs.evolve(found, message=f"event {found.seq} of the run {where}: {found.message}")
        for found in checker.problems
    ]
    for field in attrs.fields(End):
        if field.name not in ("seq", "extra"):
            found, mapped = getattr(end, field.name), getattr(row.end, field.name)
            if found != mapped:
                message = f"{field.name} is {mapped} in the map, and {found} in the run {where}"
                problems.append(Problem(0, _rule_of(field.name), message))
    return checker.events, problems


def _rule_of(field: str) -> str:
    if field.startswith("interval"):
        return "interval"
    return {"outcome": "end", "decisions_sha256": "digest"}.get(field, "counts")
