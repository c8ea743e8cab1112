"""``dtrdiag fidelity``: does a live run do what the simulator says of the recorded step?"""

from __future__ import annotations

import json as jsonlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import zstandard

from dtrdiag.cli.activity import doing
from dtrdiag.cli.options import DEFAULT_POLICY, Force, Json
from dtrdiag.cli.output import (
    check_outputs,
    print_json,
    print_sentences,
    print_table,
    write_file,
    write_files,
)
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
from dtrdiag.cli.values import parse_limit, parse_ratio, parse_size
from dtrdiag.errors import UsageError
from dtrdiag.experiments.fidelity import Asked, Point, compare_points, log_names
from dtrdiag.experiments.fidelity_document import fidelity_document
from dtrdiag.experiments.subjects import Making, steps_wanted, subject_of
from dtrdiag.instrumentation.pytorch.targets import Target
from dtrdiag.rendering.fidelity import (
    bytes_table,
    fidelity_words,
    overhead_table,
    points_table,
)
from dtrdiag.simulator import (
    DEFAULT_OVERHEAD_LIMIT,
    RunConfig,
    baseline_peak_bytes,
    budget_from_ratio,
    find_policy,
)
from dtrdiag.suggestions import no_such
from dtrdiag.trace.model import Trace
from dtrdiag.units import count, plain_name

if TYPE_CHECKING:
    from dtrdiag.experiments.subjects import Subject

CHECK_FAILED = 1
COSTS = ("roofline", "measured")
RATIOS = (0.9, 0.7, 0.5)
TRACE_FILE = "recorded.log.zst"


def _option(*names: str, metavar: str, help: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, show_default=False)


Texts = list[str] | None
Policies = Annotated[
    Texts, _option("-p", "--policy", metavar="POLICY", help="Policy (dtr); repeatable.")
]
Ratios = Annotated[
    Texts, _option("-r", "--ratio", metavar="R", help="Ratio of the peak (0.9, 0.7, 0.5).")
]
Budgets = Annotated[
    Texts, _option("-b", "--budget", metavar="SIZE", help="Budget in bytes; repeatable.")
]
Limit = Annotated[
    str | None,
    _option(metavar="L|none", help="Stop once remat cost exceeds baseline cost x (L - 1) (10)."),
]
Repeat = Annotated[int, _option(metavar="N", help="How often to time each step (3); 0: never.")]
Costs = Annotated[
    str, _option(metavar="|".join(COSTS), help="What else predicts: medians measured here.")
]
Size = Annotated[
    str | None, _option(metavar="|".join(SIZES), help="Sizes of a model of the zoo (small).")
]
Optimizer = Annotated[
    str | None,
    _option(metavar="|".join(OPTIMIZERS), help="It steps after each run, outside of it."),
]
DeviceName = Annotated[str, _option(metavar="cpu|cuda", help="Where to run (cpu).")]
Threads = Annotated[int | None, _option(metavar="N", help="Threads of PyTorch (its own choice).")]
Output = Annotated[
    str | None, _option("-o", "--output", metavar="FILE", help="Keep the JSON document here.")
]
Logs = Annotated[str | None, _option(metavar="DIR", help="Keep the trace and all event logs here.")]


