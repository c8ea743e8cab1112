"""Which events happened, kept in memory."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from dtrdiag.events import Event


@attrs.define
class EventRecorder:
    """A subscriber that keeps every event it is called with, in order.

    Attributes:
        events: the events so far.
    """

    events: list[Event] = attrs.field(factory=list)

    def __call__(self, event: Event) -> None:
        """Keep one event."""
        self.events.append(event)

    def __iter__(self) -> Iterator[Event]:
        """The events so far, in order."""
        return iter(self.events)

    def __len__(self) -> int:
        """How many events there are so far."""
        return len(self.events)
