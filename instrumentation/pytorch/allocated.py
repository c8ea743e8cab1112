"""How many bytes does the allocator hand out while a block runs? Asked of the allocator itself.

On a CPU the profiler tells of every allocation and release of PyTorch's allocator; on CUDA the
caching allocator keeps figures of its own. Both count what no tensor shows: workspaces of kernels,
states of random generators, copies on the way.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

import attrs
import torch

_QUIET = "99"


@attrs.frozen
class CudaFigures:
    """What the caching allocator of a CUDA device says of a block."""

    reserved_bytes: int
    """The most that it had reserved from the device, whoever asked for it."""
    allocated_bytes: int
    """The most that it had handed out of that, likewise."""
    retries: int
    """How often it freed its caches to find room."""

    @property
    def fragmentation(self) -> float | None:
        """Reserved over handed out, at the most of each; None where nothing was handed out."""
        return self.reserved_bytes / self.allocated_bytes if self.allocated_bytes else None


class AllocatorWatch:
    """Watches the allocator while it is entered; slows the block down on a CPU.

    Args:
        device: whose allocator.

    Attributes:
        rise_bytes: the most that was handed out at a time beyond what there was at the start; None
            until the block has ended.
        cuda: more of a CUDA device.
    """

    def __init__(self, device: Any = "cpu") -> None:
        self._device = torch.device(device)
        self._profiler: Any = None
        self._before = self._retries = 0
        self.rise_bytes: int | None = None
        self.cuda: CudaFigures | None = None

    def __enter__(self) -> AllocatorWatch:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
            torch.cuda.reset_peak_memory_stats(self._device)
            self._before = torch.cuda.memory_allocated(self._device)
            self._retries = self._retried()
            return self
        # Else the profiler's library writes two lines a block to standard error.
        os.environ.setdefault("KINETO_LOG_LEVEL", _QUIET)
        cpu = torch.profiler.ProfilerActivity.CPU
        self._profiler = torch.profiler.profile(activities=[cpu], profile_memory=True)
        self._profiler.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._profiler is None:
            torch.cuda.synchronize(self._device)
            most = torch.cuda.max_memory_allocated(self._device)
            reserved = torch.cuda.max_memory_reserved(self._device)
            self.rise_bytes = most - self._before
            self.cuda = CudaFigures(reserved, most, self._retried() - self._retries)
            return
        self._profiler.__exit__(kind, error, traceback)
        events = self._profiler.profiler.kineto_results.events()
        changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
        self._profiler = None
        self.rise_bytes = _highest(changes)

    def _retried(self) -> int:
        return int(torch.cuda.memory_stats(self._device).get("num_alloc_retries", 0))


def _highest(changes: list[tuple[int, int]]) -> int:
    """The highest sum of changes in order of time, at least 0."""
    now = most = 0
    for _, change in sorted(changes, key=lambda each: each[0]):
        now += change
        most = max(most, now)
    return most
