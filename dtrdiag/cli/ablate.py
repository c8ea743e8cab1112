"""``dtrdiag ablate``: how does a range of budgets look under many policies?"""

from __future__ import annotations

import csv as csv_files
import io
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import attrs
import typer

from dtrdiag.analyses import map_segments
from dtrdiag.cli.map import MAX_JOBS, Ask, High, Jobs, Low, Within, check_jobs
from dtrdiag.cli.mapprogress import maps_progress
from dtrdiag.cli.options import Force, Json, Rules, TraceArgument, takes_rules
from dtrdiag.cli.output import (
    Pathlike,
    check_outputs,
    note,
    print_json,
    print_sentences,
    print_table,
    write_files,
)
from dtrdiag.cli.pictures import Pdf, PictureFiles, Png, Svg
from dtrdiag.cli.policyfile import load_policy_file, policy_file_sha256
from dtrdiag.cli.sources import at_budget, load_trace, peak_of
from dtrdiag.cli.terminating import terminable
from dtrdiag.errors import OutputError, UsageError
from dtrdiag.experiments.ablation import (
    GROUPS,
    Ablation,
    MapKey,
    ablation_document,
    make_ablation,
    map_all,
    plan_noise,
    plan_variants,
)
from dtrdiag.experiments.map_files import MapFile, SavedMap
from dtrdiag.experiments.resultsfolder import REQUEST
from dtrdiag.experiments.rows import check_pyarrow, definition_of
from dtrdiag.experiments.workers import usable_cpus
from dtrdiag.rendering.ablations import (
    TERMS_LEGEND,
    ablation_words,
    measures_legend,
    measures_table,
    noise_table,
    terms_table,
)
from dtrdiag.rendering.commands import rules_words
from dtrdiag.rendering.pages.parts import Chart
from dtrdiag.rendering.pictures import chart_picture
from dtrdiag.rendering.stripcharts import strip_chart
from dtrdiag.trace import Trace
from dtrdiag.units import count, plain_name

DEFAULT_SEEDS = 5

_Policies = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        "--policy",
        metavar="POLICY",
        help="Policy, or `ablations` (the 16) or `named`; repeatable.",
        show_default=False,
    ),
]
_Epsilon = Annotated[
    float | None,
    typer.Option(
        metavar="E", help="Also with noise on all costs: x (1 + E u).", show_default=False
    ),
]
_Seeds = Annotated[
    int | None,
    typer.Option(metavar="K", help="How many seeds of noise (5).", show_default=False),
]
_Folder = Annotated[
    str | None,
    typer.Option("-o", "--output", metavar="DIR", help="Keep the maps here.", show_default=False),
]
_Csv = Annotated[
    str | None,
    typer.Option("--csv", metavar="FILE", help="Write all measures as CSV.", show_default=False),
]


