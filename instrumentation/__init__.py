"""What produces event logs: writers, recorders, and adapters for other runtimes."""

# This folder stands at the root of the repository, so Python would load it from there as a second
# package of its own, whose classes would not be equal to the installed ones.
if __name__ != "dtrdiag.instrumentation":
    raise ImportError("import dtrdiag.instrumentation, not instrumentation")

from dtrdiag.instrumentation.jsonl import JsonlWriter
from dtrdiag.instrumentation.parquet import ParquetWriter
from dtrdiag.instrumentation.recorder import EventRecorder
from dtrdiag.instrumentation.writing import check_log_name, log_writer

__all__ = ["EventRecorder", "JsonlWriter", "ParquetWriter", "check_log_name", "log_writer"]
