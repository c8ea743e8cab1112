"""How is a map kept in a file, so that it can be extended, asked, and shown again?

`FILE.parquet` is a file of results (see `rows`), a row for each interval. `FILE.json` is the
`dtrdiag.map/1` document that `map --json` prints. Both hold the definition of the runs, what was
asked for, and all that is known of each run. Files are replaced as a whole, so a process that is
killed loses what it had not saved yet, and nothing else.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

import attrs

from dtrdiag.analyses import BudgetMap, map_document, run_of_interval, summarise_map
from dtrdiag.analyses.map_document import MAP_SCHEMA
from dtrdiag.errors import ContradictionError, DtrdiagError, InputError, LogError, OutputError
from dtrdiag.events import decode, encode
from dtrdiag.events.records import RunHeader
from dtrdiag.experiments.atomic import replace_file
from dtrdiag.experiments.outcomes import Outcome, Outcomes, add_checked
from dtrdiag.experiments.rows import (
    SHARED,
    Definition,
    check_pyarrow,
    read_metadata,
    read_rows,
    write_rows,
)
from dtrdiag.files import read_bytes
from dtrdiag.log import is_parquet_log

SUFFIXES = (".parquet", ".json")
SAVE_SECONDS = 3.0
"""A map is saved at most this often while it grows, and at its end."""
SAVE_SHARE = 20
"""Of the time, at most one part in so many goes into saving."""
DEFAULT_WITHIN = 0.001
"""How close the budgets of a cliff are, as a share of the peak."""
_PARQUET_MAGIC = b"PAR1"


@attrs.define
class SavedMap:
    """What a file of a map holds.

    Attributes:
        definition: what decisions depend on besides the budget.
        outcomes: what is known.
        from_bytes: lowest budget that was ever asked for.
        to_bytes: highest budget that was ever asked for.
        resolution_bytes: the coarsest resolution at which a part was sampled; None: none was.
    """

    definition: Definition
    outcomes: Outcomes
    from_bytes: int
    to_bytes: int
    resolution_bytes: int | None = None

    def _repr_html_(self) -> str:
        try:
            return self.between(self.from_bytes, self.to_bytes)._repr_html_()
        except InputError as error:
            return f"<p>{escape(error.what)}</p>"

    def between(self, from_bytes: int, to_bytes: int) -> BudgetMap:
        """What is known of a range.

        Raises:
            AnalysisError: the range is empty.
            InputError: nothing at all is known of it.
        """
        known = self.outcomes.meeting(from_bytes, to_bytes + 1)
        if not known:
            raise InputError(f"nothing is known of budgets from {from_bytes} to {to_bytes} bytes")
        return BudgetMap(known[0].header, tuple(run.end for run in known), from_bytes, to_bytes)

    def document(self, from_bytes: int, to_bytes: int, within_bytes: int) -> dict[str, Any]:
        """A range as a `dtrdiag.map/1` document, with what only the runs themselves know."""
        budget_map = self.between(from_bytes, to_bytes)
        document = map_document(budget_map, summarise_map(budget_map, within_bytes))
        known = self.outcomes.meeting(from_bytes, to_bytes + 1)
        for interval, outcome in zip(document["intervals"], known, strict=True):
            interval["budget"] = outcome.header.budget_bytes
            interval["engine"] = outcome.engine
            interval["simulate_seconds"] = outcome.simulate_seconds
        document["resolution"] = self.resolution_bytes
        document["definition"] = self.definition
        document["run"] = encode(attrs.evolve(known[0].header, budget_bytes=None, ratio=None))
        return document

    def merge(self, other: SavedMap) -> None:
        """Add what another map of the same definition knows.

        Raises:
            ContradictionError: the two disagree.
        """
        for outcome in other.outcomes:
            add_checked(self.outcomes, outcome)
        self.from_bytes = min(self.from_bytes, other.from_bytes)
        self.to_bytes = max(self.to_bytes, other.to_bytes)
        steps = (self.resolution_bytes, other.resolution_bytes)
        self.resolution_bytes = max((step for step in steps if step is not None), default=None)


def default_within(peak_bytes: int | None, to_bytes: int) -> int:
    """How close the budgets of a cliff are where nobody says: a share of the peak, if there is one.

    Without a peak, of the highest budget of the range.
    """
    return max(1, int((peak_bytes or to_bytes) * DEFAULT_WITHIN))


def is_saved_map(path: str) -> bool:
    """Whether a file looks like a saved map, whatever it is called; `read_map` looks closer."""
    if not os.path.isfile(path):
        # A pipe, say, could not be read a second time.
        return False
    try:
        with open(path, "rb") as stream:
            start = stream.read(200)
    except OSError:
        return False
    if start.startswith(_PARQUET_MAGIC):
        return not is_parquet_log(path)
    return f'"{MAP_SCHEMA.partition("/")[0]}/'.encode() in start


def holds_map(path: str) -> bool:
    """Whether a file says that it is a saved map; False also where nobody can tell."""
    if not is_saved_map(path):
        return False
    try:
        with open(path, "rb") as stream:
            if stream.read(len(_PARQUET_MAGIC)) != _PARQUET_MAGIC:
                return True
        return "map" in read_metadata(path)[1]
    except (DtrdiagError, OSError):
        return False


def read_map(path: str) -> SavedMap:
    """Read a map from a file of either kind.

    Raises:
        UsageError: it is Parquet, and pyarrow is not installed.
        InputError: no such file, truncated, damaged, another version, or something else.
    """
    try:
        with open(path, "rb") as stream:
            parquet = stream.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from None
    if parquet or path.endswith(".parquet"):
        rows = read_rows(path)
        asked = rows.extra.get("map")
        if not isinstance(asked, dict):
            raise InputError("results, but not those of a map", path=path)
        return _saved(path, rows.definition, rows.outcomes, asked)
    return _read_json(path)


def write_map(path: str, saved: SavedMap) -> None:
    """Write a map that holds something, as the kind of file that the name ends in.

    What was there is replaced.

    Raises:
        UsageError: it is Parquet, and pyarrow is not installed.
        OutputError: it cannot be written; what was there before still is.
    """
    low, high = saved.from_bytes, saved.to_bytes
    if path.endswith(".parquet"):
        asked = {"from": low, "to": high, "resolution": saved.resolution_bytes}
        write_rows(path, saved.definition, saved.outcomes, {"map": asked})
        return
    peak_bytes = next(iter(saved.outcomes)).header.peak_bytes
    document = saved.document(low, high, default_within(peak_bytes, high))
    replace_file(path, json.dumps(document, indent=1, allow_nan=False).encode() + b"\n")


class MapFile:
    """The file in which a map grows.

    Args:
        path: the file; its name ends in one of `SUFFIXES`.
        saved: the map; what the file knows already is added to it.
        force: do not look at what is there, replace it.

    Raises:
        OutputError: the file cannot be this map's: its name, its folder, or what is there.
        InputError: what is there is damaged or no map.
    """

    def __init__(self, path: str, saved: SavedMap, force: bool = False) -> None:
        self.path = path
        self._map = saved
        self._saved_at = time.monotonic()
        self._pause = SAVE_SECONDS
        check_map_path(path)
        self._seen: tuple[int, ...] | None = _identity(path) if force else None
        self._merge()

    def save(self) -> None:
        """Write what is known, together with what another process has put there meanwhile.

        Raises:
            DtrdiagError: it cannot be written, or what is there now is something else; that stays.
        """
        if not len(self._map.outcomes):
            return
        started = time.monotonic()
        self._merge()
        write_map(self.path, self._map)
        self._seen = _identity(self.path)
        self._saved_at = time.monotonic()
        self._pause = max(SAVE_SECONDS, SAVE_SHARE * (self._saved_at - started))

    def save_if_due(self) -> None:
        """Save, unless that was done a moment ago; raises as `save`."""
        if time.monotonic() - self._saved_at >= self._pause:
            self.save()

    def _merge(self) -> None:
        now = _identity(self.path)
        if now is None or now == self._seen:
            return
        other = read_map(self.path)
        for name, value in self._map.definition.items():
            if other.definition.get(name) != value:
                of = "other" if name in ("interventions", "semantics") else "another"
                raise OutputError(
                    f"holds a map of {of} {name} ({other.definition.get(name)}, not {value}); "
                    "--force replaces it",
                    path=self.path,
                )
        try:
            self._map.merge(other)
        except ContradictionError as error:
            raise InputError(f"{error.what}; --force replaces it", path=self.path) from None


def check_map_path(path: str) -> None:
    """Refuse a file in which no map can be kept, before anything is computed for it.

    Raises:
        OutputError: another suffix, no such folder, or something there that is no plain file.
        UsageError: it is Parquet, and pyarrow is not installed.
    """
    target = Path(path)
    if not path.endswith(SUFFIXES):
        raise OutputError(f"a map is kept as {' or '.join(SUFFIXES)}", path=path)
    if target.exists() and not target.is_file():
        raise OutputError("is not a plain file", path=path)
    if not target.parent.is_dir():
        raise OutputError("the folder does not exist", path=path)
    if not os.access(target.parent, os.W_OK):
        raise OutputError("the folder is not writable", path=path)
    if path.endswith(".parquet"):
        check_pyarrow()


def _identity(path: str) -> tuple[int, ...] | None:
    """Tells whether a file is the one that was there before; None: there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _read_json(path: str) -> SavedMap:
    try:
        document = json.loads(read_bytes(path))
    except (ValueError, RecursionError):
        raise InputError("no map: neither Parquet nor JSON, or damaged", path=path) from None
    try:
        if document["schema"] != MAP_SCHEMA:
            raise LogError(f"its schema is {str(document['schema'])[:60]!r}, not {MAP_SCHEMA!r}")
        header = decode(document["run"])
        if not isinstance(header, RunHeader):
            raise LogError("it does not say what was run")
        definition = dict(document["definition"])
        outcomes = [_outcome(header, interval) for interval in document["intervals"]]
        return _saved(path, definition, outcomes, document)
    except InputError as error:
        raise InputError(f"no map that can be used: {error.what}", path=path) from None
    except (DtrdiagError, AttributeError, KeyError, TypeError, ValueError) as error:
        why = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(f"no map that can be used: {why}"[:300], path=path) from None


