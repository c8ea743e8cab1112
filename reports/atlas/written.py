"""Write the atlas from its cells: README.md, cells.csv, windows.parquet and figures."""

from __future__ import annotations

import csv
import importlib
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from string import Template
from typing import Any

from dtrdiag.rendering.charts import dot_chart, strip_chart, svg_text

CLIFF = 1.5
"""A cliff of at least this factor counts as one."""
LIMIT = 10
Cells = list[dict[str, Any]]


def write(folder: Path, cells: Cells, seconds: float) -> None:
    """Write everything into a folder."""
    with (folder / "cells.csv").open("w", newline="") as stream:
        rows = [row_of(cell) for cell in cells]
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    _write_windows(folder / "windows.parquet", cells)
    for name, chart in _figures(cells):
        (folder / name).write_text(svg_text(chart) + "\n")
    (folder / "README.md").write_text(_page(cells, seconds))


def row_of(cell: dict[str, Any]) -> dict[str, Any]:
    """The figures of a cell, one row."""
    window, samples = cell["window"], cell["overview"]["samples"]
    measures, peak = window["measures"], cell["peak_bytes"]
    cliff = measures["worst_cliff"]
    return {
        "trace": cell["trace"],
        "policy": cell["policy"],
        "semantics": cell["semantics"],
        "ops": cell["ops"],
        "peak_bytes": peak,
        "samples": len(samples),
        "samples_asked": cell["overview"]["asked"],
        "sampled_ok": _count(samples, "ok"),
        "sampled_oom": _count(samples, "oom"),
        "sampled_stopped": _count(samples, "thrashed"),
        "sampled_inversions": sampled_inversions(samples),
        "sampled_rises": sampled_rises(samples),
        "lowest_ok_ratio": min((s["ratio"] for s in samples if s["outcome"] == "ok"), default=None),
        "window_from_ratio": window["from"] / peak,
        "window_to_ratio": window["to"] / peak,
        "window_share_done": (window["to"] - window["from"] + 1)
        / (window["asked_to"] - window["from"] + 1),
        "intervals": measures["intervals"]["total"],
        "inversions": measures["inversions"]["number"],
        "inversion_bytes": measures["inversions"]["bytes"],
        "inversion_bytes_at_most": measures["inversions"]["bytes_at_most"],
        "stopped_share": measures["budgets"]["thrashed_share"],
        "entropy_bits": measures["entropy_bits"],
        "upward_log_overhead": measures["log_overhead"]["upward"],
        "cliff_factor": cliff["factor"],
        "cliff_is": cliff["factor_is"],
        "cliff_low_budget": cliff["low_budget"],
        "cliff_high_budget": cliff["high_budget"],
        "seconds": round(cell["overview"]["seconds"] + window["seconds"], 1),
    }


def sampled_inversions(samples: Iterable[dict[str, Any]]) -> int:
    """Samples out of memory above one that finishes."""
    feasible, found = False, 0
    for sample in samples:
        feasible = feasible or sample["outcome"] == "ok"
        found += feasible and sample["outcome"] == "oom"
    return found


def sampled_rises(samples: Iterable[dict[str, Any]]) -> int:
    """Neighbouring samples of which the larger budget has at least `CLIFF` times the overhead.

    A run that was stopped has at least the overhead at its stop.
    """
    kept = [s for s in samples if s["outcome"] != "oom" and s["overhead"]]
    return sum(
        above["overhead"] >= CLIFF * below["overhead"]
        for below, above in itertools.pairwise(kept)
        if below["outcome"] == "ok"
    )


def _count(samples: Iterable[dict[str, Any]], outcome: str) -> int:
    return sum(sample["outcome"] == outcome for sample in samples)


def _write_windows(path: Path, cells: Cells) -> None:
    arrow, parquet = (importlib.import_module(n) for n in ("pyarrow", "pyarrow.parquet"))
    rows = [
        (cell["trace"], cell["policy"], cell["semantics"], *interval)
        for cell in cells
        for interval in cell["window"]["intervals"]
    ]
    names = ("trace", "policy", "semantics", "lo", "hi", "outcome", "overhead")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    parquet.write_table(arrow.table(columns), path, compression="zstd")


def _figures(cells: Cells) -> Iterator[tuple[str, Any]]:
    for trace in dict.fromkeys(cell["trace"] for cell in cells):
        mine = [cell for cell in cells if cell["trace"] == trace]
        names = [f"{cell['policy']}, {cell['semantics']}" for cell in mine]
        rows = [
            {"name": name, "low": s["ratio"], "high": s["ratio"] + 0.01, "outcome": s["outcome"]}
            for name, cell in zip(names, mine, strict=True)
            for s in cell["overview"]["samples"]
        ]
        title = f"{trace}: outcome at each sampled budget"
        yield f"{trace}.svg", strip_chart(rows, title, names, "budget / peak")
    rows = [
        {
            "name": f"{cell['trace']}, {cell['policy']}",
            "value": cliff["factor"],
            "series": cell["semantics"],
            "bound": cliff["factor_is"] != "exact",
        }
        for cell in cells
        for cliff in (cell["window"]["measures"]["worst_cliff"],)
        if cliff["factor"]
    ]
    names = list(dict.fromkeys(row["name"] for row in rows))
    title = "Worst cliff within 0.1 % of the peak, in the windows"
    yield "cliffs.svg", dot_chart(rows, title, names, "larger overhead / smaller")


