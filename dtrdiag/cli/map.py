"""``dtrdiag map``: what happens at every budget of a range?"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import attrs
import typer

from dtrdiag.analyses import run_document, summarise_map
from dtrdiag.cli.mapprogress import map_progress
from dtrdiag.cli.options import Force, Json, Policy, Rules, takes_rules
from dtrdiag.cli.output import note, print_json, print_sentences, print_table, write_files
from dtrdiag.cli.pictures import Pdf, PictureFiles, Png, Svg
from dtrdiag.cli.policyfile import load_policy_file, policy_file_sha256
from dtrdiag.cli.sources import at_budget, is_event_log, load_trace, peak_of
from dtrdiag.cli.terminating import Terminated, terminable
from dtrdiag.cli.values import parse_amount
from dtrdiag.errors import UsageError
from dtrdiag.experiments.budget_map import Mapper
from dtrdiag.experiments.map_files import (
    MapFile,
    SavedMap,
    check_map_path,
    default_within,
    is_saved_map,
    read_map,
)
from dtrdiag.experiments.outcomes import Outcomes
from dtrdiag.experiments.rows import definition_of
from dtrdiag.experiments.workers import usable_cpus
from dtrdiag.rendering.answers import run_words
from dtrdiag.rendering.mapcharts import map_chart
from dtrdiag.rendering.maps import map_words, segment_table
from dtrdiag.rendering.pictures import chart_picture
from dtrdiag.rendering.tables import run_table
from dtrdiag.simulator import RunConfig, budget_from_ratio
from dtrdiag.trace import Trace
from dtrdiag.units import count

MAX_JOBS = 256
MADE_OF = "a map is made of the trace: dtrdiag map TRACE --from A --to B"
_AMOUNT = "R|SIZE"


def _option(*names: str, metavar: str, help: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, show_default=False)


Source = Annotated[str, typer.Argument(metavar="TRACE|FILE", help="A trace, or a saved map.")]
Low = Annotated[
    str | None, _option("--from", metavar=_AMOUNT, help="Lowest budget: a ratio or a size.")
]
High = Annotated[str | None, _option("--to", metavar=_AMOUNT, help="Highest budget, included.")]
Jobs = Annotated[int | None, _option("-j", "--jobs", metavar="N", help="Processes (one a CPU).")]
Output = Annotated[
    str | None,
    _option("-o", "--output", metavar="FILE", help="Keep (and extend) it here: .parquet, .json."),
]
Resolution = Annotated[
    str | None, _option(metavar=_AMOUNT, help="A quick look: samples this far apart.")
]
Within = Annotated[
    str | None, _option(metavar=_AMOUNT, help="Distance of a cliff's budgets (0.001).")
]
At = Annotated[str | None, _option(metavar=_AMOUNT, help="Show this run of a saved map.")]


@takes_rules
def budget_map(
    source: Source,
    rules: Rules,
    policy: Policy = None,
    low: Low = None,
    high: High = None,
    jobs: Jobs = None,
    output: Output = None,
    resolution: Resolution = None,
    within: Within = None,
    at: At = None,
    svg: Svg = None,
    png: Png = None,
    pdf: Pdf = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Find the intervals of budgets in which a run decides alike.

    Between two budgets of the range nothing is left out: where runs finish, where they run out of
    memory, and how the overhead jumps is known to the byte. With -o the map is kept, and the same
    command again, or one for another range, uses and extends it. A saved map is shown again by
    naming it. A picture (--svg, --png, --pdf) shows outcome and overhead over the budget.
    """
    ask = Ask(low, high, within, resolution)
    pictures = PictureFiles(svg, png, pdf)
    if is_saved_map(source):
        only_trace = {"-p": policy, "-j": jobs, "-o": output, "--resolution": resolution}
        given = [name for name, value in only_trace.items() if value is not None]
        for name in [*given, *rules.given(), *_needless(force, at, pictures)]:
            raise UsageError(f"{name} does not apply to a saved map", path=source)
        pictures.check(force)
        _show_saved(source, ask, at, pictures, json)
        return
    if is_event_log(source):
        raise UsageError(f"this is an event log, not a saved map; {MADE_OF}", path=source)
    if at is not None:
        raise UsageError("--at asks a saved map: dtrdiag map FILE --at BUDGET")
    ask.check()
    pictures.check(force)
    if output is not None:
        check_map_path(output)
    check_jobs(jobs)
    config = rules.config(policy)
    trace = load_trace(source)
    making = Making(jobs, output, force, rules.policy_file)
    _show(_compute(trace, config, ask, making), ask, pictures, json)
    if output is not None and not json:
        print_sentences(["", f"The map is kept in {output}."])


def _needless(force: bool, at: str | None, pictures: PictureFiles) -> list[str]:
    """Options that have nothing to do where a saved map is shown."""
    drawn = [f"--{kind}" for kind in pictures.given()]
    if at is not None and drawn:
        raise UsageError(f"{drawn[0]} draws a whole map, and --at shows one run of it")
    return ["--force"] if force and not drawn else []


