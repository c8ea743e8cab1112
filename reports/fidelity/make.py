"""Do live runs decide as the simulator does, model by model? Makes this report.

    python reports/fidelity/make.py WORK_DIR [MODEL ...]

runs `dtrdiag fidelity` once a model, keeps each document in WORK_DIR and goes on with those that
are missing there; then it writes points.json (a line a point) and README.md beside itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
POLICIES = ("dtr", "dtr-eq", "lru", "size")
RATIOS = ("0.9", "0.7", "0.45", "0.25")
LIMIT, REPEAT = "3", "3"
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "resnet-20": ("resnet-20", {"batch": 8}),
    "transformer": ("transformer", {"batch": 16, "length": 32, "width": 64, "heads": 4}),
    "gpt2": ("gpt2", {"dropout": 0.1, "batch": 8, "length": 32, "width": 64}),
    "gpt2-eager": ("gpt2", {"attention": "eager", "batch": 16, "length": 32, "width": 64}),
    "unet": ("unet", {"batch": 4, "image": 32}),
    "lstm": ("lstm", {"batch": 32, "hidden": 64, "features": 64}),
    "treelstm": ("treelstm", {"batch": 16}),
    "mamba": ("mamba", {"batch": 8, "length": 16, "width": 64}),
    "moe": ("moe", {"batch": 16, "length": 32, "capacity": 320}),
    "diffusion": ("diffusion", {"batch": 8, "image": 16}),
}
"""What is run, and the sizes that differ from the small ones of the zoo."""


def command(name: str) -> list[str]:
    """The command of a model."""
    model, sizes = MODELS[name]
    parts = ["dtrdiag", "fidelity", f"zoo:{model}", "--threads", "1"]
    for size, value in sizes.items():
        parts += ["--set", f"{size}={value}"]
    for policy in POLICIES:
        parts += ["-p", policy]
    for ratio in RATIOS:
        parts += ["-r", ratio]
    return [*parts, "--overhead-limit", LIMIT, "--repeat", REPEAT, "--costs", "measured"]


def measure(name: str, work: Path) -> dict[str, Any]:
    """The document of a model, made unless it is there."""
    path = work / f"{name}.json"
    if not path.exists():
        print(name, flush=True)
        asked = [sys.executable, "-P", "-m", *command(name), "-o", str(path)]
        done = subprocess.run(asked, stdout=subprocess.DEVNULL, check=False)
        if done.returncode > 1:
            sys.exit(f"{name}: exit status {done.returncode}")
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def kept(name: str, point: dict[str, Any]) -> dict[str, Any]:
    """What of a point is committed."""
    run = point["live"] or point["simulated"]
    overhead = point["overhead"] or {}
    fields = ("roofline", "medians", "kernels", "wall_least", "cpu")
    return {
        "model": name,
        **{key: point[key] for key in ("policy", "ratio", "budget", "equal")},
        "simulated": point["simulated"]["outcome"],
        "live": point["outcome"],
        "decisions": point["common_prefix"],
        "remats": run["remats"],
        "sha256": run["decisions_sha256"],
        "bytes": {k: v for k, v in (point["bytes"] or {}).items() if v is not None},
        "overhead": {key: round(overhead[key], 4) for key in fields} if overhead else None,
        "values": None
        if point["values"] is None
        else [point["values"]["compared"], len(point["values"]["differing"])],
    }


def row(name: str, document: dict[str, Any]) -> str:
    """A model's line of the first table."""
    points, summary = document["points"], document["summary"]
    ends = Counter(point["outcome"] for point in points)
    counted = [p["bytes"] for p in points if p["bytes"]]
    owned = sum(b["owned"] == b["accounted"] for b in counted)
    within = sum(p["bytes"]["owned"] <= p["budget"] for p in points if p["bytes"])
    beyond = [b["allocated"] / b["accounted"] - 1 for b in counted]
    values = summary["values"]
    cells = [
        name,
        f"{document['trace']['ops']:,}",
        f"{document['peak']:,}",
        f"{summary['equal']} of {summary['points']}",
        ", ".join(f"{ends[kind]} {kind}" for kind in sorted(ends)),
        f"{sum(p['common_prefix'] for p in points):,}",
        f"{owned} of {len(counted)}",
        f"{within} of {len(counted)}",
        f"{100 * min(beyond):.1f} to {100 * max(beyond):.1f} %",
        f"{values['equal']} of {values['compared']}",
    ]
    return f"| {' | '.join(cells)} |"


