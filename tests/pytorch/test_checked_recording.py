"""A recording that is checked is the same recording, also the first one of a process."""

import subprocess
import sys

PROGRAM = """
import torch
from dtrdiag.instrumentation import zoo
from dtrdiag.instrumentation.pytorch import record
torch.set_num_threads(1)
for check in (True, False):
    step = zoo.make("moe", "small")
    with record(None, step.model, check=check) as recorded:
        step.run()
    print(recorded.trace.sha256)
"""


def test_a_checked_recording_has_the_same_bytes(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True, text=True, check=True, timeout=120, cwd=tmp_path,
    )  # fmt: skip
    checked, plain = done.stdout.split()
    assert checked == plain
