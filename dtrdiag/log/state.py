"""What the state of a run is made of: the pending stack's frames and the running counts."""

from __future__ import annotations

import hashlib

import attrs

from dtrdiag.ids import OpId, StorageId, TensorId

CAUSES = ("pressure", "release", "banish")
"""Why storages are evicted, in the order in which `End` counts them."""

_FLUSH = 4096


@attrs.define
class Frame:
    """An op on the pending stack, from its `materialise` event on.

    Once executed (`executed_seq` is set) the frame stays on top during the aftermath of the
    execution: its unlocks, and the banishments and pins that these or the execution cause. It
    leaves the stack at the next event of another kind.
    """

    op: OpId
    tensor: TensorId
    """The output that is wanted."""
    reason: str
    """`first` or `remat`."""
    for_op: OpId | None
    """The op that asked; None: the model."""
    seq: int
    """`seq` of the `materialise` event."""
    locked: list[StorageId] = attrs.field(factory=list)
    """Storages on which the op holds a lock now, in the order taken, repeated per lock."""
    executed_seq: int | None = None
    """`seq` of the execution, if it took place."""


class Tally:
    """Counts over a log so far, each as `End` defines it, and the digest of the decisions.

    All updates are O(1), amortised.
    """

    __slots__ = (
        "_digest",
        "_lines",
        "computes",
        "decisions",
        "evicted",
        "evictions",
        "interval_hi_bytes",
        "interval_lo_bytes",
        "max_memory_bytes",
        "remat_cost_ns",
        "remats",
    )

    def __init__(self) -> None:
        self.computes = 0
        self.decisions = 0
        self.remats = 0
        self.remat_cost_ns = 0
        self.max_memory_bytes = 0
        self.interval_lo_bytes = 0
        self.interval_hi_bytes: int | None = None
        self.evictions: dict[str, int] = dict.fromkeys(CAUSES, 0)
        self.evicted: dict[str, set[StorageId]] = {cause: set() for cause in CAUSES}
        self._digest = hashlib.sha256()
        self._lines: list[str] = []

    def decide(self, line: str) -> None:
        """Count one decision, such as `E 12`, and add it to the digest."""
        self.decisions += 1
        self._lines.append(line)
        if len(self._lines) >= _FLUSH:
            self._flush()

    def evict(self, storage: StorageId, cause: str) -> None:
        """Count an eviction and add it to the digest."""
        self.evictions[cause] += 1
        self.evicted[cause].add(storage)
        self.decide(f"E {storage}")

    def fit(self, needed_bytes: int, fits: bool) -> None:
        """Narrow the interval of budgets that give the same decisions."""
        if fits:
            if needed_bytes > self.interval_lo_bytes:
                self.interval_lo_bytes = needed_bytes
        elif self.interval_hi_bytes is None or needed_bytes < self.interval_hi_bytes:
            self.interval_hi_bytes = needed_bytes

    @property
    def distinct_evicted(self) -> int:
        """Distinct storages evicted so far, for any cause."""
        return len(set().union(*self.evicted.values()))

    @property
    def decisions_sha256(self) -> str:
        """Digest of the decisions so far, in hexadecimal."""
        self._flush()
        return self._digest.hexdigest()

    def _flush(self) -> None:
        if self._lines:
            self._digest.update(("\n".join(self._lines) + "\n").encode())
            self._lines.clear()
