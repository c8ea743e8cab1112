"""Are an inversion and a cliff that `map` predicts seen when the step runs for real?

    python reports/live/make.py WORK_DIR

records a step of each case, maps the recording, takes the budgets of the widest inversion and of
the steepest cliff from the map, runs the step live at them, and asks the live logs why. It writes
the traces, the live logs, figures.json and README.md beside itself; all else stays in WORK_DIR.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import zstandard

HERE = Path(__file__).resolve().parent
REPEAT = 5


@attrs.frozen
class Case:
    """A step, a policy and a range of budgets to look in."""

    name: str
    model: str
    sizes: dict[str, int]
    policy: str
    low: int
    high: int
    cliff: bool
    """Whether the range has one to show."""

    @property
    def target(self) -> list[str]:
        """The target and its options."""
        sets = [part for size in self.sizes.items() for part in ("--set", "{}={}".format(*size))]
        return [f"zoo:{self.model}", "--size", "small", *sets]


SIZES = {"batch": 16, "length": 32, "width": 64, "heads": 4}
CASES = (
    Case("transformer", "transformer", SIZES, "dtr", 2_000_000, 2_300_000, True),
    Case(
        "gpt2",
        "gpt2",
        {"batch": 8, "length": 64, "width": 64},
        "dtr-eq",
        2_400_000,
        2_900_000,
        False,
    ),
)


def dtrdiag(work: Path, *arguments: str, status: int = 0) -> str:
    """What a command prints, run in WORK_DIR."""
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "dtrdiag", *arguments],
        cwd=work,
        env=environment,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != status:
        sys.exit(f"dtrdiag {' '.join(arguments)}: exit status {done.returncode}")
    return done.stdout


def block(*commands: str, said: str) -> str:
    """Commands and what the last of them printed."""
    return "```text\n" + "".join(f"$ {each}\n" for each in commands) + said.rstrip() + "\n```\n"


def sentences(said: str) -> str:
    """What is printed before the first table."""
    return said.partition("\n\n")[0]


def budgets_of(summary: dict[str, Any], cliff: bool) -> dict[str, int]:
    """The budgets to run at, by what each shows: the edges of the widest inversion, the cliff."""
    low, high = max(summary["inversions"], key=lambda ends: ends[1] - ends[0])
    found = {
        "finishes": low - 1,
        "one byte more: out of memory": low,
        "still out of memory": high - 1,
        "finishes again": high,
    }
    if cliff:
        below, above = summary["worst_exact_cliff"]["budgets"]
        found |= {"below the cliff": below, "one byte more: the other side": above}
    return found


def confirm(case: Case, work: Path) -> dict[str, Any]:
    """Everything about a case, with its part of the page."""
    print(case.name, flush=True)
    trace, map_file, logs = f"{case.name}.log.zst", f"{case.name}-map.json", f"{case.name}-logs"
    record = ["record", *case.target, "--fake", "-o", trace, "--force"]
    dtrdiag(work, *record)
    find = ["map", trace, "-p", case.policy, "--from", str(case.low), "--to", str(case.high)]
    said = sentences(dtrdiag(work, *find, "-o", map_file, "--force"))
    mapped = json.loads(dtrdiag(work, "map", map_file, "--json"))
    budgets = budgets_of(mapped["summary"], case.cliff)
    live = ["fidelity", *case.target, "-p", case.policy]
    live += [part for budget in budgets.values() for part in ("-b", str(budget))]
    live += ["--threads", "1", "--repeat", str(REPEAT), "--costs", "measured"]
    kept = ["--logs", logs, "-o", f"{case.name}.json", "--force"]
    seen = dtrdiag(work, *live, *kept)
    document = json.loads((work / f"{case.name}.json").read_text(encoding="utf-8"))
    if document["trace"]["sha256"] != mapped["trace"]["sha256"]:
        sys.exit(f"{case.name}: the live runs are of another trace than the map")
    keep(work, case, trace, document)
    parts = [
        f"## {case.model}, `{case.policy}`\n",
        "Recorded and mapped:\n",
        block(shown(record[:-1]), shown([*find, "-o", map_file]), said=said),
        table(budgets, document),
        "Run live at these budgets:\n",
        block(shown([*live, *kept[:-1]]), said=seen),
        *asked(work, case, budgets),
    ]
    return {"page": "\n".join(parts), "figures": figures(case, budgets, document, mapped)}


def shown(arguments: list[str]) -> str:
    """A command as people type it."""
    return "dtrdiag " + " ".join(arguments)


def live_log(case: Case, budget: int) -> str:
    """Where the live log of a budget is, from WORK_DIR, and its name here."""
    return f"{case.name}-logs/{case.policy}-{budget}-live.jsonl.zst"


def asked(work: Path, case: Case, budgets: dict[str, int]) -> list[str]:
    """Why, by the live logs alone."""
    ends = list(budgets.values())
    works, fails = (live_log(case, budget) for budget in ends[:2])
    parts = ["The live log of the run that is out of memory, asked for its frontier:\n"]
    parts.append(block(f"dtrdiag oom {fails}", said=sentences(dtrdiag(work, "oom", fails))))
    parts.append("The live logs on both sides of the inversion's lower edge:\n")
    parts.append(compared(work, works, fails))
    if case.cliff:
        parts.append("The live logs on both sides of the cliff:\n")
        parts.append(compared(work, *(live_log(case, budget) for budget in ends[-2:])))
    parts.append("And the checker, which knows the recorded trace and no runtime:\n")
    checks = ["verify", fails, "--trace", f"{case.name}.log.zst", "--scores"]
    parts.append(block(shown(checks), said=sentences(dtrdiag(work, *checks))))
    return parts


def compared(work: Path, a: str, b: str) -> str:
    """What `diff` says of two live logs."""
    return block(f"dtrdiag diff {a} {b}", said=sentences(dtrdiag(work, "diff", a, b)))


def table(budgets: dict[str, int], document: dict[str, Any]) -> str:
    """What the map predicted, and what was seen."""
    lines = [
        "| budget, bytes | predicted | overhead | live | decisions equal | overhead in kernels "
        "| least live step | values equal |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for what, point in zip(budgets, document["points"], strict=True):
        overhead, values = point["overhead"], point["values"]
        cells = [
            f"{point['budget']:,}: {what}",
            point["simulated"]["outcome"],
            f"{point['simulated']['overhead']:.3f}" if overhead else "-",
            f"**{point['outcome']}**",
            f"{point['common_prefix']:,} of {point['common_prefix']:,}" if point["equal"] else "NO",
            f"{overhead['kernels']:.3f}" if overhead else "-",
            f"{overhead['live_ns'] / 1e6:.0f} ms" if overhead else "-",
            "-" if values is None else "all" if not values["differing"] else "NO",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def figures(
    case: Case, budgets: dict[str, int], document: dict[str, Any], mapped: dict[str, Any]
) -> dict[str, Any]:
    """What is kept of a case in figures.json."""
    return {
        "trace": document["trace"],
        "policy": case.policy,
        "peak": document["peak"],
        "inversions": mapped["summary"]["inversions"],
        "worst_cliff": mapped["summary"]["worst_cliff"],
        "points": [
            {
                "shows": what,
                "budget": point["budget"],
                "equal": point["equal"],
                "simulated": point["simulated"]["outcome"],
                "live": point["outcome"],
                "decisions": point["common_prefix"],
                "decisions_sha256": point["live"]["decisions_sha256"],
                "bytes": {k: v for k, v in point["bytes"].items() if v is not None},
                "overhead": point["overhead"],
            }
            for what, point in zip(budgets, document["points"], strict=True)
        ],
    }


def keep(work: Path, case: Case, trace: str, document: dict[str, Any]) -> None:
    """Copy the trace and the live logs here, packed tightly."""
    shutil.copyfile(work / trace, HERE / trace)
    folder = HERE / f"{case.name}-logs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    packer = zstandard.ZstdCompressor(level=19)
    for point in document["points"]:
        name = point["logs"]["live"]
        packed = (work / f"{case.name}-logs" / name).read_bytes()
        events = zstandard.ZstdDecompressor().decompressobj().decompress(packed)
        (folder / name).write_bytes(packer.compress(events))


def main() -> None:
    """Confirm all cases, and write the report."""
    work = Path(sys.argv[1]).resolve()
    work.mkdir(exist_ok=True)
    found = {case.name: confirm(case, work) for case in CASES}
    pages = "\n".join(each["page"] for each in found.values())
    template = (HERE / "page.template.md").read_text(encoding="utf-8")
    (HERE / "README.md").write_text(template.replace("{cases}", pages), encoding="utf-8")
    document = {name: each["figures"] for name, each in found.items()}
    (HERE / "figures.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
