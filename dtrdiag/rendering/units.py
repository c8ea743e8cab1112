"""How are bytes, times, counts and names written? As `dtrdiag.units` does, for all layers."""

from dtrdiag.units import (
    LONG_NAME,
    NOT_KNOWN,
    both_bytes,
    changes_words,
    count,
    cut_words,
    duration,
    exact_bytes,
    interval_words,
    overhead_words,
    plain_name,
    short_bytes,
)

__all__ = [
    "LONG_NAME",
    "NOT_KNOWN",
    "both_bytes",
    "changes_words",
    "count",
    "cut_words",
    "duration",
    "exact_bytes",
    "interval_words",
    "overhead_words",
    "plain_name",
    "short_bytes",
]
