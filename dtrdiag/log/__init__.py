"""Event logs: reading them, the state at any point (`Replay`), and their rules (`verify`)."""

from dtrdiag.log.opening import open_log, read_columns, read_events
from dtrdiag.log.parquet import ParquetReader, is_parquet, is_parquet_log
from dtrdiag.log.reader import LogReader
from dtrdiag.log.replay import Replay
from dtrdiag.log.rules import RULES, Problem, Verification
from dtrdiag.log.snapshots import MemorySnapshot, is_snapshot, read_snapshot
from dtrdiag.log.state import Frame, Tally
from dtrdiag.log.verifier import verify

__all__ = [
    "RULES",
    "Frame",
    "LogReader",
    "MemorySnapshot",
    "ParquetReader",
    "Problem",
    "Replay",
    "Tally",
    "Verification",
    "is_parquet",
    "is_parquet_log",
    "is_snapshot",
    "open_log",
    "read_columns",
    "read_events",
    "read_snapshot",
    "verify",
]
