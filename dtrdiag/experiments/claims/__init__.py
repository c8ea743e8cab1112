"""A ledger of claims: each with evidence that runs again, and a status that is computed.

docs/claims.md says what a claim is and how to keep a ledger of one's own.
"""

import dtrdiag.experiments.claims.livechecks  # noqa: F401 - registers its check
from dtrdiag.experiments.claims.judging import Judged, judge
from dtrdiag.experiments.claims.laboratory import Laboratory
from dtrdiag.experiments.claims.reading import own_ledger, read_claim, read_ledger
from dtrdiag.experiments.claims.records import Claim, Ledger
from dtrdiag.experiments.claims.registry import checks
from dtrdiag.experiments.claims.reproduction import (
    chosen,
    differing,
    reproduction,
    run_claims,
    write_statuses,
)
from dtrdiag.experiments.claims.statuses import STATUSES

__all__ = [
    "STATUSES",
    "Claim",
    "Judged",
    "Laboratory",
    "Ledger",
    "checks",
    "chosen",
    "differing",
    "judge",
    "own_ledger",
    "read_claim",
    "read_ledger",
    "reproduction",
    "run_claims",
    "write_statuses",
]
