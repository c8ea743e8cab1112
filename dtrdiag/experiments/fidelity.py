"""Does a live run do what the simulator says of the recorded step, and cost what it predicts?

A step is recorded once. At each policy and budget the recording is simulated, the step is run live,
and both logs are compared decision by decision; where they part, the ops say why. Bytes are counted
three ways, overhead is predicted and measured, and what the step computes is compared with what
plain PyTorch computes.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from dtrdiag.analyses.divergence import Divergence, compare_runs
from dtrdiag.analyses.programs import ProgramDifference, program_difference
from dtrdiag.events.records import Compute, Event, Rematerialise
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import EventRecorder, log_writer
from dtrdiag.simulator import RunConfig, RunResult, simulate
from dtrdiag.trace.model import Trace

if TYPE_CHECKING:
    from dtrdiag.instrumentation.pytorch.allocated import CudaFigures
    from dtrdiag.instrumentation.pytorch.trials import Bench, Trial

OK = "ok"
_COUNTED = (
    *("outcome", "computes", "remats", "remat_cost_ns", "max_memory_bytes", "memory_bytes"),
    *("evictions_pressure", "evictions_release", "distinct_evicted", "decisions_sha256"),
)
"""Fields of `End` in which two runs of equal decisions agree."""


@attrs.frozen
class Bytes:
    """The most memory of one live run, counted in three ways; None: not asked for.

    Attributes:
        accounted_bytes: by the core that decides.
        owned_bytes: by weak references to the storages of all real tensors.
        allocated_bytes: by the allocator: what it handed out beyond the start, and the constants.
        cuda: more of what the caching allocator says.
    """

    accounted_bytes: int
    owned_bytes: int | None
    allocated_bytes: int | None
    cuda: CudaFigures | None


@attrs.frozen
class Overhead:
    """What a run costs beyond executing every op once, predicted and measured, as factors.

    Attributes:
        roofline: (baseline + remat) / baseline in the costs that the decisions were made by.
        medians: the same executions in measured medians; None: not asked for.
        kernels: (first + again) / first of the time spent in kernels; a median.
        wall: the whole live step over plain PyTorch, in elapsed time; both medians.
        wall_least: likewise, of the least times.
        cpu: likewise, of the least times of the process on its CPUs.
        live_ns: least elapsed time of a live step.
        eager_ns: least elapsed time of a plain one.
    """

    roofline: float
    medians: float | None
    kernels: float
    wall: float
    wall_least: float
    cpu: float
    live_ns: int
    eager_ns: int

    @property
    def closer(self) -> str | None:
        """Which prediction is nearer to `kernels`: `roofline` or `medians`; None: not to say."""
        if self.medians is None or self.medians == self.roofline == 1:
            return None
        far, near = (abs(each - self.kernels) for each in (self.roofline, self.medians))
        return "medians" if near < far else "roofline"


@attrs.frozen
class Point:
    """One policy and budget, simulated and live.

    Attributes:
        config: the rules of both.
        simulated: what the simulation came to.
        live: what the live run came to; None where it was refused or failed.
        outcome: of the live run, as `Trial` has it.
        why: what the runtime said where the step did not end.
        common_prefix: number of equal decisions.
        divergence: where they part, a simulated and b live; None where all decisions are equal.
        ops: where the programs differ, as far as both went; None: nowhere.
        differing: names of values that are not those of plain PyTorch, bit by bit.
        apart: by how much at most.
        compared: number of values that were compared; 0 where the step did not end.
        logs: names of the files with the events of both.
    """

    config: RunConfig
    simulated: RunResult
    live: RunResult | None
    outcome: str
    why: str | None
    common_prefix: int
    divergence: Divergence | None
    ops: ProgramDifference | None
    bytes: Bytes | None
    overhead: Overhead | None
    differing: tuple[str, ...]
    apart: float
    compared: int
    logs: tuple[str, str] | None

    @property
    def equal(self) -> bool:
        """Whether programs, decisions, outcome and counts are equal.

        A budget that the live run refuses, since what has to stay exceeds it, is equal to a
        simulation that does not end.
        """
        if self.live is None:
            return self.outcome == "refused" and self.simulated.end.outcome != OK
        return self.divergence is None and self.ops is None and not self.unequal_counts

    @property
    def unequal_counts(self) -> tuple[str, ...]:
        """Fields at the end of both logs that differ."""
        if self.live is None:
            return ()
        a, b = self.simulated.end, self.live.end
        return tuple(name for name in _COUNTED if getattr(a, name) != getattr(b, name))


@attrs.frozen
class Asked:
    """What is to be compared at every point, besides decisions.

    Attributes:
        repeat: how often the step is taken plain and live for its times; 0: not at all.
        bytes: count them in three ways.
        values: compare them with those of plain PyTorch.
        medians: the recording with measured costs, op by op that of the trace; None: none.
        logs: a folder for the events of both sides.
    """

    repeat: int = 0
    bytes: bool = True
    values: bool = True
    medians: Trace | None = None
    logs: Path | None = None


def compare_points(
    bench: Bench,
    trace: Trace,
    configs: Iterable[RunConfig],
    asked: Asked,
    tell: Callable[[Point], None] = lambda point: None,
) -> list[Point]:
    """Simulate and run live at each policy and budget.

    Args:
        bench: takes the step.
        trace: as recorded of it.
        configs: rules with a budget.
        asked: what else to compare.
        tell: called with each point that is done.

    Raises:
        OutputError: a log cannot be written.
    """
    # What a function keeps to itself cannot be put back, so a second step of it is another one.
    plain = bench.eager() if asked.values and bench.restores else None
    points = []
    for config in configs:
        points.append(_point(bench, trace, config, asked, plain))
        tell(points[-1])
    return points


def _point(
    bench: Bench, trace: Trace, config: RunConfig, asked: Asked, plain: Trial | None
) -> Point:
    from dtrdiag.instrumentation.pytorch.trials import differing

    files = _log_files(config, asked.logs)
    with _Side(files, 0) as a, _Side(files, 1) as b:
        simulated = simulate(trace, config, a.hooks)
        trial = bench.live(config, trace, b.hooks, owned=asked.bytes)
    prefix, divergence, ops = 0, None, None
    if b.events:
        compared = compare_runs(a.events, b.events)
        prefix, divergence = compared.common_prefix, compared.divergence
        ops = program_difference(a.events, b.events)
    names: list[str] = []
    apart, values = 0.0, 0
    if plain is not None and trial.outcome == OK:
        names, apart = differing(plain.values, trial.values)
        values = len(plain.values)
    timed = trial.outcome == OK and asked.repeat > 0
    return Point(
        config=config,
        simulated=simulated,
        live=trial.result,
        outcome=trial.outcome,
        why=trial.why,
        common_prefix=prefix,
        divergence=divergence,
        ops=ops,
        bytes=_bytes(bench, trace, config, trial, ops is None) if asked.bytes else None,
        overhead=_overhead(bench, trace, config, asked, a.events) if timed else None,
        differing=tuple(names),
        apart=apart,
        compared=values,
        logs=None if files is None else (files[0].name, files[1].name),
    )


class _Side:
    """The events of one side: kept, and written where a folder was given."""

    def __init__(self, files: tuple[Path, Path] | None, which: int) -> None:
        self.hooks = Hooks()
        recorder = EventRecorder()
        self.hooks.subscribe(recorder)
        self.events: Sequence[Event] = recorder.events
        self._writer = None if files is None else log_writer(files[which], force=True)
        if self._writer is not None:
            self.hooks.subscribe(self._writer)

    def __enter__(self) -> _Side:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()


def _log_files(config: RunConfig, folder: Path | None) -> tuple[Path, Path] | None:
    if folder is None:
        return None
    simulated, live = log_names(config)
    return folder / simulated, folder / live


def log_names(config: RunConfig) -> tuple[str, str]:
    """Names of the logs of a point: of the simulation, of the live run."""
    stem = f"{config.policy}-{config.budget_bytes}"
    return f"{stem}-simulated.jsonl.zst", f"{stem}-live.jsonl.zst"


def _bytes(
    bench: Bench, trace: Trace, config: RunConfig, trial: Trial, as_recorded: bool
) -> Bytes | None:
    if trial.result is None:
        return None
    watched = bench.live(config, trace, allocated=True)
    allocated = None
    # A function that keeps its state may have taken another step this time.
    again = watched.result is not None and all(
        getattr(watched.result.end, name) == getattr(trial.result.end, name) for name in _COUNTED
    )
    if as_recorded and again and watched.risen_bytes is not None:
        allocated = watched.risen_bytes + trace.constant_bytes
    return Bytes(trial.result.end.max_memory_bytes, trial.owned_bytes, allocated, watched.cuda)


def _overhead(
    bench: Bench, trace: Trace, config: RunConfig, asked: Asked, events: Sequence[Event]
) -> Overhead | None:
    eager: list[Trial] = []
    live: list[Trial] = []
    for _ in range(asked.repeat):
        # In turn, so that what else the machine does falls on both.
        eager.append(bench.eager())
        live.append(bench.live(config, trace))
    if any(each.outcome != OK for each in live):
        return None
    first_ns = statistics.median(each.first_ns or 0 for each in live)
    again_ns = statistics.median(each.again_ns or 0 for each in live)
    live_ns, eager_ns = ([each.wall_ns for each in side] for side in (live, eager))
    live_cpu_ns, eager_cpu_ns = (min(each.cpu_ns for each in side) for side in (live, eager))
    roofline = overhead_of(events, trace)
    if roofline is None or not first_ns:
        return None
    return Overhead(
        roofline=roofline,
        medians=None if asked.medians is None else overhead_of(events, asked.medians),
        kernels=(first_ns + again_ns) / first_ns,
        wall=statistics.median(live_ns) / statistics.median(eager_ns),
        wall_least=min(live_ns) / min(eager_ns),
        cpu=live_cpu_ns / max(1, eager_cpu_ns),
        live_ns=min(live_ns),
        eager_ns=min(eager_ns),
    )


def overhead_of(events: Iterable[Event], trace: Trace) -> float | None:
    """(first + again) / first of the executions of a run, in the costs of a trace of the same ops.

    None where no op costs anything.

    Args:
        events: of the run.
        trace: whose costs count, op by op.
    """
    costs_ns = trace.op_cost_ns.tolist()
    first_ns = again_ns = 0
    for event in events:
        if isinstance(event, Compute):
            first_ns += costs_ns[event.op]
        elif isinstance(event, Rematerialise):
            again_ns += costs_ns[event.op]
    return (first_ns + again_ns) / first_ns if first_ns else None
