"""Many events at once, as numpy arrays: what a compiled engine hands over and a big log is read as.

A batch has one code per event for its kind, and a *packed* column per field: entries only for the
events whose kind has that field, in their order. So nobody stores what an event lacks, and a
producer merely appends. A null, where the schema allows one, takes up an entry.

Columns are named after the fields. Where two kinds use one name for different things, each
has a column `KIND_FIELD` (today `run_candidates` and `evict_candidates`). `COLUMNS` lists them all;
it is derived from the schema of events, like everything else that describes them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from dtrdiag.errors import LogError
from dtrdiag.events.fields import FIELDS, Field
from dtrdiag.events.packed import (
    FLOAT,
    INT,
    NULL,
    Column,
    Flags,
    Ints,
    Numbers,
    Texts,
)
from dtrdiag.events.ragged import Candidates, Lists
from dtrdiag.events.records import EVENT_TYPES

__all__ = [
    "COLUMNS",
    "FLOAT",
    "INT",
    "KINDS",
    "KIND_CODES",
    "NULL",
    "Candidates",
    "Column",
    "ColumnSpec",
    "EventColumns",
    "Flags",
    "Ints",
    "Lists",
    "Numbers",
    "Texts",
    "column_name",
]

KINDS: tuple[str, ...] = tuple(EVENT_TYPES)
"""Kinds of events by their code."""
KIND_CODES: dict[str, int] = {kind: code for code, kind in enumerate(KINDS)}


@attrs.frozen
class ColumnSpec:
    """What one column holds.

    Attributes:
        name: its name.
        field: the field of the records that it holds.
        form: the class of its packed form.
        kinds: the kinds of events that have the field.
        nullable: those of them where null is a value.
        words: for a `Texts` column with a fixed vocabulary the words, by code; None: any words.
        choices: with `words`, the codes that each kind may use.
        infinite: whether infinities are among its numbers.
    """

    name: str
    field: str
    form: type[Column]
    kinds: tuple[str, ...]
    nullable: frozenset[str]
    words: tuple[str, ...] | None
    choices: Mapping[str, frozenset[int]]
    infinite: bool

    @property
    def has(self) -> npt.NDArray[np.bool_]:
        """Whether events of a kind have the field, by the kind's code."""
        return np.isin(np.arange(len(KINDS)), [KIND_CODES[kind] for kind in self.kinds])


def _form(field: Field) -> type[Column]:
    if field.value is None:
        return Lists if len(field.items) == 1 else Candidates
    forms: dict[type, type[Column]] = {int: Ints, bool: Flags, str: Texts, float: Numbers}
    return forms[field.value.base]


def _specs() -> tuple[ColumnSpec, ...]:
    uses: dict[str, list[tuple[str, Field]]] = {}
    for kind, fields in FIELDS.items():
        for field in fields:
            uses.setdefault(field.name, []).append((kind, field))
    specs = []
    for name, used in uses.items():
        if len({_form(field) for _, field in used}) == 1:
            specs.append(_spec(name, used))
        else:
            specs += [_spec(f"{kind}_{name}", [(kind, field)]) for kind, field in used]
    return tuple(specs)


def _spec(name: str, used: list[tuple[str, Field]]) -> ColumnSpec:
    fixed = all(field.choices for _, field in used)
    words = tuple(dict.fromkeys(chain.from_iterable(field.choices or () for _, field in used)))
    return ColumnSpec(
        name=name,
        field=used[0][1].name,
        form=_form(used[0][1]),
        kinds=tuple(kind for kind, _ in used),
        nullable=frozenset(kind for kind, f in used if f.value is not None and f.value.nullable),
        words=words if fixed else None,
        choices={
            kind: frozenset(map(words.index, field.choices or ())) for kind, field in used if fixed
        },
        infinite=used[0][1].value is None or used[0][1].value.infinite,
    )


COLUMNS: dict[str, ColumnSpec] = {spec.name: spec for spec in _specs()}
"""Every column by name, in the order in which the kinds bring them up; `seq` comes first."""

_COLUMN_OF = {(kind, spec.field): spec.name for spec in COLUMNS.values() for kind in spec.kinds}
_HAS = {name: spec.has for name, spec in COLUMNS.items()}


def column_name(kind: str, field: str) -> str:
    """The column that holds a field of a kind of event."""
    return _COLUMN_OF[kind, field]


