"""A small grid, what its runs come to one by one, and a folder of claims."""

import textwrap

import pytest

from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace.catalog import resolve

CLAIM = """
id = "{id}"
title = "A claim"
statement = "Something holds."
source = "a notebook"
scope = "chain-64"
kind = "{kind}"
refuted_if = "it does not"
"""
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


@pytest.fixture
def ledger(tmp_path):
    """Writes a claim a file, `name=body`, and gives the folder."""

    def write(kind="observation", **bodies):
        for name, body in bodies.items():
            head = CLAIM.format(id=name, kind=kind)
            (tmp_path / f"{name}.toml").write_text(head + textwrap.dedent(body))
        return tmp_path

    write.head = CLAIM
    return write
