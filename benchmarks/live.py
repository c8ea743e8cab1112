"""What does a live run add to each operator, beside plain PyTorch and checkpointing?

    python benchmarks/live.py                            all models
    python benchmarks/live.py --repeat 9                 more steps of each, the fastest counts
    python benchmarks/live.py -o reports/live-overhead.md

All sides of a model are measured in turn, step by step, so that what else the machine does meets
them alike. Both clocks are given: time by the wall, and processor time of the process, which other
processes disturb less. Microseconds added are (live - plain) / executions by the wall, where an
execution is a first one or a rematerialisation, aliases included: once with the kernels that run
again, which is what a user waits for, and once without them, which is what the runtime itself costs
an operator. Kernels run on one thread.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from typing import Any

import attrs
import torch
from torch.utils.checkpoint import checkpoint

from dtrdiag.instrumentation.pytorch import remat
from dtrdiag.instrumentation.pytorch.errors import LiveRunError
from dtrdiag.instrumentation.zoo import make

MODELS: dict[str, dict[str, Any]] = {
    "transformer": {"size": "small", "batch": 4, "length": 32},
    "gpt2": {"size": "small", "batch": 4, "length": 32, "dropout": 0.1},
    "resnet-20": {"size": "small", "batch": 4, "image": 16, "width": 4},
    "gpt2, wider": {
        "size": "small", "batch": 4, "length": 128, "width": 256, "layers": 4, "dropout": 0.1,
    },
}  # fmt: skip
FRACTIONS = (0.9, 0.7, 0.5)

HEAD = """# What a live run adds to each operator

Made by `{command}` ({where}, one thread, policy {policy}; {load}). The fastest of {steps} steps
counts, all sides in turn.

`again`: rematerialisations, and the time of their kernels. Microseconds added are
(live - plain) / executions by the wall, aliases and rematerialisations counted as executions: with
the kernels that run again, and without them, which is what the runtime itself costs an operator.
Budgets are fractions of the unlimited peak, of which parameters and gradients cannot go. What
`torch.utils.checkpoint` saves are other bytes: its lines stand beside the others, not for them.
Processor time is what the process itself took; other processes lengthen time by the wall.

"""
TAIL = """
A live run is slower than plain PyTorch wherever kernels are small, and slower than checkpointing,
which decides nothing while it runs.
"""


@attrs.define
class Side:
    """One way to take the step."""

    name: str
    model: Any
    take: Callable[[], Any]
    wall: float = float("inf")
    processor: float = float("inf")
    executions: int = 0
    remats: int = 0
    again: float = 0.0
    """Seconds in kernels that ran again, in the fastest step."""
    failed: str = ""


def sides_of(name: str, policy: str) -> list[Side]:
    """All ways to take the step of a model; peaks come from a live run without a budget."""
    sizes = dict(MODELS[name])
    step = make(name.partition(",")[0], sizes.pop("size"), **sizes)
    with remat(None, model=step.model) as rt:
        step.run()
    assert rt.result is not None
    peak = rt.result.end.max_memory_bytes

    def live(budget: int | None) -> Callable[[], Any]:
        def take() -> Any:
            with remat(budget, policy, model=step.model) as rt:
                step.run()
            return rt

        return take

    model = step.model
    sides = [
        Side("plain", model, lambda: void(step.run())),
        Side("remat, no budget", model, live(None)),
    ]
    sides += [Side(f"remat at {f}", model, live(int(peak * f))) for f in FRACTIONS]
    return [*sides, checkpointed(name)]


def void(_: Any) -> None:
    """Nothing, whatever there was."""


def checkpointed(name: str) -> Side:
    """The step with each block of the model checkpointed, as is usual."""
    sizes = dict(MODELS[name])
    step = make(name.partition(",")[0], sizes.pop("size"), **sizes)
    for block in step.model.blocks:
        forward = block.forward
        block.forward = lambda x, f=forward: checkpoint(f, x, use_reentrant=False)
    return Side("torch.utils.checkpoint", step.model, lambda: void(step.run()))


def measure(sides: list[Side], repeat: int) -> None:
    """The fastest of so many steps of each side, taken in turn."""
    for _ in range(repeat + 1):
        for side in sides:
            if side.failed:
                continue
            side.model.zero_grad()
            wall, processor = time.perf_counter(), time.process_time()
            try:
                run = side.take()
            except LiveRunError as error:
                side.failed = type(error).__name__
                continue
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            side.processor = min(side.processor, processor)
            if run is not None:
                end = run.result.end
                side.remats, side.executions = end.remats, end.computes + end.remats
                if wall < side.wall:
                    side.again = run.times.again_ns / 1e9
            side.wall = min(side.wall, wall)


def rows_of(name: str, sides: list[Side]) -> list[str]:
    """Lines of the table."""
    plain, rows = sides[0], []
    for side in sides:
        if side.failed:
            rows.append(f"| {name} | {side.name} | {side.failed} | | | | | | |")
            continue
        live = ["", "", "", ""]
        if side.executions:
            added = side.wall - plain.wall
            each = (1e6 * seconds / side.executions for seconds in (added, added - side.again))
            live = [str(side.remats), f"{side.again * 1e3:.1f}", *(f"{us:.0f}" for us in each)]
        rows.append(
            f"| {name} | {side.name} | {side.wall * 1e3:.1f} | {side.processor * 1e3:.1f} | "
            f"{side.wall / plain.wall:.2f} | {' | '.join(live)} |"
        )
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--policy", default="dtr")
    parser.add_argument("--model", action="append", choices=MODELS)
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    torch.set_num_threads(1)
    load = os.getloadavg()[0]
    lines = [
        "| model | side | wall ms | processor ms | wall / plain | again | again ms | us added | "
        "us added, without what ran again |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name in options.model or MODELS:
        sides = sides_of(name, options.policy)
        measure(sides, options.repeat)
        lines += rows_of(name, sides)
    where = f"torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores"
    after = os.getloadavg()[0]
    head = HEAD.format(
        command=f"python benchmarks/live.py --repeat {options.repeat} -o reports/live-overhead.md",
        where=where,
        policy=options.policy,
        load=f"load of the machine {load:.1f} before and {after:.1f} after",
        steps=options.repeat + 1,
    )
    text = head + "\n".join(lines) + "\n" + TAIL
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(text)
    print(text)


if __name__ == "__main__":
    main()
