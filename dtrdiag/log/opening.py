"""Which reader does a log need? Told by its content, whatever its name."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator

from dtrdiag.errors import LogError
from dtrdiag.events.columns import EventColumns
from dtrdiag.events.records import Event
from dtrdiag.log.parquet import ParquetReader, is_parquet
from dtrdiag.log.reader import LogReader


def open_log(path: str | os.PathLike[str]) -> LogReader:
    """A reader of the log at `path`: Parquet, or JSON lines, `.gz` and `.zst` decompressed.

    Reads the header alone.

    Raises:
        InputError: the file is missing, a directory or unreadable.
        LogError: the file is empty, cut within the run header, no event log, or a Parquet file
            that is not whole.
        LogVersionError: the log has a major version that this reader does not know.
        UsageError: the log is Parquet and pyarrow is not installed.
    """
    name = os.fspath(path)
    return ParquetReader(name) if is_parquet(name) else LogReader(name)


def read_events(path: str | os.PathLike[str]) -> list[Event]:
    """All events of a log, up to the cut if it has one; errors as `open_log` and iteration."""
    return list(open_log(path))


def read_columns(
    path: str | os.PathLike[str], names: Collection[str] | None = None
) -> Iterator[EventColumns]:
    """The events of a Parquet log in batches of columns, in order.

    Args:
        path: the log.
        names: the columns to read besides `seq`, as in `dtrdiag.events.columns.COLUMNS`; None:
            all. Those of fields that only header, stop and end have cost no time.

    Raises:
        LogError: the log is not Parquet; or as `open_log` and iteration.
        UsageError: there is no such column.
    """
    log = open_log(path)
    if not isinstance(log, ParquetReader):
        raise LogError("not a Parquet log, so it has no columns to read", path=path)
    return log.batches(names)
