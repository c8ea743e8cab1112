"""Which errors dtrdiag raises for input it cannot use, and where each one points.

Every error derives from `DtrdiagError`. Its text is one line, `WHAT (WHERE)`, where WHERE is
`file:line` or `file` when the error concerns a file. The command line turns each of them into
`dtrdiag: error: WHAT (WHERE)` and its `exit_status`.
"""

from __future__ import annotations

import os


class DtrdiagError(Exception):
    """Base of all errors raised on purpose.

    Args:
        what: the fault in one line, without the place.
        path: the file concerned, if any.
        line: 1-based line in that file, if known.
    """

    exit_status = 2

    def __init__(
        self, what: str, *, path: str | os.PathLike[str] | None = None, line: int | None = None
    ) -> None:
        self.what = what
        self.path = None if path is None else os.fspath(path)
        self.line = line
        super().__init__(what)

    @property
    def where(self) -> str | None:
        """`file:line`, `file`, or None when no file is concerned."""
        if self.path is None:
            return None
        return self.path if self.line is None else f"{self.path}:{self.line}"

    def __str__(self) -> str:
        text = " ".join(self.what.split())
        return text if self.where is None else f"{text} ({self.where})"

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders in sweeps; Exception would keep `what` alone.
        return (_rebuild, (type(self), self.__dict__))


def _rebuild(kind: type[DtrdiagError], fields: dict[str, object]) -> DtrdiagError:
    error = kind.__new__(kind)
    error.__dict__.update(fields)
    Exception.__init__(error, error.what)
    return error


class UsageError(DtrdiagError):
    """An argument or option is not usable: unknown name, value out of range."""


class InputError(DtrdiagError):
    """A file cannot be read at all: missing, a directory, corrupt, suspiciously compressed."""


class TraceError(InputError):
    """A DTR log is not well formed, or says something that cannot be."""


class SnapshotError(InputError):
    """A memory snapshot is not well formed, or holds more than plain data."""


class LogError(InputError):
    """An event log is not well formed."""


class LogVersionError(LogError):
    """An event log has a major version that this reader does not know."""


class LogTooNewError(LogVersionError):
    """The log's major version is newer than this reader's."""


class LogTooOldError(LogVersionError):
    """The log's major version is older than any that this reader knows."""


class OutputError(DtrdiagError):
    """A result cannot be written: the file exists, the folder does not, the disk is full."""


class HookError(DtrdiagError):
    """A hook was registered wrongly."""


class SubscriberError(DtrdiagError):
    """A subscriber raised while it handled an event; the run was stopped.

    The subscriber's own exception is `__cause__`.
    """


class PolicyError(UsageError):
    """A policy was registered wrongly, is unknown, or returned scores that cannot be used."""


class SimulationError(DtrdiagError):
    """The trace asks for something that the chosen semantics does not define."""


class ExecutorError(DtrdiagError):
    """Runs cannot be made where they should be: workers lost again and again, no cluster."""


class AnalysisError(DtrdiagError):
    """The question does not fit the log, for example the frontier of a run that did not OOM."""


class LedgerError(InputError):
    """A ledger of claims, or a claim in it, cannot be used."""


class MissingTraceError(UsageError):
    """A known trace is not on this machine; the text says how to get it."""


class ContradictionError(DtrdiagError):
    """Two results that must agree do not: a fault of dtrdiag itself, not of its input."""

    exit_status = 70
