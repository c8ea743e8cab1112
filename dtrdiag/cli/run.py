"""``dtrdiag run``: how does one run end, and what does it cost?"""

from __future__ import annotations

from typing import Annotated, Any

import attrs
import typer

from dtrdiag.analyses import run_document
from dtrdiag.cli.activity import doing
from dtrdiag.cli.options import (
    Budget,
    Force,
    Json,
    Policy,
    Ratio,
    Rules,
    TraceArgument,
    takes_rules,
)
from dtrdiag.cli.output import check_outputs, print_json, print_sentences, print_table
from dtrdiag.cli.sources import RunOptions, load_trace, record
from dtrdiag.errors import UsageError
from dtrdiag.instrumentation import check_log_name
from dtrdiag.rendering.answers import next_words, run_words
from dtrdiag.rendering.tables import run_table
from dtrdiag.simulator import RunConfig, RunResult, simulate
from dtrdiag.trace import Trace
from dtrdiag.units import plain_name


@takes_rules
def run(
    trace: TraceArgument,
    rules: Rules,
    policy: Policy = None,
    ratio: Ratio = None,
    budget: Budget = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="LOG",
            help="Write the event log: .jsonl, also .gz or .zst; or .parquet.",
        ),
    ] = None,
    candidates: Annotated[
        int,
        typer.Option(metavar="K", help="List the K best losers of each eviction in the log."),
    ] = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Simulate one run of a trace at a budget.

    Without a budget the run is unlimited. The log keeps every decision with its cause; `oom`,
    `diff`, `replay` and `graph` read it.
    """
    options = RunOptions(policy, ratio, budget, rules)
    options.check()
    _check_log(output, candidates, force, trace)
    loaded = load_trace(trace)
    config = attrs.evolve(options.config(loaded), candidates=candidates)
    document = _document(_simulate(loaded, config, output, force))
    if json:
        print_json(document if output is None else document | {"log": output})
        return
    print_sentences(run_words(document))
    print_table(run_table(document))
    written = [] if output is None else [f"The log is in {output}."]
    said = [*written, *next_words(document, output)]
    if said:
        print_sentences(["", *said])


def _check_log(output: str | None, candidates: int, force: bool, trace: str) -> None:
    if candidates < 0:
        raise UsageError(f"--candidates must not be negative, not {candidates}")
    if output is None:
        if candidates:
            raise UsageError("--candidates shows in a log alone: add -o LOG")
        return
    check_log_name(output)
    check_outputs([output], force, inputs=[trace])


def _simulate(trace: Trace, config: RunConfig, output: str | None, force: bool) -> RunResult:
    if output is None:
        doing(f"simulating {plain_name(trace.name)} under {plain_name(config.policy)}")
        return simulate(trace, config)
    return record(trace, config, output, force)


def _document(result: RunResult) -> dict[str, Any]:
    return run_document(result.header, result.end, result.engine, result.simulate_seconds)
