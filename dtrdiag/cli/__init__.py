"""The ``dtrdiag`` command: one verb for each question."""

import sys

from dtrdiag import __version__


def main() -> int:
    """Answer the arguments of this process; returns its exit status (2 for bad arguments)."""
    if sys.argv[1:] == ["--version"]:
        print(f"dtrdiag {__version__}")
        return 0
    print("dtrdiag: error: only --version is known", file=sys.stderr)
    return 2