@attrs.frozen
class Ask:
    """What is asked for, as given on the command line; None: not given."""

    low: str | None
    high: str | None
    within: str | None
    resolution: str | None

    def __attrs_post_init__(self) -> None:
        for text in (self.low, self.high, self.within, self.resolution):
            if text is not None:
                parse_amount(text)

    def check(self) -> None:
        """Refuse what no trace could make usable, before one is read.

        Raises:
            UsageError: an end is missing.
        """
        if self.low is None or self.high is None:
            what = "a map needs --from and --to, ratios of the peak or sizes: "
            raise UsageError(f"{what}--from 0.4 --to 0.9")

    def range(self, peak_bytes: int | None, saved: tuple[int, int] = (1, 1)) -> tuple[int, int]:
        """The lowest and the highest budget; those of `saved` where none is given.

        Raises:
            UsageError: an end is not usable, or the range is empty.
        """
        low, high = saved
        if self.low is not None:
            low = amount(self.low, peak_bytes)
        if self.high is not None:
            high = amount(self.high, peak_bytes)
        if low > high:
            raise UsageError(f"the range is empty: it begins at {low} and ends at {high} bytes")
        return low, high

    def within_bytes(self, peak_bytes: int | None, high_bytes: int) -> int:
        """How close the budgets of a cliff are."""
        if self.within is None:
            return default_within(peak_bytes, high_bytes)
        return amount(self.within, peak_bytes)


@attrs.frozen
class Making:
    """How a map is made."""

    jobs: int | None
    output: str | None
    force: bool
    policy_file: str | None


def amount(text: str, peak_bytes: int | None) -> int:
    """Bytes of a size, or of a ratio of the peak.

    Raises:
        UsageError: neither, or a ratio of a trace that has no peak.
    """
    value = parse_amount(text)
    if isinstance(value, int):
        return value
    if peak_bytes is None:
        raise UsageError(
            f"{text} is a ratio, and this trace has no peak, since it uses a tensor after its last "
            "release: give a size, such as 500MB"
        )
    return budget_from_ratio(peak_bytes, value)


def check_jobs(jobs: int | None) -> None:
    """Refuse a number of processes that nobody can want.

    Raises:
        UsageError: it is not in 1 to `MAX_JOBS`.
    """
    if jobs is not None and not 1 <= jobs <= MAX_JOBS:
        raise UsageError(f"-j must be 1 to {MAX_JOBS} processes, not {jobs}")


def _compute(trace: Trace, config: RunConfig, ask: Ask, making: Making) -> SavedMap:
    peak_bytes = peak_of(trace)
    low, high = ask.range(peak_bytes)
    step = None if ask.resolution is None else amount(ask.resolution, peak_bytes)
    rules = at_budget(config, trace, None)
    definition = definition_of(trace, rules, policy_file_sha256(making.policy_file))
    saved = SavedMap(definition, Outcomes(), low, high, step)
    file = None if making.output is None else MapFile(making.output, saved, making.force)
    policy_file = making.policy_file
    prepare = None if policy_file is None else partial(load_policy_file, policy_file)
    with terminable(), map_progress(saved.outcomes, low, high, sampled=step is not None) as show:

        def tell(found: object) -> None:
            show()
            if file is not None:
                file.save_if_due()

        mapper = Mapper(
            trace,
            rules,
            saved.outcomes,
            jobs=making.jobs or min(usable_cpus(), MAX_JOBS),
            prepare=prepare,
            tell=tell,
        )
        asked_to_end = False
        try:
            if step is None:
                mapper.map_range(low, high)
            else:
                mapper.sample_range(low, high, step)
        except Terminated:
            asked_to_end = True
            raise
        finally:
            if file is not None:
                file.save()
                if step is None and not asked_to_end:
                    _note_rest(saved, file.path, low, high)
    return saved


def _note_rest(saved: SavedMap, path: str, low: int, high: int) -> None:
    """Say how to complete a map that is not whole."""
    if len(saved.outcomes) and saved.outcomes.gaps(low, high):
        found = count(len(saved.outcomes), "interval")
        note(f"{found} kept in {path}; the same command goes on from there")


def _show(saved: SavedMap, ask: Ask, pictures: PictureFiles, json: bool) -> None:
    peak_bytes = next(iter(saved.outcomes)).header.peak_bytes
    low, high = ask.range(peak_bytes, (saved.from_bytes, saved.to_bytes))
    within = ask.within_bytes(peak_bytes, high)
    known = saved.between(low, high)
    summary = summarise_map(known, within)
    if pictures.given():
        write_files(pictures.contents(partial(chart_picture, map_chart(known, summary))))
    if json:
        print_json(saved.document(low, high, within))
        return
    print_sentences(map_words(known, summary, saved.resolution_bytes))
    print_table(*(segment_table(known, summary.segments, left_out) for left_out in range(3)))
    if pictures.given():
        print_sentences(["", pictures.written()])


def _show_saved(path: str, ask: Ask, at: str | None, pictures: PictureFiles, json: bool) -> None:
    saved = read_map(path)
    if at is None:
        _show(saved, ask, pictures, json)
    else:
        _show_run(path, saved, at, json)


def _show_run(path: str, saved: SavedMap, at: str, json: bool) -> None:
    peak_bytes = next(iter(saved.outcomes)).header.peak_bytes
    budget_bytes = amount(at, peak_bytes)
    outcome = saved.outcomes.find(budget_bytes)
    if outcome is None:
        raise UsageError(_not_known(saved, budget_bytes), path=path)
    header = attrs.evolve(outcome.header, budget_bytes=budget_bytes)
    document: dict[str, Any] = run_document(
        header, outcome.end, outcome.engine, outcome.simulate_seconds
    )
    if json:
        print_json(document)
        return
    print_sentences(run_words(document))
    print_table(run_table(document))


def _not_known(saved: SavedMap, budget_bytes: int) -> str:
    runs = [outcome.end for outcome in saved.outcomes]
    low, high = runs[0].interval_lo_bytes, runs[-1].interval_hi_bytes
    known = f"from {low} bytes on" if high is None else f"from {low} to {high - 1} bytes"
    inside = low <= budget_bytes and (high is None or budget_bytes < high)
    gaps = ", with gaps, of which this is one" if inside else ""
    return f"the map does not know a budget of {budget_bytes} bytes: it knows budgets {known}{gaps}"
