"""The ``dtrdiag`` command: one verb for each question."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from dtrdiag.cli.streams import open_missing_streams

VARIABLE = "_DTRDIAG_COMPLETE"
"""With it shells ask what may stand at the cursor."""
_ALLOCATIONS = 100_000
"""So many more objects than were freed make Python look for cycles, not its usual 700: events come
by the hundred thousand and form none, and looking through them again and again takes a third of the
time of a verb that reads a log."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer the arguments (those of this process by default); returns the exit status."""
    open_missing_streams()
    gc.set_threshold(_ALLOCATIONS)
    # Arrow's own pool keeps what was given back; large logs are read in parts, one after the other.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    try:
        if VARIABLE in os.environ:
            from dtrdiag.cli.completing import complete

            if (done := complete(os.environ)) is not None:
                return done
        # Imported here, so that the workers of a sweep do not load every verb.
        from dtrdiag.cli.app import answer

        return answer(arguments)
    except KeyboardInterrupt:
        # Loading takes about as long as it takes to think better of it.
        print("dtrdiag: interrupted", file=sys.stderr)
        return 130
