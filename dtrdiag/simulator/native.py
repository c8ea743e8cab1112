"""How a run is handed to the compiled engine, and how its answers come back.

The engine follows the same rules as `machine.Machine` and the same names; `csrc/` holds it. It
returns decisions, scores and counts. Where someone listens to events, the machine in Python runs
the decisions once more and writes the events, so that a log has one author whichever engine ran.
"""

from __future__ import annotations

import hashlib
import importlib
import math
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from dtrdiag.errors import SimulationError
from dtrdiag.events.columns import EventColumns
from dtrdiag.ids import OpId, StorageId, TensorId
from dtrdiag.simulator.asrun import no_pressure, not_in_pool, nothing_else, refuse_unreached
from dtrdiag.simulator.config import PendingOp, RunConfig, Stop
from dtrdiag.simulator.enginepool import EnginePool
from dtrdiag.simulator.eventcolumns import column_of_number, columns_from, names_column
from dtrdiag.simulator.policies import Factors, Policy, PolicyFunction, draw, find_policy
from dtrdiag.simulator.pool import USES, SplitMix64
from dtrdiag.simulator.scoring import Choice, Pick, Walk, checked_answer, choose
from dtrdiag.trace.model import Trace

_native: Any = None
_failure: ImportError | None = None
try:
    _native = importlib.import_module("dtrdiag.simulator._native")
    if not hasattr(_native, "Interventions"):
        raise ImportError("it was built from older sources; build it again")
except ImportError as error:
    _native, _failure = None, error

_TEXT_DECISIONS = 1 << 18
_MOST_NS = (1 << 63) - 1
_NO_PRESSURE, _NOT_IN_POOL = 0, 1
_ANY = -1
"""Whichever storage the policy would choose."""


class Unsuitable(Exception):  # noqa: N818 - a reason to take the other engine, not an error
    """The run has figures that 64 bits may not hold; the Python engine takes any."""


def available() -> bool:
    """Whether the compiled engine was built in this installation."""
    return _native is not None


def why_missing() -> str | None:
    """Why the compiled engine does not serve; None where it does."""
    if _native is not None:
        return None
    if _failure is None or isinstance(_failure, ModuleNotFoundError):
        return "not built: dtrdiag was installed without a C++ compiler, or with DTRDIAG_NATIVE=0"
    return f"built, but it cannot be loaded: {_failure}"


class Finished:
    """What a run came to, by whichever object of the engine holds it.

    Attributes:
        totals: counts by the names of the fields of the `end` event, with `outcome`.
        decisions_sha256: digest of all decisions.
        seconds: how long it took.
    """

    def __init__(self, held: Any, started: float, choices: list[Choice] | None = None) -> None:
        self._held = held
        self._choices = choices
        self.totals: dict[str, Any] = held.totals
        self.decisions_sha256 = _digest(held, self.totals)
        self.seconds = time.perf_counter() - started

    def stop(self) -> Stop | None:
        """Where the run stopped short; None if it did not."""
        held = self._held.stop
        if held is None:
            return None
        op, requested_bytes, memory_bytes, pending, pinned, evictable = held
        return Stop(
            OpId(op),
            requested_bytes,
            memory_bytes,
            tuple(
                PendingOp(OpId(op), TensorId(tensor), first, tuple(map(StorageId, locks)))
                for op, tensor, first, locks in pending
            ),
            tuple(map(StorageId, pinned)),
            tuple(map(StorageId, evictable)),
        )

    def refuse_unreached(self, config: RunConfig) -> None:
        """Refuse the run if it ended before an intervention took place.

        Raises:
            SimulationError: it did.
        """
        refuse_unreached(config.interventions, _decisions(self.totals), self.totals["outcome"])

    def chooser(self) -> RecordedChooser:
        """A chooser that repeats the run's choices."""
        if self._choices is not None:
            return RecordedChooser(self._choices)
        held = self._held
        losers = iter(held.losers)  # none at all where none were asked for
        return RecordedChooser(
            Choice(
                StorageId(victim),
                score,
                tuple((StorageId(storage), value) for storage, value in next(losers, ())),
            )
            for victim, score in zip(held.victims.tolist(), held.scores, strict=True)
        )


