"""``dtrdiag diff``: where do two runs part, and what came of it?"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Annotated, Any

import typer

from dtrdiag.analyses import RunDiff, diff_document, diff_runs
from dtrdiag.cli.options import Force, Json, Rules, takes_rules
from dtrdiag.cli.output import note, print_json, print_sentences, print_table, write_files
from dtrdiag.cli.pictures import Pdf, PictureFiles, Png, Svg
from dtrdiag.cli.sources import OpenRun, RunOptions, is_event_log, opened_run
from dtrdiag.errors import UsageError
from dtrdiag.rendering.answers import contradiction_words
from dtrdiag.rendering.coursecharts import course_chart, why_no_course
from dtrdiag.rendering.diffs import re_evicted_table, trajectory_table
from dtrdiag.rendering.pictures import chart_picture
from dtrdiag.rendering.replays import problem_words
from dtrdiag.rendering.tables import operators_table, sets_table
from dtrdiag.rendering.words import diff_words

_Policies = Annotated[
    list[str] | None,
    typer.Option("-p", "--policy", metavar="POLICY", help="Policy (dtr), of a and of b."),
]
_Ratios = Annotated[
    list[str] | None,
    typer.Option("-r", "--ratio", metavar="R", help="Ratio of the peak, of a and of b."),
]
_Budgets = Annotated[
    list[str] | None,
    typer.Option("-b", "--budget", metavar="SIZE", help="Budget, of a and of b."),
]


@takes_rules
def diff(
    run_a: Annotated[str, typer.Argument(metavar="RUN_A", help="Saved event log, or a TRACE.")],
    rules: Rules,
    run_b: Annotated[
        str | None,
        typer.Argument(metavar="[RUN_B]", help="The other run; a TRACE alone needs two budgets."),
    ] = None,
    policies: _Policies = None,
    ratios: _Ratios = None,
    budgets: _Budgets = None,
    top: Annotated[
        int, typer.Option("--top", metavar="N", help="Storages and operators to show.")
    ] = 10,
    svg: Svg = None,
    png: Png = None,
    pdf: Pdf = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Compare two runs: where they part, and what came of it.

    Either two saved logs, or one trace at two budgets or under two policies.

    Between two budgets the first divergence is one fit check that passes in one run and not in the
    other. An option given once is for both runs, given twice it is for a and for b. A picture
    (--svg, --png, --pdf) shows what b paid beyond a, and how alike they are, step by step.
    """
    if top < 0:
        raise UsageError(f"--top must be at least 0, not {top}")
    pictures = PictureFiles(svg, png, pdf)
    pictures.check(force)
    options = pair_options(run_a, run_b, policies, ratios, budgets, rules)
    _answer((run_a, run_b or run_a), options, pictures, top, json)


def _answer(
    runs: tuple[str, str],
    options: Sequence[RunOptions],
    pictures: PictureFiles,
    top: int,
    json: bool,
) -> None:
    with ExitStack() as stack:
        a, b = (
            stack.enter_context(opened_run(text, chosen))
            for text, chosen in zip(runs, options, strict=True)
        )
        found = diff_runs(a.log, b.log)
        for opened in (a, b):
            if opened.log.problem is not None:
                problem = problem_words(opened.log.problem)
                note(f"dtrdiag: {opened.log.path} is incomplete: it {problem}")
        drawn = bool(pictures.given())
        if drawn and (why := why_no_course(found)) is not None:
            note(f"dtrdiag: no picture is written, as {why}")
            drawn = False
        if drawn:
            write_files(pictures.contents(partial(chart_picture, course_chart(found))))
        if json:
            print_json(_document(found, a, b))
            return
    _print(found, top)
    if drawn:
        print_sentences(["", pictures.written()])


def _print(found: RunDiff, top: int) -> None:
    for run, name in ((found.a, "the log of a"), (found.b, "the log of b")):
        for words in contradiction_words(run, name):
            note(f"dtrdiag: note: {words}")
    print_sentences(diff_words(found))
    if found.trajectory is not None and found.trajectory.last is not None:
        print_table(trajectory_table(found.trajectory))
    print_table(sets_table(found.sets))
    if not top:
        return
    if found.re_evicted is not None and found.re_evicted.one_sided:
        print_table(re_evicted_table(found.re_evicted, top))
    print_table(operators_table(found, top))


def pair_options(
    run_a: str,
    run_b: str | None,
    policies: list[str] | None,
    ratios: list[str] | None,
    budgets: list[str] | None,
    rules: Rules,
) -> list[RunOptions]:
    """The options of each side; those of a saved log are empty."""
    if ratios and budgets:
        raise UsageError("give both runs a ratio (-r) or both a budget (-b)")
    many = (_both(policies, "-p"), _both(ratios, "-r"), _both(budgets, "-b"))
    sides = [
        RunOptions(policy, ratio, budget, rules)
        for policy, ratio, budget in zip(*many, strict=True)
    ]
    logs = [is_event_log(text) for text in (run_a, run_b or run_a)]
    if run_b is None and logs[0]:
        raise UsageError("a second log is missing: dtrdiag diff RUN_A RUN_B", path=run_a)
    if all(logs):
        # Kept, so that an option that has no effect is refused.
        return sides
    if run_b is None and sides[0] == sides[1]:
        raise UsageError("two runs of one trace need two budgets or policies: -r A -r B")
    return [RunOptions() if log else side for log, side in zip(logs, sides, strict=True)]


def _both(values: Sequence[str] | None, name: str) -> tuple[str | None, str | None]:
    if not values:
        return None, None
    if len(values) > 2:
        raise UsageError(f"{name} was given {len(values)} times for two runs")
    return values[0], values[-1]


def _document(found: RunDiff, a: OpenRun, b: OpenRun) -> dict[str, Any]:
    document = diff_document(found)
    return document | {"a": a.complete(document["a"]), "b": b.complete(document["b"])}
