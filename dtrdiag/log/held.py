"""Which locks does nobody give back? Counted in columns, for `dtrdiag.log.forward`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class Irregular(Exception):  # noqa: N818 - no error: another way of reading takes over
    """A log that only a replay, event by event, can make sense of."""


class HeldLocks:
    """The locks that are held between two batches, in the order in which they were taken."""

    def __init__(self) -> None:
        self._held: npt.NDArray[np.int64] = np.empty((4, 0), np.int64)

    def entries(self) -> list[tuple[int, int, int]]:
        """Storage, op, and `seq` of the op's frame, of each lock."""
        storages, ops, seqs, _ = self._held.tolist()
        return list(zip(storages, ops, seqs, strict=True))

    def pass_over(self, events: npt.NDArray[np.int64]) -> None:
        """Move past the locks, unlocks and drops of a batch. O(n log n).

        Args:
            events: int64[4, n]: storage, op, frame, and change: 1, -1, or 0 for a drop of all.

        Raises:
            Irregular: an unlock of what is not locked.
        """
        events = np.concatenate([self._held, events], axis=1)
        if not events.shape[1]:
            return
        # Between two drops of a storage, its locks are an affair of their own: an epoch.
        by_storage = np.argsort(events[0], kind="stable")
        storage, change = events[0, by_storage], events[3, by_storage]
        fresh = np.ones(len(storage), np.bool_)
        fresh[1:] = storage[1:] != storage[:-1]
        epoch = np.cumsum(fresh | (change == 0))
        last_epoch = epoch[np.append(np.flatnonzero(fresh)[1:], len(storage)) - 1]
        # Within an epoch, those of one op: a lock that is given back is the oldest of them.
        order = by_storage[sorted_by(epoch, events[1, by_storage])]
        epoch = np.sort(epoch)
        op, change = events[1, order], events[3, order]
        start = np.ones(len(order), np.bool_)
        start[1:] = (epoch[1:] != epoch[:-1]) | (op[1:] != op[:-1])
        group = np.cumsum(start) - 1
        first = np.flatnonzero(start)
        count = np.cumsum(change)
        count -= (count - change)[first][group]
        if (count < 0).any():
            raise Irregular
        last = np.append(first[1:], len(order)) - 1
        taken = np.cumsum(change == 1)
        younger = taken[last][group] - taken
        stays = (change == 1) & (younger < count[last][group]) & np.isin(epoch, last_epoch)
        self._held = events[:, np.sort(order[stays])]


def sorted_by(first: npt.NDArray[np.int64], then: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """The order by one column, then by another, else as it was."""
    return np.lexsort((then, first))
