"""What does a page on maps of budgets say: which budgets finish, which do not, and at what cost?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dtrdiag.analyses.budget_map import OK, OOM, THRASHED, BudgetMap, summarise_map
from dtrdiag.analyses.instability import measure_instability
from dtrdiag.errors import UsageError
from dtrdiag.rendering.commands import rules_words
from dtrdiag.rendering.mapcharts import step_chart
from dtrdiag.rendering.maprows import largest_overhead, map_rows, row_columns
from dtrdiag.rendering.pages.maptables import (
    Mapped,
    cliff_overheads,
    cliff_parts,
    command_parts,
    gap_table,
    inversion_parts,
    measures_table,
    percent,
    sliver_parts,
)
from dtrdiag.rendering.pages.parts import Chart, Page, Section, Words
from dtrdiag.rendering.stripcharts import strip_chart
from dtrdiag.units import both_bytes, changes_words, count, exact_bytes, plain_name

WITHIN = 0.001
"""How close the two budgets of a cliff are, as a share of the peak."""
PAGE_ROWS = 30_000
"""Rows of the charts of a page, of all its maps together."""


def map_page(maps: Sequence[BudgetMap], made_by: str, within_bytes: int | None = None) -> Page:
    """A page on one map, or on several of one trace, side by side on one axis.

    Args:
        maps: one or more, of one trace; they may differ in policy, rules and range.
        made_by: see `Page`.
        within_bytes: how close the two budgets of a cliff are, at most; None: `WITHIN` of the
            peak, or of the highest budget of a trace without one.

    Raises:
        UsageError: there is no map, or they are of different traces.
    """
    if not maps:
        raise UsageError("a page on maps needs a map")
    traces = {known.header.trace_sha256 or known.header.trace_name: known for known in maps}
    if len(traces) > 1:
        names = " and ".join(plain_name(each.header.trace_name) for each in traces.values())
        raise UsageError(f"maps of different traces have no axis in common: {names}")
    peak_bytes = maps[0].header.peak_bytes
    if within_bytes is None:
        base = peak_bytes or max(known.to_bytes for known in maps)
        within_bytes = max(1, int(base * WITHIN))
    mapped = [
        Mapped(
            name,
            known,
            summarise_map(known, within_bytes),
            measure_instability(known, within_bytes),
            map_rows(known, PAGE_ROWS // len(maps)),
        )
        for name, known in zip(_names(maps), maps, strict=True)
    ]
    trace = plain_name(maps[0].header.trace_name)
    policies = " and ".join(dict.fromkeys(plain_name(known.header.policy) for known in maps))
    return Page(
        title=f"{trace} under {policies}, at every budget of a range",
        answer=_answer(mapped),
        facts=_facts(mapped),
        sections=_sections(mapped),
        made_by=made_by,
    )


def _names(maps: Sequence[BudgetMap]) -> list[str]:
    """A name for each map, as short as tells them apart."""
    policies = [plain_name(known.header.policy) for known in maps]
    full = [
        policy + rules_words(known.header) + changes_words(None, known.header.interventions)
        for policy, known in zip(policies, maps, strict=True)
    ]
    names = policies if len(set(policies)) == len(maps) else full
    seen = Counter(names)
    return [f"{name} ({at})" if seen[name] > 1 else name for at, name in enumerate(names, start=1)]


def _sections(mapped: Sequence[Mapped]) -> tuple[Section, ...]:
    sections = [Section("budgets", "Every budget", tuple(_charts(mapped)))]
    cliffs = cliff_parts(mapped)
    inversions = [part for each in mapped for part in inversion_parts(each, len(mapped) > 1)]
    sections.append(
        Section("inversions", "More memory, and it fails", tuple(inversions) or (_NO_INVERSION,))
    )
    if cliffs:
        sections.append(Section("cliffs", "Cliffs", cliffs))
    sections.append(Section("measures", "How unstable it is", (measures_table(mapped),)))
    sections.append(
        Section(
            "slivers",
            "The narrowest intervals",
            tuple(part for each in mapped for part in sliver_parts(each)),
        )
    )
    gaps = tuple(gap_table(each) for each in mapped if not each.known.complete)
    if gaps:
        sections.append(Section("gaps", "What was not looked at", gaps))
    sections.append(Section("again", "The same again", command_parts(mapped)))
    return tuple(sections)


_NO_INVERSION = Words(
    ("No budget that is known to run out of memory lies above one that finishes.",)
)


def _charts(mapped: Sequence[Mapped]) -> list[Chart]:
    low = min(each.known.from_bytes for each in mapped)
    after = max(each.known.to_bytes for each in mapped) + 1
    top = largest_overhead([each.known for each in mapped])
    charts = []
    if len(mapped) > 1:
        charts.append(
            strip_chart(
                [each.name for each in mapped],
                [each.summary.segments for each in mapped],
                domain=(low, after),
                peak_bytes=mapped[0].known.header.peak_bytes,
            )
        )
    columns = [row_columns(each.rows, each.known.to_bytes) for each in mapped]
    for log, scale in ((False, "linear"), (True, "logarithmic")):
        for at, each in enumerate(mapped):
            charts.append(
                step_chart(
                    f"steps-{scale}" + (f"-{at + 1}" if len(mapped) > 1 else ""),
                    f"{each.name}: outcome and overhead, {scale}",
                    each.known,
                    columns[at],
                    summary=each.summary,
                    domain=(low, after),
                    top=top,
                    log=log,
                )
            )
    return charts


def _answer(mapped: Sequence[Mapped]) -> tuple[str, ...]:
    return tuple(_answer_words(each, len(mapped) > 1) for each in mapped)


def _answer_words(each: Mapped, several: bool) -> str:
    known, measures = each.known, each.measures
    low, high = (_place(known, at) for at in (known.from_bytes, known.to_bytes))
    ends = ((OK, "finish"), (OOM, "run out of memory"), (THRASHED, "are stopped by the limit"))
    shares = [
        f"{percent(measures.share(measures.outcome_bytes[outcome]))} {end}"
        for outcome, end in ends
        if measures.outcome_bytes[outcome]
    ]
    of = f"Under {each.name}, of" if several else "Of"
    looked = "" if known.complete else " looked at"
    text = f"{of} the budgets{looked} from {low} to {high}, {_listed(shares)}."
    if measures.inversions:
        stretches = count(measures.inversions, "stretch", "stretches")
        text += (
            f" In {stretches}, {both_bytes(measures.inversion_bytes)} in all, the run is out of "
            "memory although less memory is enough."
        )
    elif measures.outcome_bytes[OK]:
        text += " Nowhere in it does more memory make a run fail that finishes with less."
    if measures.worst_cliff is not None:
        cliff = measures.worst_cliff
        least = "at least " if cliff.censored else ""
        low, high = cliff_overheads(cliff)
        apart = exact_bytes(cliff.high_bytes - cliff.low_bytes)
        text += (
            f" The worst cliff within {exact_bytes(measures.within_bytes)}: the overhead is {low} "
            f"at {exact_bytes(cliff.low_bytes)} and {high} at {exact_bytes(cliff.high_bytes)}, "
            f"{apart} more: a factor of {least}{cliff.factor:.2f}."
        )
    if not known.complete:
        unknown = measures.range_bytes - measures.known_bytes
        text += f" Of {percent(unknown / measures.range_bytes)} of the range nothing is known."
    return text


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _facts(mapped: Sequence[Mapped]) -> tuple[tuple[str, str], ...]:
    header = mapped[0].known.header
    facts = [("trace", plain_name(header.trace_name, 80))]
    if header.trace_ops is not None:
        facts.append(("size", count(header.trace_ops, "op")))
    if header.peak_bytes:
        facts.append(("peak, where ratios are 1", both_bytes(header.peak_bytes)))
    for each in mapped:
        head = each.known.header
        rules = f"{head.policy}{rules_words(head)}{changes_words(None, head.interventions)}"
        intervals = f"{sum(each.summary.runs.values()):,}"
        if len(mapped) == 1:
            facts.append(("policy and rules", plain_name(rules, 160)))
            facts.append(("intervals of equal decisions", intervals))
        else:
            facts.append((plain_name(rules, 160), f"{intervals} intervals of equal decisions"))
    return tuple(facts)


def _place(known: BudgetMap, budget_bytes: int) -> str:
    peak = known.header.peak_bytes
    ratio = f" ({budget_bytes / peak:.6g} of the peak)" if peak else ""
    return f"{exact_bytes(budget_bytes)}{ratio}"
