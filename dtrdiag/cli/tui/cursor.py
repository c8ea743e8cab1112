"""Where in a log are we, what was the state there, and where is the next event of a kind?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dtrdiag.cli.tui.eventfile import EventFile
from dtrdiag.cli.tui.reading import Reading
from dtrdiag.cli.tui.rewinding import RewindableReplay
from dtrdiag.errors import UsageError
from dtrdiag.events.columns import KIND_CODES
from dtrdiag.events.records import Event

Positions = npt.NDArray[np.int64]
DECISION, EVICTION, REMAT, STOP = "decision", "eviction", "rematerialisation", "stop"
SCHEDULE = "schedule step"
_KINDS = {
    DECISION: ("compute", "rematerialise", "evict"),
    REMAT: ("rematerialise",),
    STOP: ("oom", "thrashed"),
    SCHEDULE: ("op", "reference", "output"),
}
GOALS = (DECISION, EVICTION, REMAT, STOP, SCHEDULE)
"""What can be jumped to. An `eviction` is one to make room, where there was a choice."""
_RESTORING = 400
"""What restoring a checkpoint costs, in events applied."""


class Cursor:
    """A position in a log and the state right after the event there, which moves either way.

    Attributes:
        events: the log.
        reading: the pass over it; the cursor makes it read on when it has to.
        position: from 0.
        state: as `Replay` gives it at that event; to be read and not changed.
    """

    def __init__(self, events: EventFile) -> None:
        self.events = events
        self.reading = Reading(events)
        self.position = 0
        self.state = RewindableReplay()
        self._found: dict[tuple[str, int], Positions] = {}
        self.reading.read_to(0)
        self.state.apply(self.event)

    def __len__(self) -> int:
        return len(self.events)

    @property
    def event(self) -> Event:
        """The event at the position."""
        return self.events.event(self.position)

    def seek(self, position: int) -> int:
        """Go to a position, or as near as the log has one; returns how far the cursor moved.

        O(events not yet read), O(1) checkpoint and the events after it otherwise.
        """
        before = self.position
        self.reading.read_to(position)
        position = min(max(position, 0), len(self) - 1)
        if self.position > len(self) - 1:
            self._begin_again()
        kept = self.reading.before(position) if self.reading.state.regular else None
        near = self.position <= position
        if kept is not None and not (near and kept[0] - self.position <= _RESTORING):
            self.state.restore(kept[1], self.reading.state)
            self.position = kept[0]
        elif not near:
            self._begin_again()
        while self.position < position:
            self.position += 1
            self.state.apply(self.event)
        return position - before

    def _begin_again(self) -> None:
        self.position = 0
        self.state = RewindableReplay()
        self.state.apply(self.event)

    def positions(self, goal: str) -> Positions:
        """Where all events of a goal stand, ascending. O(n) the first time.

        Raises:
            UsageError: there is no such goal.
        """
        key = (goal, len(self))
        if key not in self._found:
            if goal == EVICTION:
                hit = self.events.pressure
            elif goal in _KINDS:
                codes = [KIND_CODES[kind] for kind in _KINDS[goal]]
                hit = np.isin(self.events.kinds, codes)
            else:
                raise UsageError(f"nothing is called {goal!r}; there are {', '.join(GOALS)}")
            self._found[key] = np.flatnonzero(hit)
        return self._found[key]

    def next_of(self, goal: str) -> int | None:
        """Position of the next event of a goal; None if there is none."""
        return after(self.positions(goal), self.position)

    def previous_of(self, goal: str) -> int | None:
        """Position of the last event of a goal before this one; None if there is none."""
        return before(self.positions(goal), self.position)

    def about_storage(self, storage: int) -> Positions:
        """Events read so far that name a storage or execute what makes it, ascending. O(n)."""
        reading = self.reading
        makers = {
            reading.state.producer[tensor]
            for tensor in reading.state.tensors_of.get(storage, ())  # type: ignore[call-overload]
        }
        codes = [KIND_CODES[kind] for kind in ("op", "compute", "rematerialise")]
        done = reading.done
        made = np.isin(reading.op_at[:done], list(makers)) & np.isin(
            self.events.kinds[:done], codes
        )
        return np.flatnonzero((reading.storage_at[:done] == storage) | made)

    def about_operator(self, part: str) -> Positions:
        """Calls and executions read so far of ops whose name contains a text, ascending. O(n)."""
        reading = self.reading
        codes = [KIND_CODES[kind] for kind in ("op", "compute", "rematerialise")]
        done = reading.done
        named = np.isin(reading.op_at[:done], reading.ops_named(part))
        return np.flatnonzero(named & np.isin(self.events.kinds[:done], codes))


def after(positions: Positions, position: int) -> int | None:
    """The first of ascending positions that is greater; None if there is none."""
    at = int(np.searchsorted(positions, position, "right"))
    return int(positions[at]) if at < len(positions) else None


def before(positions: Positions, position: int) -> int | None:
    """The last of ascending positions that is smaller; None if there is none."""
    at = int(np.searchsorted(positions, position, "left"))
    return int(positions[at - 1]) if at else None
