"""Which writer does the name of a log ask for?"""

from __future__ import annotations

import os

from dtrdiag.errors import UsageError
from dtrdiag.events.parquet import SUFFIX, load_pyarrow
from dtrdiag.instrumentation.jsonl import JsonlWriter
from dtrdiag.instrumentation.parquet import ParquetWriter


def log_writer(path: str | os.PathLike[str], *, force: bool = False) -> JsonlWriter | ParquetWriter:
    """A writer of the log at `path`: Parquet where the name ends in `.parquet`, else JSON Lines.

    Raises:
        UsageError: the log is to be Parquet and pyarrow is not installed.
        OutputError: the file exists (without `force`), or cannot be created.
    """
    if os.fspath(path).endswith(SUFFIX):
        return ParquetWriter(path, force=force)
    return JsonlWriter(path, force=force)


def check_log_name(path: str | os.PathLike[str]) -> None:
    """Refuse a log that cannot be written here, before anything is computed for it.

    Raises:
        UsageError: the log is to be Parquet and pyarrow is not installed, or compressed besides.
    """
    name = os.fspath(path)
    if name.endswith((f"{SUFFIX}.gz", f"{SUFFIX}.zst")):
        raise UsageError("a Parquet log is compressed inside: name it .parquet", path=name)
    if name.endswith(SUFFIX):
        load_pyarrow()
