"""Logs to replay and verify: two made by hand, and a way to simulate more."""

from collections.abc import Callable
from typing import Any

import pytest

from dtrdiag.events import records
from dtrdiag.hooks import Hooks
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace import Trace

Log = list[Any]


def numbered(*drafts: tuple[type[Any], tuple[object, ...]]) -> Log:
    return [record(seq, *fields) for seq, (record, fields) in enumerate(drafts)]


def draft(record: type[Any], *fields: object) -> tuple[type[Any], tuple[object, ...]]:
    return record, fields


def header(budget: int | None, dealloc: str, semantics: str = "simrd", **changes: object) -> Any:
    fields = {
        "schema": records.SCHEMA,
        "runtime": "by hand",
        "runtime_version": "1",
        "trace_name": "tiny",
        "trace_sha256": None,
        "trace_ops": None,
        "trace_tensors": None,
        "policy": "lru",
        "dealloc": dealloc,
        "semantics": semantics,
        "budget_bytes": budget,
        "overhead_limit": None,
        "seed": 0,
        "candidates": 1,
        "baseline_cost_ns": None,
    } | changes
    return records.RunHeader, tuple(fields.values())


def end(digest: str, **counts: object) -> Any:
    names = [
        "computes remats remat_cost_ns evictions_pressure evictions_release evictions_banish",
        "distinct_evicted distinct_pressure distinct_release distinct_banish max_memory_bytes",
        "memory_bytes clock_ns interval_lo_bytes interval_hi_bytes",
    ]
    fields = dict.fromkeys(" ".join(names).split(), 0) | counts
    return records.End, ("ok", *fields.values(), digest)


@pytest.fixture
def eager_log() -> Log:
    """Op f(x), then g(x), with room for x (6 bytes) and one of f (10) and g (8); f comes back."""
    return numbered(
        header(20, "eager"),
        draft(records.OpDefined, None, 0, 0, "constant", 0, (), (0,), (0,), (6,)),
        draft(records.Materialise, 1, 0, 0, "first", None, 1),
        draft(records.FitCheck, 2, 0, 0, 6, True),
        draft(records.Compute, 2, 0, 0, 0, (0,), (0,), 0, 6, 1),
        draft(records.Pin, 4, 0, "constant", 1),
        draft(records.OpDefined, None, 1, 1, "f", 5, (0,), (1,), (1,), (10,)),
        draft(records.Materialise, 6, 1, 1, "first", None, 1),
        draft(records.Lock, 7, 0, 1, 2),
        draft(records.FitCheck, 7, 1, 6, 10, True),
        draft(records.Compute, 7, 1, 1, 5, (1,), (1,), 0, 16, 6),
        draft(records.Unlock, 10, 0, 1, 1),
        draft(records.OpDefined, None, 2, 2, "g", 7, (0,), (2,), (2,), (8,)),
        draft(records.Materialise, 12, 2, 2, "first", None, 1),
        draft(records.Lock, 13, 0, 2, 2),
        draft(records.FitCheck, 13, 2, 16, 8, False),
        draft(records.Evict, 15, 1, 10, "pressure", 2, 6, 1, (), 6, 6),
        draft(records.FitCheck, 13, 2, 6, 8, True),
        draft(records.Compute, 13, 2, 2, 7, (2,), (2,), 0, 14, 13),
        draft(records.Unlock, 18, 0, 2, 1),
        draft(records.ReferenceChanged, None, 3, 2, 2, -1, 0),
        draft(records.Evict, 20, 2, 8, "release", None, None, None, (), 6, 13),
        draft(records.OutputRequested, None, 4, 1, 1),
        draft(records.Materialise, 22, 1, 1, "remat", None, 1),
        draft(records.Lock, 23, 0, 1, 2),
        draft(records.FitCheck, 23, 1, 6, 10, True),
        draft(records.Rematerialise, 23, 1, 1, 5, (1,), (1,), 0, 16, 18),
        draft(records.Unlock, 26, 0, 1, 1),
        draft(records.Pin, 22, 1, "output", 1),
        end(
            # printf 'C 0\nC 1\nE 1\nC 2\nE 2\nR 1\n' | sha256sum
            "80f471bb4f7a245c642784d658c95ebc28b225de0c6448d27292ba317285fede",
            computes=3,
            remats=1,
            remat_cost_ns=5,
            evictions_pressure=1,
            evictions_release=1,
            distinct_evicted=2,
            distinct_pressure=1,
            distinct_release=1,
            max_memory_bytes=16,
            memory_bytes=16,
            clock_ns=18,
            interval_lo_bytes=16,
            interval_hi_bytes=24,
        ),
    )


