"""When can a replay be shown in a terminal, and what is said where it cannot?"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence

from dtrdiag.cli.sources import check_no_map
from dtrdiag.cli.tui.cursor import Cursor
from dtrdiag.cli.tui.eventfile import EventFile
from dtrdiag.errors import UsageError
from dtrdiag.units import plain_name


def replay_in_terminal(paths: Sequence[str], others: Sequence[str]) -> None:
    """Show one log, or two side by side, until whoever looks quits.

    Args:
        paths: the logs.
        others: options that were given besides and mean another kind of answer.

    Raises:
        UsageError: there is no terminal or no textual, options contradict, or a log is too long.
        AnalysisError: the two logs are of different traces.
        InputError, LogError: a log cannot be read.
    """
    if others:
        raise UsageError(f"--tui shows a log on the screen and does not go with {others[0]}")
    check_terminal()
    for path in paths:
        check_no_map(path)
    # The screen shows nothing before the logs are indexed and textual is there.
    names = " and ".join(plain_name(path, 100) for path in paths)
    sys.stderr.write(f"dtrdiag: reading {names} ...\n")
    sys.stderr.flush()
    cursors = tuple(Cursor(EventFile(path)) for path in paths)
    if len(cursors) == 2:
        from dtrdiag.analyses.reading import require_same_trace

        require_same_trace(cursors[0].events.header, cursors[1].events.header)
    # Here, because whoever has no textual uses all the rest of dtrdiag.
    from dtrdiag.cli.tui.app import ReplayApp

    app = ReplayApp(cursors)
    app.run()


def check_terminal() -> None:
    """Refuse to start where nothing could be shown.

    Raises:
        UsageError: no terminal, one that cannot be drawn on, or no textual.
    """
    # textual draws on standard error.
    for stream, name in ((sys.stdin, "input"), (sys.stdout, "output"), (sys.stderr, "error")):
        if stream is None or not stream.isatty():
            raise UsageError(
                f"--tui needs a terminal, and standard {name} is none; without --tui, replay prints"
            )
    if os.environ.get("TERM") == "dumb":
        raise UsageError("--tui needs a terminal that can be drawn on, and TERM is dumb")
    if importlib.util.find_spec("textual") is None:
        raise UsageError("--tui needs textual: pip install 'dtrdiag[tui]'")