def _outcome(header: RunHeader, interval: Any) -> Outcome:
    run = run_of_interval(interval)
    budget = interval["budget"]
    outcome = Outcome(
        attrs.evolve(header, budget_bytes=budget),
        run,
        str(interval["engine"]),
        float(interval["simulate_seconds"]),
    )
    if type(budget) is not int or not outcome.covers(budget):
        raise LogError("the budget of a run is not in its interval")
    return outcome


def _saved(
    path: str, definition: Definition, outcomes: Iterable[Outcome], asked: dict[str, Any]
) -> SavedMap:
    known = Outcomes()
    try:
        above = -1
        for outcome in outcomes:
            add_checked(known, outcome)
            if outcome.end.interval_lo_bytes <= above:
                raise InputError("its intervals do not ascend", path=path)
            above = outcome.end.interval_lo_bytes
            for name in SHARED:
                if getattr(outcome.header, name) != definition[name]:
                    raise InputError(f"a run has another {name} than the definition")
        saved = SavedMap(definition, known, asked["from"], asked["to"], asked["resolution"])
    except (ContradictionError, KeyError) as error:
        raise InputError(f"damaged: {error}", path=path) from None
    numbers = [saved.from_bytes, saved.to_bytes, saved.resolution_bytes or 1]
    if not all(type(number) is int and number >= 1 for number in numbers):
        raise InputError("damaged: it does not say which budgets were asked for", path=path)
    if saved.from_bytes > saved.to_bytes:
        raise InputError("damaged: the range that was asked for is empty", path=path)
    if not len(known):
        raise InputError("damaged: it holds no interval", path=path)
    return saved
