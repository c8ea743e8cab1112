"""A small grid, and what its runs come to one by one."""

import pytest

from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace.catalog import resolve

BUDGETS = (1_703_936, 3_407_872, 5_111_808, 6_815_744, 8_519_680)


@pytest.fixture(scope="session")
def grid():
    trace = resolve("chain-64")
    return [(trace, RunConfig(policy, b)) for policy in ("dtr", "lru") for b in BUDGETS]


@pytest.fixture(scope="session")
def expected(grid):
    """Digest of the decisions of each run of the grid."""
    return [simulate(trace, config).end.decisions_sha256 for trace, config in grid]


def digests(runs):
    return [run.end.decisions_sha256 for run in runs]
