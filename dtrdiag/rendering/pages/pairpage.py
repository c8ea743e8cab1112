"""What does the page of two runs say: where they part and why, and what came of it?"""

from __future__ import annotations

from dtrdiag.analyses.diff import RunDiff, diff_runs
from dtrdiag.analyses.frontier import Frontier, pinned_frontier
from dtrdiag.analyses.summary import RunSummary
from dtrdiag.analyses.timeline import STEP, run_timeline
from dtrdiag.errors import AnalysisError, LogError
from dtrdiag.log.reader import LogReader
from dtrdiag.rendering.answers import contradiction_words
from dtrdiag.rendering.commands import changed, run_command
from dtrdiag.rendering.diffs import (
    re_evicted_table,
    re_evicted_words,
    trajectory_table,
    trajectory_words,
)
from dtrdiag.rendering.pages.fromrich import page_table
from dtrdiag.rendering.pages.paircharts import pair_charts
from dtrdiag.rendering.pages.pairparting import parting_section
from dtrdiag.rendering.pages.parts import Column, Commands, Page, Part, Section, Table, Words
from dtrdiag.rendering.pages.runfacts import run_facts
from dtrdiag.rendering.tables import operators_table, sets_table
from dtrdiag.rendering.words import diff_words
from dtrdiag.units import NOT_KNOWN, count, plain_name

TOP = 25
"""Storages and operators that are listed at most."""
BUCKETS = 2048


def pair_page(a: LogReader, b: LogReader, made_by: str, found: RunDiff | None = None) -> Page:
    """The page of two runs of one trace, from their logs alone.

    Each log is read for the diff, for its timeline, and once more after an out-of-memory stop.

    Args:
        a: the first run; complete or not.
        b: the second.
        made_by: see `Page`.
        found: `diff_runs` of the two, if that is known already.

    Raises:
        AnalysisError: the runs are of different traces.
        LogError: a log cannot be read, or is none.
    """
    found = diff_runs(a, b) if found is None else found
    sections = [] if found.divergence is None else [parting_section(found, found.divergence)]
    sections.append(_course_section(a, b, found))
    if found.divergence is not None:
        sections.append(_after_section(found))
    sections += [_evicted_section(found), _cost_section(found), _runs_section(found)]
    commands = _commands(found)
    if commands is not None:
        sections.append(Section("again", "To go on from here", (commands,)))
    sides = ((found.a, "the log of a"), (found.b, "the log of b"))
    warnings = [words for side, name in sides for words in contradiction_words(side, name)]
    return Page(
        _title(found), _answer(found), _facts(found), tuple(sections), made_by, tuple(warnings)
    )


def _title(found: RunDiff) -> str:
    a, b = found.a.header, found.b.header
    trace = plain_name(a.trace_name)
    if a.policy != b.policy:
        return f"{trace}: {plain_name(a.policy)} beside {plain_name(b.policy)}"
    between = " at two budgets" if a.budget_bytes != b.budget_bytes else ", twice"
    return f"{trace} under {plain_name(a.policy)}{between}"


def _answer(found: RunDiff) -> tuple[str, ...]:
    words = diff_words(found)
    if found.divergence is None:
        return tuple(words)
    # After the two runs come three sentences on where they part, then one on their overheads.
    factor = words[4:5] if found.overhead_factor is not None else []
    return (words[0], f"{words[1]} {words[2]}", *factor)


def _facts(found: RunDiff) -> tuple[tuple[str, str], ...]:
    facts = [("equal decisions before they part", f"{found.common_prefix:,}")]
    if found.trajectory is not None:
        place = found.trajectory.alignment.place(found.trajectory.alignment.parted)
        share = "" if place.fraction is None else f", {100 * place.fraction:.1f} % of the schedule"
        facts.append(("they part in", f"step {place.step:,}{share}"))
    if found.overhead_factor is not None:
        factor = f"{found.overhead_factor:.4f}"
        words = {"exact": factor, "lower_bound": f"at least {factor}"}
        facts.append(
            (
                "larger overhead over smaller",
                words.get(str(found.overhead_factor_is), f"{factor} so far"),
            )
        )
    pressure = found.sets.by_cause["pressure"]
    facts.append(
        (
            "storages evicted to make room",
            f"{pressure.a:,} in a, {pressure.b:,} in b, {pressure.intersection:,} of them in both",
        )
    )
    return tuple(facts)


