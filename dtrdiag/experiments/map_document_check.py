"""Does the document of a map say of its intervals what follows from them?

All but the intervals, the rules and the range is derived, so it is derived anew and compared.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from dtrdiag.checker import Problem
from dtrdiag.experiments.map_files import SavedMap
from dtrdiag.files import read_bytes
from dtrdiag.log import is_parquet

_LOGARITHMS = ("instability",)
"""Parts with logarithms, whose last digit is not the same on every machine."""
_SHOWN = 100
"""Characters of a value that are shown."""


def recorded_document(path: str) -> dict[str, Any] | None:
    """The document of a map that `read_map` accepts, as it is in the file; None for Parquet."""
    if is_parquet(path):
        return None
    document: dict[str, Any] = json.loads(read_bytes(path))
    return document


def document_problems(saved: SavedMap, document: Mapping[str, Any] | None) -> Iterator[Problem]:
    """What a document says otherwise than its intervals do.

    One problem for each interval with figures that contradict its others, and one for the rest,
    which names the first value that differs. Values that `document` has besides are not looked at.
    O(n) in the number of intervals.

    Args:
        saved: what was read from the document.
        document: the document, as JSON types; None: there is none, and nothing to find.

    Raises:
        InputError: no interval meets the range.
    """
    if document is None:
        return
    within = _within(document)
    if within is None:
        yield Problem(0, "document", "summary.within is no number of bytes")
        return
    derived = saved.document(saved.from_bytes, saved.to_bytes, within)
    derived = json.loads(json.dumps(derived))
    rows, wanted = document["intervals"], derived.pop("intervals")
    for at, (row, other) in enumerate(zip(rows, wanted, strict=False)):
        message = _difference(row, other, "the ", exact=True)
        if message is not None:
            yield Problem(at, "counts", message)
    if len(rows) != len(wanted):
        message = f"{len(wanted)} of the {len(rows)} intervals meet the range"
        yield Problem(len(wanted), "document", message)
    for name, value in derived.items():
        message = _difference(document.get(name), value, name, exact=name not in _LOGARITHMS)
        if message is not None:
            yield Problem(0, "document", message)
            return


def _within(document: Mapping[str, Any]) -> int | None:
    summary = document.get("summary")
    within = summary.get("within") if isinstance(summary, dict) else None
    return within if type(within) is int and within >= 1 else None


def _difference(found: Any, wanted: Any, where: str, exact: bool) -> str | None:
    """Where two JSON values differ first, in a sentence; what is missing counts as null."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        dot = "" if where.endswith(" ") else "."
        pairs = [(found.get(name), value, f"{where}{dot}{name}") for name, value in wanted.items()]
    elif isinstance(wanted, list) and isinstance(found, list) and len(found) == len(wanted):
        pairs = [(found[at], value, f"{where}[{at}]") for at, value in enumerate(wanted)]
    elif _equal(found, wanted, exact):
        return None
    else:
        return f"{where} is {_shown(found)} in the map, not {_shown(wanted)}"
    differences = (_difference(*pair, exact) for pair in pairs)
    return next((message for message in differences if message is not None), None)


def _equal(found: Any, wanted: Any, exact: bool) -> bool:
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if not exact and isinstance(found, int | float) and isinstance(wanted, int | float):
        return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-12)
    return bool(found == wanted)


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
