"""How is a ledger read, and what is wrong with one that cannot be used?"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from dtrdiag.errors import LedgerError
from dtrdiag.experiments.claims.items import read_item
from dtrdiag.experiments.claims.places import Places
from dtrdiag.experiments.claims.records import (
    COSTS,
    FULL,
    KINDS,
    MECHANISM,
    Claim,
    Item,
    Ledger,
)
from dtrdiag.experiments.claims.statuses import STATUSES
from dtrdiag.suggestions import no_such, quoted

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

COMMITTED = "statuses.json"
COMMITTED_SCHEMA = "dtrdiag.statuses/1"
TEXTS = ("title", "statement", "source", "scope")
RESERVED_IDS = ("results", "summary")
"""`reproduce -o` writes a file of each claim's name, and these two besides."""
FIELDS = ("id", *TEXTS, "kind", "refuted_if", "cost", "defaults", "evidence", "intervention")
MAX_BYTES = 1 << 20
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LINE = re.compile(r" \(at line (\d+), column \d+\)")


def own_ledger() -> Path:
    """The folder of the claims that come with dtrdiag."""
    return Path(str(files("dtrdiag.analyses"))) / "claims"


def read_ledger(folder: Path) -> Ledger:
    """The claims of a folder: its `*.toml` files, with the statuses written down beside them.

    Nothing is run.

    Raises:
        LedgerError: there is no claim, or one of them, or the file of statuses, cannot be used.
    """
    if not folder.is_dir():
        what = "is a file, not a folder of claims" if folder.exists() else "no such folder"
        raise LedgerError(what, path=folder)
    paths = sorted(folder.glob("*.toml"))
    if not paths:
        raise LedgerError("there is no claim in this folder, no *.toml file", path=folder)
    claims: dict[str, Claim] = {}
    for path in paths:
        claim = read_claim(path)
        if claim.id in claims:
            line = _places(path).of(key="id")
            other = claims[claim.id].path.name
            raise LedgerError(f"duplicate id {claim.id!r}, as in {other}", path=path, line=line)
        claims[claim.id] = claim
    for claim in claims.values():
        if claim.id != claim.path.stem:
            what = f"the id {claim.id!r} must be the name of the file, {claim.path.stem!r}"
            raise LedgerError(what, path=claim.path, line=_places(claim.path).of(key="id"))
    by_id = tuple(claims[name] for name in sorted(claims))
    return Ledger(folder, by_id, read_committed(folder))


def read_claim(path: Path) -> Claim:
    """The claim of a file.

    Raises:
        LedgerError: it cannot be read, is no TOML, or is no claim.
    """
    text = _text(path)
    places = Places(text)
    try:
        fields = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = _LINE.search(str(error))
        line = None if found is None else int(found[1])
        what = _LINE.sub("", str(error))
        raise LedgerError(f"this is not TOML: {what}", path=path, line=line) from None
    try:
        return _claim(fields, path, places)
    except LedgerError as error:
        if error.path is not None:
            raise
        raise LedgerError(error.what, path=path) from None


def _claim(fields: Mapping[str, Any], path: Path, places: Places) -> Claim:
    def refuse(what: str, key: str) -> LedgerError:
        return LedgerError(what, path=path, line=places.of(key=key))

    if "status" in fields:
        raise refuse("a status is computed, never typed: remove it", "status")
    for name in fields:
        if name not in FIELDS:
            raise refuse(f"a claim has no {name!r}; it has {', '.join(FIELDS)}", name)
    texts = {}
    for name in ("id", *TEXTS, "kind", "refuted_if"):
        texts[name] = _required(fields, name, refuse)
    if not _ID.fullmatch(texts["id"]):
        raise refuse(f"an id is words of a-z and 0-9 joined by -, not {texts['id'][:60]!r}", "id")
    if texts["id"] in RESERVED_IDS:
        raise refuse(f"the id {texts['id']!r} is taken: a file of results has that name", "id")
    cost = fields.get("cost", FULL)
    for name, value, choices in (("kind", texts["kind"], KINDS), ("cost", cost, COSTS)):
        if value not in choices:
            raise refuse(no_such(name, value, choices), name)
    evidence = _items(fields, "evidence", path, places)
    interventions = _items(fields, "intervention", path, places)
    if interventions and texts["kind"] != MECHANISM:
        raise LedgerError(
            "an observation needs no intervention; the kind of this claim is mechanism",
            path=path,
            line=places.of("intervention"),
        )
    return Claim(**texts, cost=cost, evidence=evidence, interventions=interventions, path=path)


def _required(fields: Mapping[str, Any], name: str, refuse: Any) -> str:
    value = fields.get(name)
    if name == "refuted_if" and value is None:
        if fields.get("kind") == MECHANISM:
            raise refuse("a mechanism must say what would refute it: refuted_if", "kind")
        return ""
    if value is None:
        raise LedgerError(f"a claim must have {name!r}")
    if not isinstance(value, str) or not value.strip():
        raise refuse(f"{name} must be a text, not {value!r:.60}", name)
    return " ".join(value.split())


def _items(fields: Mapping[str, Any], table: str, path: Path, places: Places) -> tuple[Item, ...]:
    defaults, found = fields.get("defaults", {}), fields.get(table, [])
    if not isinstance(defaults, dict):
        line = places.of(key="defaults")
        raise LedgerError("defaults must be a table: [defaults]", path=path, line=line)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        line = places.of(key=table) or places.of(table)
        raise LedgerError(f"{table} must be tables: [[{table}]]", path=path, line=line)
    return tuple(
        read_item(item, defaults, table, index, path, places) for index, item in enumerate(found)
    )


def read_committed(folder: Path) -> dict[str, str]:
    """The statuses written down beside claims; none where there is no such file.

    Raises:
        LedgerError: the file is something else.
    """
    path = folder / COMMITTED
    if not path.exists():
        return {}
    try:
        document = json.loads(_text(path))
        schema, statuses = document["schema"], dict(document["statuses"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise LedgerError("damaged: these are no statuses of claims", path=path) from None
    if schema != COMMITTED_SCHEMA:
        raise LedgerError(f"the schema must be {COMMITTED_SCHEMA}", path=path)
    for name, status in statuses.items():
        if status not in STATUSES:
            what = f"{no_such('status', status, STATUSES)} (of the claim {quoted(name)})"
            raise LedgerError(what, path=path)
    return statuses


def _text(path: Path) -> str:
    try:
        with open(path, "rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise LedgerError(error.strerror or str(error), path=path) from None
    if len(content) > MAX_BYTES:
        raise LedgerError(f"more than {MAX_BYTES} bytes", path=path)
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise LedgerError("this is not UTF-8", path=path) from None


def _places(path: Path) -> Places:
    return Places(_text(path))
