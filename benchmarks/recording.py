"""What does recording a step take, and how near is the log to what PyTorch allocates?

    python benchmarks/recording.py
    python benchmarks/recording.py -o reports/recording.md
    python benchmarks/recording.py --model gpt2          of the second part, repeatable

The first part times `dtrdiag record` as a process of its own. In the second, each model of the zoo
runs at a size between small and full on real tensors on the CPU: recorded, and then, from the same
beginning, without a recording under `torch.profiler.profile(profile_memory=True)`. What that
reports of each allocation and release is summed up; its highest point, and what was there before,
is what the peak of the log is held against. Kernels run on one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.profiler import ProfilerActivity, profile

from dtrdiag.instrumentation.pytorch import record_step
from dtrdiag.instrumentation.pytorch.step import Step
from dtrdiag.instrumentation.pytorch.taking import clear_gradients, take
from dtrdiag.instrumentation.zoo import make
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, simulate
from dtrdiag.trace import Trace

TIMED = (
    "zoo:gpt2 --fake",
    "zoo:gpt2 --fake --set attention=eager",
    "zoo:gpt2 --fake --optimizer adam",
    "zoo:gpt2-xl --fake --optimizer adam",
)
MIDDLE: dict[str, dict[str, Any]] = {
    "resnet-32": {"batch": 8, "image": 64},
    "resnet-20": {"batch": 32, "image": 32},
    "lstm": {"batch": 16, "length": 24, "features": 128, "hidden": 128},
    "treelstm": {"batch": 16, "leaves": 12, "features": 128, "hidden": 128},
    "unet": {"batch": 2, "image": 64, "width": 16, "levels": 3},
    "diffusion": {"batch": 4, "image": 16, "width": 32},
    "transformer": {"batch": 4, "length": 64, "layers": 2, "width": 128, "hidden": 512},
    "gpt2": {"batch": 2, "length": 128, "layers": 2, "width": 128, "heads": 4, "vocabulary": 1000},
    "gpt2-xl": {"batch": 1, "length": 128, "layers": 3, "width": 200, "vocabulary": 1000},
    "moe": {"batch": 2, "length": 64, "layers": 1, "width": 96, "hidden": 256, "vocabulary": 1000},
    "mamba": {"batch": 2, "length": 32, "layers": 2, "width": 128, "vocabulary": 1000},
}
OPTIMIZERS = (None, "sgd", "adam")

HEAD = """# What recording takes, and how near it is

Made by `{command}` ({where}, one thread; load of the machine {load} at the beginning).

## A process of its own

`dtrdiag record TARGET --json`, from start to end, PyTorch's own start in it: the faster of {tries}.
Other processes lengthen seconds, and processor seconds hardly.

| target | ops | seconds | processor seconds | peak memory of the process | log, compressed | peak that is recorded |
|---|--:|--:|--:|--:|--:|--:|
"""  # noqa: E501 - a row of a table
PEAKS = """
## The peak of a log beside the allocator's

Without an optimizer, on real tensors. `profiler`: the highest sum of the allocations and releases
that `torch.profiler` reports of the same step without a recording, and the bytes of constants.
`program`: most bytes that the recorder saw the program hold; `off by`: how far that is from the
profiler's. `banish` (the base of ratios), `eager`: highest memory of the simulator's unlimited
run of the log, dead storages freed for good or evicted. `fake`: whether a recording on fake tensors
is the same to the byte.

| model | ops | profiler | program | off by | banish | eager | fake |
|---|--:|--:|--:|--:|--:|--:|---|
"""
PEAKS_TAIL = """
Models without convolutions are exact, but for 8 bytes in `moe` that no dispatched tensor accounts
for. A convolution takes a workspace while it runs, which belongs to no tensor. The simulator's peak
is the program's, and in models with batch norm (`resnet-20`, `resnet-32`, `unet`) as much more as
the buffers of batch norms take, which are written and stay as they were beside that.
"""
OPTIMIZED = """
## With an optimizer

The same steps with an optimizer in the step, after one step before. With `copy` a write to a
constant is a new version beside the old one, which stays: parameters, and Adam's state, are there
twice by the end. That shows where the end is higher than the backward pass. With `sink` writes to
constants take no memory, and the simulator's peak is the program's.