@takes_rules
def ablate(
    source: TraceArgument,
    rules: Rules,
    policy: _Policies = None,
    low: Low = None,
    high: High = None,
    within: Within = None,
    epsilon: _Epsilon = None,
    noise_seeds: _Seeds = None,
    jobs: Jobs = None,
    output: _Folder = None,
    csv: _Csv = None,
    svg: Svg = None,
    png: Png = None,
    pdf: Pdf = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Compare policies over a range of budgets, and terms of scores.

    Each policy's map of the range is exact, and so are the measures. Without -p the policies are
    the 16 ablations: four costs, each over size and staleness, either, or neither. With --epsilon
    each is mapped with noise on the costs as well, which tells a knife-edge from a robust effect.
    With -o the maps are kept, and the same command goes on where it stopped. A picture (--svg,
    --png, --pdf) shows the outcome at every budget, a line for each policy.
    """
    ask = Ask(low, high, within, None)
    ask.check()
    check_jobs(jobs)
    if epsilon is None and noise_seeds is not None:
        raise UsageError("--noise-seeds needs --epsilon")
    noise = plan_noise(epsilon, DEFAULT_SEEDS if noise_seeds is None else noise_seeds)
    names = [rules.policy(name) if name not in GROUPS else name for name in policy or ()]
    if rules.policy_file is not None and not names:
        names = ["ablations", *load_policy_file(rules.policy_file)]
    variants = plan_variants(names)
    config = rules.config(variants[0].policy)
    pictures = PictureFiles(svg, png, pdf)
    _check_outputs(csv, output, pictures, force)
    trace = load_trace(source)
    peak_bytes = peak_of(trace)
    budgets = ask.range(peak_bytes)
    common = at_budget(config, trace, None)
    ablation = make_ablation(
        common, variants, noise, budgets, ask.within_bytes(peak_bytes, budgets[1])
    )
    _map(trace, ablation, Making(jobs, output, force, rules.policy_file))
    _answer(ablation, output, csv, pictures, json)


def _answer(
    ablation: Ablation, output: str | None, csv: str | None, pictures: PictureFiles, json: bool
) -> None:
    document = ablation_document(ablation) | {"folder": output}
    contents: dict[Pathlike, bytes] = {} if csv is None else {csv: _csv(document)}
    if pictures.given():
        contents |= pictures.contents(partial(chart_picture, _chart(ablation)))
    write_files(contents)
    if json:
        print_json(document)
    else:
        _show(document, output, csv, pictures)


@attrs.frozen
class Making:
    """How the maps are made."""

    jobs: int | None
    output: str | None
    force: bool
    policy_file: str | None


def _check_outputs(
    csv: str | None, output: str | None, pictures: PictureFiles, force: bool
) -> None:
    pictures.check(force)
    check_outputs([csv, *pictures.given().values()], force)
    if output == "":
        raise OutputError("a folder must have a name")
    if output is not None and (Path(output) / REQUEST).exists():
        raise OutputError("is the folder of a sweep: keep the maps in another", path=output)


def _map(trace: Trace, ablation: Ablation, making: Making) -> None:
    files = _files(trace, ablation, making)
    policy_file = making.policy_file
    prepare = None if policy_file is None else partial(load_policy_file, policy_file)
    low, high = ablation.from_bytes, ablation.to_bytes
    changed: set[int] = set()
    with terminable(), maps_progress(ablation.known, low, high) as show:

        def tell(which: int, found: object) -> None:
            show(which)
            if files:
                changed.add(which)
                files[which].save_if_due()

        jobs = making.jobs or min(usable_cpus(), MAX_JOBS)
        try:
            map_all(trace, ablation, jobs=jobs, prepare=prepare, tell=tell)
        finally:
            for which in sorted(changed):
                files[which].save()
            whole = sum(not each.gaps(low, high) for each in ablation.known)
            if files and whole < len(files):
                rest = f"{whole} of {count(len(files), 'map')} complete"
                note(f"{rest} in {making.output}; the same command goes on from there")


def _files(trace: Trace, ablation: Ablation, making: Making) -> list[MapFile]:
    """The file of each map, with what it knows already added to the ablation."""
    if making.output is None:
        return []
    check_pyarrow()
    folder = Path(making.output)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"the folder cannot be made: {error.strerror or error}", path=folder
        ) from None
    digest = policy_file_sha256(making.policy_file)
    files = []
    for at, key in enumerate(ablation.keys):
        definition = definition_of(trace, ablation.rules_of(at), digest)
        saved = SavedMap(definition, ablation.known[at], ablation.from_bytes, ablation.to_bytes)
        files.append(MapFile(str(folder / _file_name(key)), saved, making.force))
    return files


def _file_name(key: MapKey) -> str:
    noise = "" if key.noise is None else f".noise-{key.noise.epsilon!r}-{key.noise.seed}"
    return f"{quote(key.variant.policy, safe='+ ')}{noise}.parquet"


def _chart(ablation: Ablation) -> Chart:
    """Outcomes of all policies, without noise, on one axis."""
    plain = [at for at, key in enumerate(ablation.keys) if key.noise is None]
    maps = [ablation.map(at) for at in plain]
    header = maps[0].header
    chart = strip_chart(
        [ablation.keys[at].variant.policy for at in plain],
        [map_segments(each) for each in maps],
        domain=(ablation.from_bytes, ablation.to_bytes + 1),
        peak_bytes=header.peak_bytes,
    )
    name = plain_name(header.trace_name)
    return attrs.evolve(chart, heading=f"{name}{rules_words(header)}: outcomes by policy")


def _show(
    document: Mapping[str, Any], folder: str | None, csv: str | None, pictures: PictureFiles
) -> None:
    print_sentences(ablation_words(document))
    print_table(measures_table(document), measures_table(document, narrow=True))
    print_sentences([measures_legend(document)])
    terms = terms_table(document)
    if terms is not None:
        print_table(terms)
        print_sentences([TERMS_LEGEND])
    if document["noise"] is not None:
        print_table(noise_table(document))
    kept = [f"The maps are kept in {folder}."] if folder is not None else []
    kept += [f"The measures are in {csv}."] if csv is not None else []
    kept += [pictures.written()] if pictures.given() else []
    if kept:
        print_sentences(["", *kept])


def _csv(document: Mapping[str, Any]) -> bytes:
    """A row for each map: policy, seed of the noise, and each measure under its path."""
    rows = []
    for variant in document["variants"]:
        maps = [(None, variant["measures"])]
        if variant["noise"] is not None:
            maps += [(each["seed"], each["measures"]) for each in variant["noise"]["seeds"]]
        for seed, measures in maps:
            rows.append({"policy": variant["policy"], "noise_seed": seed} | dict(_flat(measures)))
    text = io.StringIO()
    writer = csv_files.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _flat(document: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value
