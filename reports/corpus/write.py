"""Write the report from what was measured: `found.json` and the runs of simrd.

python reports/corpus/write.py
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from against_simrd import RECORDS
from find import row

from dtrdiag.trace.bundled import bundled_traces

HERE = Path(__file__).resolve().parent


def logs() -> str:
    """Sizes of the recorded logs."""
    lines = ["| trace | ops | log | packed | command |", "|---|---|---|---|---|"]
    whole = 0
    for entry in bundled_traces().values():
        if entry.kind == "recorded":
            packed = Path(entry.where).stat().st_size
            whole += packed
            lines.append(
                f"| {entry.name} | {entry.ops:,} | {len(entry.content()):,} | {packed:,} "
                f"| `{entry.command.partition(' -o')[0]}` |"
            )
    return "\n".join([*lines, f"| together | | | {whole:,} | |"])


def beside_simrd() -> str:
    """Runs by both, a line for each trace."""
    runs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in RECORDS.read_text().splitlines():
        record = json.loads(line)
        runs[record["trace"]].append(record)
    lines = [
        "| trace | runs | to the end | ok, oom, thrashed | most remats | equal |",
        "|---|---|---|---|---|---|",
    ]
    for name, records in runs.items():
        lines.append(simrd_row(name, records))
    return "\n".join([*lines, simrd_row("all", [r for each in runs.values() for r in each])])


def simrd_row(name: str, records: list[dict[str, Any]]) -> str:
    """A line of the table."""
    whole = sum("simrd_compared" not in record for record in records)
    ends = [record["outcome"] for record in records]
    kinds = ", ".join(str(ends.count(kind)) for kind in ("ok", "oom", "thrashed"))
    most = max(record["remats"] for record in records)
    equal = sum(record["equal"] for record in records)
    return f"| {name} | {len(records)} | {whole} | {kinds} | {most:,} | {equal} |"


def found() -> str:
    """Where more memory does harm."""
    rows = [row(each) for each in json.loads((HERE / "found.json").read_text())]
    head = "| trace | policy | down to | least feasible | OOM above | stopped above | cliff |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *rows])


def main() -> None:
    page = (HERE / "page.template.md").read_text()
    for mark, table in (("LOGS", logs), ("SIMRD", beside_simrd), ("FOUND", found)):
        page = page.replace(f"<!-- {mark} -->", table())
    (HERE / "README.md").write_text(page)


if __name__ == "__main__":
    main()
