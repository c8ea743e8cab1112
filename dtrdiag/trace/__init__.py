"""Traces: what they are, how files of them are read and written, where known ones come from."""

from dtrdiag.trace.builder import TraceBuilder
from dtrdiag.trace.dtrlog import parse_dtr_log, read_dtr_log, write_dtr_log
from dtrdiag.trace.graphjson import GRAPH_SCHEMA, parse_graph, read_graph
from dtrdiag.trace.graphwriting import write_graph
from dtrdiag.trace.model import CONSTANT_NAME, Instruction, Step, Trace
from dtrdiag.trace.opening import read_trace

__all__ = [
    "CONSTANT_NAME",
    "GRAPH_SCHEMA",
    "Instruction",
    "Step",
    "Trace",
    "TraceBuilder",
    "parse_dtr_log",
    "parse_graph",
    "read_dtr_log",
    "read_graph",
    "read_trace",
    "write_dtr_log",
    "write_graph",
]
