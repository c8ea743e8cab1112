"""The forms of packed columns: one class per type that a field of an event can have.

All take and give numpy arrays without copying them. `fault` says what is wrong with the arrays
themselves; whether a column suits its events is for `dtrdiag.events.columns` to judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import attrs
import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int32]
Index = npt.NDArray[np.intp]

NULL, INT, FLOAT = 0, 1, 2
"""What an entry of a `Numbers` column is, as its `tags` say."""


class Column(Protocol):
    """What the columns of all types can do."""

    def __len__(self) -> int:
        """Number of entries."""
        ...

    @classmethod
    def empty(cls) -> Column:
        """A column without entries."""
        ...

    @classmethod
    def concat(cls, columns: Sequence[Any]) -> Column:
        """One column of several of this class, in order."""
        ...

    def slice(self, start: int, stop: int) -> Column:
        """Entries `start` to `stop`, `stop` not included; shares the arrays."""
        ...

    def take(self, index: Index) -> Column:
        """The entries at some positions."""
        ...

    def nulls(self) -> Bools | None:
        """bool[m]: which entries are null; None: none is."""
        ...

    def fault(self) -> str | None:
        """What is wrong with the arrays, as the end of a sentence; None: nothing. O(m)."""
        ...

    def tolist(self) -> list[Any]:
        """The entries as the values that event records have."""
        ...


@attrs.frozen(eq=False)
class Ints:
    """Integers: `values` int64[m]; `valid` bool[m], False where null, or None: none is null."""

    values: Int64s
    valid: Bools | None = None

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def empty(cls) -> Ints:
        """See `Column`."""
        return cls(np.empty(0, np.int64))

    @classmethod
    def concat(cls, columns: Sequence[Ints]) -> Ints:
        """See `Column`."""
        return cls(np.concatenate([c.values for c in columns]), _join_valid(columns))

    def slice(self, start: int, stop: int) -> Ints:
        """See `Column`."""
        return Ints(self.values[start:stop], _part(self.valid, slice(start, stop)))

    def take(self, index: Index) -> Ints:
        """See `Column`."""
        return Ints(self.values[index], _part(self.valid, index))

    def nulls(self) -> Bools | None:
        """See `Column`."""
        return None if self.valid is None else ~self.valid

    def fault(self) -> str | None:
        """See `Column`."""
        return wrong_array(self.values, np.int64) or _wrong_valid(self.valid, len(self))

    def tolist(self) -> list[Any]:
        """See `Column`."""
        return _with_nulls(self.values.tolist(), self.valid)


@attrs.frozen(eq=False)
class Flags:
    """Truth values, none of them null: `values` bool[m]."""

    values: Bools

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def empty(cls) -> Flags:
        """See `Column`."""
        return cls(np.empty(0, np.bool_))

    @classmethod
    def concat(cls, columns: Sequence[Flags]) -> Flags:
        """See `Column`."""
        return cls(np.concatenate([column.values for column in columns]))

    def slice(self, start: int, stop: int) -> Flags:
        """See `Column`."""
        return Flags(self.values[start:stop])

    def take(self, index: Index) -> Flags:
        """See `Column`."""
        return Flags(self.values[index])

    def nulls(self) -> None:
        """See `Column`."""

    def fault(self) -> str | None:
        """See `Column`."""
        return wrong_array(self.values, np.bool_)

    def tolist(self) -> list[Any]:
        """See `Column`."""
        values: list[Any] = self.values.tolist()
        return values


@attrs.frozen(eq=False)
class Texts:
    """Strings: `codes` int32[m] are indices into `words`; `valid` as in `Ints`."""

    codes: Codes
    words: tuple[str, ...]
    valid: Bools | None = None

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def empty(cls) -> Texts:
        """See `Column`."""
        return cls(np.empty(0, np.int32), ())

    @classmethod
    def concat(cls, columns: Sequence[Texts]) -> Texts:
        """See `Column`; the words are those of all, each once, in order of first occurrence."""
        used = [column for column in columns if len(column)]
        if all(column.words == used[0].words for column in used[1:]):
            codes = [np.empty(0, np.int32), *(column.codes for column in used)]
            return cls(np.concatenate(codes), used[0].words if used else (), _join_valid(used))
        index: dict[str, int] = {}
        codes = []
        for column in used:
            new = [index.setdefault(word, len(index)) for word in column.words]
            codes.append(np.array(new or [0], np.int32)[column.codes])
        return cls(np.concatenate(codes), tuple(index), _join_valid(used))

    def slice(self, start: int, stop: int) -> Texts:
        """See `Column`."""
        return Texts(self.codes[start:stop], self.words, _part(self.valid, slice(start, stop)))

    def take(self, index: Index) -> Texts:
        """See `Column`."""
        return Texts(self.codes[index], self.words, _part(self.valid, index))

    def nulls(self) -> Bools | None:
        """See `Column`."""
        return None if self.valid is None else ~self.valid

    def fault(self) -> str | None:
        """See `Column`."""
        fault = wrong_array(self.codes, np.int32) or _wrong_valid(self.valid, len(self))
        if fault is None and len(self):
            codes = self.codes if self.valid is None else self.codes[self.valid]
            if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < len(self.words):
                fault = f"has a code beyond its {len(self.words)} words"
        return fault

    def tolist(self) -> list[Any]:
        """See `Column`."""
        codes = self.codes if self.valid is None else np.where(self.valid, self.codes, -1)
        words = (*self.words, None)  # which -1 picks
        return [words[code] for code in codes.tolist()]


@attrs.frozen(eq=False)
class Numbers:
    """Numbers that keep apart 1 and 1.0: scores, limits, ratios.

    Attributes:
        tags: uint8[m], `NULL`, `INT` or `FLOAT`.
        floats: float64[m], read where the tag says `FLOAT`; infinities are numbers, nan is not.
        ints: int64[m], read where the tag says `INT`; None: no tag does.
    """

    tags: npt.NDArray[np.uint8]
    floats: Float64s
    ints: Int64s | None = None

    def __len__(self) -> int:
        return len(self.tags)

    @classmethod
    def empty(cls) -> Numbers:
        """See `Column`."""
        return cls(np.empty(0, np.uint8), np.empty(0))

    @classmethod
    def concat(cls, columns: Sequence[Numbers]) -> Numbers:
        """See `Column`."""
        ints = None
        if any(column.ints is not None for column in columns):
            ints = np.concatenate([column.whole() for column in columns])
        return cls(
            np.concatenate([column.tags for column in columns]),
            np.concatenate([column.floats for column in columns]),
            ints,
        )

    def whole(self) -> Int64s:
        """`ints`, or zeros where there are none."""
        return np.zeros(len(self), np.int64) if self.ints is None else self.ints

    def has_infinities(self) -> bool:
        """Whether an entry is an infinity."""
        return bool((np.isinf(self.floats) & (self.tags == FLOAT)).any())

    def slice(self, start: int, stop: int) -> Numbers:
        """See `Column`."""
        part = slice(start, stop)
        return Numbers(
            self.tags[part], self.floats[part], None if self.ints is None else self.ints[part]
        )

    def take(self, index: Index) -> Numbers:
        """See `Column`."""
        return Numbers(
            self.tags[index], self.floats[index], None if self.ints is None else self.ints[index]
        )

    def nulls(self) -> Bools | None:
        """See `Column`."""
        found: Bools = self.tags == NULL
        return found

    def fault(self) -> str | None:
        """See `Column`."""
        fault = wrong_array(self.tags, np.uint8) or wrong_array(self.floats, np.float64)
        if self.ints is not None:
            fault = fault or wrong_array(self.ints, np.int64)
        if fault is not None:
            return fault
        if len(self.floats) != len(self) or len(self.whole()) != len(self):
            return "has arrays of different lengths"
        if len(self) and self.tags.max() > FLOAT:
            return "has an unknown tag"
        if self.ints is None and (self.tags == INT).any():
            return "has the tag of an int and no ints"
        if (np.isnan(self.floats) & (self.tags == FLOAT)).any():
            return "is nan somewhere"
        return None

    def tolist(self) -> list[Any]:
        """See `Column`."""
        values: list[Any] = self.floats.tolist()
        if self.ints is not None:
            for i in np.flatnonzero(self.tags == INT).tolist():
                values[i] = int(self.ints[i])
        return _with_nulls(values, self.tags != NULL)


def _part(valid: Bools | None, index: Any) -> Bools | None:
    return None if valid is None else valid[index]


def _join_valid(columns: Sequence[Ints] | Sequence[Texts]) -> Bools | None:
    if all(column.valid is None for column in columns):
        return None
    return np.concatenate(
        [np.ones(len(c), np.bool_) if c.valid is None else c.valid for c in columns]
    )


def _with_nulls(values: list[Any], valid: Bools | None) -> list[Any]:
    if valid is not None:
        for i in np.flatnonzero(~valid).tolist():
            values[i] = None
    return values


def wrong_array(values: Any, dtype: type[Any]) -> str | None:
    """What is wrong with an array that is to be flat and of a type, as `Column.fault`."""
    if not isinstance(values, np.ndarray) or values.dtype != dtype or values.ndim != 1:
        return f"must be a flat array of {np.dtype(dtype)}"
    return None


def _wrong_valid(valid: Bools | None, length: int) -> str | None:
    if valid is None:
        return None
    return wrong_array(valid, np.bool_) or (
        None if len(valid) == length else "has arrays of different lengths"
    )


def add_exactly(a: Int64s, b: Int64s) -> npt.NDArray[Any]:
    """Elementwise sums, as Python integers where 64 bits might not do."""
    limit = 1 << 62
    if all(not len(part) or -limit < part.min() <= part.max() < limit for part in (a, b)):
        return a + b
    total: npt.NDArray[Any] = a.astype(object) + b.astype(object)
    return total


def sum_exactly(values: Int64s) -> int:
    """The sum, also where 64 bits do not do."""
    if not len(values) or max(abs(int(values.min())), int(values.max())) * len(values) < 1 << 62:
        return int(values.sum())
    return sum(values.tolist())