| model | optimizer | program | banish, copy | eager, copy | banish, sink | eager, sink |
|---|---|--:|--:|--:|--:|--:|
"""


@attrs.frozen
class Peaks:
    """Highest memory of a recorded step."""

    ops: int
    program: int
    banish: int
    eager: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="append", choices=list(MIDDLE), help="only this one")
    parser.add_argument("--tries", type=int, default=3, help="of each process, the fastest counts")
    parser.add_argument("-o", "--output", type=Path, help="write the report there")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="torch")
    torch.set_num_threads(1)
    lines = []
    for line in report(options.model or list(MIDDLE), options.output, options.tries):
        print(line, flush=True)
        lines.append(line)
    if options.output is not None:
        options.output.write_text("\n".join(lines) + "\n")


def report(models: list[str], output: Path | None, tries: int) -> Iterator[str]:
    command = f"python benchmarks/recording.py --tries {tries}"
    command += f" -o {output}" if output else ""
    where = f"torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores"
    load = f"{os.getloadavg()[0]:.1f}"
    yield HEAD.format(command=command, where=where, load=load, tries=tries).rstrip("\n")
    for arguments in TIMED:
        yield min(timed(arguments) for _ in range(tries))[1]
    yield PEAKS.rstrip("\n")
    for name in models:
        yield beside_profiler(name)
    yield PEAKS_TAIL.rstrip("\n")
    yield OPTIMIZED.rstrip("\n")
    for name in models:
        for optimizer in OPTIMIZERS[1:]:
            yield optimized(name, optimizer)


def timed(arguments: str) -> tuple[float, str]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dtrdiag", "record", *arguments.split(), "--json"]
        started = time.perf_counter()
        process = subprocess.Popen(
            [*command, "-o", f"{folder}/x.log.zst"], stdout=subprocess.PIPE, cwd=folder
        )
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
    if status:
        raise SystemExit(f"{arguments}: status {status}")
    found = json.loads(out)
    row = (
        f"`{arguments}`",
        f"{found['trace']['ops']:,}",
        f"{seconds:.1f}",
        f"{usage.ru_utime + usage.ru_stime:.1f}",
        f"{usage.ru_maxrss * 1024 / 1e6:,.0f} MB",
        f"{found['bytes'] / 1e3:,.0f} kB",
        f"{found['peak'] / 1e9:.2f} GB",
    )
    return seconds, cells(*row)


def beside_profiler(name: str) -> str:
    step = made(name, None)
    recorded = record_step(step)
    peaks = peaks_of(recorded.trace, recorded.peak_bytes)
    with FakeTensorMode():
        fake = record_step(made(name, None))
    profiler = recorded.trace.constant_bytes + profiled(made(name, None))
    off = (peaks.program - profiler) / profiler
    same = "same" if fake.content == recorded.content else f"peak {fake.peak_bytes:,}"
    return cells(
        name, f"{peaks.ops:,}", profiler, peaks.program, f"{100 * off:+.3f} %", peaks.banish,
        peaks.eager, same,
    )  # fmt: skip


def optimized(name: str, optimizer: str | None) -> str:
    found = [record_step(made(name, optimizer), writes=writes) for writes in ("copy", "sink")]
    copy, sink = (peaks_of(each.trace, each.peak_bytes) for each in found)
    return cells(name, optimizer, copy.program, copy.banish, copy.eager, sink.banish, sink.eager)


def made(name: str, optimizer: str | None) -> Step:
    return make(name, optimizer=optimizer, **MIDDLE[name])


def peaks_of(trace: Trace, program: int) -> Peaks:
    eager = simulate(trace, RunConfig("dtr", dealloc="eager")).end.max_memory_bytes
    return Peaks(trace.ops, program, baseline_peak_bytes(trace), eager)


def profiled(step: Step) -> int:
    """Most bytes that a step allocates at a time beyond what was there before."""
    take(step)
    clear_gradients(step)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = take(step)
    del result
    events = profiler.profiler.kineto_results.events()
    memory = [event for event in events if event.name() == "[memory]"]
    now = peak = 0
    for event in sorted(memory, key=lambda event: event.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak


def cells(*values: Any) -> str:
    texts = (f"{value:,}" if isinstance(value, int) else str(value) for value in values)
    return f"| {' | '.join(texts)} |"


if __name__ == "__main__":
    main()
