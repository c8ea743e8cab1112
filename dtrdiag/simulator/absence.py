"""How long did the Python engine work in this process because the compiled one is not there?

Runs in other processes, such as the workers of a sweep, do not count.
"""

from __future__ import annotations

from dtrdiag.simulator import native
from dtrdiag.simulator.config import RunConfig

_seconds = [0.0]


def python_decided(config: RunConfig, seconds: float) -> None:
    """Note a run of the Python engine.

    Args:
        config: its rules; a run that asked for the Python engine does not count.
        seconds: how long it took.
    """
    if config.engine == "auto" and not native.available():
        _seconds[0] += seconds


def seconds_without_native() -> float:
    """Seconds of all runs so far that the compiled engine would have taken."""
    return _seconds[0]
