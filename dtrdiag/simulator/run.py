"""How a trace is run once: rules in, result and events out."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

import dtrdiag
from dtrdiag.errors import SimulationError, UsageError
from dtrdiag.events import records
from dtrdiag.hooks import Emitter, Hooks
from dtrdiag.simulator import native
from dtrdiag.simulator.absence import python_decided
from dtrdiag.simulator.asrun import as_run, refuse_unreached
from dtrdiag.simulator.banish import BanishingMachine
from dtrdiag.simulator.chooser import Chooser, PolicyChooser
from dtrdiag.simulator.config import RunConfig, RunResult
from dtrdiag.simulator.frames import Stopped
from dtrdiag.simulator.intervened import (
    IntervenedBanishingMachine,
    IntervenedChooser,
    IntervenedMachine,
)
from dtrdiag.simulator.machine import Machine
from dtrdiag.simulator.optable import OpTable
from dtrdiag.simulator.policies import Policy, find_policy
from dtrdiag.simulator.pool import StorageTable
from dtrdiag.simulator.scoring import Choice
from dtrdiag.trace.model import Step, Trace

RUNTIME = "dtrdiag"


def simulate(trace: Trace, config: RunConfig, hooks: Hooks | None = None) -> RunResult:
    """Run a trace under the rules of `config`.

    Args:
        trace: what the model asks for.
        config: policy, budget, deallocation and limits.
        hooks: who is told about events; without subscribers no event is built.

    Raises:
        PolicyError: unknown policy, or one that returns unusable scores.
        SimulationError: the trace asks for something that the semantics does not define, or an
            intervention cannot take place.
        SubscriberError: a subscriber raised; the run was stopped there.
        UsageError: the native engine was asked for and is not there, or cannot take the run; an
            intervention names what the trace does not have.
    """
    trace = as_run(trace, config)
    policy = find_policy(config.policy)
    decided = _decide(trace, config, policy, scores=bool(hooks))
    if decided is not None and not hooks:
        return result_of(decided, run_header(trace, config))
    table = StorageTable(trace.tensors)
    chooser: Chooser
    if decided is None:
        chooser = _chooser(config, table)
    else:
        chooser = decided.chooser()
    emit = Emitter(hooks) if hooks else None
    header = run_header(trace, config)
    if emit:
        emit(records.RunHeader, *event_fields(header))
    machine = _machine(trace, config, table, chooser, emit)
    started = time.perf_counter()
    outcome = _run(machine, trace)
    seconds = time.perf_counter() - started
    refuse_unreached(config.interventions, machine.tally.decisions, outcome)
    end = end_of(machine, outcome)
    if emit:
        end = attrs.evolve(end, seq=emit(records.End, *event_fields(end)))
    if decided is None:
        python_decided(config, seconds)
        return RunResult(header, end, machine.stop, "python", seconds)
    return RunResult(header, end, machine.stop, "native", decided.seconds)


def baseline_peak_bytes(trace: Trace) -> int:
    """Peak memory of an unlimited run that frees dead storages: the base of ratios.

    Kept per trace object, since a sweep asks for it often.

    Raises:
        SimulationError: the trace uses a tensor after its last release, so there is no such run.
    """
    peak = _peaks.get(id(trace))
    if peak is None:
        # Nothing is ever chosen, so the policy may be one for which nothing is kept up to date.
        config = RunConfig("lru", dealloc="banish", overhead_limit=None)
        peak = _peaks[id(trace)] = _unlimited_peak_bytes(trace, config)
        weakref.finalize(trace, _peaks.pop, id(trace), None)
    return peak


_peaks: dict[int, int] = {}


def _unlimited_peak_bytes(trace: Trace, config: RunConfig) -> int:
    decided = _decide(trace, config, find_policy(config.policy), scores=False)
    if decided is not None:
        return int(decided.totals["max_memory_bytes"])
    table = StorageTable(trace.tensors)
    machine = _machine(trace, config, table, _NeverChooses(), None)
    _run(machine, trace)
    return machine.tally.max_memory_bytes


def _decide(
    trace: Trace, config: RunConfig, policy: Policy, *, scores: bool
) -> native.Finished | None:
    """What the native engine makes of a run; None where the Python engine is to decide."""
    if not takes_native(config):
        return None
    try:
        return native.run(trace, config, policy, scores=scores)
    except native.Unsuitable as reason:
        refused(config, reason)
        return None


def takes_native(config: RunConfig) -> bool:
    """Whether a run is for the native engine.

    Raises:
        UsageError: it must be, and the engine is not there or does not know the rules.
    """
    if config.engine == "native" and not native.available():
        raise UsageError("the native engine is not built in this installation")
    if config.engine == "native" and not native.supports(config):
        raise UsageError(
            "the native engine takes no victims and no change of policy where a policy is a "
            "function in Python"
        )
    return config.engine != "python" and native.available() and native.supports(config)


def refused(config: RunConfig, reason: native.Unsuitable) -> None:
    """The native engine cannot take a run: let the other one have it.

    Raises:
        UsageError: no other engine was asked for.
    """
    if config.engine == "native":
        raise UsageError(f"the native engine cannot take this run: {reason}") from None


def result_of(decided: native.Finished, header: records.RunHeader) -> RunResult:
    """The result of a run that the native engine decided."""
    end = records.End(seq=0, decisions_sha256=decided.decisions_sha256, **decided.totals)
    return RunResult(header, end, decided.stop(), "native", decided.seconds)


class _NeverChooses:
    """For unlimited runs, in which nothing is ever chosen."""

    def called(self, inputs: Sequence[int], outputs: Sequence[int], fresh: Sequence[int]) -> None:
        pass

    def became_resident(self, storages: Sequence[int]) -> None:
        pass

    def evicted(self, storage: int) -> None:
        pass

    def detached(self, storage: int) -> None:
        pass

    def choose(self, pool: Iterable[int], clock_ns: int) -> Choice:
        raise SimulationError("an unlimited run never evicts under pressure")


def _machine(
    trace: Trace, config: RunConfig, table: StorageTable, chooser: Chooser, emit: Emitter | None
) -> Machine:
    limit = config.overhead_limit
    options: dict[str, Any] = {
        "budget_bytes": config.budget_bytes,
        "eager": config.dealloc == "eager",
        "remat_limit_ns": None if limit is None else trace.baseline_cost_ns * (limit - 1),
        "emit": emit,
        "repairs": config.repairs,
    }
    ops = OpTable.of(trace)
    banishes = config.dealloc == "banish"
    changes = config.interventions
    if changes.budgets or changes.pins or changes.keeps:
        intervened = IntervenedBanishingMachine if banishes else IntervenedMachine
        return intervened(trace, ops, table, chooser, interventions=changes, **options)
    kind = BanishingMachine if banishes else Machine
    return kind(ops, table, chooser, **options)


def _chooser(config: RunConfig, table: StorageTable) -> Chooser:
    changes = config.interventions
    if changes.victims or changes.policies:
        return IntervenedChooser(config, table)
    return policy_chooser(config, table)


def policy_chooser(config: RunConfig, table: StorageTable) -> PolicyChooser:
    """Who decides where no intervention does.

    Raises:
        PolicyError: unknown policy.
    """
    return PolicyChooser(
        find_policy(config.policy),
        table,
        config.seed,
        config.candidates,
        repairs=config.repairs,
        tie_break=config.interventions.tie_break,
        lazy=config.dealloc != "banish",
    )


def _run(machine: Machine, trace: Trace) -> str:
    """Execute the whole schedule. Returns the outcome: "ok", "oom" or "thrashed"."""
    does = {
        # Plain integers: hashing members of an enum costs more than most steps do.
        int(Step.CALL): machine.call,
        int(Step.CONSTANT): machine.constant,
        int(Step.RETAIN): machine.retain,
        int(Step.RELEASE): machine.release,
        int(Step.OUTPUT): machine.output,
    }
    kinds, operands = trace.step_kind.tolist(), trace.step_operand.tolist()
    try:
        for step, (kind, operand) in enumerate(zip(kinds, operands, strict=True)):
            does[kind](step, operand)
    except Stopped as stopped:
        return stopped.outcome
    return "ok"


def run_header(trace: Trace, config: RunConfig) -> records.RunHeader:
    """The first event of a run's log."""
    return header_of(
        config,
        runtime=RUNTIME,
        trace_name=trace.name,
        trace_sha256=trace.sha256,
        trace_ops=trace.ops,
        trace_tensors=trace.tensors,
        baseline_cost_ns=trace.baseline_cost_ns,
    )


