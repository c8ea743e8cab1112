"""The ``dtrdiag`` command: one verb for each question."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer the arguments (those of this process by default); returns the exit status."""
    # Imported here, so that the workers of a sweep do not load every verb.
    from dtrdiag.cli.app import answer

    return answer(arguments)