class RecordedChooser:
    """Repeats choices that were made before, in order."""

    def __init__(self, choices: Iterable[Choice]) -> None:
        self._choices = iter(choices)

    def called(self, inputs: Sequence[int], outputs: Sequence[int], fresh: Sequence[int]) -> None:
        """Nothing to track."""

    def became_resident(self, storages: Sequence[int]) -> None:
        """Nothing to track."""

    def evicted(self, storage: int) -> None:
        """Nothing to track."""

    def detached(self, storage: int) -> None:
        """Nothing to track."""

    def choose(self, pool: Iterable[int], clock_ns: int) -> Choice:
        """The next choice, whatever the pool."""
        return next(self._choices)


def run(trace: Trace, config: RunConfig, policy: Policy, *, scores: bool) -> Finished:
    """Run a trace.

    Args:
        trace: what the model asks for, with costs and sizes changed already.
        config: the rules, such that `supports` them.
        policy: of the registry.
        scores: also keep what `Finished.chooser` needs.

    Raises:
        PolicyError: the policy is a function that returns unusable scores.
        SimulationError: the trace asks for something that the semantics does not define, or an
            intervention cannot take place.
        Unsuitable: see there.
    """
    prepared = prepare(trace)
    started = time.perf_counter()
    rules = (config.budget_bytes, config.dealloc, _limit(trace, config))
    changes = _interventions(config)
    if built_in(policy):
        candidates = config.candidates if scores else 0
        arguments = (*rules, *_policy(policy, config), candidates, scores, False, changes)
        done = Finished(_call(trace, config, _native.run, prepared, *arguments), started)
    else:
        uses = (use in policy.uses for use in USES)
        steps = _native.Steps(prepared, *rules, *uses, changes)
        done = _run_function(trace, config, policy, steps, started)
    done.refuse_unreached(config)
    return done


def _run_function(
    trace: Trace, config: RunConfig, policy: Policy, steps: Any, started: float
) -> Finished:
    """A run that stops at each decision and asks a function in Python."""
    rng = SplitMix64(config.seed)
    choices: list[Choice] = []
    walk = Walk(config.interventions.tie_break, "zero-stops" not in config.repairs)
    while _call(trace, config, steps.advance):
        pool = EnginePool(steps, policy, rng)
        storages = pool.storages
        answer = cast(PolicyFunction, policy.score)(pool)
        answer = checked_answer(storages, answer, policy.name)
        if isinstance(answer, Pick):
            choice = Choice(StorageId(storages[answer.position]), None, ())
        else:
            choice = choose(storages, answer, config.candidates, walk)
        choices.append(choice)
        steps.evict(choice.storage)
    return Finished(steps, started, choices)


def runs_between(
    trace: Trace, config: RunConfig, policy: Policy, from_bytes: int, to_bytes: int
) -> Iterator[tuple[int, Finished]]:
    """Runs at ascending budgets, as `intervals.runs_between`, each from where it parts.

    For built-in policies (`built_in`).

    Yields:
        A budget, and what the run at it came to; the latter must be read before the next.

    Raises:
        as `run`.
    """
    prepared = prepare(trace)
    arguments = (*_policy(policy, config), from_bytes, to_bytes, _interventions(config))
    runs = _native.Range(prepared, config.dealloc, _limit(trace, config), *arguments)
    started = time.perf_counter()
    while _call(trace, config, runs.next):
        done = Finished(runs, started)
        done.refuse_unreached(config)
        yield runs.budget_bytes, done
        started = time.perf_counter()


class Logged:
    """A run under a built-in policy whose events are taken in batches of columns.

    Attributes:
        held: the engine's own run, for `Finished`.
        events: how many events were taken.
    """

    def __init__(self, trace: Trace, config: RunConfig, policy: Policy) -> None:
        limit, limit_ns = config.overhead_limit, _limit(trace, config)
        arguments = (*_policy(policy, config), config.candidates, _interventions(config))
        self.held = _native.Logged(
            prepare(trace), config.budget_bytes, config.dealloc, limit_ns, *arguments
        )
        self.events = 0
        self._trace = trace
        self._config = config
        self._names = names_column(trace.op_name)
        # Nothing stops at a limit beyond 64 bits, so no event has to say it.
        told = 0 if limit is None or limit_ns is None else trace.baseline_cost_ns * (limit - 1)
        self._limit = column_of_number(told)

    def next(self, most_events: int) -> EventColumns:
        """Go on until there are about so many events, and take them.

        Raises:
            as `run`.
        """
        arrays = _call(self._trace, self._config, self.held.next, most_events)
        columns = columns_from(arrays, self._names, self._limit)
        self.events += len(columns)
        return columns

    def running(self) -> bool:
        """Whether there is more to come."""
        return bool(self.held.totals["outcome"] == "running")

    def finished(self) -> Finished:
        """What the run came to, once it runs no more.

        Raises:
            SimulationError: it ended before an intervention took place.
        """
        done = Finished(self.held, time.perf_counter())
        done.refuse_unreached(self._config)
        return done