def header_of(config: RunConfig, **facts: Any) -> records.RunHeader:
    """The first event of a log: the rules of a run, and the other facts about it."""
    return records.RunHeader(
        seq=0,
        schema=records.SCHEMA,
        runtime_version=dtrdiag.__version__,
        policy=config.policy,
        dealloc=config.dealloc,
        semantics=config.semantics,
        budget_bytes=config.budget_bytes,
        overhead_limit=config.overhead_limit,
        seed=config.seed,
        candidates=config.candidates,
        peak_bytes=config.peak_bytes,
        ratio=config.ratio,
        interventions=config.interventions.text(),
        **facts,
    )


def end_of(machine: Machine, outcome: str) -> records.End:
    """The last event of a log, without its `seq`."""
    tally = machine.tally
    evicted = tally.distinct
    return records.End(
        seq=0,
        outcome=outcome,
        computes=tally.computes,
        remats=tally.remats,
        remat_cost_ns=tally.remat_cost_ns,
        evictions_pressure=tally.evictions["pressure"],
        evictions_release=tally.evictions["release"],
        evictions_banish=tally.evictions["banish"],
        distinct_evicted=len(set().union(*evicted.values())),
        distinct_pressure=len(evicted["pressure"]),
        distinct_release=len(evicted["release"]),
        distinct_banish=len(evicted["banish"]),
        max_memory_bytes=tally.max_memory_bytes,
        memory_bytes=machine.memory_bytes,
        clock_ns=machine.clock_ns,
        interval_lo_bytes=tally.fit_lo_bytes,
        interval_hi_bytes=tally.fit_hi_bytes,
        decisions_sha256=tally.decisions_sha256(),
    )


def event_fields(event: records.RunHeader | records.End) -> tuple[object, ...]:
    """Field values in order of definition, without `seq` and `extra`."""
    return tuple(
        getattr(event, field.name)
        for field in attrs.fields(type(event))
        if field.name not in ("seq", "extra")
    )
