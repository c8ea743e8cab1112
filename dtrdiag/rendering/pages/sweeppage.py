"""What does a page on a sweep say: what each policy does at each budget of a grid?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import attrs

from dtrdiag.analyses.budget_map import OK, OOM, THRASHED
from dtrdiag.errors import UsageError
from dtrdiag.events.records import End, RunHeader
from dtrdiag.rendering.commands import changed, rules_words, run_command
from dtrdiag.rendering.mapcharts import x_axis
from dtrdiag.rendering.maprows import WORDS
from dtrdiag.rendering.pages.parts import RIGHT, Chart, Column, Commands, Page, Reading, Section
from dtrdiag.rendering.pages.parts import Table as PageTable
from dtrdiag.units import NOT_KNOWN, changes_words, count, plain_name

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#8c8c8c")
"""Of policies, of Okabe and Ito; lines differ in their dashes as well."""
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
_SHAPES = {OK: "circle", THRASHED: "triangle-up", OOM: "cross"}


class KeptRun(Protocol):
    """A run that a sweep keeps."""

    @property
    def header(self) -> RunHeader:
        """The first event of its log."""

    @property
    def end(self) -> End:
        """The last event of its log."""


@attrs.frozen
class _Series:
    """The runs of one policy on one trace, by budget in bytes, ascending."""

    name: str
    runs: dict[int, KeptRun]

    @property
    def header(self) -> RunHeader:
        return next(iter(self.runs.values())).header

    def at(self, budget_bytes: int) -> KeptRun | None:
        """The run at a budget, or one whose interval holds it; None: none is kept."""
        run = self.runs.get(budget_bytes)
        if run is not None:
            return run
        return next((each for each in self.runs.values() if _holds(each, budget_bytes)), None)

    def above(self) -> list[int]:
        """Budgets that run out of memory above one that finishes."""
        least = min((at for at, run in self.runs.items() if run.end.outcome == OK), default=None)
        failed = [at for at, run in self.runs.items() if run.end.outcome == OOM]
        return [] if least is None else [at for at in failed if at > least]


def _holds(run: KeptRun, budget_bytes: int) -> bool:
    low, high = run.end.interval_lo_bytes, run.end.interval_hi_bytes
    return low <= budget_bytes and (high is None or budget_bytes < high)


def sweep_page(kept: Sequence[Sequence[KeptRun]], made_by: str) -> Page:
    """A page on the runs that a sweep's folder keeps.

    Args:
        kept: the runs of each definition, that is of one trace, policy and rules.
        made_by: see `Page`.

    Raises:
        UsageError: no run with a budget is kept.
    """
    traces: dict[str, list[Sequence[KeptRun]]] = {}
    for runs in kept:
        budgeted = [run for run in runs if run.header.budget_bytes is not None]
        if budgeted:
            header = budgeted[0].header
            name = header.trace_sha256 or header.trace_name
            traces.setdefault(name, []).append(budgeted)
    if not traces:
        raise UsageError("no run with a budget is kept here: there is nothing to show")
    series = {trace: _named(sets) for trace, sets in sorted(traces.items(), key=_trace_name)}
    sections = [
        section
        for at, mine in enumerate(series.values(), start=1)
        for section in _sections(at, mine)
    ]
    names = [plain_name(mine[0].header.trace_name) for mine in series.values()]
    return Page(
        title=f"A sweep of {_shortly(names)}",
        answer=_answer(list(series.values())),
        facts=_facts(list(series.values())),
        sections=tuple(sections),
        made_by=made_by,
    )


def _trace_name(item: tuple[str, list[Sequence[KeptRun]]]) -> tuple[str, str]:
    return item[1][0][0].header.trace_name, item[0]


def _shortly(names: Sequence[str]) -> str:
    if len(names) <= 3:
        return ", ".join(names)
    return f"{', '.join(names[:3])} and {len(names) - 3:,} more traces"


def _named(sets: Sequence[Sequence[KeptRun]]) -> list[_Series]:
    policies = Counter(runs[0].header.policy for runs in sets)
    found: list[_Series] = []
    taken: Counter[str] = Counter()
    for runs in sorted(sets, key=lambda runs: runs[0].header.policy):
        header = runs[0].header
        name = plain_name(header.policy)
        if policies[header.policy] > 1:
            name += rules_words(header) + changes_words(None, header.interventions)
        taken[name] += 1
        if taken[name] > 1:
            name += f" ({taken[name]})"
        by_budget = {run.header.budget_bytes or 0: run for run in runs}
        found.append(_Series(name, dict(sorted(by_budget.items()))))
    return found


def _answer(traces: Sequence[Sequence[_Series]]) -> tuple[str, ...]:
    every = [run.end.outcome for mine in traces for each in mine for run in each.runs.values()]
    outcomes = Counter(every)
    ends = (
        (OK, "finishes", "finish"),
        (OOM, "runs out of memory", "run out of memory"),
        (THRASHED, "is stopped by the limit", "are stopped by the limit"),
    )
    said = [
        f"{outcomes[outcome]:,} {one if outcomes[outcome] == 1 else many}"
        for outcome, one, many in ends
        if outcomes[outcome]
    ]
    answer = [f"Of {count(len(every), 'run')}, {', '.join(said)}."]
    inverted = [
        f"{plain_name(each.header.trace_name)} under {each.name} at {count(len(above), 'budget')}"
        for mine in traces
        for each in mine
        if (above := each.above())
    ]
    if inverted:
        shown = "; ".join(inverted[:6]) + (f"; {len(inverted) - 6:,} more" if inverted[6:] else "")
        answer.append(f"Out of memory although a smaller budget of the grid finishes: {shown}.")
    else:
        answer.append("Nowhere on the grid does a budget fail above one that finishes.")
    return tuple(answer)


def _facts(traces: Sequence[Sequence[_Series]]) -> tuple[tuple[str, str], ...]:
    names = dict.fromkeys(each.name for mine in traces for each in mine)
    return (
        ("traces", f"{len(traces):,}"),
        ("policies", plain_name(", ".join(names), 200)),
        ("runs", f"{sum(len(each.runs) for mine in traces for each in mine):,}"),
    )


def _sections(at: int, mine: Sequence[_Series]) -> tuple[Section, ...]:
    name = plain_name(mine[0].header.trace_name)
    budgets = sorted({budget for each in mine for budget in each.runs})
    parts = (_chart(at, mine, budgets), _grid(name, mine, budgets), _between(mine, budgets))
    return (Section(f"trace-{at}", name, parts),)


def _chart(at: int, mine: Sequence[_Series], budgets: Sequence[int]) -> Chart:
    points = [
        (budget, each.name, WORDS[run.end.outcome], _overhead(run))
        for each in mine
        for budget, run in each.runs.items()
    ]
    most = max([1.1, *(cost for *_, cost in points if cost is not None)])
    names = [each.name for each in mine]
    kinds = [outcome for outcome in _SHAPES if any(p[2] == WORDS[outcome] for p in points)]
    more = dict(
        zip(("left", "policy", "outcome", "overhead"), zip(*points, strict=True), strict=True)
    )
    columns: dict[str, list[Any]] = {"budget": list(budgets)}
    readings = [Reading("budget", "budget", template="{budget:,} B")]
    for which, each in enumerate(mine):
        columns[f"policy{which}"] = [_cell(each.at(budget)) for budget in budgets]
        readings.append(Reading(f"policy{which}", each.name))
    first = run_command(mine[0].header, "{budget}")
    readings.append(Reading("budget", f"the run under {names[0]}", code=True, template=first))
    margin = max(1, (budgets[-1] - budgets[0]) // 50)
    return Chart(
        id=f"overheads-{at}",
        heading="Overhead by budget",
        words="A point for each run, a line for each policy. Circles finish, triangles were "
        "stopped by the overhead limit there, crosses at the upper edge ran out of memory.",
        spec=_spec(mine[0].header.peak_bytes, names, kinds, most),
        columns=columns,
        x="budget",
        readings=tuple(readings),
        domain=(budgets[0] - margin, budgets[-1] + margin),
        more={"points": more},
    )


def _spec(
    peak_bytes: int | None, names: Sequence[str], kinds: Sequence[str], most: float
) -> dict[str, Any]:
    top = most**1.08
    scale = {"type": "log", "domain": [1, top], "nice": False}
    y = {"field": "height", "type": "quantitative", "scale": scale}
    colours = [COLOURS[at % len(COLOURS)] for at, _ in enumerate(names)]
    dashes = [_DASHES[at % len(_DASHES)] for at, _ in enumerate(names)]
    policy = {"field": "policy", "type": "nominal", "title": None}
    return {
        "height": 260,
        "layer": [
            _lines(policy, dashes, names),
            _points(kinds, top),
        ],
        "encoding": {
            "x": x_axis(peak_bytes),
            "y": y
            | {"axis": {"title": "overhead (x baseline cost)", "tickCount": 6, "format": "~g"}},
            "color": policy | {"scale": {"domain": list(names), "range": colours}},
        },
    }


def _lines(
    policy: dict[str, Any], dashes: Sequence[Sequence[int]], names: Sequence[str]
) -> dict[str, Any]:
    finished = [{"filter": f"datum.outcome === '{WORDS[OK]}'"}]
    return {
        "data": {"name": "points"},
        "transform": [*finished, {"calculate": "datum.overhead", "as": "height"}],
        "mark": {"type": "line", "strokeWidth": 1.5},
        "encoding": {"strokeDash": policy | {"scale": {"domain": list(names), "range": dashes}}},
    }


def _points(kinds: Sequence[str], top: float) -> dict[str, Any]:
    return {
        "data": {"name": "points"},
        "transform": [
            {
                "calculate": f"isValid(datum.overhead) ? datum.overhead : {top}",
                "as": "height",
            }
        ],
        "mark": {"type": "point", "filled": True, "size": 45, "clip": False},
        "encoding": {
            "shape": {
                "field": "outcome",
                "type": "nominal",
                "title": None,
                "scale": {
                    "domain": [WORDS[kind] for kind in kinds],
                    "range": [_SHAPES[kind] for kind in kinds],
                },
            }
        },
    }


def _overhead(run: KeptRun) -> float | None:
    baseline_ns = run.header.baseline_cost_ns
    if run.end.outcome == OOM or not baseline_ns:
        return None
    return (baseline_ns + run.end.remat_cost_ns) / baseline_ns


def _cell(run: KeptRun | None) -> str:
    """What became of a run, in a word or a figure."""
    if run is None:
        return NOT_KNOWN
    cost = _overhead(run)
    if cost is None:
        return WORDS[run.end.outcome]
    return f"stopped, >{cost:.4f}x" if run.end.outcome == THRASHED else f"{cost:.4f}x"


def _grid(name: str, mine: Sequence[_Series], budgets: Sequence[int]) -> PageTable:
    peak_bytes = mine[0].header.peak_bytes
    rows = [
        (
            f"{budget:,}",
            f"{budget / peak_bytes:.6g}" if peak_bytes else NOT_KNOWN,
            *(_cell(each.at(budget)) for each in mine),
        )
        for budget in budgets
    ]
    heads = [Column("budget (B)", RIGHT), Column("of the peak", RIGHT)]
    return PageTable(
        f"{name}: overhead where the run finishes, or how it ended",
        (*heads, *(Column(each.name, RIGHT) for each in mine)),
        rows,
    )


def _between(mine: Sequence[_Series], budgets: Sequence[int]) -> Commands:
    lines = [
        f"{run_command(each.header, verb='map')} --from {budgets[0]}B --to {budgets[-1]}B"
        for each in mine
        if not changed(each.header)
    ]
    return Commands(
        "A grid says nothing of what lies between its points; a map does:", tuple(lines)
    )