def fidelity(
    target: TargetArgument,
    policies: Policies = None,
    ratios: Ratios = None,
    budgets: Budgets = None,
    overhead_limit: Limit = None,
    repeat: Repeat = 3,
    costs: Costs = COSTS[0],
    size: Size = None,
    settings: Settings = None,
    optimizer: Optimizer = None,
    warmup: Warmup = None,
    device: DeviceName = "cpu",
    threads: Threads = None,
    output: Output = None,
    logs: Logs = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Compare live runs of a PyTorch step with simulated ones.

    The step is recorded, on fake tensors where it can be, simulated at each policy and budget, and
    run at the same ones on real tensors: decisions, bytes, overhead and values are compared. Exit
    status 1 if a decision or a value differs. Needs the extra `torch`.
    """
    found, given = Target.parse(target), settings_of(settings)
    check_choices(found, size, optimizer)
    _check(costs, repeat, threads, warmup)
    rules = _Rules(policies, ratios, budgets, overhead_limit)
    check_outputs([output], force)
    require_torch("running live")
    found.check(given)
    making = Making(found, given, size or "small", optimizer, _device(device), warmup)
    doing(f"recording {plain_name(target)}")
    used = _use_threads(threads)
    subject = subject_of(making, medians=costs != COSTS[0] and repeat > 0)
    configs = rules.configs(subject.trace)
    folder = None if logs is None else _folder(logs, configs, subject.content, force)
    doing(f"running {plain_name(target)} live, {count(len(configs), 'point')}")
    asked = Asked(repeat, medians=subject.medians, logs=folder)
    points = compare_points(subject.bench, subject.trace, configs, asked)
    facts = _facts(target, making, subject, used, repeat) | _remedy(making, subject, points)
    document = fidelity_document(points, **facts)
    _print(document, output, logs, json)
    values = document["summary"]["values"]
    if document["summary"]["equal"] < len(points) or values["equal"] < values["compared"]:
        raise typer.Exit(CHECK_FAILED)


def _check(costs: str, repeat: int, threads: int | None, warmup: int | None) -> None:
    check_warmup(warmup)
    if costs not in COSTS:
        raise UsageError(no_such("kind of --costs", costs, COSTS))
    if repeat < 0 or (threads is not None and threads < 1):
        raise UsageError("--repeat takes a number from 0 on, --threads one from 1 on")


class _Rules:
    """The points that are asked for, before anything is recorded."""

    def __init__(
        self,
        policies: Sequence[str] | None,
        ratios: Sequence[str] | None,
        budgets: Sequence[str] | None,
        limit: str | None,
    ) -> None:
        if ratios and budgets:
            raise UsageError("give ratios (-r) or budgets (-b), not both")
        self._policies = [find_policy(name).name for name in policies or (DEFAULT_POLICY,)]
        self._ratios = [parse_ratio(text) for text in ratios or ()] or list(RATIOS)
        self._budgets = [parse_size(text) for text in budgets or ()]
        self._limit = DEFAULT_OVERHEAD_LIMIT if limit is None else parse_limit(limit)

    def configs(self, trace: Trace) -> list[RunConfig]:
        """Each policy at each budget."""
        peak = baseline_peak_bytes(trace)
        places: list[tuple[int, float | None]] = [(budget, None) for budget in self._budgets]
        if not places:
            places = [(budget_from_ratio(peak, ratio), ratio) for ratio in self._ratios]
        made = [
            RunConfig(policy, budget, overhead_limit=self._limit, peak_bytes=peak, ratio=ratio)
            for policy in self._policies
            for budget, ratio in places
        ]
        return list(dict.fromkeys(made))


def _device(name: str) -> str:
    import torch

    try:
        kind = torch.device(name).type
    except RuntimeError:
        kind = ""
    if kind not in ("cpu", "cuda"):
        raise UsageError(no_such("device", name, ("cpu", "cuda")))
    if kind == "cuda" and not torch.cuda.is_available():
        raise UsageError("there is no CUDA device on this machine, or PyTorch is built without")
    return name


def _use_threads(threads: int | None) -> int:
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    return int(torch.get_num_threads())


def _folder(name: str, configs: Sequence[RunConfig], log: bytes, force: bool) -> Path:
    """The folder for logs, made where it is not there, with the recorded trace in it."""
    folder = Path(name)
    if not folder.exists() and folder.absolute().parent.is_dir():
        folder.mkdir()
    files = [folder / file for config in configs for file in log_names(config)]
    check_outputs([folder / TRACE_FILE, *files], force)
    packed = zstandard.ZstdCompressor(level=19).compress(log)
    write_files({folder / TRACE_FILE: packed})
    return folder


def _facts(
    target: str, making: Making, subject: Subject, threads: int, repeat: int
) -> dict[str, Any]:
    import torch

    from dtrdiag.instrumentation.pytorch.measured import device_title

    trace, device = subject.trace, subject.bench.device
    return {
        "target": target,
        "size": making.size if making.target.is_zoo else None,
        "settings": dict(making.settings),
        "optimizer": making.optimizer,
        "warmup": subject.warmup,
        "torch": str(torch.__version__),
        "device": {"kind": device.type, "name": device_title(device), "threads": threads},
        "repeat": repeat,
        "trace": {
            "name": trace.name,
            "sha256": trace.sha256,
            "ops": trace.ops,
            "tensors": trace.tensors,
        },
        "recorded_on": subject.on,
        "recorded_because": subject.because,
        "peak": baseline_peak_bytes(trace),
        "constant_bytes": trace.constant_bytes,
        "baseline_cost": trace.baseline_cost_ns,
    }


def _remedy(making: Making, subject: Subject, points: Sequence[Point]) -> dict[str, Any]:
    return {"warmup_wanted": steps_wanted(making, subject, points)}


def _print(document: dict[str, Any], output: str | None, logs: str | None, json: bool) -> None:
    if output is not None:
        write_file(output, jsonlib.dumps(document, indent=1).encode() + b"\n")
    if json:
        print_json(document)
        return
    print_sentences(fidelity_words(document))
    print_table(*(points_table(document, narrow) for narrow in (False, True)))
    print_table(bytes_table(document))
    if any(point["overhead"] is not None for point in document["points"]):
        print_table(*(overhead_table(document, narrow) for narrow in (False, True)))
    kept = [f"The document is in {output}."] if output is not None else []
    kept += [f"The trace and the logs are in {logs}."] if logs is not None else []
    if kept:
        print_sentences(["", *kept])
