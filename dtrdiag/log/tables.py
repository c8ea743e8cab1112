"""How does a log become a table in memory, for pyarrow, pandas and what reads their tables?"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from dtrdiag.errors import UsageError
from dtrdiag.events.columns import EventColumns
from dtrdiag.events.conversion import columns_of
from dtrdiag.events.parquet import TableMaker, arrow_schema, load_pyarrow
from dtrdiag.events.records import Event
from dtrdiag.suggestions import no_such

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_HELD_EVENTS = 1 << 16
_MISSING = "a DataFrame needs pandas: pip install 'dtrdiag[frames]'"


def columns_in_batches(events: Iterable[Event]) -> Iterator[EventColumns]:
    """Events in batches of columns, in order.

    Raises:
        LogError: a number does not fit into 64 bits.
    """
    held: list[Event] = []
    for event in events:
        held.append(event)
        if len(held) == _HELD_EVENTS:
            yield columns_of(held)
            held = []
    if held:
        yield columns_of(held)


def arrow_table(batches: Iterable[EventColumns], names: Collection[str] | None = None) -> pa.Table:
    """A row per event, and the columns of a log as Parquet (docs/events.md), or some of them.

    Args:
        batches: the events.
        names: the columns to keep, in this order; None: all.

    Raises:
        UsageError: pyarrow is not installed, or there is no such column.
        LogError: the events cannot be read.
    """
    arrow, _ = load_pyarrow()
    schema = arrow_schema(arrow)
    kept = list(schema.names if names is None else dict.fromkeys(names))
    for name in kept:
        if name not in schema.names:
            raise UsageError(no_such("column of a log", name, schema.names))
    parts: dict[str, list[Any]] = {name: [] for name in kept}
    words = {name: _Words() for name in kept if arrow.types.is_dictionary(schema.field(name).type)}
    for columns in batches:
        # One for each batch: what it makes is good until it makes the next.
        table = TableMaker(arrow, max(1, len(columns))).table(columns)
        for name in kept:
            (chunk,) = table.column(name).chunks
            parts[name].append(words[name].codes(arrow, chunk) if name in words else chunk)
    for name, known in words.items():
        made = arrow.array(list(known.index), arrow.string())
        parts[name] = [arrow.DictionaryArray.from_arrays(codes, made) for codes in parts[name]]
    fields = [schema.field(name) for name in kept]
    arrays = [arrow.chunked_array(parts[field.name], field.type) for field in fields]
    return arrow.table(arrays, schema=arrow.schema(fields))


class _Words:
    """One dictionary for all batches: each brings its own, and other codes for the same words."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}

    def codes(self, arrow: Any, chunk: Any) -> Any:
        """The codes of a chunk in the common dictionary; what stands for null is not looked at."""
        own = [self.index.setdefault(w, len(self.index)) for w in chunk.dictionary.to_pylist()]
        present = chunk.is_valid().to_numpy(zero_copy_only=False)
        codes = np.zeros(len(chunk), np.int32)
        if own:
            found = chunk.indices.fill_null(0).to_numpy(zero_copy_only=False)
            codes[present] = np.array(own, np.int32)[found[present]]
        return arrow.array(codes, mask=~present)


def pandas_frame(table: pa.Table) -> pd.DataFrame:
    """A table as a DataFrame in which whole numbers stay whole where some are missing.

    They become `Int64`, flags `boolean`, words categories; lists are numpy arrays.

    Raises:
        UsageError: pandas is not installed.
    """
    arrow, _ = load_pyarrow()
    pandas = _load_pandas()
    types = {arrow.int64(): pandas.Int64Dtype(), arrow.bool_(): pandas.BooleanDtype()}
    return table.to_pandas(types_mapper=types.get)


def _load_pandas() -> Any:
    try:
        return importlib.import_module("pandas")
    except ImportError:
        raise UsageError(_MISSING) from None
