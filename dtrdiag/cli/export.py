"""``dtrdiag export``: how does a run get into other tools?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dtrdiag.cli.exporting import FORMATS, Exported, export_map, export_run
from dtrdiag.cli.options import (
    Around,
    At,
    Budget,
    Force,
    Hops,
    Json,
    Policy,
    Ratio,
    Rules,
    RunArgument,
    takes_rules,
)
from dtrdiag.cli.output import check_outputs, note, print_json, print_sentences
from dtrdiag.cli.sources import RunOptions, opened_run
from dtrdiag.errors import UsageError
from dtrdiag.experiments.map_files import holds_map
from dtrdiag.suggestions import no_such

EXPORT_SCHEMA = "dtrdiag.export/1"


@takes_rules
def export(
    run: RunArgument,
    rules: Rules,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="|".join(FORMATS), help="The format.", show_default=False),
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="The file to write.")
    ] = None,
    policy: Policy = None,
    ratio: Ratio = None,
    budget: Budget = None,
    at: At = None,
    around: Around = None,
    hops: Hops = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a run for another tool.

    `perfetto` is a timeline for https://ui.perfetto.dev; `graphml` and `dot` are the graph of
    storages; `csv`, `parquet` and `jsonl` are the events. A saved map goes as `csv` or `parquet`.
    """
    name = _format(to)
    target = _target(name, output)
    graph = {"at": at, "around": around, "hops": hops}
    _check_graph(name, graph)
    check_outputs([target], force, inputs=[run])
    if holds_map(run):
        given = RunOptions(policy, ratio, budget, rules).given()
        if given:
            raise UsageError(f"{given[0]} does not apply to a saved map", path=run)
        done = export_map(run, name, target, force)
    else:
        FORMATS[name].check()
        with opened_run(run, RunOptions(policy, ratio, budget, rules)) as opened:
            done = export_run(opened.log, name, target, force, **graph)
    _say(done, name, target, json)


def _format(name: str | None) -> str:
    known = ", ".join(FORMATS)
    if name is None:
        raise UsageError(f"say what to export to: --to, one of {known}")
    if name in FORMATS:
        return name
    raise UsageError(no_such("format", name, FORMATS))


def _target(name: str, output: str | None) -> str:
    """The file to write, unless its name says that it is something else."""
    suffixes = FORMATS[name].suffixes
    if output is None:
        raise UsageError(f"say where to write it: -o FILE{suffixes[0]}")
    known = {suffix for each in FORMATS.values() for suffix in each.suffixes}
    # A name that says nothing says nothing to the contrary, but readers of Parquet go by it.
    foreign = output.endswith(tuple(known | {".svg", ".png", ".pdf", ".html", ".json"}))
    if not output.endswith(suffixes) and (foreign or name == "parquet"):
        what = f"--to {name} writes {' or '.join(suffixes)}"
        raise UsageError(f"{what}, which is not what {Path(output).name} says", path=output)
    return output


def _check_graph(name: str, options: dict[str, int | None]) -> None:
    for option, value in options.items():
        if value is None:
            continue
        if not FORMATS[name].graph:
            raise UsageError(f"--{option} is about graphs: it goes with --to graphml or dot")
        if option != "around" and value < 0:
            raise UsageError(f"--{option} must be at least 0, not {value}")
    if options["hops"] is not None and options["around"] is None:
        raise UsageError("--hops needs a storage to start from: --around STORAGE")


def _say(done: Exported, name: str, target: str, json: bool) -> None:
    if done.problem is not None:
        note(f"dtrdiag: the log is incomplete and so is the file: {done.problem}")
    if json:
        document: dict[str, Any] = {
            "schema": EXPORT_SCHEMA,
            "format": name,
            "file": target,
            "bytes": Path(target).stat().st_size,
            "complete": done.problem is None,
            **done.counts,
        }
        print_json(document)
        return
    print_sentences([*done.words, f"Wrote {target}. {FORMATS[name].opens}"])