@pytest.fixture
def banish_log() -> Log:
    """Op d(x, y) runs again after x was released: x dies on its unlock, y is never unlocked."""
    return numbered(
        header(14, "banish"),
        draft(records.OpDefined, None, 0, 0, "make", 1, (), (0, 1), (0, 1), (4, 2)),
        draft(records.Materialise, 1, 0, 0, "first", None, 1),
        draft(records.FitCheck, 2, 0, 0, 6, True),
        draft(records.Compute, 2, 0, 0, 1, (0, 1), (1, 0), 0, 6, 2),
        draft(records.OpDefined, None, 1, 1, "d", 3, (0, 1), (2,), (2,), (8,)),
        draft(records.Materialise, 5, 1, 2, "first", None, 1),
        draft(records.Lock, 6, 0, 1, 1),
        draft(records.Lock, 6, 1, 1, 1),
        draft(records.FitCheck, 6, 1, 6, 8, True),
        draft(records.Compute, 6, 1, 2, 3, (2,), (2,), 0, 14, 5),
        draft(records.Unlock, 10, 0, 1, 0),
        draft(records.Unlock, 10, 1, 1, 0),
        draft(records.OpDefined, None, 2, 2, "big", 1, (), (3,), (3,), (8,)),
        draft(records.Materialise, 13, 2, 3, "first", None, 1),
        draft(records.FitCheck, 14, 2, 14, 8, False),
        draft(records.Evict, 15, 2, 8, "pressure", 2, None, 3, (), 6, 5),
        draft(records.FitCheck, 14, 2, 6, 8, True),
        draft(records.Compute, 14, 2, 3, 1, (3,), (3,), 0, 14, 6),
        draft(records.ReferenceChanged, None, 3, 0, 0, -1, 0),
        draft(records.ReferenceChanged, None, 4, 3, 3, -1, 0),
        draft(records.Evict, 20, 3, 8, "banish", None, None, None, (), 6, 6),
        draft(records.Banish, 20, 3),
        draft(records.OutputRequested, None, 5, 2, 2),
        draft(records.Materialise, 23, 1, 2, "remat", None, 1),
        draft(records.Lock, 24, 0, 1, 1),
        draft(records.Lock, 24, 1, 1, 1),
        draft(records.FitCheck, 24, 1, 6, 8, True),
        draft(records.Rematerialise, 24, 1, 2, 3, (2,), (2,), 0, 14, 9),
        draft(records.Unlock, 28, 0, 1, 0),
        draft(records.Evict, 29, 0, 4, "banish", None, None, None, (), 10, 9),
        draft(records.Banish, 29, 0),
        draft(records.Pin, 31, 2, "banish", 1),
        draft(records.OutputRequested, None, 6, 1, 1),
        draft(records.Pin, 33, 1, "output", 2),
        end(
            # printf 'C 0\nC 1\nE 2\nC 2\nE 3\nR 1\nE 0\n' | sha256sum
            "efa3f72183dfaed2b3d7612ffc1992d0ab73e1af8de721d3aaf6cd28b7d0895b",
            computes=3,
            remats=1,
            remat_cost_ns=3,
            evictions_pressure=1,
            evictions_banish=2,
            distinct_evicted=3,
            distinct_pressure=1,
            distinct_banish=2,
            max_memory_bytes=14,
            memory_bytes=10,
            clock_ns=9,
            interval_lo_bytes=14,
            interval_hi_bytes=22,
        ),
    )


@pytest.fixture(scope="session")
def record_run() -> Callable[..., Log]:
    """Simulate a trace under a `RunConfig` and keep its events."""

    def record(trace: Trace, **config: Any) -> Log:
        events: Log = []
        hooks = Hooks()
        hooks.subscribe(events.append)
        simulate(trace, RunConfig(**config), hooks)
        return events

    return record


@pytest.fixture(scope="session")
def busy_trace(layered_trace: Callable[..., Trace]) -> Trace:
    """A larger layered trace."""
    return layered_trace("busy", 8, {"w": 8, "x": 4})
