"""Rules for how a storage leaves memory, or stays for good."""

from __future__ import annotations

from itertools import pairwise

from dtrdiag.events.records import Banish, Evict, FitCheck, Pin
from dtrdiag.ids import StorageId
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
        return f"locked by {state.locks.get(storage)}"

    def _candidates(self, event: Evict, wanted: int) -> None:
        state, pool = self.state, self.state.pool
        storages = [storage for storage, _ in event.candidates]
        strangers = [s for s in storages if s not in pool or s == event.storage]
        if strangers or len(set(storages)) != len(storages):
            self.report("candidates", event, f"{storages} are not distinct losers of the pool")
            return
        if event.score is None or any(score is None for _, score in event.candidates):
            if len(storages) > wanted:
                self.report("candidates", event, f"{len(storages)} are listed, {wanted} wanted")
            return
        # A walk stops at a score of 0, so fewer losers may have been seen; then the best is <= 0.
        available = min(wanted, len(pool) - 1)
        if len(storages) > available or (len(storages) < available and event.score > 0):
            self.report("candidates", event, f"{len(storages)} are listed, {available} wanted")
        # The last of equals in the pool wins, under simrd's rules.
        ties = state.header is not None and state.header.semantics == "simrd"
        ranks = [
            (score, -pool[storage] if ties else 0)
            for storage, score in event.candidates
            if score is not None
        ]
        if any(a > b for a, b in pairwise(ranks)):
            self.report("candidates", event, "not in order, best first")
        own = (event.score, -pool.get(event.storage, 0) if ties else 0)
        if ranks and min(ranks) < own:
            loser = event.candidates[ranks.index(min(ranks))]
            self.report(
                "score",
                event,
                f"storage {loser[0]} with {loser[1]} goes before the victim's {event.score}",
            )

    def _free(self, event: Evict, due: Due | None) -> None:
        """Evictions that make no choice."""
        state, storage, cause = self.state, event.storage, event.cause
        if cause == "release":
            legal = due is not None and due.detail == "release" and due.subject == storage
            if not legal or storage not in state.pool:
                self.report("release", event, f"no release calls for storage {storage} to go")
            if due is not None and legal:
                self.expect_cause(event, due.cause_seq)
        else:
            self._check_dead(event, storage, due)
        given = (event.op, event.score, event.pool_size, event.candidates)
        self.expect(cause, event, "op, score, pool_size, candidates", given, (None, None, None, ()))

    def _check_dead(self, event: Evict | Banish, storage: StorageId, due: Due | None) -> None:
        """The storage must be one that is freed for good now."""
        state = self.state
        if due is not None and due.detail == "banish" and due.subject == storage:
            self.expect_cause(event, due.cause_seq)
            return
        self.expect_cause(event, self.trigger_seq)
        if not self.banishing or self.live:
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
        else:
            self.output = None
