"""What does every analysis ask of its input first: a header, and for two runs the same trace?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice

from dtrdiag.errors import AnalysisError, LogError, UsageError
from dtrdiag.events.columns import EventColumns
from dtrdiag.events.conversion import columns_of
from dtrdiag.events.records import Event, RunHeader
from dtrdiag.interventions import Interventions, parse_interventions
from dtrdiag.log.parquet import ParquetReader

_CHUNK = 1 << 14


def split_header(events: Iterable[Event]) -> tuple[RunHeader, Iterator[Event]]:
    """The header of a run, and an iterator over the events after it.

    Args:
        events: the events of a run in order of `seq`, the header first.

    Raises:
        AnalysisError: there is no event, or the first one is no `run` event.
    """
    rest = iter(events)
    first = next(rest, None)
    if first is None:
        raise AnalysisError("the log has no events")
    if not isinstance(first, RunHeader):
        raise AnalysisError(f"the log begins with a `{first.kind}` event, not with `run`")
    return first, rest


def in_columns(
    events: Iterable[Event], names: Collection[str]
) -> tuple[RunHeader, Iterator[EventColumns]]:
    """The header of a run, and all its events in columns, the header's too.

    Args:
        events: the events of a run, header first; a Parquet log is read in columns.
        names: the columns that are needed; there may be more.

    Raises:
        AnalysisError: there is no event, or the first one is no `run` event.
        LogError: on the way, a field holds what a column cannot.
    """
    if isinstance(events, ParquetReader):
        return events.header, events.batches(names)
    header, rest = split_header(events)
    return header, _chunks(chain([header], rest))


def _chunks(events: Iterator[Event]) -> Iterator[EventColumns]:
    while chunk := list(islice(events, _CHUNK)):
        yield columns_of(chunk)


def interventions_of(header: RunHeader) -> Interventions:
    """What was changed on purpose in a run.

    Raises:
        LogError: the header names interventions that are not known.
    """
    try:
        return parse_interventions(header.interventions)
    except UsageError as error:
        raise LogError(f"event {header.seq} ({header.kind}): {error}") from error


_LIVE = "dtrdiag-live"
_REMEDY = "; a live run that is given its recording, remat(..., trace=LOG), names it in its log"


def require_same_trace(a: RunHeader, b: RunHeader) -> None:
    """Refuse two runs of different traces: their ids would name different things.

    Digests decide where both headers have one, whatever the names, since files are renamed.
    Otherwise the names must be the same, and the counts of ops and tensors where both are known.

    Raises:
        AnalysisError: the traces differ, or nothing says that they are the same; the message names
            both.
    """
    both = f"{_trace_words(a)} and {_trace_words(b)}"
    if a.trace_sha256 is not None and b.trace_sha256 is not None:
        if a.trace_sha256 != b.trace_sha256:
            raise AnalysisError(f"the runs are of different traces: {both}")
        return
    if _contradict(a.trace_ops, b.trace_ops) or _contradict(a.trace_tensors, b.trace_tensors):
        raise AnalysisError(f"the runs are of different traces: {both}")
    if a.trace_name != b.trace_name:
        what = "the runs are of traces with different names, and no two digests say that they are"
        nameless = [header for header in (a, b) if header.trace_sha256 is None]
        remedy = _REMEDY if any(header.runtime == _LIVE for header in nameless) else ""
        raise AnalysisError(f"{what} the same: {both}{remedy}")


def _contradict(a: int | None, b: int | None) -> bool:
    return a is not None and b is not None and a != b


def _trace_words(header: RunHeader) -> str:
    if header.trace_sha256 is not None:
        return f"{header.trace_name} (sha256 {header.trace_sha256})"
    ops = "?" if header.trace_ops is None else header.trace_ops
    tensors = "?" if header.trace_tensors is None else header.trace_tensors
    return f"{header.trace_name} ({ops} ops, {tensors} tensors)"


@contextmanager
def introduced() -> Iterator[None]:
    """Around look-ups by the ids of a log, which may be damaged.

    Raises:
        LogError: an id was looked up that no `op` event had introduced.
    """
    try:
        yield
    except KeyError as error:
        raise LogError(f"the log names {error.args[0]!r}, which no op event introduced") from None
