"""Is a log that does not fit a trace the log of another program, and where do the two part?"""

from __future__ import annotations

from collections.abc import Iterable

from dtrdiag.analyses.programs import ProgramDifference, program_difference
from dtrdiag.errors import DtrdiagError
from dtrdiag.events.records import Event, RunHeader
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import EventRecorder
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace.model import Trace

_KINDS = ("op", "reference", "end")
"""All that a program asks for."""


def other_program(log: Iterable[Event], trace: Trace) -> ProgramDifference | None:
    """Where the program of a log differs from a trace, a; the log is b.

    None where they do not differ as far as the log goes; where the log names this very trace, so
    that not the program is wrong but the log; where costs or sizes were changed on purpose; and
    where the log cannot be read. Takes an unlimited run of the trace.

    Args:
        log: events of a run, from its header on, any number of times.
        trace: compared with.
    """
    recorder = EventRecorder()
    hooks = Hooks()
    hooks.subscribe(recorder, _KINDS)
    try:
        header = next(iter(log), None)
        if type(header) is not RunHeader or header.interventions is not None:
            return None
        if header.trace_sha256 == trace.sha256:
            return None
        simulate(trace, RunConfig(overhead_limit=None), hooks)
        return program_difference(recorder.events, log)
    except DtrdiagError:
        return None
