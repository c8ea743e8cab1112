"""How is one run of a grid made, wherever the worker is?

A worker is a process on this machine or another, or a thread of this process. A task names its
trace and its policy file by digest alone. A worker that does not have one of them answers with
None, gets the task once more together with what it lacks, and keeps that. So each of them travels
to each worker once, and a worker that was started anew is supplied like any other.
"""

from __future__ import annotations

import threading

import attrs

from dtrdiag.experiments.outcomes import Outcome
from dtrdiag.experiments.policyfile import PolicyFile, forget_policy_files
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace import Trace

MAX_TRACES = 16
"""A worker keeps this many traces, those used last; most have less than 1 MB."""

_traces: dict[str, Trace] = {}
_policy_file: PolicyFile | None = None
_lock = threading.Lock()
# Of the two above.
_policies_in_use = threading.Lock()
# Two sweeps may share a worker, and their files a policy's name: one at a time, then.


@attrs.frozen
class Task:
    """One run to be made.

    Attributes:
        trace_sha256: of the trace.
        policy_sha256: of the policy file; None: the policy is one of dtrdiag's own.
        config: the rules, budget included.
        attempt: counts how often workers were lost over it. Clusters that remember tasks by their
            arguments then do not take the next attempt for the last one.
    """

    trace_sha256: str
    policy_sha256: str | None
    config: RunConfig
    attempt: int = 0


@attrs.frozen
class Supplies:
    """What a task needs and names by digest."""

    trace: Trace
    policy_file: PolicyFile | None


def perform(task: Task, supplies: Supplies | None = None) -> Outcome | None:
    """Make a run, and say what it came to; None: come again with supplies.

    Raises:
        DtrdiagError: the run cannot be made, or the policy file cannot be used.
    """
    trace, policy_file = _find(task, supplies)
    if trace is None:
        return None
    if task.policy_sha256 is None:
        return Outcome.of(simulate(trace, task.config))
    if policy_file is None:
        return None
    with _policies_in_use:
        if not policy_file.is_loaded():
            forget_policy_files()
            policy_file.load()
        return Outcome.of(simulate(trace, task.config))


def _find(task: Task, supplies: Supplies | None) -> tuple[Trace | None, PolicyFile | None]:
    global _policy_file
    with _lock:
        if supplies is not None:
            _traces[task.trace_sha256] = supplies.trace
            if supplies.policy_file is not None:
                _policy_file = supplies.policy_file
        trace = _traces.pop(task.trace_sha256, None)
        if trace is not None:
            _traces[task.trace_sha256] = trace  # the last used is the last to go
        while len(_traces) > MAX_TRACES:
            del _traces[next(iter(_traces))]
        file = _policy_file
    if file is not None and file.sha256 != task.policy_sha256:
        file = None
    return trace, file
