"""Write reports/preprint/README.md and its figures from the results of `dtrdiag reproduce`.

    dtrdiag reproduce -o reports/preprint/results --force
    python reports/preprint/make.py

Figures come from runs of their own: the map of ResNet-32 around its inversion, samples of the LSTM
around its pair, and the course of that pair. Needs the extras `charts` and `parquet`, and the
public traces.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any

from dtrdiag.analyses import BudgetMap, diff_runs
from dtrdiag.errors import DtrdiagError
from dtrdiag.experiments.budget_map import Mapper
from dtrdiag.experiments.outcomes import Outcomes
from dtrdiag.instrumentation import ParquetWriter
from dtrdiag.log import open_log
from dtrdiag.rendering.charts import line_chart, map_chart, svg_text
from dtrdiag.rendering.claims import measured_words
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, budget_from_ratio, simulate_in_columns
from dtrdiag.trace.catalog import resolve

FOLDER = Path(__file__).parent
Document = Mapping[str, Any]
FIGURES = {
    "resnet32.svg": "ResNet-32, `dtr`, overhead limit 100: every budget from 0.096 to 0.110.",
    "lstm.svg": "LSTM, `dtr`, overhead limit 10: samples 0.0005 of the peak apart.",
    "lstm-pair-extra.svg": "What the LSTM pays more at 0.264 than at 0.265, along the schedule.",
    "lstm-pair-jaccard.svg": "How alike the resident sets of the two are after each step.",
}  # fmt: skip


def page(document: Document) -> str:
    """The page, from a `dtrdiag.reproduce/1` document."""
    claims = {claim["id"]: claim for claim in document["claims"]}
    template = Template((FOLDER / "page.template.md").read_text())
    return template.substitute(
        seconds=f"{sum(claim['seconds'] for claim in claims.values()):,.0f}",
        table="\n".join(_table(claims.values())),
        cliff_a=_figure(claims, "lstm-cliff", "a.overhead"),
        cliff_b=_figure(claims, "lstm-cliff", "b.overhead"),
        cliff_factor=_figure(claims, "lstm-cliff", "overhead_factor"),
        uncensored_a=_figure(claims, "lstm-cliff-uncensored", "a.overhead"),
        uncensored_b=_figure(claims, "lstm-cliff-uncensored", "b.overhead"),
        uncensored_factor=_figure(claims, "lstm-cliff-uncensored", "overhead_factor"),
        jaccard_all=_figure(claims, "lstm-pair", "sets.all.jaccard"),
        jaccard_pressure=_figure(claims, "lstm-other-victims", "sets.pressure.jaccard"),
        pressure_a=_figure(claims, "lstm-other-victims", "sets.pressure.a"),
        pressure_b=_figure(claims, "lstm-other-victims", "sets.pressure.b"),
        figures="\n\n".join(f"![{words}]({name})\n\n{words}" for name, words in FIGURES.items()),
        claims="\n".join(line for claim in claims.values() for line in _claim(claim)),
    )


def _figure(claims: Mapping[str, Document], claim: str, path: str) -> str:
    """What a claim's evidence measured, a bound as such."""
    for item in (*claims[claim]["evidence"], *claims[claim]["interventions"]):
        for predicate in item["predicates"]:
            if path in predicate["measured"]:
                value = predicate["measured"][path]
                if isinstance(value, Mapping):
                    (value,) = value.values()
                return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
    raise DtrdiagError(f"claim {claim!r} measures no {path}")


def _table(claims: Any) -> Iterator[str]:
    yield "| claim | kind | status |"
    yield "|---|---|---|"
    for claim in claims:
        yield f"| [{claim['title']}](#{claim['id']}) | {claim['kind']} | **{claim['status']}** |"


def _claim(claim: Document) -> Iterator[str]:
    yield f"### {claim['id']}"
    yield ""
    yield f"> {claim['statement']}"
    yield ""
    yield f"*{claim['kind'].capitalize()}; source: {claim['source']}; scope: {claim['scope']}.*"
    yield f"*Refuted if {claim['refuted_if']}.*" if claim["refuted_if"] else ""
    yield ""
    yield f"**{claim['status'].capitalize()}**: {claim['reason']}."
    yield ""
    for item in (*claim["evidence"], *claim["interventions"]):
        yield from _item(item)
    yield ""


def _item(item: Document) -> Iterator[str]:
    role = {"evidence": "evidence", "moves": "intervention", "control": "control"}[item["role"]]
    title = item["title"] or f"by `{item['check']}`"
    changed = item["parameters"].get("interventions")
    shown = f" (`{changed}`)" if changed else ""
    yield f"- {role}: {title}{shown}: {_verdict(item)}"
    seen: dict[str, Any] = {}
    for predicate in item["predicates"]:
        seen |= predicate["measured"]
    for path, value in seen.items():
        yield f"  - `{path}` = {measured_words(value)}"


