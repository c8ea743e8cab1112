"""What do the claims of a ledger come to, and is that what was written down?"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

from dtrdiag.errors import LedgerError
from dtrdiag.experiments.atomic import replace_file
from dtrdiag.experiments.claims.judging import Judged, judge
from dtrdiag.experiments.claims.laboratory import Laboratory
from dtrdiag.experiments.claims.reading import COMMITTED, COMMITTED_SCHEMA, read_ledger
from dtrdiag.experiments.claims.records import EVIDENCE, QUICK, Claim, Ledger
from dtrdiag.experiments.executors import Here, Processes
from dtrdiag.suggestions import no_such

REPRODUCE_SCHEMA = "dtrdiag.reproduce/1"
Tell = Callable[[Judged], None]


def chosen(ledger: Ledger, quick: bool, only: Sequence[str]) -> list[Claim]:
    """The claims to run.

    Args:
        ledger: all of them.
        quick: those alone whose cost is quick.
        only: ids; empty: all.

    Raises:
        LedgerError: an id is not in the ledger.
    """
    known = {claim.id: claim for claim in ledger.claims}
    for name in only:
        if name not in known:
            raise LedgerError(no_such("claim", name, known), path=ledger.folder)
    wanted = set(only or known)
    return [
        claim
        for claim in ledger.claims
        if claim.id in wanted and (not quick or claim.cost == QUICK)
    ]


def run_claims(
    ledger: Ledger, claims: Sequence[Claim], jobs: int = 1, tell: Tell = lambda judged: None
) -> list[Judged]:
    """Run claims; those about one trace run in one process, one after the other.

    Args:
        ledger: where they are from.
        claims: some of its claims.
        jobs: how many processes; 1: this one.
        tell: called with each claim that is done.

    Returns:
        What each claim came to, in their order.

    Raises:
        LedgerError: a claim cannot be run as it is written.
        ExecutorError: processes were lost.
    """
    groups = _groups(claims)
    jobs = min(jobs, len(groups))
    found: dict[str, Judged] = {}
    with (
        tempfile.TemporaryDirectory(prefix="dtrdiag-claims-") as scratch,
        Here() if jobs <= 1 else Processes(jobs) as workers,
    ):
        futures = []
        for number, group in enumerate(groups):
            place = Path(scratch) / str(number)
            place.mkdir()
            told = tell if jobs <= 1 else None
            futures.append(workers.submit(_run_group, ledger.folder, group, place, told))
        for future in as_completed(futures):
            for judged in future.result():
                found[judged.id] = judged
                if jobs > 1:
                    tell(judged)
    return [found[claim.id] for claim in claims]


def _groups(claims: Iterable[Claim]) -> list[list[str]]:
    """Ids by the first trace, the largest group first."""
    groups: dict[str, list[str]] = {}
    for claim in claims:
        groups.setdefault(next(iter(claim.traces), ""), []).append(claim.id)
    return sorted(groups.values(), key=lambda group: -len(group))


def _run_group(folder: Path, ids: Sequence[str], scratch: Path, tell: Tell | None) -> list[Judged]:
    # The claims are read again, since the trees of their predicates do not travel.
    claims = {claim.id: claim for claim in read_ledger(folder).claims}
    laboratory = Laboratory(scratch, folder)
    found = []
    for name in ids:
        found.append(judge(claims[name], laboratory))
        if tell is not None:
            tell(found[-1])
    return found


def differing(ledger: Ledger, judged: Sequence[Judged]) -> list[str]:
    """How computed statuses differ from those written down, a line each."""
    lines = []
    for one in judged:
        committed = ledger.committed.get(one.id)
        if one.status is None or one.status == committed:
            continue
        was = "no status is written down" if committed is None else f"{committed} is written down"
        lines.append(f"{one.id}: {one.status}, and {was}: {one.reason}")
    known = {claim.id for claim in ledger.claims}
    gone = [name for name in ledger.committed if name not in known]
    return lines + [
        f"{name}: a status is written down, and there is no such claim" for name in gone
    ]


def write_statuses(ledger: Ledger, judged: Sequence[Judged]) -> Path:
    """Write down what was computed; what was not run keeps the status that it had.

    Returns:
        The file.

    Raises:
        OutputError: it cannot be written.
    """
    computed = {one.id: one.status for one in judged if one.status is not None}
    known = {claim.id for claim in ledger.claims}
    merged: dict[str, str] = {**ledger.committed, **computed}
    document = {
        "schema": COMMITTED_SCHEMA,
        "statuses": {name: merged[name] for name in sorted(merged) if name in known},
    }
    path = ledger.folder / COMMITTED
    replace_file(path, json.dumps(document, indent=2).encode() + b"\n")
    return path


def reproduction(
    ledger: Ledger, claims: Sequence[Claim], judged: Sequence[Judged]
) -> dict[str, Any]:
    """All of it as a `dtrdiag.reproduce/1` document."""
    differences = differing(ledger, judged)
    return {
        "schema": REPRODUCE_SCHEMA,
        "ok": not differences,
        "differences": differences,
        "claims": [
            _claim(claim, one, ledger.committed.get(claim.id))
            for claim, one in zip(claims, judged, strict=True)
        ],
    }


def _claim(claim: Claim, judged: Judged, committed: str | None) -> dict[str, Any]:
    texts = ("id", "title", "statement", "source", "scope", "kind", "refuted_if", "cost")
    return {
        **{name: getattr(claim, name) for name in texts},
        "status": judged.status,
        "committed": committed,
        "not_run": judged.reason if judged.status is None else None,
        "reason": judged.reason,
        "seconds": judged.seconds,
        "evidence": [item for item in judged.items if item["role"] == EVIDENCE],
        "interventions": [item for item in judged.items if item["role"] != EVIDENCE],
    }
