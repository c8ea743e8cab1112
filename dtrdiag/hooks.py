"""Who is told about which events while a run is going on.

Subscribers get immutable events in order of `seq`, never the state of the runtime. A kind that
nobody asked for is counted but not built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from dtrdiag.errors import HookError, SubscriberError
from dtrdiag.events.construct import fast_constructor
from dtrdiag.events.records import EVENT_TYPES, Event

Subscriber = Callable[[Event], None]
Undo = Callable[[], None]

_CONSTRUCTORS = {kind: fast_constructor(record) for kind, record in EVENT_TYPES.items()}


class Hooks:
    """Subscriptions to kinds of events. One object may serve several runs, one after the other."""

    def __init__(self) -> None:
        self.by_kind: dict[str, tuple[Subscriber, ...]] = dict.fromkeys(EVENT_TYPES, ())
        """Subscribers of each kind in order of subscription; read it, change it by `subscribe`."""

    def subscribe(self, subscriber: Subscriber, kinds: Iterable[str] | None = None) -> Undo:
        """Call `subscriber(event)` for every event of the kinds named.

        Args:
            subscriber: a callable of one event.
            kinds: names as in `dtrdiag.events.EVENT_TYPES`; None for all.

        Returns:
            A function that ends this subscription; calling it again does nothing.

        Raises:
            HookError: not callable, or an unknown kind, or no kind at all.
        """
        if not callable(subscriber):
            raise HookError(f"a subscriber must be callable, not {type(subscriber).__name__}")
        if isinstance(kinds, str):
            raise HookError(f"kinds must be a collection of names, not the string {kinds!r}")
        wanted = tuple(dict.fromkeys(EVENT_TYPES if kinds is None else kinds))
        unknown = [kind for kind in wanted if kind not in EVENT_TYPES]
        if unknown or not wanted:
            what = f"unknown event kind {unknown[0]!r}" if unknown else "no event kind given"
            raise HookError(f"{what}; kinds are {', '.join(EVENT_TYPES)}")

        # Undo goes by identity: a second subscription of the same callable gets its own object.
        known = any(subscriber in self.by_kind[kind] for kind in wanted)
        entry = partial(subscriber) if known else subscriber
        for kind in wanted:
            self.by_kind[kind] = (*self.by_kind[kind], entry)

        def undo() -> None:
            for kind in wanted:
                self.by_kind[kind] = tuple(s for s in self.by_kind[kind] if s is not entry)

        return undo

    def __bool__(self) -> bool:
        return any(self.by_kind.values())


class Emitter:
    """Numbers the events of one run and hands them to the subscribers."""

    def __init__(self, hooks: Hooks) -> None:
        self._by_kind = hooks.by_kind
        self._next = 0

    def __call__(self, record: type[Any], *fields: object) -> int:
        """Emit one event, built from the fields after `seq`.

        Returns:
            The event's `seq`, for events that it causes.

        Raises:
            SubscriberError: a subscriber raised.
        """
        seq = self._next
        self._next = seq + 1
        subscribers = self._by_kind[record.kind]
        if subscribers:
            event = _CONSTRUCTORS[record.kind](seq, *fields)
            for subscriber in subscribers:
                try:
                    subscriber(event)
                except Exception as error:
                    what = f"a subscriber failed on event {seq} ({record.kind}): {_said(error)}"
                    raise SubscriberError(what) from error
        return seq


def _said(error: Exception) -> str:
    try:
        return str(error)
    except Exception:
        return f"{type(error).__name__}, whose message cannot be shown"