def overhead_row(name: str, document: dict[str, Any]) -> str | None:
    """A model's line of the second table: of runs that ended with rematerialisations."""
    found = [p["overhead"] for p in document["points"] if p["overhead"] and p["live"]["remats"]]
    if not found:
        return None
    cells = [name, str(len(found))]
    for which in ("roofline", "medians"):
        errors = [abs(each[which] - each["kernels"]) for each in found]
        cells += [f"{sum(errors) / len(errors):.3f}", f"{max(errors):.3f}"]
    closer = Counter(each["closer"] for each in found)
    cells.append(f"{closer['roofline']} : {closer['medians']}")
    cells.append(
        f"{min(e['kernels'] for e in found):.2f} to {max(e['kernels'] for e in found):.2f}"
    )
    cells.append(f"{min(e['cpu'] for e in found):.1f} to {max(e['cpu'] for e in found):.1f}")
    return f"| {' | '.join(cells)} |"


def page(documents: dict[str, dict[str, Any]]) -> str:
    """The report."""
    points = [point for document in documents.values() for point in document["points"]]
    ends = Counter(point["outcome"] for point in points)
    ran = [point for point in points if point["live"]]
    some = next(iter(documents.values()))
    timed = [p["overhead"] for p in points if p["overhead"] and p["live"]["remats"]]
    closer = Counter(each["closer"] for each in timed)
    rows = [row(name, document) for name, document in documents.items()]
    overheads = [overhead_row(name, document) for name, document in documents.items()]
    counted = [point for point in points if point["bytes"]]
    over = [point for point in counted if point["bytes"]["owned"] > point["budget"]]
    worst = ", ".join(
        f"{point['bytes']['owned'] - point['budget']:,} bytes beyond {point['budget']:,}"
        for point in over
    )
    template = (HERE / "page.template.md").read_text(encoding="utf-8")
    return template.format(
        equal=sum(point["equal"] for point in ran),
        ran=len(ran),
        refused=ends["refused"],
        models=len(documents),
        policies=", ".join(f"`{policy}`" for policy in POLICIES),
        ratios=", ".join(RATIOS),
        limit=LIMIT,
        ends=", ".join(f"{ends[kind]} {kind}" for kind in sorted(ends)),
        decisions=f"{sum(p['common_prefix'] for p in points):,}",
        over=len(over),
        counted=len(counted),
        worst=worst or "nowhere",
        torch=some["torch"],
        device=some["device"]["name"],
        repeat=REPEAT,
        command=" ".join(command(next(iter(documents)))),
        rows="\n".join(rows),
        overheads="\n".join(line for line in overheads if line is not None),
        roofline=closer["roofline"],
        medians=closer["medians"],
        timed=len(timed),
    )


def main() -> None:
    """Measure what is asked for and missing, and write the report of all that is there."""
    work = Path(sys.argv[1])
    work.mkdir(exist_ok=True)
    names = sys.argv[2:] or list(MODELS)
    for name in names:
        measure(name, work)
    documents = {name: measure(name, work) for name in MODELS if (work / f"{name}.json").exists()}
    lines = [
        json.dumps(kept(name, point), separators=(",", ":"))
        for name, document in documents.items()
        for point in document["points"]
    ]
    (HERE / "points.json").write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    (HERE / "README.md").write_text(page(documents), encoding="utf-8")


if __name__ == "__main__":
    main()
