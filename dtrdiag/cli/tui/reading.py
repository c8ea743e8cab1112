"""How far has a log been read, and what came of it: checkpoints, and what each event is about.

A log is read once from its start to its end, a piece at a time, whenever there is time for it. What
has been read can be reached at once from anywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dtrdiag.cli.tui.eventfile import EventFile
from dtrdiag.cli.tui.rewinding import Checkpoint, RewindableReplay
from dtrdiag.errors import LogError
from dtrdiag.events.records import Event

APART = 256
"""Events between two checkpoints, in a log of moderate length."""
MOST_BYTES = 128 << 20
"""Of memory for checkpoints; where it does not do, every other one goes."""
_NOTHING = -1


class Reading:
    """One pass over a log.

    Attributes:
        events: the log.
        state: after the last event read.
        done: how many events have been read.
        apart: events between two checkpoints.
        op_at: int64[done and more], the op that each event is about; -1: none.
        storage_at: the same of storages. An execution is about its op alone.
    """

    def __init__(self, events: EventFile) -> None:
        self.events = events
        self.state = RewindableReplay()
        self.done = 0
        self.apart = APART
        self.op_at = np.full(len(events), _NOTHING, np.int64)
        self.storage_at = np.full(len(events), _NOTHING, np.int64)
        self._checkpoints: dict[int, Checkpoint] = {}
        self._bytes = 0

    @property
    def complete(self) -> bool:
        """Whether all of the log has been read."""
        return self.done >= len(self.events)

    def read_to(self, position: int) -> None:
        """Read on until the event at a position has been read, or the log ends.

        A log that cannot be read further, or names what it did not introduce, ends there:
        `events.problem` says why.
        """
        stop = min(position + 1, len(self.events))
        while self.done < stop:
            try:
                event = self.events.event(self.done)
                self.state.apply(event)
            except LogError as error:
                self._give_up(error)
                return
            self._note(event)
            self.done += 1
            if self.done % self.apart == 0:
                self._keep(self.done - 1)

    def read_on(self, events: int) -> None:
        """Read a number of events more."""
        self.read_to(self.done + events - 1)

    def before(self, position: int) -> tuple[int, Checkpoint] | None:
        """The last checkpoint at or before a position, with its own."""
        at = (position + 1) // self.apart * self.apart - 1
        while at >= 0:
            if at in self._checkpoints:
                return at, self._checkpoints[at]
            at -= self.apart
        return None

    def _note(self, event: Event) -> None:
        for name, column in (("op", self.op_at), ("storage", self.storage_at)):
            value: Any = getattr(event, name, None)
            if value is not None and -(2**63) <= value < 2**63:
                column[self.done] = value

    def _keep(self, position: int) -> None:
        checkpoint = self.state.checkpoint()
        self._checkpoints[position] = checkpoint
        self._bytes += checkpoint.size_bytes
        while self._bytes > MOST_BYTES and len(self._checkpoints) > 1:
            self.apart *= 2
            self._checkpoints = {
                at: kept for at, kept in self._checkpoints.items() if (at + 1) % self.apart == 0
            }
            self._bytes = sum(kept.size_bytes for kept in self._checkpoints.values())

    def _give_up(self, error: LogError) -> None:
        """End the log where it became unusable, with the state as it was before that."""
        where = f" (line {error.line:,})" if error.line is not None else ""
        self.events.cut(
            self.done, f"cannot be read after event {self.done - 1:,}: {error.what}{where}"
        )
        self.state = RewindableReplay()
        for position in range(self.done):
            self.state.apply(self.events.event(position))

    def ops_named(self, part: str) -> npt.NDArray[np.int64]:
        """The ops read so far whose name contains a text, in any case."""
        part = part.casefold()
        found = [op for op, event in self.state.ops.items() if part in event.name.casefold()]
        return np.array([op for op in found if -(2**63) <= op < 2**63], np.int64)
