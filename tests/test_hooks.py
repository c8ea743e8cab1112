"""Subscriptions: who is told, in which order, and how it ends."""

import pytest

from dtrdiag.errors import HookError, SubscriberError
from dtrdiag.events import EVENT_TYPES, Banish, Pin
from dtrdiag.hooks import Emitter, Hooks


def test_events_are_numbered_whether_or_not_anybody_listens_and_reach_all_in_order():
    hooks, seen = Hooks(), []
    hooks.subscribe(lambda event: seen.append(("first", event)), ["pin"])
    hooks.subscribe(lambda event: seen.append(("second", event)))
    emit = Emitter(hooks)
    assert emit(Banish, 0, 7) == 0
    assert emit(Pin, 0, 7, "banish", 1) == 1
    pin = Pin(1, 0, 7, "banish", 1)
    assert seen == [("second", Banish(0, 0, 7)), ("first", pin), ("second", pin)]


def test_undo_ends_its_own_subscription_also_among_equal_ones_and_may_be_repeated():
    hooks, seen = Hooks(), []
    add = seen.append
    undo_first, undo_second = hooks.subscribe(add), hooks.subscribe(add)
    undo_first()
    undo_first()
    Emitter(hooks)(Banish, 0, 7)
    assert len(seen) == 1
    undo_second()
    assert not hooks
    Emitter(hooks)(Banish, 0, 7)
    assert len(seen) == 1


def test_undo_takes_effect_in_the_middle_of_a_run():
    hooks, seen = Hooks(), []

    def once(event):
        seen.append(event.seq)
        undo()

    undo = hooks.subscribe(once)
    emit = Emitter(hooks)
    emit(Banish, 0, 7)
    emit(Banish, 0, 8)
    assert seen == [0]


def test_a_subscriber_that_raises_is_named_with_the_event():
    hooks = Hooks()
    hooks.subscribe(lambda event: 1 / 0, ["pin"])
    with pytest.raises(SubscriberError, match=r"event 0 \(pin\): division by zero"):
        Emitter(hooks)(Pin, 0, 7, "banish", 1)


@pytest.mark.parametrize(
    ("subscriber", "kinds", "complaint"),
    [
        (None, None, "must be callable, not NoneType"),
        (print, ["evcit"], "unknown event kind 'evcit'"),
        (print, [], "no event kind given"),
        (print, "pin", "not the string 'pin'"),
    ],
)
def test_a_wrong_subscription_is_refused_at_once(subscriber, kinds, complaint):
    hooks = Hooks()
    with pytest.raises(HookError, match=complaint):
        hooks.subscribe(subscriber, kinds)
    assert not hooks
    assert set(hooks.by_kind) == set(EVENT_TYPES)


class MuteError(Exception):
    """An exception that cannot be shown."""

    def __str__(self):
        raise ValueError


def test_a_subscriber_whose_error_cannot_be_shown_is_named_by_its_kind():
    def fail(event):
        raise MuteError

    hooks = Hooks()
    hooks.subscribe(fail)
    with pytest.raises(SubscriberError, match="MuteError, whose message cannot be shown"):
        Emitter(hooks)(EVENT_TYPES["pin"], *range(4))