def _verdict(item: Document) -> str:
    verdict = item["verdict"]
    if item["role"] == "moves":
        return "**moved it**" if verdict == "holds" and not item["holds_without"] else "did not"
    if item["role"] == "control":
        return {"holds": "left it alone, as it should", "fails": "**moved it**"}.get(
            verdict, verdict
        )
    return {"holds": "holds", "fails": "**does not hold**", "undecided": "not decided"}[verdict]


def draw(folder: Path) -> None:
    """Make the figures."""
    resnet = resolve("resnet32")
    peak = baseline_peak_bytes(resnet)
    title = "ResNet-32, dtr, overhead limit 100"
    rules = RunConfig("dtr", overhead_limit=100, peak_bytes=peak)
    ends = [budget_from_ratio(peak, ratio) for ratio in (0.096, 0.110)]
    known = Outcomes()
    Mapper(resnet, rules, known).map_range(*ends)
    _write(folder / "resnet32.svg", map_chart(_map(known, *ends), title))
    lstm = resolve("lstm")
    peak = baseline_peak_bytes(lstm)
    rules = RunConfig("dtr", overhead_limit=10, peak_bytes=peak)
    ends = [budget_from_ratio(peak, ratio) for ratio in (0.255, 0.280)]
    known = Outcomes()
    mapper = Mapper(lstm, rules, known)
    for budget in range(ends[0], ends[1] + 1, peak // 2000):
        mapper.map_range(budget, budget)
    _write(folder / "lstm.svg", map_chart(_map(known, *ends), "LSTM, dtr, overhead limit 10"))
    _draw_pair(folder)


def _map(known: Outcomes, low: int, high: int) -> BudgetMap:
    found = tuple(known)
    return BudgetMap(found[0].header, tuple(outcome.end for outcome in found), low, high)


def _draw_pair(folder: Path) -> None:
    lstm = resolve("lstm")
    peak = baseline_peak_bytes(lstm)
    with tempfile.TemporaryDirectory() as place:
        logs = []
        for ratio in (0.264, 0.265):
            path = Path(place) / f"{ratio}.parquet"
            with ParquetWriter(path) as writer:
                config = RunConfig("dtr", budget_from_ratio(peak, ratio))
                simulate_in_columns(lstm, config, writer.write_batch)
            logs.append(open_log(str(path)))
        course = diff_runs(*logs).trajectory
    if course is None:
        raise DtrdiagError("the two runs of the LSTM do not part")
    steps = course.steps.tolist()
    extra = [
        {"x": step, "y": -ns / 1e9, "series": "0.264 less 0.265"}
        for step, ns in zip(steps, course.extra_ns.tolist(), strict=True)
    ]
    title = "Extra cost of the LSTM at 0.264"
    chart = line_chart(_thinned(extra), title, "step of the schedule", "seconds")
    _write(folder / "lstm-pair-extra.svg", chart)
    alike = [
        {"x": step, "y": value, "series": series}
        for series, column in (("storages", course.jaccard), ("bytes", course.jaccard_bytes))
        for step, value in _thin(list(zip(steps, column.tolist(), strict=True)))
    ]
    title = "Jaccard of the resident sets, 0.264 and 0.265"
    _write(folder / "lstm-pair-jaccard.svg", line_chart(alike, title, "step", "Jaccard"))


def _thinned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = {step for step, _ in _thin([(row["x"], row["y"]) for row in rows])}
    return [row for row in rows if row["x"] in kept]


def _thin(points: list[tuple[int, float]], pieces: int = 700) -> list[tuple[int, float]]:
    """First, least, largest and last of each piece: nothing that a picture shows is lost."""
    size = max(1, len(points) // pieces)
    kept: dict[int, float] = {}
    for start in range(0, len(points), size):
        piece = points[start : start + size]
        least, most = (which(piece, key=lambda point: point[1]) for which in (min, max))
        kept |= dict(sorted([piece[0], least, most, piece[-1]]))
    return list(kept.items())


def _write(path: Path, chart: Any) -> None:
    path.write_text(svg_text(chart) + "\n")


def main() -> int:
    """Write everything."""
    results = FOLDER / "results" / "results.json"
    try:
        if not results.exists():
            raise DtrdiagError("run dtrdiag reproduce first, see above", path=results)
        (FOLDER / "README.md").write_text(page(json.loads(results.read_text())))
        draw(FOLDER)
    except DtrdiagError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
