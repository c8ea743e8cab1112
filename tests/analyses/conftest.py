"""Event logs to analyse: made by hand, by a toy runtime, and by the simulator on public traces."""

# mypy: no-check-untyped-defs

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from dtrdiag.events import records
from dtrdiag.hooks import Hooks
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, budget_from_ratio, simulate
from dtrdiag.trace import read_dtr_log


def header(**changes) -> records.RunHeader:
    return attrs.evolve(
        records.RunHeader(
            seq=0,
            schema=records.SCHEMA,
            runtime="toy",
            runtime_version="1",
            trace_name="by hand",
            trace_sha256=None,
            trace_ops=None,
            trace_tensors=None,
            policy="oldest",
            dealloc="eager",
            semantics="toy",
            budget_bytes=100,
            overhead_limit=None,
            seed=0,
            candidates=0,
            baseline_cost_ns=None,
        ),
        **changes,
    )


class ToyRuntime:
    """A small runtime that shares no code with the simulator and writes the same kind of log.

    An op is `(name, cost_ns, inputs, size_bytes)` with one fresh output, so op, tensor and storage
    have the same id; a size below 0 makes a pinned constant of that size. A tensor is released
    after its last use. Under pressure the `victim`-th of the pool goes, counted as a list index.
    """

    def __init__(self, ops, budget_bytes, victim=0, **changes):
        self.ops = ops
        self.budget_bytes = budget_bytes
        self.victim = victim
        self.events = [
            header(
                budget_bytes=budget_bytes,
                baseline_cost_ns=sum(op[1] for op in ops),
                policy=f"pool[{victim}]",
                **changes,
            )
        ]
        self.resident, self.pinned, self.pool = set(), set(), []
        self.locks = {}
        self.memory_bytes, self.clock_ns, self.depth = 0, 1, 0
        self.ran = set()

    def emit(self, kind, *fields):
        self.events.append(kind(len(self.events), *fields))
        return len(self.events) - 1

    def run(self):
        try:
            for op, (name, cost_ns, inputs, size) in enumerate(self.ops):
                made = ((op,), (op,), (abs(size),))
                cause = self.emit(records.OpDefined, None, op, op, name, cost_ns, inputs, *made)
                done = self.materialise(op, cause, None, "first")
                if size < 0:
                    self.pinned.add(op)
                    self.pool.remove(op)
                    self.emit(records.Pin, done, op, "constant", 1)
                for tensor in dict.fromkeys((*inputs, op)):
                    self.release(tensor, op)
            outcome = "ok"
        except MemoryError:
            outcome = "oom"
        self.emit(records.End, *self.counts(outcome))
        return self.events

    def release(self, tensor, op):
        if any(tensor in later[2] for later in self.ops[op + 1 :]):
            return
        cause = self.emit(records.ReferenceChanged, None, op, tensor, tensor, -1, 0)
        if tensor in self.resident and tensor not in self.pinned:
            self.evict(cause, tensor, "release", None)

    def materialise(self, op, cause, for_op, reason):
        _, cost_ns, inputs, size = self.ops[op]
        size = abs(size)
        self.depth += 1
        asked = self.emit(records.Materialise, cause, op, op, reason, for_op, self.depth)
        missing = [tensor for tensor in inputs if tensor not in self.resident]
        for tensor in inputs:
            if tensor not in missing:
                self.lock(asked, tensor, op)
        for tensor in missing:
            if tensor not in self.resident:
                self.materialise(tensor, asked, op, "remat")
            self.lock(asked, tensor, op)
        self.make_room(asked, op, size)
        self.memory_bytes += size
        self.clock_ns += cost_ns
        kind = records.Compute if reason == "first" else records.Rematerialise
        done = self.emit(
            kind, asked, op, op, cost_ns, (op,), (op,), 0, self.memory_bytes, self.clock_ns
        )
        self.resident.add(op)
        self.pool.append(op)
        for tensor in inputs:
            self.unlock(done, tensor, op)
        self.depth -= 1
        return done

    def make_room(self, asked, op, size):
        while True:
            fits = self.memory_bytes + size <= self.budget_bytes
            check = self.emit(records.FitCheck, asked, op, self.memory_bytes, size, fits)
            if fits:
                return
            if not self.pool:
                self.emit(
                    records.OutOfMemory,
                    check,
                    op,
                    size,
                    self.memory_bytes,
                    self.budget_bytes,
                    self.depth,
                )
                raise MemoryError
            self.evict(check, self.pool[self.victim % len(self.pool)], "pressure", op)

    def evict(self, cause_seq, storage, cause, op):
        pool_size = len(self.pool) if cause == "pressure" else None
        self.pool.remove(storage)
        self.resident.remove(storage)
        size = abs(self.ops[storage][3])
        self.memory_bytes -= size
        self.emit(
            records.Evict,
            cause_seq,
            storage,
            size,
            cause,
            op,
            None,
            pool_size,
            (),
            self.memory_bytes,
            self.clock_ns,
        )

    def lock(self, asked, storage, op):
        self.locks[storage] = self.locks.get(storage, 0) + 1
        if storage in self.pool:
            self.pool.remove(storage)
        self.emit(records.Lock, asked, storage, op, self.locks[storage] + (storage in self.pinned))

    def unlock(self, done, storage, op):
        self.locks[storage] -= 1
        if not self.locks[storage] and storage not in self.pinned:
            self.pool.append(storage)
        self.emit(records.Unlock, done, storage, op, self.locks[storage] + (storage in self.pinned))

    def counts(self, outcome):
        def of(*kinds):
            return [event for event in self.events if event.kind in kinds]

        evicted = {
            cause: [event.storage for event in of("evict") if event.cause == cause]
            for cause in ("pressure", "release", "banish")
        }
        needed = [(e.fits, e.memory_bytes + e.requested_bytes) for e in of("fit")]
        return (
            outcome,
            len(of("compute")),
            len(of("rematerialise")),
            sum(event.cost_ns for event in of("rematerialise")),
            *(len(storages) for storages in evicted.values()),
            len({event.storage for event in of("evict")}),
            *(len(set(storages)) for storages in evicted.values()),
            max((event.memory_bytes for event in of("compute", "rematerialise")), default=0),
            self.memory_bytes,
            self.clock_ns,
            max((size for fits, size in needed if fits), default=0),
            min((size for fits, size in needed if not fits), default=None),
            "not computed",
        )


