"""``dtrdiag quickstart``: what does the main job look like, from a trace to a diagnosed run?"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import attrs
import typer

from dtrdiag import __version__
from dtrdiag.analyses import (
    RunDiff,
    diff_document,
    diff_runs,
    frontier_document,
    pinned_frontier,
    run_document,
)
from dtrdiag.cli.activity import doing
from dtrdiag.cli.options import Force, Json
from dtrdiag.cli.output import print_json, print_sentences, print_table, write_file
from dtrdiag.cli.ownfolder import OwnFolder
from dtrdiag.cli.pictures import GET_PICTURES, draw_svg, has_dot, write_drawing
from dtrdiag.cli.sources import at_ratio, load_trace, record
from dtrdiag.cli.traces import trace_document
from dtrdiag.errors import AnalysisError, UsageError
from dtrdiag.experiments.outcomes import Outcome, Outcomes
from dtrdiag.log import open_log, verify
from dtrdiag.rendering.answers import sweep_tables, sweep_words
from dtrdiag.rendering.dot import frontier_dot
from dtrdiag.rendering.facts import trace_words
from dtrdiag.rendering.pages.page import check_libraries, page_html
from dtrdiag.rendering.pages.pairpage import pair_page
from dtrdiag.rendering.words import diff_words, frontier_words
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace import Trace
from dtrdiag.units import exact_bytes

QUICKSTART_SCHEMA = "dtrdiag.quickstart/1"
TRACE, POLICY = "gpt2-dropout", "dtr"
RATIOS = (0.9, 0.7, 0.5, 0.3, 0.25, 0.23, 0.2275, 0.225, 0.2225, 0.22, 0.2175)
"""Where the walk looks, from much memory to little, in small steps where memory gets scarce."""
FOLDER = "dtrdiag-demo"
WORKS, FAILS = "works.jsonl", "fails.jsonl"
DOT, SVG, FINDINGS = "oom.dot", "oom.svg", "findings.txt"
PAGE = "report.html"
NAMES = (WORKS, FAILS, DOT, SVG, FINDINGS, PAGE)
GET_PAGE = "with jinja2 and vl-convert (the extra `report`) there is a page with charts as well"

Section = tuple[str, list[str]]


def quickstart(
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="DIR", help="Where the files go.")
    ] = FOLDER,
    force: Force = False,
    json: Json = False,
) -> None:
    """Do the main job on a bundled trace, end to end.

    Walks through budgets until a run fails where one with less memory works, narrows that down to
    one byte, and explains both runs from their logs. Leaves logs, a page, pictures and findings.
    """
    folder = OwnFolder(output, QUICKSTART_SCHEMA, NAMES, force)
    trace = load_trace(TRACE)
    walk, pair = find_pair(trace)
    with tempfile.TemporaryDirectory(prefix="dtrdiag-") as made:
        document, sections = _diagnose(trace, walk, pair, Path(made), output)
        text = "\n\n".join("\n".join([title, "", *lines]) for title, lines in sections)
        write_file(Path(made) / FINDINGS, text.encode() + b"\n")
        document["files"] = folder.publish(Path(made), document)
    if json:
        print_json(document)
        return
    for title, lines in sections:
        print_sentences(["", title.upper(), *lines])
        if title == sections[0][0]:
            for table in sweep_tables(document["runs"]):
                print_table(table)


@attrs.frozen
class Pair:
    """Two budgets one byte apart: at the smaller one a run works, at the larger one it fails."""

    works_bytes: int
    fails_bytes: int


def find_pair(trace: Trace) -> tuple[list[tuple[RunConfig, Outcome]], Pair]:
    """Walk through budgets, and narrow down the first failure that less memory would cure.

    Each run tells the interval of budgets that it stands for, so a few runs reach the very byte.

    Raises:
        AnalysisError: more memory always helps on this walk.
    """
    rules = RunConfig(POLICY)
    known = Outcomes()
    walk = []
    for config in (at_ratio(rules, trace, ratio) for ratio in RATIOS):
        walk.append((config, _known(known, trace, config)))
    for (more, failed), (less, worked) in pairwise(walk):
        if worked.end.outcome == "ok" != failed.end.outcome:
            low, high = less.budget_bytes or 0, more.budget_bytes or 0
            return walk[::-1], _narrow(trace, rules, known, low, high)
    raise AnalysisError(f"on {trace.name} more memory helps at each step of the walk")


def _narrow(trace: Trace, rules: RunConfig, known: Outcomes, low: int, high: int) -> Pair:
    """Between a budget that works and a larger one that fails, two neighbours that do so."""
    while high - low > 1:
        middle = (low + high) // 2
        end = _known(known, trace, attrs.evolve(rules, budget_bytes=middle)).end
        if end.outcome == "ok":
            low = middle if end.interval_hi_bytes is None else end.interval_hi_bytes - 1
        else:
            high = min(high, max(end.interval_lo_bytes, low + 1))
        low = min(low, high - 1)
    return Pair(low, high)


def _known(known: Outcomes, trace: Trace, config: RunConfig) -> Outcome:
    found = known.find(config.budget_bytes or 0)
    if found is None:
        result = simulate(trace, config)
        found = Outcome.of(result)
        known.add(found)
    return found


def _diagnose(
    trace: Trace,
    walk: list[tuple[RunConfig, Outcome]],
    pair: Pair,
    made: Path,
    output: str,
) -> tuple[dict[str, Any], list[Section]]:
    """Write logs and pictures into the folder `made`; return the document and what to say."""
    facts = trace_document(trace)
    runs = [_run(config, outcome) for config, outcome in walk]
    works, fails = made / WORKS, made / FAILS
    for path, budget_bytes in ((works, pair.works_bytes), (fails, pair.fails_bytes)):
        record(trace, RunConfig(POLICY, budget_bytes, peak_bytes=facts["peak"]), path)
    frontier = pinned_frontier(open_log(fails))
    compared = diff_runs(open_log(works), open_log(fails))
    checks = {path.name: verify(open_log(path)) for path in (works, fails)}
    (made / DOT).write_text(frontier_dot(frontier), encoding="utf-8")
    if has_dot():
        write_drawing(draw_svg(frontier_dot(frontier), str(made / SVG)))
    stop = frontier_document(frontier)
    commands = _commands(output, pair, stop)
    document = {
        "schema": QUICKSTART_SCHEMA,
        "trace": facts,
        "runs": runs,
        "pair": [pair.works_bytes, pair.fails_bytes],
        "oom": stop,
        "diff": diff_document(compared),
        "verified": {name: {"ok": c.ok, "events": c.events} for name, c in checks.items()},
        "next": commands,
    }
    byte = (
        f"At a budget of {exact_bytes(pair.works_bytes)} the run finishes. One byte more, and it "
        "runs out of memory."
    )
    verdicts = [
        f"{name}: {found.events:,} events, {'every rule kept' if found.ok else 'RULES BROKEN'}."
        for name, found in checks.items()
    ]
    sections = [
        (f"The budgets of {trace.name}", [*trace_words(facts), *sweep_words(runs)]),
        ("A byte too much", [byte, *diff_words(compared)]),
        ("Why it runs out of memory there", frontier_words(frontier)),
        ("The logs, replayed and checked", verdicts),
        ("Files", _files(output, (made / SVG).is_file(), _draw_page(made, output, compared))),
        ("What to try next", [f"  {command}" for command in commands]),
    ]
    return document, sections


def _run(config: RunConfig, outcome: Outcome) -> dict[str, Any]:
    header = attrs.evolve(
        outcome.header,
        budget_bytes=config.budget_bytes,
        ratio=config.ratio,
        peak_bytes=config.peak_bytes,
    )
    return run_document(header, outcome.end, outcome.engine, outcome.simulate_seconds)


def _draw_page(made: Path, output: str, compared: RunDiff) -> bool:
    """Write the page of the two runs, if there is what draws it; whether it was written."""
    try:
        check_libraries()
    except UsageError:
        return False
    doing(f"drawing {PAGE}")
    # The page says how to make it again, in the folder where the logs will be.
    logs = [str(Path(output) / name) for name in (WORKS, FAILS)]
    made_by = f"{shlex.join(['dtrdiag', 'report', *logs, '-o', 'F.html'])} (dtrdiag {__version__})"
    page = pair_page(open_log(made / WORKS), open_log(made / FAILS), made_by, compared)
    (made / PAGE).write_text(page_html(page), encoding="utf-8")
    return True


def _files(output: str, drawn: bool, paged: bool) -> list[str]:
    folder = Path(output)
    page = f"  {folder / PAGE}: both runs with charts, to be opened in a browser"
    picture = (
        f"  {folder / SVG}: the pinned frontier, drawn ({DOT} is its source)"
        if drawn
        else f"  {folder / DOT}: the pinned frontier as DOT; {GET_PICTURES}"
    )
    return [
        *([page] if paged else []),
        f"  {folder / FINDINGS}: this text",
        f"  {folder / 'summary.json'}: all of it as JSON",
        f"  {folder / WORKS}: the log of the run that works",
        f"  {folder / FAILS}: the log of the run that fails",
        picture,
        *([] if paged else [f"  {GET_PAGE}"]),
    ]


def _commands(output: str, pair: Pair, stop: dict[str, Any]) -> list[str]:
    works, fails = (str(Path(output) / name) for name in (WORKS, FAILS))
    commands = [
        ["oom", fails, "--expand"],
        ["diff", works, fails],
        ["chains", works],
        ["whatif", fails, "--keep", str(stop["asked_back"]["storage"])],
        ["map", TRACE, "--from", "0.217", "--to", "0.222", "--resolution", "0.0005"],
        ["replay", fails, "--verify"],
        ["sweep", TRACE, "-p", "dtr", "-p", "dtr-eq", "--ratios", "0.21:0.23:0.0025"],
        ["diff", TRACE, "-b", str(pair.works_bytes), "-p", "dtr", "-p", "dtr-eq"],
        ["traces", "list"],
    ]
    return [f"{_program()} {shlex.join(command)}" for command in commands]


def _program() -> str:
    """How this program is called from here."""
    found = shutil.which("dtrdiag")
    here = Path(sys.executable)
    if found is not None and Path(found).parent == here.parent:
        return "dtrdiag"
    if here.is_relative_to(Path.cwd()):
        here = here.relative_to(Path.cwd())
    return f"{shlex.quote(str(here))} -m dtrdiag"
