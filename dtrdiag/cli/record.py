"""``dtrdiag record``: what does a step of a PyTorch program ask for, as a DTR log?"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dtrdiag.cli.activity import doing
from dtrdiag.cli.options import Force, Json
from dtrdiag.cli.output import check_outputs, print_json, print_sentences, print_table
from dtrdiag.cli.sources import peak_of
from dtrdiag.cli.targets import (
    OPTIMIZERS,
    SIZES,
    Settings,
    TargetArgument,
    Warmup,
    check_choices,
    check_warmup,
    require_torch,
    settings_of,
)
from dtrdiag.errors import UsageError
from dtrdiag.instrumentation.pytorch.targets import Target, blamed
from dtrdiag.rendering.recorded import recorded_table, recorded_words
from dtrdiag.suggestions import no_such

if TYPE_CHECKING:
    from dtrdiag.instrumentation.pytorch import CostModel
    from dtrdiag.instrumentation.pytorch.recording import record as Recording  # noqa: N812
    from dtrdiag.instrumentation.pytorch.step import Step

RECORD_SCHEMA = "dtrdiag.record/1"
WRITES = ("copy", "sink")
ROOFLINE = "roofline"
_SUFFIX = ".log.zst"

Output = Annotated[
    str | None,
    typer.Option(
        "-o", "--output", metavar="LOG", help=f"The DTR log, also .gz, .zst (NAME{_SUFFIX})."
    ),
]
Fake = Annotated[
    bool, typer.Option("--fake", help="Record shapes alone: no memory, nothing computed.")
]
Size = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(SIZES), help="Sizes of a model of the zoo (full).", show_default=False
    ),
]
Optimizer = Annotated[
    str | None,
    typer.Option(metavar="|".join(OPTIMIZERS), help="Record a step of this optimizer, too."),
]
Writes = Annotated[
    str, typer.Option(metavar="|".join(WRITES), help="What a write to a constant is.")
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE", help="Device of the roofline (a100-40gb).", show_default=False
    ),
]
Costs = Annotated[
    str,
    typer.Option(
        metavar="roofline|FILE", help="Costs (roofline), or measured ones.", show_default=False
    ),
]
Name = Annotated[str | None, typer.Option(metavar="NAME", help="Name of the trace (the target's).")]
Check = Annotated[
    bool, typer.Option("--check", help="Compare every input of every op before and after.")
]


def record(
    target: TargetArgument,
    output: Output = None,
    fake: Fake = False,
    settings: Settings = None,
    size: Size = None,
    optimizer: Optimizer = None,
    warmup: Warmup = None,
    writes: Writes = "copy",
    device: DeviceOption = None,
    costs: Costs = ROOFLINE,
    name: Name = None,
    check: Check = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Record a training step of a PyTorch program as a trace.

    MODULE:FUNCTION is called with the arguments that --set gives. It returns a Step, or a function
    that takes a step; otherwise it has taken a step itself, and the next one is recorded. Needs the
    extra `torch`.
    """
    found = Target.parse(target)
    given = settings_of(settings)
    check_choices(found, size, optimizer)
    check_warmup(warmup)
    _check(writes, fake and check)
    name = name or found.function
    path = f"{_file_name(name)}{_SUFFIX}" if output is None else output
    check_outputs([path], force)
    require_torch("recording")
    found.check(given)
    model = _cost_model(costs, device)
    doing(f"recording {name}")
    how = {"costs": model, "writes": writes, "name": name, "force": force, "check": check}
    with _fake_tensors() if fake else contextlib.nullcontext():
        step = found.build(given, size or "full", optimizer)
        recorded, steps = _recorded(found, step, path, warmup, how)
    document = _document(target, fake, steps, path, recorded)
    if json:
        print_json(document)
        return
    print_sentences(recorded_words(document))
    print_table(recorded_table(document))


def _fake_tensors() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode()


def _recorded(
    target: Target, step: Step, path: str, warmup: int | None, how: dict[str, Any]
) -> tuple[Recording, int]:
    from dtrdiag.instrumentation.pytorch.taking import record_step, warm_up

    with blamed(target.text):
        steps = warm_up(step, warmup)
        return record_step(step, path, warmup=0, **how), steps


def _check(writes: str, fake_check: bool) -> None:
    if writes not in WRITES:
        raise UsageError(no_such("way of --writes", writes, WRITES))
    if fake_check:
        raise UsageError("--check compares values, which --fake does not have")


def _file_name(name: str) -> str:
    kept = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).lstrip(".")
    return kept or "recording"


def _cost_model(costs: str, device: str | None) -> CostModel:
    from dtrdiag.instrumentation.pytorch import DEVICES, Device, Measured, Roofline

    if costs != ROOFLINE:
        if device is not None:
            raise UsageError("--device is for the roofline; measured costs are of their own device")
        return Measured.from_file(costs)
    if device is None:
        return Roofline()
    # A file that has the name of a device is reached as ./NAME.
    is_file = device not in DEVICES and (os.path.exists(device) or "." in device)
    return Roofline(Device.from_file(device) if is_file else device)


def _document(
    target: str, fake: bool, steps: int, path: str, recorded: Recording
) -> dict[str, Any]:
    trace = recorded.trace
    return {
        "schema": RECORD_SCHEMA,
        "target": target,
        "fake": fake,
        "warmup": steps,
        "file": path,
        "bytes": os.path.getsize(path),
        "trace": {
            "name": trace.name,
            "sha256": trace.sha256,
            "ops": trace.ops,
            "tensors": trace.tensors,
            "storages": trace.storages,
        },
        "constants": recorded.constants,
        "constant_bytes": trace.constant_bytes,
        "peak": peak_of(trace),
        "held_peak": recorded.peak_bytes,
        "baseline_cost": trace.baseline_cost_ns,
        "recording": recorded.metadata,
    }
