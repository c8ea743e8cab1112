"""Which rules an event log keeps, and what is said when one is broken."""

from __future__ import annotations

import attrs

RULES: dict[str, str] = {
    "readable": "every line of the log can be read",
    "seq-order": "`seq` counts 0, 1, 2, ... without gaps",
    "header-first": "the log begins with its one `run` event",
    "header": "the header's budget, limit, dealloc and other figures are possible, the budget is "
    "that of the ratio, and its interventions can be read",
    "ids": "every op, tensor and storage named was introduced by an earlier `op` event",
    "cause": "`cause_seq` names the event that this one follows from",
    "step-order": "`step` counts 0, 1, 2, ... over `op`, `reference` and `output` events",
    "op-ids": "op and tensor ids count up; inputs, storages, sizes and cost of an op are possible",
    "references": "external references count right, never below 0, never up again from 0",
    "pending": "an op is materialised when the schedule or the op on top of the stack asks for it, "
    "and the schedule waits until the stack is empty",
    "defined-twice": "nothing is executed for a tensor that is defined",
    "lock": "a pending op locks its inputs once each: the defined ones in order, then the missing "
    "ones as they come back; a locked storage is in memory",
    "unlock": "an executed op gives its locks back in the order of its inputs, at once",
    "fit": "an op with all inputs locked asks for its output sizes; a yes leads to its execution, "
    "a no to one eviction and a new check, or to the out-of-memory stop",
    "budget": "no execution takes memory above the budget",
    "execute": "an execution is of the op on top of the stack, after a check that it fits, at the "
    "op's cost",
    "inputs-defined": "every input is defined when an op is executed",
    "outputs": "an execution defines the undefined outputs, makes their storages resident and "
    "frees the bytes of the others",
    "memory": "every memory figure is what sizes, executions and evictions add up to",
    "clock": "every clock figure is 1 plus the costs of the executions so far",
    "evict": "a victim under pressure is in the pool, its size and the pool's are right",
    "release": "under `eager` the last release of a resident, unpinned storage evicts it, and "
    "nothing else does",
    "candidates": "the losers listed are other storages of the pool, best first, as many as asked",
    "score": "no loser scores lower than the victim, or as low and wins ties, unless the victim is "
    "forced",
    "banish": "under `banish` a storage without references and undefined dependents is freed for "
    "good at once, its locks dropped, its dependents pinned",
    "pin": "constants are pinned when computed, then what an intervention pins, outputs when "
    "requested and defined, each once",
    "intervention": "a forced victim goes and a forbidden one stays at their decisions, which are "
    "evictions under pressure, and the run gets to whatever the interventions are about",
    "oom": "an out-of-memory stop follows a check that failed with an empty pool",
    "thrashed": "the run stops at the execution that takes remat cost above the limit, and only "
    "there",
    "end": "a complete log finishes with one `end` event that names the outcome",
    "totals": "a run called no more ops, tensors and cost than the header announces, and all of "
    "them if it finished",
    "counts": "the counts of the `end` event are those of the log",
    "interval": "the interval's bounds are the closest checks on either side of the budget, those "
    "under an intervention's budget left out",
    "digest": "`decisions_sha256` is the digest of the log's decisions",
}
"""Every rule by id, in the order in which they are documented."""

MAX_PROBLEMS = 100
"""Checking stops after so many problems: one early fault may cast many shadows."""


@attrs.frozen
class Problem:
    """One broken rule."""

    seq: int
    """`seq` of the event at which it shows; for a missing event, the `seq` that it would have."""
    rule: str
    """Key of `RULES`."""
    message: str


@attrs.frozen
class Verification:
    """Whether a log keeps all rules."""

    events: int
    """Events read."""
    complete: bool
    """Whether the log has an `end` event."""
    problems: tuple[Problem, ...]
    """In order of `seq` as read; at most `MAX_PROBLEMS`, after which reading stopped."""

    @property
    def ok(self) -> bool:
        """Whether no rule is broken."""
        return not self.problems
