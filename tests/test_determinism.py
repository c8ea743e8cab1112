"""The same input gives the same log, byte for byte, in any process and on any Python."""

import hashlib
import os
import subprocess
import sys

import pytest

import dtrdiag
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import JsonlWriter
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, budget_from_ratio, simulate
from dtrdiag.trace.catalog import resolve

VERSION = f'"runtime_version":"{dtrdiag.__version__}"'.encode()

LOGS = {
    ("recurrent-16", "dtr", "eager", 0.55): (
        "1582c95334f2724d0defb7d3347004508ce8ccaf4d71fda7c90fc7bfd9836bac"
    ),
    ("recurrent-16", "dtr-eq", "ignore", 0.6): (
        "01c8b7baba215a882fb6a3b0ba7e46f47ccee5b42bfd436d3b6dd785cb9ea992"
    ),
    ("tree-4", "msps", "eager", 0.5): (
        "2e4495b4aaec22f8fe590fcd2a895ad4f6076eec2ad7a253b9af59641cbb7fe4"
    ),
    ("residual-12", "dtr-full", "banish", 0.3): (
        "d43c03dbd51edef4ad752ba39eb9fcf997c0de2799dadc785c1f7a2b6497fe7e"
    ),
    ("residual-12", "random", "eager", 0.3): (
        "cb9d6b2171da093de7008f4f8bc60ef29b30e8e5f868c50295a91987a443a496"
    ),
    ("chain-64", "estar+stale", "eager", 0.25): (
        "9e2a60ce8e5059682a9634bcb227914eedb3b7616685370d5c191b105453a68f"
    ),
}
"""SHA-256 of plain logs with two candidates, the version of dtrdiag taken out."""


def write(path, name, policy, dealloc, ratio):
    trace = resolve(name)
    budget = budget_from_ratio(baseline_peak_bytes(trace), ratio)
    hooks = Hooks()
    with JsonlWriter(path) as writer:
        hooks.subscribe(writer)
        simulate(trace, RunConfig(policy, budget, dealloc=dealloc, seed=7, candidates=2), hooks)
    return path.read_bytes()


@pytest.mark.parametrize("run", LOGS, ids=lambda run: "-".join(map(str, run)))
def test_logs_are_those_of_every_supported_python(run, tmp_path):
    content = write(tmp_path / "run.jsonl", *run)
    assert content.count(VERSION) == 1
    digest = hashlib.sha256(content.replace(VERSION, b"", 1)).hexdigest()
    assert digest == LOGS[run]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_another_process_with_another_hash_seed_writes_the_same_bytes(tmp_path, suffix):
    written = []
    for seed in ("0", "12345"):
        path = tmp_path / f"{seed}{suffix}"
        command = ["run", "recurrent-16", "-p", "dtr", "-r", "0.55", "-o", str(path)]
        subprocess.run(
            [sys.executable, "-m", "dtrdiag", *command],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        )
        written.append(path.read_bytes())
    assert written[0] == written[1]
