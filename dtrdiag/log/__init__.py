"""Event logs: reading them, the state at any point (`Replay`), and their rules (`verify`)."""

from dtrdiag.log.opening import open_log, read_columns, read_events
from dtrdiag.log.parquet import ParquetReader, is_parquet, is_parquet_log
from dtrdiag.log.reader import LogReader
from dtrdiag.log.replay import Replay
from dtrdiag.log.rules import RULES, Problem, Verification
from dtrdiag.log.state import Frame, Tally
from dtrdiag.log.verifier import verify

__all__ = [
    "RULES",
    "Frame",
    "LogReader",
    "ParquetReader",
    "Problem",
    "Replay",
    "Tally",
    "Verification",
    "is_parquet",
    "is_parquet_log",
    "open_log",
    "read_columns",
    "read_events",
    "verify",
]
