"""Two runs of one trace, side by side: where in the one is what stands here in the other?

Until they part, by decision: both have made as many. From there on, by the schedule: both have come
as far in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dtrdiag.cli.tui.cursor import DECISION, SCHEDULE, Cursor

if TYPE_CHECKING:
    from dtrdiag.analyses import Divergence


class Pair:
    """Two cursors, a and b, of which one leads and the other follows.

    Attributes:
        cursors: a and b.
        compared: whether it is known if and where the runs part.
        divergence: the first difference; None: none, or not known.
        parts_at: position of the difference in each log; past its end where a log ends before.
    """

    def __init__(self, a: Cursor, b: Cursor) -> None:
        self.cursors = (a, b)
        self.compared = False
        self.divergence: Divergence | None = None
        self.parts_at: tuple[int, int] | None = None

    def tell(self, divergence: Divergence | None) -> None:
        """What comparing the runs came to."""
        self.compared, self.divergence = True, divergence
        if divergence is not None:
            seqs = (divergence.seq_a, divergence.seq_b)
            found = [
                None if seq is None else cursor.events.position_of(seq)
                for cursor, seq in zip(self.cursors, seqs, strict=True)
            ]
            self.parts_at = (
                len(self.cursors[0]) if found[0] is None else found[0],
                len(self.cursors[1]) if found[1] is None else found[1],
            )

    def parted(self, leader: int) -> bool:
        """Whether the leader, 0 or 1, has come past the first difference."""
        return self.parts_at is not None and self.cursors[leader].position > self.parts_at[leader]

    def is_parting(self) -> bool:
        """Whether both stand at the first difference, or at the end of a log that ends before."""
        return self.parts_at is not None and all(
            cursor.position == min(at, len(cursor) - 1)
            for cursor, at in zip(self.cursors, self.parts_at, strict=True)
        )

    def counterpart(self, leader: int) -> int:
        """The follower's position that belongs to the leader's."""
        here, there = self.cursors[leader], self.cursors[1 - leader]
        if self.parts_at is not None and here.position == self.parts_at[leader]:
            return min(self.parts_at[1 - leader], len(there) - 1)
        goal = SCHEDULE if self.parted(leader) else DECISION
        mine, its = here.positions(goal), there.positions(goal)
        came = int(np.searchsorted(mine, here.position, "right"))
        if came > len(its):
            return len(there) - 1
        start = int(mine[came - 1]) if came else 0
        its_start = int(its[came - 1]) if came else 0
        its_end = int(its[came]) if came < len(its) else len(there)
        return min(its_start + here.position - start, its_end - 1)

    def follow(self, leader: int) -> None:
        """Move the follower to where the leader is."""
        self.cursors[1 - leader].seek(self.counterpart(leader))

    def to_divergence(self) -> bool:
        """Move both to the first difference; False where none is known."""
        if self.parts_at is None:
            return False
        for cursor, at in zip(self.cursors, self.parts_at, strict=True):
            cursor.seek(at)
        return True