def _page(cells: Cells, seconds: float) -> str:
    rows = [row_of(cell) for cell in cells]
    pairs = _pairs(rows)
    traces = dict.fromkeys(row["trace"] for row in rows)
    template = (Path(__file__).parent / "page.template.md").read_text()
    return Template(template).substitute(
        seconds=f"{seconds:g}",
        cells=len(rows),
        limit=LIMIT,
        minutes=f"{sum(row['seconds'] for row in rows) / 60:,.0f}",
        samples=f"{sum(row['samples'] for row in rows):,}",
        samples_asked=f"{sum(row['samples_asked'] for row in rows):,}",
        whole=sum(row["window_share_done"] == 1 for row in rows),
        pairs=len(pairs),
        found="\n".join(_found(pairs)),
        by_policy="\n".join(_by_policy(rows)),
        of_whom="\n".join(_of_whom(pairs)),
        table="\n".join(_table(rows)),
        figures="\n\n".join(f"![{name}]({name}.svg)" for name in ("cliffs", *traces)),
    )


def _pairs(rows: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Rows of simrd's semantics, each with that of the repaired ones."""
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["trace"], row["policy"]), {})[row["semantics"]] = row
    return [(two["simrd"], two["repaired"]) for two in found.values() if len(two) == 2]


def _has_inversion(row: dict[str, Any]) -> bool:
    return row["inversions"] > 0 or row["sampled_inversions"] > 0


def _has_cliff(row: dict[str, Any]) -> bool:
    return (row["cliff_factor"] or 1) >= CLIFF


def _has_rise(row: dict[str, Any]) -> bool:
    return row["sampled_rises"] > 0


def _found(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> Iterator[str]:
    yield "| cells with | simrd | repaired | both | simrd alone | repaired alone |"
    yield "|---|---:|---:|---:|---:|---:|"
    for words, has in (
        ("a feasibility inversion, in samples or window", _has_inversion),
        (f"a cliff of {CLIFF:g}x or more in the window", _has_cliff),
        (f"a rise of {CLIFF:g}x or more from a sample to the next", _has_rise),
    ):
        a, b = ([has(row) for row in side] for side in zip(*pairs, strict=True))
        both = sum(x and y for x, y in zip(a, b, strict=True))
        yield f"| {words} | {sum(a)} | {sum(b)} | {both} | {sum(a) - both} | {sum(b) - both} |"


def _by_policy(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "| policy | simrd | repaired |"
    yield "|---|---:|---:|"
    for policy in dict.fromkeys(row["policy"] for row in rows):
        sides = [
            [r for r in rows if r["policy"] == policy and r["semantics"] == name]
            for name in ("simrd", "repaired")
        ]
        counts = [f"{sum(map(_has_inversion, s))} / {sum(map(_has_cliff, s))}" for s in sides]
        yield f"| `{policy}` | {counts[0]} | {counts[1]} |"


def _of_whom(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> Iterator[str]:
    for words, has in (("Inversions", _has_inversion), ("Cliffs", _has_cliff)):
        gone = [a for a, b in pairs if has(a) and not has(b)]
        both = [a for a, b in pairs if has(a) and has(b)]
        new = [b for a, b in pairs if has(b) and not has(a)]
        yield (
            f"- **{words}** are there with all of simrd's defects repaired in {len(both)} of the "
            f"{len(gone) + len(both)} cells that have one under simrd's semantics."
        )
        yield f"  Gone with the defects: {_names(gone)}."
        yield f"  There with the repair alone: {_names(new)}."


def _names(rows: list[dict[str, Any]]) -> str:
    return ", ".join(f"`{row['trace']}` {row['policy']}" for row in rows) or "none"


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield (
        "| trace | policy | semantics | samples | lowest ok | done | inversions | cliff | stopped "
        "| up |"
    )
    yield "|---|---|---|---|---:|---:|---|---:|---:|---:|"
    for row in rows:
        bound = "" if row["cliff_is"] == "exact" else "&ge; "
        up, lowest = row["upward_log_overhead"], row["lowest_ok_ratio"]
        inversions = f"{row['inversions']}, {row['inversion_bytes']:,} B"
        fields = (
            row["trace"],
            f"`{row['policy']}`",
            row["semantics"],
            f"{row['sampled_ok']} / {row['sampled_oom']} / {row['sampled_stopped']}",
            "-" if lowest is None else f"{lowest:.2f}",
            f"{row['window_share_done']:.0%}",
            inversions + (f" ({row['sampled_inversions']})" if row["sampled_inversions"] else ""),
            f"{bound}{row['cliff_factor']:.2f}" if row["cliff_factor"] else "-",
            f"{row['stopped_share']:.0%}",
            "-" if up is None else f"{up:.2f}",
        )
        yield f"| {' | '.join(fields)} |"
