"""``dtrdiag graph``: what is computed from what, and where was it at a point of the run?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import networkx as nx
import typer

from dtrdiag.analyses import dependency_graph, neighbourhood
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
from dtrdiag.cli.output import check_outputs, print_json, print_sentences, print_table, write_file
from dtrdiag.cli.pictures import (
    check_dot,
    draw_svg,
    picture_target,
    text_instead,
    write_drawing,
)
from dtrdiag.cli.sources import RunOptions, opened_run
from dtrdiag.errors import UsageError
from dtrdiag.rendering.dot import DRAWN_EDGES, graph_dot
from dtrdiag.rendering.graphml import graphml
from dtrdiag.rendering.pictures import dot_picture
from dtrdiag.rendering.replays import graph_document, graph_words, residency_table

SUFFIXES = (".dot", ".svg", ".png", ".pdf", ".graphml")


@takes_rules
def graph(
    run: RunArgument,
    rules: Rules,
    policy: Policy = None,
    ratio: Ratio = None,
    budget: Budget = None,
    at: At = None,
    around: Around = None,
    hops: Hops = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="As .dot, .svg, .png, .pdf, .graphml."),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Show the graph of storages, and where each one is."""
    _check(at, around, hops, output, force)
    with opened_run(run, RunOptions(policy, ratio, budget, rules)) as opened:
        found = dependency_graph(opened.log, at)
    if around is not None:
        found = neighbourhood(found, around, 2 if hops is None else hops)
    written = None if output is None else _write(found, output, force)
    if json:
        print_json(graph_document(found))
        return
    print_sentences(graph_words(found))
    print_table(residency_table(found))
    if written is not None:
        print_sentences(["", f"Wrote {written}."])


def _check(
    at: int | None, around: int | None, hops: int | None, output: str | None, force: bool
) -> None:
    if at is not None and at < 0:
        raise UsageError(f"--at must be at least 0, not {at}")
    if hops is not None and hops < 0:
        raise UsageError(f"--hops must be at least 0, not {hops}")
    if hops is not None and around is None:
        raise UsageError("--hops needs a storage to start from: --around STORAGE")
    if output is None:
        return
    suffix = Path(output).suffix
    if suffix not in SUFFIXES:
        raise UsageError(f"-o must end in {', '.join(SUFFIXES)}, not {suffix!r}", path=output)
    if suffix in (".png", ".pdf"):
        check_dot(f"-o {output}")
    check_outputs([picture_target(output) if suffix == ".svg" else output], force)


def _write(found: nx.MultiDiGraph[Any], output: str, force: bool) -> str:
    suffix = Path(output).suffix
    if suffix == ".graphml":
        write_file(output, graphml(found))
        return output
    if suffix == ".dot":
        write_file(output, graph_dot(found).encode())
        return output
    edges = found.number_of_edges()
    if edges > DRAWN_EDGES:
        why = f"{edges:,} edges are too many to draw (more than {DRAWN_EDGES:,})"
        advice = "; take --around STORAGE --hops N, or write .graphml for a graph viewer"
        return write_drawing(text_instead(graph_dot(found), output, why, advice, force))
    if suffix == ".svg":
        return write_drawing(draw_svg(graph_dot(found), output, force))
    write_file(output, dot_picture(graph_dot(found), suffix[1:]))
    return output
