"""What a run adds up to: counts, the digest of its decisions, the interval of equal budgets."""

from __future__ import annotations

import hashlib

_FLUSH = 4096


class Tally:
    """Counters of one run, written by the machine."""

    def __init__(self) -> None:
        self.computes = 0
        self.remats = 0
        self.remat_cost_ns = 0
        self.evictions = {"pressure": 0, "release": 0, "banish": 0}
        self.distinct: dict[str, set[int]] = {cause: set() for cause in self.evictions}
        self.max_memory_bytes = 0
        self.fit_lo_bytes = 0
        """Largest memory + request that was found to fit."""
        self.fit_hi_bytes: int | None = None
        """Smallest memory + request that was found not to."""
        self.checks_count = True
        """Whether fit checks count for the interval: not while an intervention sets the budget."""
        self._lines: list[str] = []
        self._sha256 = hashlib.sha256()

    @property
    def decisions(self) -> int:
        """How many executions and evictions there were."""
        return self.computes + self.remats + sum(self.evictions.values())

    def executed(self, op: int, cost_ns: int, first: bool, memory_bytes: int) -> None:
        """Count one execution, and the memory in use during it."""
        if memory_bytes > self.max_memory_bytes:
            self.max_memory_bytes = memory_bytes
        if first:
            self.computes += 1
            self._lines.append(f"C {op}\n")
        else:
            self.remats += 1
            self.remat_cost_ns += cost_ns
            self._lines.append(f"R {op}\n")
        if len(self._lines) >= _FLUSH:
            self._flush()

    def evicted(self, storage: int, cause: str) -> None:
        """Count one eviction."""
        self.evictions[cause] += 1
        self.distinct[cause].add(storage)
        self._lines.append(f"E {storage}\n")
        if len(self._lines) >= _FLUSH:
            self._flush()

    def checked(self, total_bytes: int, fits: bool) -> None:
        """Note one fit check of `total_bytes` = memory + request."""
        if not self.checks_count:
            return
        if fits:
            if total_bytes > self.fit_lo_bytes:
                self.fit_lo_bytes = total_bytes
        elif self.fit_hi_bytes is None or total_bytes < self.fit_hi_bytes:
            self.fit_hi_bytes = total_bytes

    def decisions_sha256(self) -> str:
        """Digest of all decisions so far, in hexadecimal."""
        self._flush()
        return self._sha256.hexdigest()

    def _flush(self) -> None:
        self._sha256.update("".join(self._lines).encode())
        self._lines.clear()
