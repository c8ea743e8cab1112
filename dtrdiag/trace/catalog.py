"""Which traces are known by name, and which trace a name, file or archive member stands for.

Names of bundled and public traces come first; a file of the same name is reached as `./NAME`.
"""

from __future__ import annotations

import os

import attrs

from dtrdiag.errors import UsageError
from dtrdiag.files import ARCHIVE_SEPARATOR
from dtrdiag.suggestions import close_files, no_such
from dtrdiag.trace.bundled import bundled_traces
from dtrdiag.trace.fetching import fetch
from dtrdiag.trace.model import Trace
from dtrdiag.trace.opening import read_with_notes
from dtrdiag.trace.public import PUBLIC_TRACES

__all__ = ["KnownTrace", "fetch", "known_traces", "resolve", "resolve_with_notes"]

_FILE_SUFFIXES = (".log", ".gz", ".zst", ".jsonl", ".json", ".zip", ".et")


@attrs.frozen(slots=True)
class KnownTrace:
    """A trace that has a name, whether it is on this machine or not."""

    name: str
    kind: str
    """`bundled` or `public`."""
    available: bool
    where: str | None
    """The file or archive member that would be read; None: not on this machine."""
    description: str
    ops: int
    tensors: int
    sha256: str
    """SHA-256 of the DTR log's uncompressed bytes."""
    command: str
    """What makes or gets it."""


def known_traces() -> list[KnownTrace]:
    """All known traces: the bundled ones, then the public ones.

    Nothing is read: `available` says that a file is there, `resolve` checks what is in it.
    """
    records = [
        KnownTrace(
            entry.name,
            "bundled",
            True,
            entry.where,
            entry.description,
            entry.ops,
            entry.tensors,
            entry.sha256,
            entry.command,
        )
        for entry in bundled_traces().values()
    ]
    for trace in PUBLIC_TRACES.values():
        where = trace.locate()
        records.append(
            KnownTrace(
                trace.name,
                "public",
                where is not None,
                where,
                trace.description,
                trace.ops,
                trace.tensors,
                trace.sha256,
                "dtrdiag traces fetch",
            )
        )
    return records


def resolve(trace: str | os.PathLike[str]) -> Trace:
    """The trace that an argument of the command line stands for.

    Args:
        trace: name of a bundled or public trace, a file (plain, .gz, .zst) in any format that is
            read as a trace, or `archive.zip::PART`.

    Raises:
        UsageError: no such name and no such file, or a public trace that is not on this machine.
        InputError: the file cannot be read, or is not the known trace of that name.
        TraceError: it is no trace.
    """
    return resolve_with_notes(trace)[0]


def resolve_with_notes(trace: str | os.PathLike[str]) -> tuple[Trace, list[str]]:
    """A trace, and what to know of it where its format says less than a DTR log; see `resolve`."""
    text = os.fspath(trace)
    if text in bundled_traces():
        return bundled_traces()[text].load(), []
    if text in PUBLIC_TRACES:
        return PUBLIC_TRACES[text].load(), []
    if os.path.exists(text) or _is_path(text):
        return read_with_notes(text)
    names = [*bundled_traces(), *PUBLIC_TRACES]
    raise UsageError(no_such("trace or file", text, [*names, *close_files(text)]))


def _is_path(text: str) -> bool:
    separators = [os.sep, os.altsep or os.sep, ARCHIVE_SEPARATOR]
    return any(part in text for part in separators) or text.endswith(_FILE_SUFFIXES)
