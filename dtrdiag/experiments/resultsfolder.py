"""Where does a sweep keep its results, so that the next one does not compute them again?

```
DIR/request.json             what was asked for last, and the mark by which a folder is known
DIR/runs/KEY/part-ID.parquet outcomes of one definition, whose `key_of` is KEY
DIR/.lock                    held shared by every process that uses the folder
```

Parts are never changed. A process adds parts of its own, and now and then puts several together: it
writes the new one first and removes the old ones then, so whatever kills it, nothing is lost, and a
row that is there twice is the same row. Two processes may therefore use one folder; each finds what
the other kept when it began. Only a process that has the folder for itself puts all parts of a key
together, or removes what killed writers left unfinished.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from dtrdiag import __version__
from dtrdiag.errors import DtrdiagError, InputError, OutputError
from dtrdiag.experiments.atomic import remove_unfinished, replace_file
from dtrdiag.experiments.outcomes import Outcome, Outcomes
from dtrdiag.experiments.rows import Definition, check_pyarrow, key_of, read_rows, write_rows
from dtrdiag.files import read_bytes

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # not on every system; then parts are never put together by another process
    fcntl = None

REQUEST_NAME = "dtrdiag.sweep-request"
REQUEST_SCHEMA = f"{REQUEST_NAME}/1"
REQUEST, RUNS, LOCK = "request.json", "runs", ".lock"
SUFFIX = ".parquet"
MAX_PARTS = 16
"""A process that has added so many parts to a key puts them together."""
LOCK_SECONDS = 30


class ResultsFolder:
    """A folder of results. Nothing in it is touched before `begin`.

    Args:
        path: the folder; it need not exist yet.

    Raises:
        UsageError: pyarrow is not installed.
        OutputError: it is no folder, or its name is empty.
        InputError: it holds something else than results, or those of another version.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        check_pyarrow()
        if not os.fspath(path):
            raise OutputError("a folder must have a name")
        self.path = Path(path)
        self.request: dict[str, Any] | None = None
        self._used: dict[str, Definition] = {}
        self._added: dict[str, list[tuple[Path, list[Outcome]]]] = {}
        self._lock: int | None = None
        if self.path.exists() and not self.path.is_dir():
            raise OutputError("is a file, not a folder", path=path)
        if self.path.is_dir():
            self.request = self._read_request()

    @contextmanager
    def begin(self, request: Mapping[str, Any] | None = None) -> Iterator[None]:
        """Use the folder: make it, if need be, and note what is asked for; at the end, tidy up.

        Args:
            request: what `request` shall say to whoever opens the folder next; None: what it says
                now.

        Raises:
            OutputError: the folder cannot be made or written to, or another process has locked it
                for longer than `LOCK_SECONDS`.
        """
        try:
            (self.path / RUNS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            what = f"the folder cannot be made: {error.strerror or error}"
            raise OutputError(what, path=self.path) from error
        try:
            self._take_lock()
            self._note(request)
            yield
            self._tidy()
        finally:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def outcomes(self, definition: Definition) -> Outcomes:
        """What is kept of a definition.

        Raises:
            InputError: a file is damaged, or holds something else.
        """
        found: dict[Path, tuple[Outcome, ...]] = {}
        key = key_of(definition)
        self._used[key] = definition
        while missing := self._parts(key) - found.keys():
            for path in sorted(missing):
                try:
                    found[path] = _read(path, definition)
                except InputError:
                    if path.exists():
                        raise
                    # Another process has put it together with others: they are in the next list.
                    found[path] = ()
        return Outcomes([outcome for path in sorted(found) for outcome in found[path]])

    def add(self, definition: Definition, outcomes: Iterable[Outcome]) -> None:
        """Keep outcomes; they are on the disk when this returns.

        Raises:
            OutputError: they cannot be written; what is kept already still is.
        """
        key = key_of(definition)
        self._used[key] = definition
        added = self._added.setdefault(key, [])
        new = list(outcomes)
        merged = added if len(added) + 1 >= MAX_PARTS else []
        rows = [row for _, rows in merged for row in rows] + new
        path = self._write(definition, rows)
        _remove(old for old, _ in merged)
        self._added[key] = [part for part in added if part not in merged] + [(path, rows)]

    def _write(self, definition: Definition, rows: list[Outcome]) -> Path:
        path = self._place(key_of(definition)) / f"part-{uuid.uuid4().hex}{SUFFIX}"
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            what = f"the folder cannot be made: {error.strerror or error}"
            raise OutputError(what, path=path.parent) from error
        write_rows(path, definition, rows)
        return path

    def _place(self, key: str) -> Path:
        return self.path / RUNS / key

    def _parts(self, key: str) -> set[Path]:
        place = self._place(key)
        try:
            names = os.listdir(place)
        except FileNotFoundError:
            return set()
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", path=place) from None
        return {place / name for name in names if name.endswith(SUFFIX) and name[0] != "."}

    def _tidy(self) -> None:
        """Put the parts of each key that was used together, if nobody else is here."""
        if not self._try_lock("LOCK_EX"):
            return
        for key, definition in self._used.items():
            parts = sorted(self._parts(key))
            if len(parts) < 2:
                continue
            try:
                rows = [outcome for path in parts for outcome in _read(path, definition)]
                self._write(definition, list(Outcomes(rows)))
            except DtrdiagError:
                continue  # a full disk, say: all parts stay, and hold what they held
            _remove(parts)

    def _take_lock(self) -> None:
        if fcntl is None:
            return
        try:
            self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:
            return  # a folder that is read only: there is nothing to lock either
        if self._try_lock("LOCK_EX"):
            for folder in [self.path, *(self.path / RUNS).glob("*")]:
                remove_unfinished(folder)
        until = time.monotonic() + LOCK_SECONDS
        while self._can_lock() and not self._try_lock("LOCK_SH"):
            if time.monotonic() > until:
                raise OutputError("another process has locked the folder", path=self.path)
            time.sleep(0.05)

    def _can_lock(self) -> bool:
        return self._lock is not None

    def _try_lock(self, kind: str) -> bool:
        if fcntl is None or self._lock is None:
            return False
        try:
            fcntl.flock(self._lock, getattr(fcntl, kind) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            # This file system has no locks.
            os.close(self._lock)
            self._lock = None
            return False
        return True

    def _note(self, request: Mapping[str, Any] | None) -> None:
        if request is None and self.request is not None:
            return
        asked = None if request is None else dict(request)
        document = {"schema": REQUEST_SCHEMA, "version": __version__, "request": asked}
        if document != self.request:
            text = json.dumps(document, indent=2, allow_nan=False)
            replace_file(self.path / REQUEST, text.encode() + b"\n")
            self.request = document

    def _read_request(self) -> dict[str, Any] | None:
        path = self.path / REQUEST
        try:
            seen = [name for name in os.listdir(self.path) if not name.startswith(".")]
        except OSError as error:
            what = f"cannot be read: {error.strerror or error}"
            raise InputError(what, path=self.path) from None
        if REQUEST not in seen:
            if [name for name in seen if name != RUNS] or any(_entries(self.path / RUNS)):
                what = "holds something else than results of sweeps: name an empty or a new folder"
                raise InputError(what, path=self.path)
            return None
        try:
            document = json.loads(read_bytes(str(path)))
            schema = document["schema"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InputError("damaged: no request of a sweep", path=path) from None
        if schema != REQUEST_SCHEMA:
            known = str(schema).startswith(f"{REQUEST_NAME}/")
            what = "results of another version" if known else "not results of sweeps"
            raise InputError(f"{what}: {str(schema)[:60]!r}, not {REQUEST_SCHEMA!r}", path=path)
        if not {"version", "request"} <= document.keys():
            raise InputError("damaged: no request of a sweep", path=path)
        return dict(document)


def kept_outcomes(path: str | os.PathLike[str]) -> list[tuple[Outcome, ...]]:
    """All that a folder keeps: the outcomes of each definition, ascending by interval.

    Raises:
        UsageError: pyarrow is not installed.
        InputError: it holds something else than results, or one of its files is damaged.
    """
    folder = ResultsFolder(path)
    found = []
    for key in sorted(_entries(folder.path / RUNS)):
        place = folder.path / RUNS / key
        names = [name for name in sorted(_entries(place)) if name.endswith(SUFFIX)]
        rows = [row for name in names if name[0] != "." for row in read_rows(place / name).outcomes]
        found.append(tuple(Outcomes(rows)))
    return found


def _read(path: Path, definition: Definition) -> tuple[Outcome, ...]:
    rows = read_rows(path)
    if rows.definition != definition:
        raise InputError("results of something else than its place says", path=path)
    return rows.outcomes


def _entries(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError:
            continue  # its rows are kept twice, which is harmless
