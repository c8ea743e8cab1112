"""``dtrdiag reproduce``: do the claims of a ledger still come to what was written down?"""

from __future__ import annotations

import csv
import io
import json as jsonlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, SpinnerColumn, TextColumn

from dtrdiag.cli.activity import bar
from dtrdiag.cli.options import Force, Json
from dtrdiag.cli.output import (
    note,
    print_json,
    print_outline,
    print_sentences,
    print_table,
)
from dtrdiag.cli.ownfolder import OwnFolder
from dtrdiag.cli.terminating import terminable
from dtrdiag.errors import MissingTraceError, UsageError
from dtrdiag.experiments.claims import (
    Judged,
    Ledger,
    chosen,
    own_ledger,
    read_ledger,
    reproduction,
    run_claims,
    write_statuses,
)
from dtrdiag.experiments.workers import usable_cpus
from dtrdiag.rendering.claims import (
    claim_words,
    claims_table,
    ledger_words,
    predicate_rows,
    status_rows,
)

CHECK_FAILED = 1
MAX_JOBS = 256
SCHEMA = "dtrdiag.reproduce-folder/1"
RESULTS = "results.json"
CLAIMS, PREDICATES = "claims.csv", "predicates.csv"


def reproduce(
    ledger_dir: Annotated[
        str | None,
        typer.Argument(metavar="[LEDGER_DIR]", help="Folder of claims (those of dtrdiag)."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only claims whose cost is quick.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ID", help="Only this claim; repeatable.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="DIR", help="Write results as JSON and CSV."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", metavar="N", help="Processes (one a CPU).")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write the statuses down beside the claims.")
    ] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Run the evidence of every claim again, and check its status.

    The status is compared with the one written down. A status is computed: demonstrated, observed,
    hypothesised, refuted or censored. Exit status 1 if one differs from the status
    that is written down in the ledger, or none is. Claims about a public trace that is not on this
    machine are not run: with --quick that is noted, without it is an error. Claims about live runs
    need PyTorch; without it they are not run, which is noted.
    """
    if jobs is not None and not 1 <= jobs <= MAX_JOBS:
        raise UsageError(f"-j must be 1 to {MAX_JOBS} processes, not {jobs}")
    ledger = read_ledger(own_ledger() if ledger_dir is None else Path(ledger_dir))
    claims = chosen(ledger, quick, only or ())
    if not claims:
        raise UsageError("no claim of this ledger is quick", path=ledger.folder)
    names = [*(f"{claim.id}.json" for claim in claims), RESULTS, CLAIMS, PREDICATES]
    folder = None if output is None else OwnFolder(output, SCHEMA, names, force)
    with terminable(), _progress(len(claims)) as tell:
        judged = run_claims(ledger, claims, min(jobs or usable_cpus(), MAX_JOBS), tell)
    document = reproduction(ledger, claims, judged)
    written = [] if folder is None else _publish(folder, document)
    if write:
        written.append(str(write_statuses(ledger, judged)))
    _print(document, written, write, json)
    _conclude(ledger, judged, quick, failed=not document["ok"] and not write)


def _print(document: dict[str, Any], written: list[str], write: bool, json: bool) -> None:
    if json:
        print_json(document)
        return
    print_sentences(ledger_words(document))
    print_table(claims_table(document), claims_table(document, kinds=False))
    for claim in document["claims"]:
        print_outline(["", *claim_words(claim)])
    if document["differences"] and not write:
        print_sentences(["", "Not as written down:", *document["differences"]])
    if written:
        print_sentences(["", f"Wrote {', '.join(written)}."])


def _conclude(ledger: Ledger, judged: list[Judged], quick: bool, failed: bool) -> None:
    if without := [one for one in judged if one.missing_torch]:
        what = f"{len(without)} of {len(judged)} claims were not run, since {without[0].reason}"
        note(f"dtrdiag: note: {what}")
    missing = [one for one in judged if one.missing_trace]
    if missing:
        what = f"{len(missing)} of {len(judged)} claims were not run, since {missing[0].reason}"
        if not quick:
            raise MissingTraceError(what, path=ledger.folder)
        note(f"dtrdiag: note: {what}")
    if failed:
        raise typer.Exit(CHECK_FAILED)


def _publish(folder: OwnFolder, document: dict[str, Any]) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="dtrdiag-") as made:
        place = Path(made)
        for claim in document["claims"]:
            (place / f"{claim['id']}.json").write_text(_json(claim), encoding="utf-8")
        (place / RESULTS).write_text(_json(document), encoding="utf-8")
        tables = ((CLAIMS, status_rows(document)), (PREDICATES, predicate_rows(document)))
        for name, rows in tables:
            (place / name).write_text(_csv(rows), encoding="utf-8", newline="")
        statuses = {claim["id"]: claim["status"] for claim in document["claims"]}
        return folder.publish(place, {"statuses": statuses})


def _json(document: dict[str, Any]) -> str:
    return jsonlib.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _csv(rows: list[list[str]]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()


@contextmanager
def _progress(claims: int) -> Iterator[Callable[[Judged], None]]:
    """Shows on a terminal which claims are done."""
    words = TextColumn("of {task.total} claims, the last: {task.fields[last]}", markup=False)
    with bar(SpinnerColumn(), BarColumn(), TextColumn("{task.completed}"), words) as shown:
        if shown is None:
            yield lambda judged: None
            return
        task = shown.add_task("claims", total=claims, last="none yet")
        yield lambda judged: shown.update(task, advance=1, last=judged.id)
