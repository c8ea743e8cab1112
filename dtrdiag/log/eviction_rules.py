"""Rules for how a storage leaves memory, or stays for good."""

from __future__ import annotations

from itertools import pairwise

from dtrdiag.events.records import Banish, Evict, FitCheck, Pin, Score
from dtrdiag.ids import StorageId
from dtrdiag.interventions import Victim
from dtrdiag.log.checking import Due
from dtrdiag.log.execution_rules import ExecutionRules

_FIT = (FitCheck,)
_PIN = (Pin,)
_BANISH = (Banish,)


class EvictionRules(ExecutionRules):
    """Checks of `evict`, `banish` and `pin`."""

    def evict(self, event: Evict, due: Due | None) -> None:
        """A storage leaves memory."""
        if event.cause != "banish":
            self.settle(event)
        state, storage, cause = self.state, event.storage, event.cause
        size = state.size_bytes[storage]
        rule = "evict" if cause == "pressure" else cause
        self.expect(rule, event, "size_bytes", event.size_bytes, size)
        if cause == "pressure":
            self._pressure(event, due)
        else:
            self._free(event, due)
        after = state.memory_bytes - size
        self.expect("memory", event, "memory_bytes", event.memory_bytes, after)
        self.expect("clock", event, "clock_ns", event.clock_ns, state.clock_ns)
        self.decides(event, storage if cause == "pressure" else None)
        if storage not in state.resident:
            self.report(rule, event, f"storage {storage} is not in memory")
            return
        if self.banishing:
            self._becomes_dependent(storage)
        state.apply(event)
        if cause == "pressure":
            self.due = Due(_FIT, "fit", None, event.op)
        elif cause == "banish":
            self.due = Due(_BANISH, "banish", event.cause_seq, storage, "banish")

    def _becomes_dependent(self, storage: StorageId) -> None:
        state = self.state
        for tensor in state.tensors_of[storage]:
            for needed in state.inputs[state.producer[tensor]]:
                other = state.storage_of[needed]
                if other != storage:
                    self.dependents.setdefault(other, set()).add(tensor)

    def _pressure(self, event: Evict, due: Due | None) -> None:
        state, storage = self.state, event.storage
        if due is None or due.detail != "decide":
            self.report("evict", event, "no failed fit check comes right before")
        else:
            self.expect("evict", event, "op", event.op, due.subject)
            self.expect_cause(event, due.cause_seq)
        if storage not in state.pool:
            self.report("evict", event, f"storage {storage} is {self._why_not(storage)}")
        self.expect("evict", event, "pool_size", event.pool_size, len(state.pool))
        header = state.header
        if header is not None and (header.candidates or event.candidates):
            self._candidates(event, header.candidates)

    def _why_not(self, storage: StorageId) -> str:
        state = self.state
        if storage not in state.resident:
            return "not in memory"
        if storage in state.pins:
            return f"pinned ({state.pins[storage]})"
        if state.is_kept(storage) and storage not in state.locks:
            return "kept by an intervention"
        return f"locked by {state.locks.get(storage)}"

    def _candidates(self, event: Evict, wanted: int) -> None:
        state, pool = self.state, self.state.pool
        storages = [storage for storage, _ in event.candidates]
        named = self.victims.get(state.tally.decisions)
        spared = named is not None and not named.forced
        absent = (event.storage, named.storage if named and spared else None)
        strangers = [s for s in storages if s not in pool or s in absent]
        if strangers or len(set(storages)) != len(storages):
            self.report("candidates", event, f"{storages} are not distinct losers of the pool")
            return
        scores = [score for _, score in event.candidates if score is not None]
        if event.score is None or len(scores) < len(storages):
            if len(storages) > wanted:
                self.report("candidates", event, f"{len(storages)} are listed, {wanted} wanted")
            return
        others = len(pool) - 1
        if named and spared:
            others -= named.storage is None or (named.storage in pool and others > 0)
        self._count(event, min(wanted, others), scores if named else [event.score, *scores])
        self._ranking(event, named)

    def _count(self, event: Evict, available: int, walked: list[float | int]) -> None:
        # A walk stops at a score of 0, so fewer losers may have been seen; then the best is <= 0.
        listed = len(event.candidates)
        cut = "zero-stops" not in self.repairs and min(walked, default=1) <= 0
        if listed > available or (listed < available and not cut):
            self.report("candidates", event, f"{listed} are listed, {available} wanted")

    def _ranking(self, event: Evict, named: Victim | None) -> None:
        """The losers are in order, and the victim, unless it is forced, goes before them."""
        ranks = [self._rank(storage, score) for storage, score in event.candidates]
        if any(a > b for a, b in pairwise(ranks)):
            self.report("candidates", event, "not in order, best first")
        if named and named.forced:
            return
        own, place = self._rank(event.storage, event.score), self.state.pool
        if named and not event.score and "zero-stops" not in self.repairs:
            # The walk that found the victim ended there; the one that found the losers went on.
            end = place.get(event.storage, 0)
            ranks = [
                rank
                for rank, (loser, _) in zip(ranks, event.candidates, strict=True)
                if place[loser] < end
            ]
        if ranks and min(ranks) < own:
            message = f"a loser with {min(ranks)[0]} goes before the victim's {event.score}"
            self.report("score", event, message)

    def _rank(self, storage: StorageId, score: Score) -> tuple[float | int, int]:
        """Lower goes first."""
        first = 0 if score is None else score
        tie_break, place = self.state.interventions.tie_break, self.state.pool.get(storage, 0)
        if tie_break == "last" and not self.ours:
            return first, 0  # another runtime may break ties as it likes
        ties = {"first": place, "last": -place, "lowest-id": storage, "highest-id": -storage}
        return first, ties[tie_break]

    def _free(self, event: Evict, due: Due | None) -> None:
        """Evictions that make no choice."""
        storage, cause = event.storage, event.cause
        if cause == "release":
            legal = due is not None and due.detail == "release" and due.subject == storage
            if not legal or not self._is_free(storage):
                self.report("release", event, f"no release calls for storage {storage} to go")
            if due is not None and legal:
                self.expect_cause(event, due.cause_seq)
        else:
            self._check_dead(event, storage, due)
        given = (event.op, event.score, event.pool_size, event.candidates)
        self.expect(cause, event, "op, score, pool_size, candidates", given, (None, None, None, ()))

    def _is_free(self, storage: StorageId) -> bool:
        state = self.state
        held = storage in state.locks or storage in state.pins
        return storage in state.resident and not held

    def _check_dead(self, event: Evict | Banish, storage: StorageId, due: Due | None) -> None:
        """The storage must be one that is freed for good now."""
        state = self.state
        if due is not None and due.detail == "banish" and due.subject == storage:
            self.expect_cause(event, due.cause_seq)
            return
        self.expect_cause(event, self.trigger_seq)
        if not self.banishing or self.ours:
            self.report("banish", event, f"nothing calls for storage {storage} to be freed")
        elif state.references[storage]:
            self.report("banish", event, f"storage {storage} has references")
        elif self.undefined_dependents(storage):
            self.report("banish", event, f"storage {storage} has undefined dependents")

    def banish(self, event: Banish, due: Due | None) -> None:
        """A storage is freed for good."""
        state, storage = self.state, event.storage
        self._check_dead(event, storage, due)
        if storage in state.banished or storage in state.resident:
            self.report("banish", event, f"storage {storage} is in memory, or was freed before")
            return
        self.pins_due = self.dependent_storages(storage)
        for tensor in state.tensors_of[storage]:
            for needed in state.inputs[state.producer[tensor]]:
                self.dependents.get(state.storage_of[needed], set()).discard(tensor)
        state.apply(event)
        self._next_pin(event.seq)

    def _next_pin(self, seq: int | None) -> None:
        if self.pins_due:
            self.due = Due(_PIN, "banish", seq, self.pins_due.pop(0), "banish")
        else:
            self.advance()

    def pin(self, event: Pin, due: Due | None) -> None:
        """A storage is locked for good."""
        if event.reason == "output":
            self.settle(event)
        state, storage = self.state, event.storage
        rule = "banish" if event.reason == "banish" else "pin"
        legal = due is not None and due.kinds == _PIN
        if due is None or not legal or due.detail != event.reason or due.subject != storage:
            self.report(rule, event, f"nothing pins storage {storage} as {event.reason} here")
        else:
            self.expect_cause(event, due.cause_seq)
        if storage in state.pins or storage not in state.resident:
            self.report(rule, event, f"storage {storage} is not in memory, or pinned already")
        self.expect(rule, event, "locks", event.locks, state.locks_on(storage) + 1)
        state.apply(event)
        if event.reason == "banish":
            self._next_pin(event.cause_seq)
        elif event.reason == "output":
            self.output = None
        else:
            self.next_call_pin(event.cause_seq)
