"""``dtrdiag chains``: what is evicted and brought back again and again, and what does it cost?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from dtrdiag.analyses import Chains, document_of_chains, find_chains
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
from dtrdiag.cli.output import (
    Pathlike,
    print_json,
    print_sentences,
    print_table,
    write_files,
)
from dtrdiag.cli.pictures import (
    Pdf,
    PictureFiles,
    Png,
    Svg,
    check_pictures,
    graph_contents,
    note_drawing,
)
from dtrdiag.cli.sources import RunOptions, opened_run
from dtrdiag.errors import UsageError
from dtrdiag.rendering.chains import (
    chain_words,
    chains_table,
    chains_words,
    cost_table,
    displacement_csv,
    displacement_dot,
    loops_table,
    operators_table,
    steps_table,
)
from dtrdiag.rendering.graphml import graphml

DRAWN_EDGES = 60
"""As many edges of the displacement graph go into DOT: all would be a ball of wool."""


@takes_rules
def chains(
    run: RunArgument,
    rules: Rules,
    policy: Policy = None,
    ratio: Ratio = None,
    budget: Budget = None,
    top: Annotated[
        int, typer.Option("--top", metavar="N", help="Chains, loops and steps to show.")
    ] = 10,
    dot: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the dearest displacements as DOT."),
    ] = None,
    svg: Svg = None,
    png: Png = None,
    pdf: Pdf = None,
    graphml_file: Annotated[
        str | None,
        typer.Option("--graphml", metavar="FILE", help="Write the displacement graph as GraphML."),
    ] = None,
    csv: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the displacement graph as CSV.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Show what is evicted again and again, and what that costs.

    Which storages push each other out when they are rematerialised, who asks them back, what the
    cost of rematerialisation is spent on, and where in the schedule thrash begins and ends. Causes
    are kept apart: a release is no re-eviction.
    """
    if top < 0:
        raise UsageError(f"--top must be at least 0, not {top}")
    files = {"--dot": dot, "--graphml": graphml_file, "--csv": csv}
    pictures = PictureFiles(svg, png, pdf)
    check_pictures(dot, graphml_file, pictures, force, csv)
    with opened_run(run, RunOptions(policy, ratio, budget, rules)) as opened:
        found = find_chains(opened.log, top)
    written = _write(found, files, pictures, force)
    if json:
        print_json(document_of_chains(found))
        return
    _print(found, top)
    if written:
        print_sentences(["", f"Wrote {', '.join(written)}."])


def _write(
    found: Chains, files: Mapping[str, str | None], pictures: PictureFiles, force: bool
) -> list[str]:
    source = displacement_dot(found.graph, DRAWN_EDGES)
    make: dict[str, Callable[[], bytes]] = {
        "--dot": source.encode,
        "--graphml": lambda: graphml(found.graph),
        "--csv": lambda: displacement_csv(found.graph),
    }
    contents: dict[Pathlike, bytes] = {
        path: make[option]() for option, path in files.items() if path is not None
    }
    drawn, drawing = graph_contents(source, pictures, force)
    contents |= drawn
    write_files(contents)
    note_drawing(drawing)
    return [str(path) for path in contents]


def _print(found: Chains, top: int) -> None:
    print_sentences(chains_words(found))
    if found.cost.total.remats:
        print_table(cost_table(found))
    if not top:
        return
    if found.cost.total.remats:
        print_table(operators_table(found, top))
        print_table(steps_table(found))
    if found.loops:
        print_table(loops_table(found, top))
    if found.chains:
        print_table(chains_table(found))
        print_sentences(["", *chain_words(found.chains[0])])
