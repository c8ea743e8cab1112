"""What does the page of one run say: how it ended and why, memory over time, what it cost?"""

from __future__ import annotations

from pathlib import PurePath

import attrs

from dtrdiag.analyses.chains import Chains, find_chains
from dtrdiag.analyses.frontier import Frontier, pinned_frontier
from dtrdiag.analyses.histories import storage_histories
from dtrdiag.analyses.onset import Spell
from dtrdiag.analyses.summary import INCOMPLETE, RunSummary, summarise, summary_document
from dtrdiag.analyses.timeline import Timeline, run_timeline
from dtrdiag.errors import AnalysisError, LogError
from dtrdiag.events.records import RunHeader
from dtrdiag.log.reader import LogReader
from dtrdiag.rendering.answers import contradiction_words, run_words
from dtrdiag.rendering.pages.chainparts import TOP, chain_sections
from dtrdiag.rendering.pages.frontierparts import (
    arithmetic_words,
    frontier_section,
    shown_storages,
)
from dtrdiag.rendering.pages.parts import Page, Section, Words
from dtrdiag.rendering.pages.runcommands import commands_section
from dtrdiag.rendering.pages.runfacts import OUTCOMES, run_facts
from dtrdiag.rendering.timelinecharts import timeline_charts
from dtrdiag.rendering.words import forbid_option, frontier_words, help_words
from dtrdiag.units import both_bytes, count, duration, plain_name, short_bytes


@attrs.frozen
class _Run:
    """What a page is made from; what cannot be said of a log is None, with a word on why."""

    log: LogReader
    summary: RunSummary
    timeline: Timeline | None
    chains: Chains | None
    frontier: Frontier | None
    refusals: tuple[str, ...]

    @property
    def header(self) -> RunHeader:
        return self.summary.header


def run_page(log: LogReader, made_by: str) -> Page:
    """The page of a run, from its log alone.

    The log is read once for each question: four times, and once more after an out-of-memory stop.
    Where a question does not suit the log, such as that of another runtime, the page says so and
    answers the others.

    Args:
        log: of the run; complete or not.
        made_by: the command line that makes the page, and the version of dtrdiag.

    Raises:
        LogError: the log cannot be read, or is none.
    """
    run = _asked(log)
    sections = [_timeline_section(run)]
    if run.frontier is not None:
        histories = storage_histories(log, shown_storages(run.frontier))
        sections.append(frontier_section(run.frontier, histories))
    if run.chains is not None:
        sections += chain_sections(run.chains)
    forbid = None if run.frontier is None else forbid_option(run.frontier)
    sections.append(commands_section(run.summary, PurePath(log.path).name, _moment(run), forbid))
    return Page(
        title=_title(run),
        answer=tuple(_answer(run)),
        facts=tuple(run_facts(run.summary)),
        sections=tuple(sections),
        made_by=made_by,
        warnings=(*contradiction_words(run.summary), *run.refusals),
    )


def _title(run: _Run) -> str:
    header = run.header
    budget = header.budget_bytes
    where = "no budget" if budget is None else short_bytes(budget)
    ended = OUTCOMES.get(run.summary.outcome, run.summary.outcome)
    name, policy = plain_name(header.trace_name), plain_name(header.policy)
    return f"{name} under {policy}, {where}: {plain_name(ended)}"


def _asked(log: LogReader) -> _Run:
    summary = summarise(log)
    refusals: list[str] = []
    timeline, chains, frontier = None, None, None
    try:
        timeline = run_timeline(log)
    except (AnalysisError, LogError) as error:
        refusals.append(_not_said("memory over time", error))
    try:
        chains = find_chains(log, TOP)
    except (AnalysisError, LogError) as error:
        refusals.append(_not_said("what was evicted again and again", error))
    if summary.outcome in ("oom", INCOMPLETE):
        try:
            frontier = pinned_frontier(log)
        except (AnalysisError, LogError) as error:
            if summary.outcome != INCOMPLETE:
                refusals.append(_not_said("why it is out of memory", error))
    return _Run(log, summary, timeline, chains, frontier, tuple(refusals))


def _not_said(what: str, error: AnalysisError | LogError) -> str:
    return f"Not said here is {what}: {plain_name(error.what, 200)}."


def _answer(run: _Run) -> list[str]:
    """How the run ended, and why."""
    sentences = [*run_words(summary_document(run.summary))]
    if run.summary.outcome == INCOMPLETE:
        sentences.append(f"The log {run.log.problem or 'is incomplete'}; so far it says:")
    if run.frontier is not None:
        return [
            *sentences,
            frontier_words(run.frontier)[0],
            arithmetic_words(run.frontier),
            " ".join(help_words(run.frontier)),
        ]
    return [*sentences, *_thrash_words(run.chains)]


def _thrash_words(chains: Chains | None) -> list[str]:
    if chains is None or not chains.onset.spells:
        return []
    onset, total = chains.onset, chains.cost.total
    main = onset.spells[0]
    budget = onset.most_touched_budget_bytes
    share = 100 * main.cost_ns / total.cost_ns if total.cost_ns else 0.0
    sentence = _place_words(main) + (f"{duration(main.cost_ns)}, {share:.0f} % of all recomputing")
    if budget is not None:
        sentence += (
            f": the largest working set of a step is {both_bytes(onset.most_touched_bytes)}, and "
            f"the budget {both_bytes(budget)}"
        )
    sentences = [sentence + "."]
    if chains.components:
        part = chains.components[0]
        names = ", ".join(plain_name(name) for name, _ in part.operators[:3])
        sentences.append(
            f"{count(part.storages, 'storage')} of {names} push each other out when they are "
            f"brought back: {count(part.times, 'eviction')} that cost {duration(part.cost_ns)} "
            "to undo."
        )
    return sentences


def _place_words(spell: Spell) -> str:
    first = f"step {spell.first_step:,} of the schedule ({plain_name(spell.first)})"
    if spell.stop_step == spell.first_step + 1:
        return f"It thrashes in {first}, which cost "
    last = f"step {spell.stop_step - 1:,} ({plain_name(spell.last)})"
    return f"It thrashes from {first} to {last}, where {count(spell.steps, 'step')} cost "


def _timeline_section(run: _Run) -> Section:
    heading = "Memory over time"
    found = run.timeline
    if found is None:
        return Section("timeline", heading, (Words(("The log does not say.",)),))
    words = (
        "The clock is the cost of all ops executed so far, so recomputing makes it go on. Charts "
        "lie under each other and are zoomed together."
    )
    if found.width == 1:
        words += " Every moment of the log is shown."
    else:
        words += (
            f" What happens within {found.width:,} ns is put together; nothing that is largest or "
            "least is lost by that."
        )
    spells = run.chains.onset.spells if run.chains is not None else ()
    charts = timeline_charts(found, run.frontier, spells)
    return Section("timeline", heading, (Words((words,)), *charts))


def _moment(run: _Run) -> int | None:
    """The event that is most worth looking at: the stop, or when memory was fullest."""
    if run.frontier is not None:
        return run.frontier.seq
    if run.timeline is None:
        return None
    return int(run.timeline.high_seq[int(run.timeline.high_bytes.argmax())])
