"""How is a map a table, for data frames and spreadsheets: a row for each interval of budgets?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtrdiag.errors import AnalysisError
from dtrdiag.events.fields import FIELDS
from dtrdiag.events.parquet import load_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

    from dtrdiag.analyses.budget_map import BudgetMap

_FIRST = ("interval_lo_bytes", "interval_hi_bytes", "outcome")
_COUNTED = tuple(
    field.name for field in FIELDS["end"] if field.name not in (*_FIRST, "seq", "decisions_sha256")
)
COLUMNS = ("lo_bytes", "hi_bytes", "outcome", "overhead", *_COUNTED, "decisions_sha256")
"""The columns, in order. What they hold is told of the `end` event in docs/events.md; `overhead` is
null where the baseline is not known, and that of a run which was stopped is the overhead so far."""
_TEXTS = ("outcome", "decisions_sha256")


def map_columns(budget_map: BudgetMap) -> dict[str, list[Any]]:
    """The columns of a map by name; an interval without an upper bound has None as `hi_bytes`."""
    runs = budget_map.runs
    columns: dict[str, list[Any]] = {
        "lo_bytes": [run.interval_lo_bytes for run in runs],
        "hi_bytes": [run.interval_hi_bytes for run in runs],
        "outcome": [run.outcome for run in runs],
        "overhead": [budget_map.overhead(run) for run in runs],
    }
    for name in (*_COUNTED, "decisions_sha256"):
        columns[name] = [getattr(run, name) for run in runs]
    return columns


def map_arrow(budget_map: BudgetMap) -> pa.Table:
    """A map as a `pyarrow.Table`, a row for each interval, ascending by budget.

    Raises:
        UsageError: pyarrow is not installed.
        AnalysisError: a number does not fit into 64 bits.
    """
    arrow, _ = load_pyarrow()
    types = dict.fromkeys(COLUMNS, arrow.int64())
    types |= dict.fromkeys(_TEXTS, arrow.string()) | {"overhead": arrow.float64()}
    columns = map_columns(budget_map)
    try:
        arrays = [arrow.array(columns[name], types[name]) for name in COLUMNS]
    except (OverflowError, arrow.ArrowInvalid) as error:
        raise AnalysisError(f"a number of the map does not fit into 64 bits: {error}") from None
    return arrow.table(arrays, names=list(COLUMNS))
