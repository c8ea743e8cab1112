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
        "c01b37e75385cde03d005c9536b433f67b9dd5ff25ca625e0fe4d1435a6253bf"
    ),
    ("recurrent-16", "dtr-eq", "ignore", 0.6): (
        "9c7ea4c21dde2dd2877c55d15e65e68727d2fd8299ddd562f23a3ada13c8a6c2"
    ),
    ("tree-4", "msps", "eager", 0.5): (
        "7c249fa765f6c909b2c6b39c42e6af39eebea32bd9f25f7600ffd2d16c01d40b"
    ),
    ("residual-12", "dtr-full", "banish", 0.3): (
        "efc0962ee60e7c2d1dd19b9f88f1f6ec9417a061326a8dc08c91eed17b51e713"
    ),
    ("residual-12", "random", "eager", 0.3): (
        "44e7571a58718d9a0ad1a6964e74fa3851ea14be8c2748c1dfd38fbbe561ac78"
    ),
    ("chain-64", "estar+stale", "eager", 0.25): (
        "bf476c850c33b69d194e06268f9b462a3c80e280e8bc5c830e57a0374b35e28c"
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
