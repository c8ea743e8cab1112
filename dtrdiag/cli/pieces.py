"""Is what was named only a piece of something that is read as a whole?

Logs are split to be sent or stored, and a sweep keeps its rows in a folder of small files. A piece
by itself is refused with the name of the whole, if that can be told from what lies beside it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import orjson

from dtrdiag.errors import DtrdiagError, UsageError
from dtrdiag.experiments.resultsfolder import REQUEST, RUNS
from dtrdiag.files import read_first_line

LINE_BYTES = 16 << 20
"""As long as any line of an event log may be."""
_SUFFIXES = re.compile(r"(?:\.jsonl)?(?:\.gz|\.zst)?\Z")
_UNKNOWN = "the whole log"
# As `split` counts, by letters or digits, and as people do.
_NUMBER = re.compile(r"(?:[._-]?part[._-]?|[._-])(?:\d+|[a-z]{2,3})\Z", re.IGNORECASE)


def first_fields(path: str) -> dict[str, Any]:
    """The fields of a file's first line, where that is a JSON object; else none."""
    try:
        fields = orjson.loads(read_first_line(path, LINE_BYTES))
    except (DtrdiagError, ValueError):
        # Whatever is wrong with the file, its reader will say it better.
        return {}
    return fields if isinstance(fields, dict) else {}


def check_no_file_of_sweep(path: str) -> None:
    """Refuse a file out of a sweep's folder.

    Raises:
        UsageError: it is one; the error names the folder.
    """
    place = Path(path)
    folders = {REQUEST: place.parent} if place.name == REQUEST else {}
    if place.suffix == ".parquet" and place.parent.parent.name == RUNS:
        folders = {place.name: place.parent.parent.parent}
    folder = folders.get(place.name)
    if folder is not None and (folder / REQUEST).is_file() and (folder / RUNS).is_dir():
        raise UsageError(
            f"only a part of a sweep, whose folder is read as a whole: {folder}", path=path
        )


def check_no_later_part(path: str, fields: dict[str, Any]) -> None:
    """Refuse a part of an event log other than the first.

    Args:
        path: of the file.
        fields: of its first line.

    Raises:
        UsageError: it begins in the middle of a log; the error names the whole log or its first
            part, where one lies beside it.
    """
    seq = fields.get("seq")
    if not isinstance(fields.get("event"), str) or not isinstance(seq, int) or seq < 1:
        return
    whole = _whole(Path(path)) if os.path.isfile(path) else _UNKNOWN
    what = f"begins in the middle of a log, with event {seq}; give {whole}"
    raise UsageError(what, path=path)


def _whole(path: Path) -> str:
    """What to give in place of a part: the log beside it, or all parts from the one beside it."""
    stem = _stem(path.name)
    root = _NUMBER.sub("", stem)
    if not root or root == stem:
        return _UNKNOWN
    for other in sorted(os.listdir(path.parent), key=lambda name: (len(name), name)):
        beside = path.parent / other
        is_whole = root in (other, _stem(other))
        if other == path.name or not (is_whole or root == _NUMBER.sub("", _stem(other))):
            continue
        if beside.is_file() and first_fields(str(beside)).get("event") == "run":
            joined = _UNKNOWN if is_whole else "the parts put together, from the first"
            return f"{joined}: {beside}"
    return _UNKNOWN


def _stem(name: str) -> str:
    return _SUFFIXES.sub("", name)
