"""The ``dtrdiag`` command: one verb for each question."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dtrdiag.cli.streams import open_missing_streams


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer the arguments (those of this process by default); returns the exit status."""
    open_missing_streams()
    try:
        # Imported here, so that the workers of a sweep do not load every verb.
        from dtrdiag.cli.app import answer

        return answer(arguments)
    except KeyboardInterrupt:
        # Loading takes about as long as it takes to think better of it.
        print("dtrdiag: interrupted", file=sys.stderr)
        return 130