def _course_section(a: LogReader, b: LogReader, found: RunDiff) -> Section:
    heading = "Side by side along the schedule"
    try:
        timelines = [run_timeline(log, STEP, BUCKETS) for log in (a, b)]
    except (AnalysisError, LogError) as error:
        return Section("course", heading, (Words((f"{plain_name(error.what, 200)}.",)),))
    if not all(map(len, timelines)):
        return Section("course", heading, (Words(("One of the logs has no event in it.",)),))
    frontiers = [_stop(log, run) for log, run in ((a, found.a), (b, found.b))]
    words = (
        "Both runs carry out the same schedule, so they lie side by side by its steps, and not by "
        "time, which recomputing stretches. The charts are zoomed together and have one cursor."
    )
    width = max(timeline.width for timeline in timelines)
    if width > 1:
        words += (
            f" {count(width, 'step')} are put together to a bucket of memory, which keeps its "
            "extremes."
        )
    return Section("course", heading, (Words((words,)), *pair_charts(found, timelines, frontiers)))


def _stop(log: LogReader, run: RunSummary) -> Frontier | None:
    if run.outcome != "oom":
        return None
    try:
        return pinned_frontier(log)
    except (AnalysisError, LogError):
        # A log of another runtime may not say what a frontier is made from.
        return None


def _after_section(found: RunDiff) -> Section:
    parts: list[Part] = [Words(tuple(trajectory_words(found)))]
    if found.trajectory is not None and found.trajectory.last is not None:
        note = (
            "Jaccard: storages resident in both runs as a share of those in either. The rows with "
            "a share of b - a: from that step on, so much of the extra cost has accrued for good."
        )
        parts.append(page_table(trajectory_table(found.trajectory), note=note))
    return Section("after", "After they have parted", tuple(parts))


def _evicted_section(found: RunDiff) -> Section:
    note = (
        "Distinct storages, each counted once however often it was evicted. Pressure: to make "
        "room. Release: freed since nothing refers to it any more, which is alike in most runs."
    )
    parts: list[Part] = [page_table(sets_table(found.sets), note=note)]
    if found.re_evicted is not None:
        parts.append(Words(tuple(re_evicted_words(found.re_evicted)), "Evicted again and again"))
        if found.re_evicted.one_sided:
            parts.append(page_table(re_evicted_table(found.re_evicted, TOP)))
    return Section("evicted", "What was evicted", tuple(parts))


def _cost_section(found: RunDiff) -> Section:
    table = page_table(operators_table(found, TOP))
    return Section("cost", "Where the cost came from", (table,))


def _runs_section(found: RunDiff) -> Section:
    a, b = dict(run_facts(found.a)), dict(run_facts(found.b))
    rows = [(name, a.get(name, NOT_KNOWN), b.get(name, NOT_KNOWN)) for name in {**a, **b}]
    columns = (Column(""), Column("a"), Column("b"))
    return Section("runs", "The two runs", (Table("Facts of each run", columns, rows),))


def _commands(found: RunDiff) -> Commands | None:
    """Command lines that look closer, where `dtrdiag` can make the runs again."""
    lines = []
    for run in (found.a, found.b):
        if run.header.runtime != "dtrdiag" or run.header.budget_bytes is None:
            return None
        if changed(run.header):
            return None
    a, b = found.a.header, found.b.header
    if run_command(a) == run_command(b) and a.budget_bytes != b.budget_bytes:
        lines.append(run_command(a, a.budget_bytes or 0, b.budget_bytes or 0, verb="diff"))
    divergence = found.divergence
    if divergence is not None:
        for run, decision in ((found.a, divergence.a), (found.b, divergence.b)):
            if decision.kind == "evict" and decision.cause == "pressure":
                command = run_command(run.header, run.header.budget_bytes or 0, verb="whatif")
                lines.append(f"{command} --forbid @{divergence.index}")
    for run in (found.a, found.b):
        lines.append(run_command(run.header, run.header.budget_bytes or 0, verb="chains"))
    words = (
        "The same comparison in a terminal; what would have come of another victim where they "
        "part; what was evicted again and again. A trace from a file is named by its file."
    )
    return Commands(words, tuple(dict.fromkeys(lines)))
