"""``dtrdiag oom``: why did a run stop out of memory?"""

from __future__ import annotations

import shlex
from typing import Annotated

import attrs
import typer

from dtrdiag.analyses import Frontier, frontier_document, pinned_frontier
from dtrdiag.cli.options import (
    Budget,
    Force,
    Json,
    Policy,
    Ratio,
    Rules,
    RunArgument,
    takes_rules,
)
from dtrdiag.cli.output import Pathlike, print_json, print_sentences, print_table, write_files
from dtrdiag.cli.pictures import (
    Pdf,
    PictureFiles,
    Png,
    Svg,
    check_pictures,
    graph_contents,
    note_drawing,
)
from dtrdiag.cli.sources import RunOptions, is_event_log, opened_run
from dtrdiag.rendering.commands import whatif_command
from dtrdiag.rendering.dot import frontier_dot
from dtrdiag.rendering.graphml import frontier_graph, graphml
from dtrdiag.rendering.tables import frontier_table, state_table
from dtrdiag.rendering.words import forbid_option, frontier_words, stack_words


@takes_rules
def oom(
    run: RunArgument,
    rules: Rules,
    policy: Policy = None,
    ratio: Ratio = None,
    budget: Budget = None,
    dot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the frontier as DOT.")
    ] = None,
    svg: Svg = None,
    png: Png = None,
    pdf: Pdf = None,
    graphml_file: Annotated[
        str | None, typer.Option("--graphml", metavar="FILE", help="Write the frontier as GraphML.")
    ] = None,
    expand: Annotated[
        bool, typer.Option("--expand", help="Show every step of a long pending stack.")
    ] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Say why a run stopped out of memory.

    Shows the pinned frontier. Nothing is evictable there: what is resident is pinned, or locked by
    the ops that wait for each other, from the op that the model asked for down to the one that did
    not fit.
    """
    files = PictureFiles(svg, png, pdf)
    check_pictures(dot, graphml_file, files, force)
    with opened_run(run, RunOptions(policy, ratio, budget, rules)) as opened:
        frontier = pinned_frontier(opened.log)
    written = _write(frontier, expand, dot, files, graphml_file, force)
    if json:
        print_json(frontier_document(frontier))
        return
    print_sentences([*frontier_words(frontier), *_whatif_words(frontier, run, rules.policy_file)])
    print_table(state_table(frontier))
    print_table(frontier_table(frontier, expand))
    print_sentences(stack_words(frontier))
    if written:
        print_sentences(["", f"Wrote {', '.join(written)}."])


def _whatif_words(frontier: Frontier, run: str, policy_file: str | None) -> list[str]:
    """How to see what comes of another victim in place of what was asked back first."""
    option = forbid_option(frontier)
    if option is None:
        return []
    header = attrs.evolve(frontier.header, trace_name=run)
    command = whatif_command(header, option, policy_file)
    if is_event_log(run):
        file = "" if policy_file is None else f" --policy-file {shlex.quote(policy_file)}"
        command = f"dtrdiag whatif {shlex.quote(run)}{file} {option}"
    return ["What the run would have done with another victim there:", f"  {command}"]


def _write(
    frontier: Frontier,
    expand: bool,
    dot: str | None,
    files: PictureFiles,
    graphml_file: str | None,
    force: bool,
) -> list[str]:
    contents: dict[Pathlike, bytes] = {}
    source = frontier_dot(frontier, expand) if dot is not None or files.given() else ""
    if dot is not None:
        contents[dot] = source.encode()
    drawn, drawing = graph_contents(source, files, force)
    contents |= drawn
    if graphml_file is not None:
        contents[graphml_file] = graphml(frontier_graph(frontier))
    write_files(contents)
    note_drawing(drawing)
    return [str(path) for path in contents]
