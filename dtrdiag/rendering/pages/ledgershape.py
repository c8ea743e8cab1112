"""Is a document what `dtrdiag reproduce` writes? It comes from a file, where anything may stand."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dtrdiag.errors import InputError
from dtrdiag.rendering.claims import MARKS, ROLES
from dtrdiag.units import plain_name

_SHOWN = 60
_TEXT, _MAYBE_TEXT, _LIST, _OBJECT = "a text", "a text or null", "a list", "an object"
_SECONDS, _TRUTH = "a number of seconds", "true or false"
_KINDS: Mapping[str, tuple[type[Any], ...]] = {
    _TEXT: (str,),
    _MAYBE_TEXT: (str, type(None)),
    _LIST: (list,),
    _OBJECT: (dict,),
    _TRUTH: (bool,),
}

Shape = Mapping[str, str | Collection[str | None]]
"""What each field holds: a kind of value, or one of some words."""


def check_ledger(document: Any, statuses: Sequence[str]) -> None:
    """Refuse a document of another shape, or one that contradicts itself.

    Args:
        document: JSON types.
        statuses: the words for a status.

    Raises:
        InputError: names the first field that is wrong, and what it should hold.
    """
    known = (*statuses, None)
    _fields(document, {"claims": _LIST, "differences": _LIST}, "the document")
    if not document["claims"]:
        raise _refused("claims is empty")
    claim_shape: Shape = {
        **dict.fromkeys(("id", "statement", "kind"), _TEXT),
        **dict.fromkeys(
            ("title", "source", "scope", "refuted_if", "reason", "not_run"), _MAYBE_TEXT
        ),
        "status": known,
        "committed": known,
        "seconds": _SECONDS,
        "evidence": _LIST,
        "interventions": _LIST,
    }
    for at, line in enumerate(document["differences"]):
        _value(line, _TEXT, f"differences[{at}]")
    for at, claim in enumerate(document["claims"]):
        where = f"claims[{at}]"
        _fields(claim, claim_shape, where)
        for name in ("evidence", "interventions"):
            for number, item in enumerate(claim[name]):
                _item(item, f"{where}.{name}[{number}]")
        _as_listed(claim, document["differences"])


def _item(item: Any, where: str) -> None:
    shape: Shape = {
        "role": tuple(ROLES),
        "check": _TEXT,
        "title": _MAYBE_TEXT,
        "verdict": tuple(MARKS),
        "holds_without": _TRUTH,
        "parameters": _OBJECT,
        "predicates": _LIST,
    }
    _fields(item, shape, where)
    for at, predicate in enumerate(item["predicates"]):
        parts: Shape = {"text": _TEXT, "verdict": tuple(MARKS), "measured": _OBJECT}
        _fields(predicate, parts, f"{where}.predicates[{at}]")


def _as_listed(claim: Mapping[str, Any], differences: Sequence[str]) -> None:
    status, committed = claim["status"], claim["committed"]
    if status in (None, committed) or any(
        line.startswith(f"{claim['id']}: ") for line in differences
    ):
        return
    name = plain_name(claim["id"], _SHOWN)
    raise _refused(
        f"claim {name} is {status}, {committed or 'no status'} is written down, and differences "
        "does not list it"
    )


def _fields(value: Any, shape: Shape, where: str) -> None:
    _value(value, _OBJECT, where)
    for name, wanted in shape.items():
        path = f"{where}.{name}" if "[" in where else name
        if name not in value:
            raise _refused(f"{path} is missing")
        _value(value[name], wanted, path)


def _value(value: Any, wanted: str | Collection[str | None], path: str) -> None:
    if not isinstance(wanted, str):
        if not (value is None or isinstance(value, str)) or value not in wanted:
            words = ", ".join("null" if word is None else word for word in wanted)
            raise _refused(f"{path} is {_shown(value)}, not one of {words}")
    elif wanted == _SECONDS:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not (math.isfinite(value) and value >= 0):
            raise _refused(f"{path} is {_shown(value)}, not {wanted}")
    elif not isinstance(value, _KINDS[wanted]):
        raise _refused(f"{path} is {_shown(value)}, not {wanted}")


def _shown(value: Any) -> str:
    return plain_name(json.dumps(value), _SHOWN)


def _refused(what: str) -> InputError:
    return InputError(f"not as `dtrdiag reproduce` writes it: {what}")
