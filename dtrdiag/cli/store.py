"""Where does a sweep keep its results, so that the next one does not compute them again?

A folder holds one JSON file for each group of runs that differ in their budget alone. The name ends
in a digest of what defines the group; the file repeats it in full, and nothing is believed that
does not agree with it. Files are replaced as a whole, so a sweep that is killed loses what it had
not saved yet, and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from dtrdiag import __version__
from dtrdiag.cli.output import write_file
from dtrdiag.errors import DtrdiagError, InputError, LogError, OutputError
from dtrdiag.events import decode, encode
from dtrdiag.events.records import End, RunHeader
from dtrdiag.experiments.outcomes import Outcome, Outcomes
from dtrdiag.files import read_bytes
from dtrdiag.simulator import RunConfig
from dtrdiag.trace import Trace

STORE_SCHEMA = "dtrdiag.sweep-results/1"
SUFFIX = ".sweep.json"
SAVE_SECONDS = 2.0
"""Results are saved at most this often while a sweep goes on, and once at its end."""

Definition = dict[str, Any]


def definition(trace: Trace, rules: RunConfig, policy_sha256: str | None) -> Definition:
    """What the decisions of a group's runs depend on, besides their budgets.

    The version is part of it, because a correction of the simulator changes results.
    """
    return {
        "version": __version__,
        "semantics": rules.semantics,
        "trace_sha256": trace.sha256,
        "policy": rules.policy,
        "policy_file_sha256": policy_sha256,
        "dealloc": rules.dealloc,
        "overhead_limit": rules.overhead_limit,
        "seed": rules.seed,
    }


class Folder:
    """Results of sweeps in a folder, which is made if it does not exist.

    Args:
        path: the folder.

    Raises:
        OutputError: it is no folder or cannot be made.
        InputError: a file in it that ends in `SUFFIX` is damaged or holds something else.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._saved = time.monotonic()
        if self.path.exists() and not self.path.is_dir():
            raise OutputError("is a file, not a folder", path=path)
        try:
            files = sorted(self.path.glob(f"*{SUFFIX}")) if self.path.is_dir() else []
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", path=path) from None
        self._read = {file.name: _read(file) for file in files}

    def outcomes(self, trace: Trace, group: Definition) -> Outcomes:
        """What is known of a group."""
        return Outcomes(self._read.get(_file_name(trace, group), ()))

    def make(self) -> None:
        """Make the folder.

        Raises:
            OutputError: it cannot be made.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            what = f"the folder cannot be made: {error.strerror or error}"
            raise OutputError(what, path=self.path) from error

    def due(self) -> bool:
        """Whether results should be saved again; says so once every `SAVE_SECONDS`."""
        now = time.monotonic()
        if now - self._saved < SAVE_SECONDS:
            return False
        self._saved = now
        return True

    def save(self, trace: Trace, group: Definition, outcomes: Outcomes) -> None:
        """Write the file of a group, together with what another sweep has saved meanwhile.

        Raises:
            OutputError: it cannot be written; the file stays as it was.
            InputError: the file there is damaged.
        """
        path = self.path / _file_name(trace, group)
        merged = Outcomes([*outcomes, *(_read(path) if path.exists() else ())])
        document = {
            "schema": STORE_SCHEMA,
            "group": group,
            "runs": [
                {
                    "header": encode(outcome.header),
                    "end": encode(outcome.end),
                    "engine": outcome.engine,
                    "simulate_seconds": outcome.simulate_seconds,
                }
                for outcome in merged
            ],
        }
        write_file(path, json.dumps(document, indent=1, allow_nan=False).encode() + b"\n")


def _file_name(trace: Trace, group: Definition) -> str:
    name = re.sub(r"[^A-Za-z0-9._+-]", "_", f"{trace.name}-{group['policy']}")[:60]
    return f"{name}-{_digest(group)}{SUFFIX}"


def _digest(group: Definition) -> str:
    return hashlib.sha256(json.dumps(group, sort_keys=True).encode()).hexdigest()[:16]


def _read(path: Path) -> list[Outcome]:
    try:
        document = json.loads(read_bytes(str(path)))
    except (ValueError, RecursionError):
        raise InputError("damaged: not JSON; move it away to go on", path=path) from None
    try:
        return _outcomes(path, document)
    except (DtrdiagError, AttributeError, KeyError, TypeError, ValueError) as error:
        why = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        what = f"not the results of a sweep: {why}; move it away to go on"
        raise InputError(what, path=path) from None


def _outcomes(path: Path, document: Any) -> list[Outcome]:
    if document["schema"] != STORE_SCHEMA:
        raise LogError(f"its schema is {str(document['schema'])[:60]!r}, not {STORE_SCHEMA!r}")
    group = document["group"]
    if not path.name.endswith(f"-{_digest(group)}{SUFFIX}"):
        raise LogError("its name does not belong to its content")
    return [_outcome(run, group) for run in document["runs"]]


def _outcome(run: Any, group: Definition) -> Outcome:
    header, end = decode(run["header"]), decode(run["end"])
    if not (isinstance(header, RunHeader) and isinstance(end, End)):
        raise LogError("a run has no header and end")
    for name in ("trace_sha256", "policy", "dealloc", "overhead_limit", "seed", "semantics"):
        if getattr(header, name) != group[name]:
            raise LogError(f"a run has another {name} than the others")
    outcome = Outcome(header, end, str(run["engine"]), float(run["simulate_seconds"]))
    if header.budget_bytes is None or not outcome.covers(header.budget_bytes):
        raise LogError("the budget of a run is not in its interval")
    return outcome


@attrs.frozen
class Kept:
    """A group's place in a folder."""

    folder: Folder
    trace: Trace
    group: Definition

    def save(self, outcomes: Outcomes) -> None:
        """See `Folder.save`."""
        self.folder.save(self.trace, self.group, outcomes)


def save_all(kept: Sequence[tuple[Kept, Outcomes]]) -> None:
    """Save each group that has outcomes."""
    for place, outcomes in kept:
        if len(outcomes):
            place.save(outcomes)
