"""The simulator: `simulate` runs a trace under a policy and a budget, as simrd would.

`LiveRun` does the same with a program that is not known in advance.
"""

from dtrdiag.simulator.absence import seconds_without_native
from dtrdiag.simulator.asrun import as_run
from dtrdiag.simulator.columnar import simulate_in_columns
from dtrdiag.simulator.config import (
    DEALLOCS,
    DEFAULT_OVERHEAD_LIMIT,
    ENGINES,
    SEMANTICS,
    PendingOp,
    RunConfig,
    RunResult,
    Stop,
    budget_from_ratio,
)
from dtrdiag.simulator.intervals import runs_between
from dtrdiag.simulator.live import LiveRun
from dtrdiag.simulator.liverules import RunOverError, RunStoppedError
from dtrdiag.simulator.native import available as native_available
from dtrdiag.simulator.native import why_missing as why_no_native
from dtrdiag.simulator.policies import Factors, Policy, find_policy, policies, policy, unregister
from dtrdiag.simulator.pool import Pool
from dtrdiag.simulator.run import baseline_peak_bytes, simulate
from dtrdiag.simulator.scoring import Pick, Quotient

__all__ = [
    "DEALLOCS",
    "DEFAULT_OVERHEAD_LIMIT",
    "ENGINES",
    "SEMANTICS",
    "Factors",
    "LiveRun",
    "PendingOp",
    "Pick",
    "Policy",
    "Pool",
    "Quotient",
    "RunConfig",
    "RunOverError",
    "RunResult",
    "RunStoppedError",
    "Stop",
    "as_run",
    "baseline_peak_bytes",
    "budget_from_ratio",
    "find_policy",
    "native_available",
    "policies",
    "policy",
    "runs_between",
    "seconds_without_native",
    "simulate",
    "simulate_in_columns",
    "unregister",
    "why_no_native",
]
