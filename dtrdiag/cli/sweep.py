"""``dtrdiag sweep``: how does the outcome depend on the budget?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import attrs
import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from dtrdiag.analyses import run_document
from dtrdiag.cli.activity import bar
from dtrdiag.cli.options import Json, Rules, takes_rules
from dtrdiag.cli.output import print_json, print_sentences, print_table
from dtrdiag.cli.request import Request, check_same, kept_request
from dtrdiag.cli.sources import at_budget, at_ratio, load_trace
from dtrdiag.cli.terminating import terminable
from dtrdiag.cli.values import parse_many, parse_ratio, parse_size
from dtrdiag.errors import ExecutorError, UsageError
from dtrdiag.experiments import sweeps
from dtrdiag.experiments.cluster import LOCAL, DaskWorkers, check_address
from dtrdiag.experiments.policyfile import PolicyFile
from dtrdiag.experiments.resultsfolder import ResultsFolder
from dtrdiag.rendering.answers import sweep_tables, sweep_words
from dtrdiag.simulator import RunConfig
from dtrdiag.trace import Trace

SWEEP_SCHEMA = "dtrdiag.sweep/1"
MAX_JOBS = 256


_Traces = Annotated[
    list[str] | None,
    typer.Argument(metavar="TRACE...", help="One or more traces.", show_default=False),
]
_Policies = Annotated[
    list[str] | None,
    typer.Option("-p", "--policy", metavar="POLICY", help="Eviction policy (dtr); repeatable."),
]
_Ratios = Annotated[
    str | None, typer.Option(metavar="A:B:STEP", help="Ratios of the peak, B included; or X,Y,...")
]
_Budgets = Annotated[
    str | None,
    typer.Option(metavar="X,Y,...", help="Budgets such as 500MB,1.5GiB; or A:B:STEP."),
]
_Jobs = Annotated[
    int | None,
    typer.Option("-j", "--jobs", metavar="N", help="Processes (one a CPU).", show_default=False),
]
_Dask = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS|local",
        help="Use a dask cluster; local: one of -j processes, started here.",
        show_default=False,
    ),
]
_Output = Annotated[
    str | None,
    typer.Option("-o", "--output", metavar="DIR", help="Keep results here; use those kept."),
]
_Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with the sweep that -o DIR was last used for.")
]


@takes_rules
def sweep(
    rules: Rules,
    traces: _Traces = None,
    policies: _Policies = None,
    ratios: _Ratios = None,
    budgets: _Budgets = None,
    jobs: _Jobs = None,
    dask: _Dask = None,
    output: _Output = None,
    resume: _Resume = False,
    json: Json = False,
) -> None:
    """Simulate a grid of budgets, in parallel.

    No run is made twice: a result answers every budget of its interval, on which decisions are the
    same. With -o a sweep that was interrupted goes on where it stopped, and a finer one uses what a
    coarser one found; --resume -o DIR needs no other argument.
    """
    _check_jobs(jobs, dask)
    if not resume:
        if not traces:
            raise UsageError("missing argument 'TRACE...'")
        _grid(ratios, budgets)
    named = [rules.config(policy).policy for policy in dict.fromkeys(policies or ())]
    if not resume and not named:
        named = [rules.config(None).policy]
    folder = None if output is None else ResultsFolder(output)
    given, loaded = _given(traces or [], named, ratios, budgets, rules)
    if resume:
        given, loaded = _resumed(given, loaded, folder)
    points = _points(given, loaded, rules.engine)
    runs = _runs(points, given, folder, jobs, dask)
    if json:
        print_json({"schema": SWEEP_SCHEMA, "runs": runs})
        return
    _print_runs(runs, output)


def _check_jobs(jobs: int | None, dask: str | None) -> None:
    if jobs is not None and not 1 <= jobs <= MAX_JOBS:
        raise UsageError(f"-j must be 1 to {MAX_JOBS} processes, not {jobs}")
    if jobs is not None and dask not in (None, LOCAL):
        raise UsageError("-j does not apply to a cluster that runs already (--dask ADDRESS)")
    if dask is not None:
        check_address(dask)


def _print_runs(runs: list[dict[str, Any]], output: str | None) -> None:
    print_sentences(sweep_words(runs))
    for table in sweep_tables(runs):
        print_table(table)
    simulated = sum(run["reused_from"] is None for run in runs)
    kept = "" if output is None else f" The results are kept in {output}."
    print_sentences(["", f"{simulated:,} of {len(runs):,} runs were simulated.{kept}"])


def _given(
    traces: Sequence[str],
    policies: list[str],
    ratios: str | None,
    budgets: str | None,
    rules: Rules,
) -> tuple[Request, list[Trace]]:
    """What the arguments ask for, and the traces that they name, each once."""
    found: dict[str, tuple[str, Trace]] = {}
    for text in dict.fromkeys(traces):
        trace = load_trace(text)
        found.setdefault(trace.sha256, (text, trace))
    file = _policy_file(rules.policy_file)
    request = Request(
        traces=[text for text, _ in found.values()],
        trace_sha256=list(found),
        policies=policies,
        ratios=ratios,
        budgets=budgets,
        dealloc=rules.dealloc,
        overhead_limit=rules.overhead_limit,
        seed=rules.seed,
        policy_file=rules.policy_file,
        policy_file_sha256=None if file is None else file.sha256,
        semantics=rules.semantics,
        repair=rules.repair,
    )
    return request, [trace for _, trace in found.values()]


def _resumed(
    given: Request, loaded: list[Trace], folder: ResultsFolder | None
) -> tuple[Request, list[Trace]]:
    """The sweep that a folder was last used for, if what is given agrees with it."""
    kept = kept_request(folder)
    check_same(given, kept, str(folder.path) if folder is not None else "")
    if given.policy_file is not None:
        kept = attrs.evolve(kept, policy_file=given.policy_file)
    loaded = loaded or [load_trace(text) for text in kept.traces]
    file = _policy_file(kept.policy_file)
    kept.check(loaded, None if file is None else file.sha256)
    return kept, loaded


def _policy_file(path: str | None) -> PolicyFile | None:
    return None if path is None else PolicyFile.read(path)


def _points(
    request: Request, traces: Sequence[Trace], engine: str | None
) -> list[tuple[Trace, RunConfig]]:
    """The runs of the grid: for each trace, then policy, the budgets in the order given."""
    at_budgets = _grid(request.ratios, request.budgets)
    rules = request.rules(engine)
    configs = [rules.config(policy) for policy in request.policies]
    return [
        (trace, run) for trace in traces for config in configs for run in at_budgets(config, trace)
    ]


def _grid(ratios: str | None, budgets: str | None) -> Callable[[RunConfig, Trace], list[RunConfig]]:
    if ratios is not None and budgets is not None:
        raise UsageError("give --ratios or --budgets, not both")
    if ratios is not None:
        wanted = parse_many(ratios, parse_ratio, "--ratios")
        return lambda rules, trace: [at_ratio(rules, trace, ratio) for ratio in wanted]
    if budgets is not None:
        sizes = parse_many(budgets, parse_size, "--budgets")
        return lambda rules, trace: [at_budget(rules, trace, size) for size in sizes]
    raise UsageError("a sweep needs --ratios A:B:STEP or --budgets X,Y,...: --ratios 0.4:0.9:0.1")


def _runs(
    points: list[tuple[Trace, RunConfig]],
    request: Request,
    folder: ResultsFolder | None,
    jobs: int | None,
    dask: str | None,
) -> list[dict[str, Any]]:
    try:
        with terminable(), _progress(len(points)) as advance:
            results = sweeps.sweep(
                points,
                executor=None if dask is None else lambda: DaskWorkers(dask, jobs),
                jobs=jobs,
                folder=folder,
                policy_file=_policy_file(request.policy_file),
                request=request.document(),
                tell=advance,
            )
    except ExecutorError as error:
        if folder is None:
            raise
        raise ExecutorError(f"{error.what}; --resume goes on from there") from error
    return [
        run_document(run.header, run.end, run.engine, run.simulate_seconds)
        | {"reused_from": run.reused_from}
        for run in results
    ]


class _Rate(ProgressColumn):
    """Runs a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.1f} runs/s", style="progress.data.speed")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    columns = (
        TextColumn("runs"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with bar(*columns) as progress:
        if progress is None:
            yield lambda: None
            return
        task = progress.add_task("runs", total=total)
        yield lambda: progress.advance(task)
