"""Traces: what they are, how DTR logs are read and written, where known ones come from."""

from dtrdiag.trace.builder import TraceBuilder
from dtrdiag.trace.dtrlog import parse_dtr_log, read_dtr_log, write_dtr_log
from dtrdiag.trace.model import CONSTANT_NAME, Instruction, Step, Trace

__all__ = [
    "CONSTANT_NAME",
    "Instruction",
    "Step",
    "Trace",
    "TraceBuilder",
    "parse_dtr_log",
    "read_dtr_log",
    "write_dtr_log",
]
