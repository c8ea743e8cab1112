"""Write the atlas from its cells: README.md, cells.csv, windows.parquet and figures."""

from __future__ import annotations

import csv
import importlib
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from string import Template
from typing import Any

import attrs

from dtrdiag.rendering.charts import dot_chart, strip_chart, svg_text

CLIFF, WITHIN = 1.5, 0.001
"""A cliff of at least this factor, within this share of the peak, counts as one."""
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
    pairs = _pairs(cells)
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
        by_policy="\n".join(_by_policy(pairs)),
        differing="\n".join(_differing(pairs)),
        of_whom="\n".join(_of_whom(pairs)),
        table="\n".join(_table(rows)),
        figures="\n\n".join(f"![{name}]({name}.svg)" for name in ("cliffs", *traces)),
    )


@attrs.frozen
class Side:
    """One of two cells that differ in semantics alone, as far as both are known.

    Attributes:
        row: its figures as a whole.
        samples: at the budgets at which both were sampled.
        intervals: lo, hi, outcome, overhead of its window up to where the shorter window ends.
    """

    row: dict[str, Any]
    samples: list[dict[str, Any]]
    intervals: list[list[Any]]

    @property
    def has_inversion(self) -> bool:
        """In the samples or in the window."""
        outcomes = [outcome for _, _, outcome, _ in self.intervals]
        after = outcomes[outcomes.index("ok") :] if "ok" in outcomes else []
        return "oom" in after or sampled_inversions(self.samples) > 0

    @property
    def has_cliff(self) -> bool:
        """Of `CLIFF` at least, between budgets of the window at most `WITHIN` of the peak apart."""
        within = int(self.row["peak_bytes"] * WITHIN)
        known = [one for one in self.intervals if one[2] != "oom" and one[3]]
        first = 0
        for at, (lo, _, outcome, overhead) in enumerate(known):
            while known[first][1] is not None and lo - known[first][1] + 1 > within:
                first += 1
            for _, _, other, cost in known[first:at]:
                smaller = other if overhead > cost else outcome
                if smaller == "ok" and max(overhead, cost) >= CLIFF * min(overhead, cost):
                    return True
        return False

    @property
    def has_rise(self) -> bool:
        """Among the samples."""
        return sampled_rises(self.samples) > 0


def _pairs(cells: Cells) -> list[tuple[Side, Side]]:
    """The two semantics beside each other, cut to what is known of both."""
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for cell in cells:
        found.setdefault((cell["trace"], cell["policy"]), {})[cell["semantics"]] = cell
    made = []
    for two in found.values():
        if len(two) == 2:
            both = (two["simrd"], two["repaired"])
            sampled = [{s["budget"] for s in cell["overview"]["samples"]} for cell in both]
            # Windows that begin at different budgets have nothing in common.
            low = max(cell["window"]["from"] for cell in both)
            end = min(cell["window"]["to"] for cell in both)
            a, b = (_side(cell, sampled[0] & sampled[1], low, end) for cell in both)
            made.append((a, b))
    return made


def _side(cell: dict[str, Any], budgets: set[int], low: int, end: int) -> Side:
    samples = [s for s in cell["overview"]["samples"] if s["budget"] in budgets]
    intervals = [
        one
        for one in cell["window"]["intervals"]
        if one[0] <= end and (one[1] is None or one[1] > low)
    ]
    return Side(row_of(cell), samples, intervals)


def _found(pairs: list[tuple[Side, Side]]) -> Iterator[str]:
    yield "| cells with | simrd | repaired | both | simrd alone | repaired alone |"
    yield "|---|---:|---:|---:|---:|---:|"
    for words, name in (
        ("a feasibility inversion, in samples or window", "has_inversion"),
        (f"a cliff of {CLIFF:g}x or more in the window", "has_cliff"),
        (f"a rise of {CLIFF:g}x or more from a sample to the next", "has_rise"),
    ):
        a, b = ([getattr(one, name) for one in side] for side in zip(*pairs, strict=True))
        both = sum(x and y for x, y in zip(a, b, strict=True))
        yield f"| {words} | {sum(a)} | {sum(b)} | {both} | {sum(a) - both} | {sum(b) - both} |"


def _differing(pairs: list[tuple[Side, Side]]) -> Iterator[str]:
    """How many samples come out otherwise, by policy."""
    yield "| policy | samples of both | another outcome | another overhead | largest factor |"
    yield "|---|---:|---:|---:|---:|"
    for policy in dict.fromkeys(a.row["policy"] for a, _ in pairs):
        two = [
            (x, y)
            for a, b in pairs
            if a.row["policy"] == policy
            for x, y in zip(a.samples, b.samples, strict=True)
        ]
        outcomes = sum(x["outcome"] != y["outcome"] for x, y in two)
        # Of runs that finish: the others' overheads are those at their stop.
        same = [(x, y) for x, y in two if x["outcome"] == y["outcome"] == "ok"]
        costs = [max(x["overhead"], y["overhead"]) / min(x["overhead"], y["overhead"])
                 for x, y in same if x["overhead"] != y["overhead"]]  # fmt: skip
        largest = f"{max(costs):.4f}" if costs else "-"
        yield f"| `{policy}` | {len(two):,} | {outcomes} | {len(costs)} | {largest} |"


def _by_policy(pairs: list[tuple[Side, Side]]) -> Iterator[str]:
    yield "| policy | simrd | repaired |"
    yield "|---|---:|---:|"
    for policy in dict.fromkeys(a.row["policy"] for a, _ in pairs):
        mine = [two for two in pairs if two[0].row["policy"] == policy]
        counts = [
            f"{sum(one.has_inversion for one in side)} / {sum(one.has_cliff for one in side)}"
            for side in zip(*mine, strict=True)
        ]
        yield f"| `{policy}` | {counts[0]} | {counts[1]} |"


def _of_whom(pairs: list[tuple[Side, Side]]) -> Iterator[str]:
    for words, name in (("Inversions", "has_inversion"), ("Cliffs", "has_cliff")):
        gone = [a for a, b in pairs if getattr(a, name) and not getattr(b, name)]
        both = [a for a, b in pairs if getattr(a, name) and getattr(b, name)]
        new = [b for a, b in pairs if getattr(b, name) and not getattr(a, name)]
        yield f"- **{words}** are there with all of simrd's defects repaired in {len(both)} of the"
        yield f"  {len(gone) + len(both)} cells that have one under simrd's semantics:"
        yield f"  {_names(both)}."
        yield f"  Gone with the defects: {_names(gone)}."
        yield f"  There with the repair alone: {_names(new)}."


def _names(sides: list[Side]) -> str:
    return ", ".join(f"`{one.row['trace']}` {one.row['policy']}" for one in sides) or "none"


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
