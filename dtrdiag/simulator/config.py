"""What a run is asked to do, and what it returns."""

from __future__ import annotations

import math

import attrs

from dtrdiag.errors import UsageError
from dtrdiag.events.records import End, RunHeader
from dtrdiag.ids import OpId, StorageId, TensorId
from dtrdiag.interventions import REPAIRS, Interventions
from dtrdiag.suggestions import no_such

DEALLOCS = ("eager", "ignore", "banish")
"""What a release of the last external reference does: evict at once, nothing, free for good."""
SEMANTICS = ("simrd", "repaired")
"""Rules that decisions follow: `simrd` is the published simulator's, its defects included;
`repaired` is without any of them."""
ENGINES = ("auto", "native", "python")
"""What can decide: `native` is compiled, and serves where it was built; all decide alike."""
DEFAULT_OVERHEAD_LIMIT = 10
MAX_BUDGET_BYTES = 1 << 62
"""No trace needs more, and logs hold 64-bit integers."""
MAX_CANDIDATES = 1_000_000


@attrs.frozen
class RunConfig:
    """The rules of one run. Everything that decisions depend on, besides the trace."""

    policy: str = "dtr"
    """Name of a registered policy."""
    budget_bytes: int | None = None
    """Memory budget, at least 1; None: unlimited."""
    dealloc: str = attrs.field(default="eager", kw_only=True)
    """One of `DEALLOCS`."""
    overhead_limit: float | int | None = attrs.field(default=DEFAULT_OVERHEAD_LIMIT, kw_only=True)
    """Stop once remat cost exceeds baseline cost x (limit - 1), limit >= 1; None: never."""
    seed: int = attrs.field(default=0, kw_only=True)
    """Seed of policies that draw, in [0, 2**63)."""
    candidates: int = attrs.field(default=0, kw_only=True)
    """How many of the best losers each pressure eviction lists."""
    semantics: str = attrs.field(default="simrd", kw_only=True)
    """One of `SEMANTICS`."""
    peak_bytes: int | None = attrs.field(default=None, kw_only=True)
    """Base of ratios, noted in the log; decisions do not depend on it."""
    ratio: float | int | None = attrs.field(default=None, kw_only=True)
    """The ratio that chose the budget, noted in the log; decisions do not depend on it."""
    interventions: Interventions = attrs.field(default=Interventions(), kw_only=True)
    """What is changed on purpose."""
    engine: str = attrs.field(default="auto", kw_only=True, eq=False)
    """One of `ENGINES`; decisions do not depend on it."""

    def __attrs_post_init__(self) -> None:
        if self.budget_bytes is not None and self.budget_bytes > MAX_BUDGET_BYTES:
            raise UsageError("a budget must be at most 2**62 bytes")
        if self.candidates > MAX_CANDIDATES:
            raise UsageError(f"candidates must be at most {MAX_CANDIDATES}")
        _choice("dealloc", self.dealloc, DEALLOCS)
        _choice("semantics", self.semantics, SEMANTICS)
        _choice("engine", self.engine, ENGINES)
        if self.budget_bytes is not None and self.budget_bytes < 1:
            raise UsageError(f"a budget must be at least 1 byte, not {self.budget_bytes}")
        limit = self.overhead_limit
        if limit is not None and not (math.isfinite(limit) and limit >= 1):
            raise UsageError(f"an overhead limit must be a number >= 1 or none, not {limit}")
        if not 0 <= self.seed < 1 << 63:
            raise UsageError(f"a seed must be in [0, 2**63), not {self.seed}")
        if self.candidates < 0:
            raise UsageError(f"candidates must not be negative, not {self.candidates}")

    @property
    def repairs(self) -> frozenset[str]:
        """The defects of simrd that are repaired in this run, out of `REPAIRS`."""
        return frozenset(REPAIRS if self.semantics == "repaired" else self.interventions.repairs)


@attrs.frozen
class PendingOp:
    """One op of the pending stack when a run stopped."""

    op: OpId
    tensor: TensorId
    """The output that was wanted."""
    first: bool
    """First execution, not a rematerialisation."""
    locks: tuple[StorageId, ...]
    """Storages that the op held locked, in order, once per lock."""


@attrs.frozen
class Stop:
    """The state at which a run stopped short, copied before anything unwinds."""

    op: OpId
    requested_bytes: int
    memory_bytes: int
    pending: tuple[PendingOp, ...]
    """Outermost first."""
    pinned: tuple[StorageId, ...]
    """Resident pinned storages."""
    evictable: tuple[StorageId, ...]
    """The pool, in order; empty at an out-of-memory stop."""


@attrs.frozen
class RunResult:
    """What a run came to. `header` and `end` are the first and last event of its log."""

    header: RunHeader
    end: End
    stop: Stop | None
    """Where an `oom` or `thrashed` run stopped; None for `ok`."""
    engine: str
    """Which engine decided; all engines decide alike."""
    simulate_seconds: float
    """Time of the simulation alone, without reading the trace."""

    @property
    def overhead(self) -> float | None:
        """(baseline + remat cost) / baseline; None when the baseline cost is 0."""
        baseline = self.header.baseline_cost_ns
        if not baseline:
            return None
        return (baseline + self.end.remat_cost_ns) / baseline

    def _repr_html_(self) -> str:
        from dtrdiag.notebook import run_html

        end = self.end
        counts = {
            "computes": end.computes,
            "remats": end.remats,
            "remat_cost_ns": end.remat_cost_ns,
            "pressure": end.evictions_pressure,
            "release": end.evictions_release,
            "banish": end.evictions_banish,
            "max_memory_bytes": end.max_memory_bytes,
        }
        interval = end.interval_lo_bytes, end.interval_hi_bytes
        made_by = f"the {self.engine} engine, in {self.simulate_seconds:.3f} s"
        return run_html(self.header, end.outcome, counts, interval, self.overhead, made_by)


def budget_from_ratio(peak_bytes: int, ratio: float) -> int:
    """The budget that a ratio of the peak stands for: `int(peak * ratio)` in double arithmetic.

    Raises:
        UsageError: the ratio is not a positive finite number, or the budget is below 1 byte.
    """
    if not (math.isfinite(ratio) and ratio > 0):
        raise UsageError(f"a ratio must be a positive number, not {ratio}")
    product = peak_bytes * ratio
    if product > MAX_BUDGET_BYTES:
        raise UsageError(f"ratio {ratio} of a peak of {peak_bytes} bytes is more than 2**62 bytes")
    budget = int(product)
    if budget < 1:
        raise UsageError(f"ratio {ratio} of a peak of {peak_bytes} bytes is less than 1 byte")
    return budget


def _choice(what: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(no_such(what, value, choices))
