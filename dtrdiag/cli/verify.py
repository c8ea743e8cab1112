"""``dtrdiag verify``: is a log a true record of a run of its trace, and is a map true?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import attrs
import typer

from dtrdiag.checker import Problem, check
from dtrdiag.cli.mapprogress import check_progress
from dtrdiag.cli.options import Json
from dtrdiag.cli.output import print_json, print_sentences, print_table
from dtrdiag.cli.policyfile import load_policy_file
from dtrdiag.cli.sources import load_trace, watched_log
from dtrdiag.errors import UsageError
from dtrdiag.experiments.log_program import other_program
from dtrdiag.experiments.map_check import check_map, recorded_overheads
from dtrdiag.experiments.map_document_check import recorded_document
from dtrdiag.experiments.map_files import is_saved_map, read_map
from dtrdiag.experiments.policyfile import policy_file_sha256
from dtrdiag.rendering.checks import checked_map_words, checked_words
from dtrdiag.rendering.replays import problems_table

VERIFY_SCHEMA = "dtrdiag.verify/1"
CHECK_FAILED = 1


def verify(
    source: Annotated[str, typer.Argument(metavar="LOG|MAP", help="Saved event log, or map.")],
    trace: Annotated[
        str, typer.Option(metavar="TRACE", help="The trace that was run.", show_default=False)
    ],
    scores: Annotated[
        bool, typer.Option("--scores", help="Check that each victim is the policy's choice, too.")
    ] = False,
    sample: Annotated[
        int | None, typer.Option(metavar="N", help="Intervals of a map to run again (all).")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Seed of the sample (0).")] = None,
    policy_file: Annotated[
        str | None, typer.Option(metavar="FILE.py", help="Policies that a map was made with.")
    ] = None,
    json: Json = False,
) -> None:
    """Check a log or a map against its trace, independently.

    Exit status 1 if the log is not what a run of the trace under its rules has to give, or is cut;
    or if the map has gaps, or runs at the ends of an interval give something else.
    """
    if is_saved_map(source):
        if policy_file is not None:
            load_policy_file(policy_file)
        digest = policy_file_sha256(policy_file)
        options = {"sample": sample, "seed": seed or 0, "scores": scores, "policy_sha256": digest}
        _verify_map(source, trace, options, json)
        return
    of_maps = {"--sample": sample, "--seed": seed, "--policy-file": policy_file}
    for name, value in of_maps.items():
        if value is not None:
            raise UsageError(f"{name} applies to a map, not to an event log", path=source)
    reader = watched_log(source)
    loaded = load_trace(trace)
    found = check(reader, loaded, scores=scores)
    other = other_program(reader, loaded) if found.problems else None
    facts = {
        "events": found.events,
        "complete": found.complete,
        "scores": scores,
        "program": None if other is None else attrs.asdict(other),
    }
    _answer(found.problems, facts, checked_words(found, reader.header.policy, other), json)


def _verify_map(path: str, trace: str, options: dict[str, Any], json: bool) -> None:
    saved = read_map(path)
    options["overheads"], options["document"] = recorded_overheads(path), recorded_document(path)
    checked = load_trace(trace)
    with check_progress() as tell:
        found = check_map(saved, checked, **options, tell=tell)
    facts = {
        "events": found.events,
        "complete": found.complete,
        "scores": found.scores,
        "intervals": found.intervals,
        "sampled": found.sampled,
        "seed": options["seed"],
    }
    _answer(found.problems, facts, checked_map_words(found, saved.resolution_bytes), json)


def _answer(
    problems: Sequence[Problem], facts: dict[str, Any], words: list[str], json: bool
) -> None:
    if json:
        listed = [{"seq": p.seq, "rule": p.rule, "message": p.message} for p in problems]
        answer = {"schema": VERIFY_SCHEMA, "ok": not problems, **facts, "problems": listed}
        print_json(answer)
    else:
        print_sentences(words)
        if problems:
            print_table(problems_table(problems))
    if problems:
        raise typer.Exit(CHECK_FAILED)