@pytest.fixture(scope="session")
def make_header() -> Callable[..., records.RunHeader]:
    return header


@pytest.fixture(scope="session")
def toy_log() -> Callable[..., list[records.Event]]:
    """`toy_log(ops, budget_bytes, victim=0, **header fields)`: a run of the toy runtime."""

    def run(ops, budget_bytes, victim=0, **changes):
        return ToyRuntime(ops, budget_bytes, victim, **changes).run()

    return run


# A residual block of two: relu and the second add need what was computed long before.
BLOCK = [
    ("constant", 0, (), -5),
    ("conv", 10, (0,), 40),
    ("relu", 1, (1,), 40),
    ("conv", 10, (2,), 40),
    ("add", 1, (1, 3), 40),
    ("mul", 2, (2, 4), 40),
]


@pytest.fixture(scope="session")
def block_ops():
    return BLOCK


@pytest.fixture(scope="session")
def public_run(traces_archive: Path) -> Callable[..., list[records.Event]]:
    """`public_run(trace, policy, ratio=None, ...)`: the events of a run on a public trace."""
    traces, runs = {}, {}

    def run(name, policy, ratio, limit=100, dealloc="eager", candidates=0):
        key = (name, policy, ratio, limit, dealloc, candidates)
        if key not in runs:
            if name not in traces:
                traces[name] = read_dtr_log(f"{traces_archive}::/{name}-", name=name)
            trace = traces[name]
            peak_bytes = baseline_peak_bytes(trace)
            events, hooks = [], Hooks()
            hooks.subscribe(events.append)
            config = RunConfig(
                policy=policy,
                budget_bytes=budget_from_ratio(peak_bytes, ratio),
                peak_bytes=peak_bytes,
                ratio=ratio,
                dealloc=dealloc,
                overhead_limit=limit,
                candidates=candidates,
            )
            simulate(trace, config, hooks)
            runs[key] = events
        return runs[key]

    return run
