"""``dtrdiag doctor``: what is installed here, and what is missing?"""

from __future__ import annotations

import platform
import re
import shutil
import sys
from importlib import metadata
from typing import Any

from rich.table import Table
from rich.text import Text

from dtrdiag import __version__
from dtrdiag.caching import cache_dir
from dtrdiag.cli.options import Json
from dtrdiag.cli.output import print_json, print_sentences, print_table
from dtrdiag.cli.pictures import DOT_PROGRAM, GET_PICTURES
from dtrdiag.events.records import SCHEMA
from dtrdiag.simulator import why_no_native
from dtrdiag.trace.catalog import known_traces

DOCTOR_SCHEMA = "dtrdiag.doctor/1"
GET_NATIVE = (
    "To get it, install a C++17 compiler and Python's headers (Debian: g++ and python3-dev) and "
    "install dtrdiag again with DTRDIAG_NATIVE=1 and pip's --force-reinstall --no-deps."
)
_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")
_BELOW = re.compile(r"python_version\s*<\s*['\"](\d+)\.(\d+)['\"]")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")


def doctor(json: Json = False) -> None:
    """Tell what is installed here, and what is missing."""
    document = _document()
    if json:
        print_json(document)
        return
    print_sentences(_words(document))
    print_table(_table(document))


def _words(document: dict[str, Any]) -> list[str]:
    """Whether all is here that is needed, and what else could be had."""
    missing = [name for name, version in document["packages"].items() if version is None]
    words = ["Everything that dtrdiag needs is here."]
    if missing:
        words = [f"These packages are missing: {', '.join(missing)}."]
    optional = [] if document["engines"]["native"] else ["the native engine, many times faster"]
    optional += [] if document["dot"] else [f"graphviz's `{DOT_PROGRAM}`, for pictures of graphs"]
    extras = [name for name, here in document["extras"].items() if not here]
    if extras:
        optional.append(f"the extra{'s' * (len(extras) > 1)} {', '.join(extras)}")
    traces = len(document["traces"]["missing"])
    if traces:
        optional.append(f"{traces} public trace{'s' * (traces > 1)} (dtrdiag traces fetch)")
    if optional:
        words.append(f"Not here, and not needed: {'; '.join(optional)}.")
    return words


def _document() -> dict[str, Any]:
    needed, extras = _requirements()
    return {
        "schema": DOCTOR_SCHEMA,
        "version": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "log_schema": SCHEMA,
        "engine": "native" if why_no_native() is None else "python",
        "engines": {"python": True, "native": why_no_native() is None},
        "native_missing": why_no_native(),
        "packages": {name: _version(name) for name in needed},
        "extras": {
            extra: all(_version(name) is not None for name in names)
            for extra, names in extras.items()
        },
        "dot": shutil.which(DOT_PROGRAM),
        "traces": {
            "cache": str(cache_dir()),
            "available": [entry.name for entry in known_traces() if entry.available],
            "missing": [entry.name for entry in known_traces() if not entry.available],
        },
    }


def _requirements() -> tuple[list[str], dict[str, list[str]]]:
    """Names of the packages that dtrdiag needs, and those of each extra."""
    try:
        lines = metadata.requires("dtrdiag") or []
    except metadata.PackageNotFoundError:
        lines = []
    needed: list[str] = []
    extras: dict[str, list[str]] = {}
    for line in lines:
        name, extra = _REQUIREMENT.match(line), _EXTRA.search(line)
        below = _BELOW.search(line)
        if below is not None and sys.version_info >= (int(below[1]), int(below[2])):
            continue  # an older Python's need
        if name is not None:
            (needed if extra is None else extras.setdefault(extra[1], [])).append(name[0])
    return needed, extras


def _engine(document: dict[str, Any]) -> str:
    reason = document["native_missing"]
    if reason is None:
        return "native, compiled; python serves with --engine python"
    return f"python. The native engine, many times faster, is {reason}. {GET_NATIVE}"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _table(document: dict[str, Any]) -> Table:
    traces = document["traces"]
    extras = [f"{name} ({'yes' if here else 'no'})" for name, here in document["extras"].items()]
    packages = [f"{name} {version or 'MISSING'}" for name, version in document["packages"].items()]
    rows = {
        "dtrdiag": document["version"],
        "Python": f"{document['python']}, {document['executable']}",
        "platform": document["platform"],
        "event logs": document["log_schema"],
        "engine": _engine(document),
        "pictures": document["dot"] or f"no program `{DOT_PROGRAM}`: {GET_PICTURES}",
        "traces here": ", ".join(traces["available"]),
        "traces to fetch": ", ".join(traces["missing"]) or "none",
        "fetched to": traces["cache"],
        "packages": ", ".join(packages),
        "extras": ", ".join(extras) or "none",
    }
    table = Table(show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, Text(value))
    return table
