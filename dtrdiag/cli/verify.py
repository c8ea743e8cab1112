"""``dtrdiag verify``: is a log a true record of a run of its trace?"""

from __future__ import annotations

from typing import Annotated

import typer

from dtrdiag.checker import Checker, check
from dtrdiag.cli.options import Json
from dtrdiag.cli.output import print_json, print_sentences, print_table
from dtrdiag.cli.sources import load_trace
from dtrdiag.log import open_log
from dtrdiag.rendering.checks import checked_words
from dtrdiag.rendering.replays import problems_table

VERIFY_SCHEMA = "dtrdiag.verify/1"
CHECK_FAILED = 1


def verify(
    log: Annotated[str, typer.Argument(metavar="LOG", help="Saved event log.")],
    trace: Annotated[
        str, typer.Option(metavar="TRACE", help="The trace that was run.", show_default=False)
    ],
    scores: Annotated[
        bool, typer.Option("--scores", help="Check that each victim is the policy's choice, too.")
    ] = False,
    json: Json = False,
) -> None:
    """Check a log against its trace, apart from the code that wrote it.

    Exit status 1 if the log is not what a run of the trace under its rules has to give, or is cut.
    """
    reader = open_log(log)
    found = check(reader, load_trace(trace), scores=scores)
    if json:
        print_json(_document(found))
    else:
        print_sentences(checked_words(found, reader.header.policy))
        if found.problems:
            print_table(problems_table(found.problems))
    if found.problems:
        raise typer.Exit(CHECK_FAILED)


def _document(found: Checker) -> dict[str, object]:
    return {
        "schema": VERIFY_SCHEMA,
        "ok": not found.problems,
        "events": found.events,
        "complete": found.complete,
        "scores": found.scores,
        "problems": [
            {"seq": problem.seq, "rule": problem.rule, "message": problem.message}
            for problem in found.problems
        ],
    }