def built_in(policy: Policy) -> bool:
    """Whether the engine knows the policy by itself, without asking a function."""
    return isinstance(policy.score, Factors) or policy.score is draw


def supports(config: RunConfig) -> bool:
    """Whether the engine knows the rules of a run: victims and changes of policy only where all
    policies are built in.

    Raises:
        PolicyError: a policy is unknown.
    """
    changes = config.interventions
    if not (changes.victims or changes.policies):
        return True
    names = [config.policy, *(name for _, name in changes.policies)]
    return all(built_in(find_policy(name)) for name in names)


def _policy(policy: Policy, config: RunConfig) -> tuple[str, bool, bool, int]:
    return *_factors(policy), config.seed


def _factors(policy: Policy) -> tuple[str, bool, bool]:
    score = policy.score
    if isinstance(score, Factors):
        return score.cost, score.size, score.staleness
    return "random", False, False


def _interventions(config: RunConfig) -> Any:
    """Repairs and interventions in the engine's own form; None: there are none."""
    changes = config.interventions
    if not changes and not config.repairs:
        return None
    return _native.Interventions(
        sorted(config.repairs),
        changes.tie_break,
        [(v.at, _ANY if v.storage is None else v.storage, v.forced) for v in changes.victims],
        [(at, *_factors(find_policy(name))) for at, name in changes.policies],
        list(changes.budgets),
        list(changes.pins),
        list(changes.keeps),
    )


def _limit(trace: Trace, config: RunConfig) -> int | None:
    """The most remat cost that is not too much."""
    if config.overhead_limit is None:
        return None
    limit = trace.baseline_cost_ns * (config.overhead_limit - 1)
    # Compared before it is rounded: the product of doubles may be infinite.
    return math.floor(limit) if limit < _MOST_NS else None


def _call(trace: Trace, config: RunConfig, function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except _native.Unsuitable as error:
        raise Unsuitable(str(error)) from None
    except _native.NeededAfterBanish as error:
        raise needed_after_banish(trace, int(error.args[0])) from None
    except _native.Impossible as error:
        raise _impossible(config, *error.args) from None


def _impossible(config: RunConfig, reason: int, at: int, storage: int) -> SimulationError:
    """The error of a victim that cannot be had; reasons as csrc/interventions.hpp has them."""
    victim = next(victim for victim in config.interventions.victims if victim.at == at)
    if reason == _NO_PRESSURE:
        return no_pressure(victim)
    return not_in_pool(victim) if reason == _NOT_IN_POOL else nothing_else(victim, storage)


def needed_after_banish(trace: Trace, tensor: int) -> SimulationError:
    """The error of a tensor that is used after its storage was freed for good."""
    return SimulationError(
        f"{trace.tensor_name[tensor]!r} is needed after its storage was banished: the trace uses "
        "a tensor after its last release, which dealloc banish does not allow",
        path=trace.path,
    )


def _digest(held: Any, totals: dict[str, Any]) -> str:
    """SHA-256 of the text of all decisions."""
    sha256 = hashlib.sha256()
    for begin in range(0, _decisions(totals), _TEXT_DECISIONS):
        sha256.update(held.text(begin, begin + _TEXT_DECISIONS))
    return sha256.hexdigest()


def _decisions(totals: dict[str, Any]) -> int:
    names = ("computes", "remats", "evictions_pressure", "evictions_release", "evictions_banish")
    return sum(totals[name] for name in names)


def prepare(trace: Trace) -> Any:
    """The engine's own form of a trace, kept for as long as the trace.

    Raises:
        Unsuitable: see there.
    """
    prepared = _traces.get(id(trace))
    if prepared is None:
        try:
            prepared = _native.Trace(
                trace.op_cost_ns,
                trace.input_start,
                trace.input_tensor,
                trace.output_start,
                trace.tensor_storage,
                trace.tensor_size_bytes,
                trace.step_kind,
                trace.step_operand,
            )
        except _native.Unsuitable as error:
            raise Unsuitable(str(error)) from None
        _traces[id(trace)] = prepared
        weakref.finalize(trace, _traces.pop, id(trace), None)
    return prepared


_traces: dict[int, Any] = {}
