"""How did a run end, and what did it cost?

A complete log states its own counts in the `end` event, and those are taken as they stand; a
summary says which of them are not those of the events. A log without `end` is counted event by
event; its outcome is `incomplete`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from dtrdiag.analyses.reading import split_header
from dtrdiag.events.columns import COLUMNS, KIND_CODES, EventColumns, column_name
from dtrdiag.events.conversion import events_of
from dtrdiag.events.fields import FIELDS
from dtrdiag.events.packed import add_exactly, sum_exactly
from dtrdiag.events.records import (
    Compute,
    End,
    Event,
    Evict,
    FitCheck,
    Rematerialise,
    RunHeader,
)
from dtrdiag.log.parquet import ParquetReader
from dtrdiag.log.state import CAUSES, Tally

RUN_SCHEMA = "dtrdiag.run/1"
INCOMPLETE = "incomplete"

_COUNTED = ("memory_bytes", "requested_bytes", "fits", "storage", "cause", "cost_ns", "freed_bytes")
NAMES = frozenset({*_COUNTED, *(column_name("end", field.name) for field in FIELDS["end"])})
"""The columns of a log that counting needs."""


@attrs.frozen
class CauseCounts:
    """A count in total and by cause of eviction."""

    total: int
    pressure: int
    release: int
    banish: int


@attrs.frozen
class RunSummary:
    """What a run was and what came of it; bytes and nanoseconds as in the log.

    Attributes:
        outcome: `ok`, `oom`, `thrashed`, or `incomplete` where the log has no `end`.
        evictions: evictions; `total` is their sum.
        distinct_evicted: distinct storages evicted; one evicted for two causes counts once in
            `total`, so that may be less than the sum.
        interval_lo_bytes: with `interval_hi_bytes`, the half-open interval [lo, hi) of budgets that
            give the same decisions (up to the cut, if incomplete); None as hi means unbounded.
        decisions_sha256: digest of the decisions; None where the log is incomplete.
        differing: counts that `end` states and its events contradict: name, stated, counted.
    """

    header: RunHeader
    outcome: str
    computes: int
    remats: int
    remat_cost_ns: int
    evictions: CauseCounts
    distinct_evicted: CauseCounts
    max_memory_bytes: int
    interval_lo_bytes: int
    interval_hi_bytes: int | None
    decisions_sha256: str | None
    differing: tuple[tuple[str, int, int], ...] = attrs.field(default=(), eq=False)

    def _repr_html_(self) -> str:
        from dtrdiag.analyses.notebook import summary_html

        return summary_html(self)

    @property
    def overhead(self) -> float | None:
        """(baseline + remat cost) / baseline, 1.0 for no rematerialisation.

        None where the header gives no baseline cost, or 0. For a run that stopped early it is the
        overhead so far against the whole baseline.
        """
        baseline_ns = self.header.baseline_cost_ns
        return (baseline_ns + self.remat_cost_ns) / baseline_ns if baseline_ns else None

    @property
    def evictions_per_storage(self) -> float | None:
        """Evictions, of all causes, per distinct storage evicted; None where there were none."""
        distinct = self.distinct_evicted.total
        return self.evictions.total / distinct if distinct else None


class RunTally:
    """Counts the events of one run as they pass; constant time an event.

    Memory is proportional to the number of distinct storages evicted.

    Attributes:
        header: the run's first event.
        end: the run's last event, once it has passed.
        counts: what the events so far add up to.
    """

    def __init__(self, header: RunHeader) -> None:
        self.header = header
        self.end: End | None = None
        self.counts = Tally()

    def add(self, event: Event) -> None:
        """Count one event; kinds that a summary does not need are ignored."""
        counts = self.counts
        if isinstance(event, FitCheck):
            counts.fit(event.memory_bytes + event.requested_bytes, event.fits)
        elif isinstance(event, Evict):
            counts.evict(event.storage, event.cause)
        elif isinstance(event, Compute):
            counts.computes += 1
            self._see_memory(event.memory_bytes + event.freed_bytes)
        elif isinstance(event, Rematerialise):
            counts.remats += 1
            counts.remat_cost_ns += event.cost_ns
            self._see_memory(event.memory_bytes + event.freed_bytes)
        elif isinstance(event, End):
            self.end = event

    def add_columns(self, columns: EventColumns) -> None:
        """Count a batch that has the columns `NAMES`. The digest of decisions is left alone."""
        counts = self.counts
        needed = _sums(columns, "fit", "memory_bytes", "requested_bytes")
        fits = columns.column("fits").values
        for answer in (True, False):
            asked = needed[fits == answer]
            if len(asked):
                counts.fit(int(asked.max() if answer else asked.min()), answer)
        storages, causes = columns.of("evict", "storage").values, columns.column("cause").codes
        for code, cause in enumerate(COLUMNS["cause"].words or ()):
            victims = storages[causes == code]
            counts.evictions[cause] += len(victims)
            counts.evicted[cause].update(np.unique(victims).tolist())
        for kind in ("compute", "rematerialise"):
            memory = _sums(columns, kind, "memory_bytes", "freed_bytes")
            if len(memory):
                self._see_memory(int(memory.max()))
        costs_ns = columns.of("rematerialise", "cost_ns").values
        counts.computes += int((columns.kind == KIND_CODES["compute"]).sum())
        counts.remats += len(costs_ns)
        counts.remat_cost_ns += sum_exactly(costs_ns)
        for row in np.flatnonzero(columns.kind == KIND_CODES["end"]).tolist():
            self.add(*events_of(columns.slice(row, row + 1)))

    def _see_memory(self, memory_bytes: int) -> None:
        if memory_bytes > self.counts.max_memory_bytes:
            self.counts.max_memory_bytes = memory_bytes

    def summary(self) -> RunSummary:
        """The summary of the events so far: what `end` states, or else what was counted."""
        counted = self.counted()
        if self.end is None:
            return counted
        stated = summary_of(self.header, self.end)
        return attrs.evolve(stated, differing=tuple(_differing(stated, counted)))

    def counted(self) -> RunSummary:
        """The summary by counting alone, as if the log had no `end`."""
        counts = self.counts
        evictions = [counts.evictions[cause] for cause in CAUSES]
        distinct = [len(counts.evicted[cause]) for cause in CAUSES]
        return RunSummary(
            header=self.header,
            outcome=INCOMPLETE,
            computes=counts.computes,
            remats=counts.remats,
            remat_cost_ns=counts.remat_cost_ns,
            evictions=CauseCounts(sum(evictions), *evictions),
            distinct_evicted=CauseCounts(counts.distinct_evicted, *distinct),
            max_memory_bytes=counts.max_memory_bytes,
            interval_lo_bytes=counts.interval_lo_bytes,
            interval_hi_bytes=counts.interval_hi_bytes,
            decisions_sha256=None,
        )


def _differing(stated: RunSummary, counted: RunSummary) -> Iterator[tuple[str, int, int]]:
    """Counts of `end` that are not those of the events. Storages may be banished unseen."""
    said, found = _totals(stated), _totals(counted)
    return ((name, said[name], found[name]) for name in said if said[name] != found[name])


def _totals(run: RunSummary) -> dict[str, int]:
    evicted, distinct = run.evictions, run.distinct_evicted
    return {
        "computes": run.computes,
        "remats": run.remats,
        "remat_cost_ns": run.remat_cost_ns,
        "evictions_pressure": evicted.pressure,
        "evictions_release": evicted.release,
        "distinct_pressure": distinct.pressure,
        "distinct_release": distinct.release,
    }


def _sums(columns: EventColumns, kind: str, a: str, b: str) -> npt.NDArray[Any]:
    return add_exactly(columns.of(kind, a).values, columns.of(kind, b).values)


def summary_of(header: RunHeader, end: End) -> RunSummary:
    """The summary of a run from its first and last event, such as a run without a log returns."""
    pressure, release, banish = (
        end.evictions_pressure,
        end.evictions_release,
        end.evictions_banish,
    )
    return RunSummary(
        header=header,
        outcome=end.outcome,
        computes=end.computes,
        remats=end.remats,
        remat_cost_ns=end.remat_cost_ns,
        evictions=CauseCounts(pressure + release + banish, pressure, release, banish),
        distinct_evicted=CauseCounts(
            end.distinct_evicted, end.distinct_pressure, end.distinct_release, end.distinct_banish
        ),
        max_memory_bytes=end.max_memory_bytes,
        interval_lo_bytes=end.interval_lo_bytes,
        interval_hi_bytes=end.interval_hi_bytes,
        decisions_sha256=end.decisions_sha256,
    )


def summarise(events: Iterable[Event]) -> RunSummary:
    """The summary of a run from its log, in one pass.

    Time is linear in the number of events; memory in the number of distinct storages evicted.

    Raises:
        AnalysisError: the events do not begin with a header.
    """
    return count_run(events).summary()


def count_run(events: Iterable[Event]) -> RunTally:
    """The counts of a run from its log, as `summarise`; a Parquet log is counted in columns.

    Raises:
        AnalysisError: the events do not begin with a header.
    """
    if isinstance(events, ParquetReader):
        tally = RunTally(events.header)
        for columns in events.batches(NAMES):
            tally.add_columns(columns)
        return tally
    header, rest = split_header(events)
    tally = RunTally(header)
    for event in rest:
        tally.add(event)
    return tally


def run_document(
    header: RunHeader,
    end: End,
    engine: str | None = None,
    simulate_seconds: float | None = None,
) -> dict[str, Any]:
    """A run as a `dtrdiag.run/1` document of plain JSON types.

    Args:
        header: the run's first event.
        end: the run's last event.
        engine: which engine decided; None where a log does not say.
        simulate_seconds: wall-clock time of the simulation alone; None where unknown.
    """
    return summary_document(summary_of(header, end), engine, simulate_seconds)


def summary_document(
    summary: RunSummary, engine: str | None = None, simulate_seconds: float | None = None
) -> dict[str, Any]:
    """A summary as a `dtrdiag.run/1` document; arguments as for `run_document`."""
    header = summary.header
    return {
        "schema": RUN_SCHEMA,
        "trace": {
            "name": header.trace_name,
            "sha256": header.trace_sha256,
            "ops": header.trace_ops,
            "tensors": header.trace_tensors,
        },
        "policy": header.policy,
        "dealloc": header.dealloc,
        "semantics": header.semantics,
        "interventions": header.interventions,
        "engine": engine,
        "budget": header.budget_bytes,
        "ratio": header.ratio,
        "peak": header.peak_bytes,
        "baseline_cost": header.baseline_cost_ns,
        "outcome": summary.outcome,
        "overhead": summary.overhead,
        "remat_cost": summary.remat_cost_ns,
        "max_memory": summary.max_memory_bytes,
        "computes": summary.computes,
        "remats": summary.remats,
        "evictions": attrs.asdict(summary.evictions),
        "distinct_evicted": attrs.asdict(summary.distinct_evicted),
        "interval": [summary.interval_lo_bytes, summary.interval_hi_bytes],
        "simulate_seconds": simulate_seconds,
        "decisions_sha256": summary.decisions_sha256,
    }