@attrs.frozen(eq=False)
class EventColumns:
    """A run of consecutive events in columns.

    Attributes:
        kind: uint8[n], the kind of each event as its index in `KINDS`.
        fields: columns by name; those that have no entries may be left out.
        extra: fields that the schema does not know, as the text of a JSON object, by row.
    """

    kind: npt.NDArray[np.uint8]
    fields: Mapping[str, Column]
    extra: Mapping[int, str] = attrs.field(factory=dict)

    def __len__(self) -> int:
        return len(self.kind)

    def column(self, name: str) -> Any:
        """A column by name, an empty one if the batch has none; a `KeyError` for another name."""
        return self.fields.get(name) or COLUMNS[name].form.empty()

    def rows(self, name: str) -> npt.NDArray[np.bool_]:
        """bool[n]: which events have an entry in a column."""
        found: npt.NDArray[np.bool_] = _HAS[name][self.kind]
        return found

    def of(self, kind: str, field: str) -> Any:
        """A field of all events of one kind, packed."""
        name = column_name(kind, field)
        column = self.column(name)
        if len(COLUMNS[name].kinds) == 1:
            return column
        return column.take(np.flatnonzero(self.kind[self.rows(name)] == KIND_CODES[kind]))

    def slice(self, start: int, stop: int) -> EventColumns:
        """Events `start` to `stop`, `stop` not included; O(start) to count, nothing is copied."""
        if start == 0 and stop == len(self):
            return self
        before = np.bincount(self.kind[:start], minlength=len(KINDS))
        inside = np.bincount(self.kind[start:stop], minlength=len(KINDS))
        fields = {}
        for name, column in self.fields.items():
            first = int(before[_HAS[name]].sum())
            fields[name] = column.slice(first, first + int(inside[_HAS[name]].sum()))
        extra = {row - start: text for row, text in self.extra.items() if start <= row < stop}
        return EventColumns(self.kind[start:stop], fields, extra)

    @staticmethod
    def concat(batches: Sequence[EventColumns]) -> EventColumns:
        """One batch of several, in order."""
        if len(batches) == 1:
            return batches[0]
        names = [name for name in COLUMNS if any(name in batch.fields for batch in batches)]
        extra: dict[int, str] = {}
        start = 0
        for batch in batches:
            extra.update((start + row, text) for row, text in batch.extra.items())
            start += len(batch)
        return EventColumns(
            np.concatenate([np.empty(0, np.uint8), *(batch.kind for batch in batches)]),
            {name: COLUMNS[name].form.concat([b.column(name) for b in batches]) for name in names},
            extra,
        )

    def check(self, names: Collection[str] | None = None) -> None:
        """Refuse a batch that does not hang together or breaks the schema. O(n) at worst.

        Args:
            names: the columns that must be there; None: all that the events have fields for.

        Checked are types, numbers of entries, nulls, vocabularies, offsets, and nan among numbers;
        not what `extra` holds.

        Raises:
            LogError: naming column and kind.
        """
        if self.kind.dtype != np.uint8 or self.kind.ndim != 1:
            raise LogError("kinds of events must be a flat array of uint8")
        counts = np.bincount(self.kind, minlength=len(KINDS))
        if len(counts) > len(KINDS):
            raise LogError(f"unknown kind of event {int(self.kind.max())}")
        for name in self.fields:
            if name not in COLUMNS:
                raise LogError(f"unknown column {name!r}")
        for name, spec in COLUMNS.items():
            if names is not None and name not in names and name not in self.fields:
                continue
            self._check_column(spec, self.fields.get(name), int(counts[_HAS[name]].sum()), counts)
        if any(not 0 <= row < len(self) for row in self.extra):
            raise LogError("extra fields of an event that is not in the batch")

    def _check_column(
        self,
        spec: ColumnSpec,
        column: Column | None,
        entries: int,
        counts: npt.NDArray[np.intp],
    ) -> None:
        if column is None:
            if entries:
                raise LogError(f"column {spec.name!r} is missing, of {entries} entries")
            return
        if type(column) is not spec.form:
            raise LogError(f"column {spec.name!r} must be of class {spec.form.__name__}")
        fault = column.fault()
        if fault is None and len(column) != entries:
            fault = f"has {len(column)} entries for {entries} events"
        if fault is not None:
            raise LogError(f"column {spec.name!r} {fault}")
        if isinstance(column, Numbers) and not spec.infinite and column.has_infinities():
            raise LogError(f"column {spec.name!r} is infinite somewhere")
        present = [kind for kind in spec.kinds if counts[KIND_CODES[kind]]]
        self._check_nulls(spec, column, [kind for kind in present if kind not in spec.nullable])
        if spec.words is not None and isinstance(column, Texts):
            self._check_words(spec, column, present)

    def _check_nulls(self, spec: ColumnSpec, column: Column, required: Sequence[str]) -> None:
        nulls = column.nulls() if required else None
        if nulls is None or not nulls.any():
            return
        kinds = self.kind[self.rows(spec.name)][nulls]
        for kind in required:
            if (kinds == KIND_CODES[kind]).any():
                raise LogError(f"{kind}: field {spec.field!r} must not be null")

    def _check_words(self, spec: ColumnSpec, column: Texts, present: Sequence[str]) -> None:
        if not len(column):
            return
        if column.words != spec.words:
            raise LogError(f"column {spec.name!r} must have the words {spec.words}")
        of_rows = None
        for kind in present:
            allowed = spec.choices[kind]
            if len(allowed) == len(spec.words or ()):
                continue
            if of_rows is None:
                of_rows = self.kind[self.rows(spec.name)]
            codes = column.codes[of_rows == KIND_CODES[kind]]
            used = np.flatnonzero(np.bincount(codes))
            if not allowed.issuperset(used.tolist()):
                words = ", ".join(column.words[code] for code in sorted(allowed))
                raise LogError(f"{kind}: field {spec.field!r} must be one of {words}")
