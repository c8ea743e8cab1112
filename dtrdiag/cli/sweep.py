"""``dtrdiag sweep``: how does the outcome depend on the budget?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import attrs
import typer
from rich.progress import Progress

from dtrdiag.analyses import run_document
from dtrdiag.cli.grid import Group, compute, default_jobs
from dtrdiag.cli.options import Json, Rules, takes_rules
from dtrdiag.cli.output import print_json, print_sentences, print_table, progress_console
from dtrdiag.cli.policyfile import policy_file_sha256
from dtrdiag.cli.sources import at_budget, at_ratio, load_trace
from dtrdiag.cli.store import Folder, Kept, definition, save_all
from dtrdiag.cli.values import parse_many, parse_ratio, parse_size
from dtrdiag.errors import UsageError
from dtrdiag.rendering.answers import sweep_tables, sweep_words
from dtrdiag.simulator import RunConfig
from dtrdiag.trace import Trace

SWEEP_SCHEMA = "dtrdiag.sweep/1"
MAX_JOBS = 256


@takes_rules
def sweep(
    traces: Annotated[list[str], typer.Argument(metavar="TRACE...", help="One or more traces.")],
    rules: Rules,
    policies: Annotated[
        list[str] | None,
        typer.Option("-p", "--policy", metavar="POLICY", help="Eviction policy (dtr); repeatable."),
    ] = None,
    ratios: Annotated[
        str | None,
        typer.Option(metavar="A:B:STEP", help="Ratios of the peak, B included; or X,Y,..."),
    ] = None,
    budgets: Annotated[
        str | None,
        typer.Option(metavar="X,Y,...", help="Budgets such as 500MB,1.5GiB; or A:B:STEP."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "-j", "--jobs", metavar="N", help="Processes (one a CPU).", show_default=False
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="DIR", help="Keep results here; use those kept."),
    ] = None,
    json: Json = False,
) -> None:
    """Simulate a grid of budgets, in parallel.

    No run is made twice: a result answers every budget of its interval, on which decisions are the
    same. With -o a sweep that was interrupted goes on where it stopped, and a finer one uses what a
    coarser one found.
    """
    budget_of = _grid(ratios, budgets)
    _check_jobs(jobs)
    named: list[str | None] = [*dict.fromkeys(policies or ())]
    configs = [rules.config(policy) for policy in named or [None]]
    folder = None if output is None else Folder(output)
    loaded = _distinct([load_trace(text) for text in dict.fromkeys(traces)])
    places = [(place, config) for place in range(len(loaded)) for config in configs]
    groups = [_group(place, loaded[place], config, budget_of) for place, config in places]
    _compute(loaded, groups, jobs, rules.policy_file, folder)
    runs = [run for group in groups for run in _documents(loaded[group.trace], group)]
    if json:
        print_json({"schema": SWEEP_SCHEMA, "runs": runs})
        return
    _print_runs(runs, sum(len(group.simulated) for group in groups), output)


def _check_jobs(jobs: int | None) -> None:
    if jobs is not None and not 1 <= jobs <= MAX_JOBS:
        raise UsageError(f"-j must be 1 to {MAX_JOBS} processes, not {jobs}")


def _print_runs(runs: list[dict[str, Any]], simulated: int, output: str | None) -> None:
    print_sentences(sweep_words(runs))
    for table in sweep_tables(runs):
        print_table(table)
    kept = "" if output is None else f" The results are kept in {output}."
    print_sentences(["", f"{simulated:,} of {len(runs):,} runs were simulated.{kept}"])


def _grid(ratios: str | None, budgets: str | None) -> Callable[[RunConfig, Trace], list[RunConfig]]:
    """The runs of one group, in the order of the grid."""
    if ratios is not None and budgets is not None:
        raise UsageError("give --ratios or --budgets, not both")
    if ratios is not None:
        wanted = parse_many(ratios, parse_ratio, "--ratios")
        return lambda rules, trace: [at_ratio(rules, trace, ratio) for ratio in wanted]
    if budgets is not None:
        sizes = parse_many(budgets, parse_size, "--budgets")
        return lambda rules, trace: [at_budget(rules, trace, size) for size in sizes]
    raise UsageError("a sweep needs --ratios A:B:STEP or --budgets X,Y,...")


def _distinct(traces: Sequence[Trace]) -> list[Trace]:
    return list({trace.sha256: trace for trace in reversed(traces)}.values())[::-1]


def _group(
    position: int,
    trace: Trace,
    config: RunConfig,
    budget_of: Callable[[RunConfig, Trace], list[RunConfig]],
) -> Group:
    runs = budget_of(config, trace)
    points = tuple((run.budget_bytes or 0, run.ratio) for run in runs)
    return Group(position, attrs.evolve(config, peak_bytes=runs[0].peak_bytes), points)


def _compute(
    traces: Sequence[Trace],
    groups: Sequence[Group],
    jobs: int | None,
    policy_file: str | None,
    folder: Folder | None,
) -> None:
    kept: list[tuple[Kept, Group]] = []
    if folder is not None:
        digest = policy_file_sha256(policy_file)
        for group in groups:
            trace = traces[group.trace]
            place = Kept(folder, trace, definition(trace, group.rules, digest))
            group.outcomes = folder.outcomes(trace, place.group)
            kept.append((place, group))
        folder.make()
    missing = sum(g.outcomes.find(budget) is None for g in groups for budget, _ in g.points)
    total = sum(len(group.points) for group in groups)
    jobs = min(jobs or default_jobs(missing), max(missing, 1))

    def save() -> None:
        save_all([(place, group.outcomes) for place, group in kept if group.simulated])

    with _progress(total) as advance:

        def tell(group: Group | None) -> None:
            advance()
            if group is not None and folder is not None and folder.due():
                save()

        try:
            compute(traces, groups, jobs, policy_file, tell)
        finally:
            save()


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    console = progress_console()
    if console is None:
        yield lambda: None
        return
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("runs", total=total)
        yield lambda: progress.advance(task)


def _documents(trace: Trace, group: Group) -> Iterator[dict[str, Any]]:
    for budget_bytes, ratio in group.points:
        outcome = group.outcomes.find(budget_bytes)
        if outcome is None:
            continue
        simulated = budget_bytes in group.simulated
        header = attrs.evolve(
            outcome.header,
            trace_name=trace.name,
            budget_bytes=budget_bytes,
            ratio=ratio,
            peak_bytes=group.rules.peak_bytes,
        )
        document = run_document(header, outcome.end, outcome.engine, outcome.simulate_seconds)
        yield document | {"reused_from": None if simulated else outcome.header.budget_bytes}
