"""What produces event logs: writers, recorders, and adapters for other runtimes."""

# This folder stands at the root of the repository, so Python would load it from there as a second
# package of its own, whose classes would not be equal to the installed ones.
if __name__ != "dtrdiag.instrumentation":
    raise ImportError("import dtrdiag.instrumentation, not instrumentation")

from typing import TYPE_CHECKING

from dtrdiag.ondemand import on_demand

if TYPE_CHECKING:
    from dtrdiag.instrumentation.jsonl import JsonlWriter
    from dtrdiag.instrumentation.parquet import ParquetWriter
    from dtrdiag.instrumentation.recorder import EventRecorder
    from dtrdiag.instrumentation.writing import check_log_name, log_writer

__all__ = ["EventRecorder", "JsonlWriter", "ParquetWriter", "check_log_name", "log_writer"]

# Whoever only reads logs does not wait for structlog and pyarrow.
__getattr__, __dir__ = on_demand(
    __name__,
    {
        "jsonl": ("JsonlWriter",),
        "parquet": ("ParquetWriter",),
        "recorder": ("EventRecorder",),
        "writing": ("check_log_name", "log_writer"),
    },
)
