"""How does a verb fill a folder again and again without ever replacing what others put there?

The folder holds a `summary.json` that lists the files made with their digests. Only a file that is
listed and still has that digest is replaced.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dtrdiag.cli.output import write_file
from dtrdiag.errors import OutputError
from dtrdiag.files import read_bytes

SUMMARY = "summary.json"


class OwnFolder:
    """A folder of results.

    Args:
        path: the folder; it is made when the results are published.
        schema: of the summary, which tells our folders from others.
        names: of the files to be published.
        force: replace any file of the same name.

    Raises:
        OutputError: the path is empty or a file, or a file in the folder stands in the way.
    """

    def __init__(self, path: str, schema: str, names: Iterable[str], force: bool) -> None:
        if not path:
            raise OutputError("a folder must have a name")
        self.path = Path(path)
        self.schema = schema
        self.force = force
        if self.path.exists() and not self.path.is_dir():
            raise OutputError("is a file, not a folder", path=path)
        self._own = {} if force else self._listed()
        self._check([*names, SUMMARY])

    def publish(self, made: Path, document: dict[str, Any]) -> list[str]:
        """Move every file of the folder `made` here, and write the summary.

        Args:
            made: a folder with the results.
            document: what the summary says; it gets a list of the files.

        Returns:
            The paths of the files, the summary included, in order of their names.

        Raises:
            OutputError: a file is in the way, or cannot be written.
        """
        contents = {file.name: file.read_bytes() for file in sorted(made.iterdir())}
        self._check([*contents, SUMMARY])
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            what = f"the folder cannot be made: {error.strerror or error}"
            raise OutputError(what, path=self.path) from error
        digests = {name: _digest(content) for name, content in contents.items()}
        summary = {**document, "schema": self.schema, "made": digests}
        # First, so that files are ours even if this stops half way.
        write_file(self.path / SUMMARY, json.dumps(summary, indent=2).encode() + b"\n")
        for name, content in contents.items():
            write_file(self.path / name, content)
        return [str(self.path / name) for name in sorted([*contents, SUMMARY])]

    def _listed(self) -> dict[str, str]:
        """Files that the folder's summary lists, with their digests."""
        summary = self.path / SUMMARY
        if not summary.exists():
            return {}
        try:
            document = json.loads(read_bytes(str(summary)))
            ours = document["schema"] == self.schema
            listed = {str(name): str(digest) for name, digest in document["made"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            ours, listed = False, {}
        if not ours:
            raise OutputError(
                "exists and was not made by this command; --force replaces it", path=summary
            )
        return listed | {SUMMARY: ""}

    def _check(self, names: list[str]) -> None:
        for name in names:
            path = self.path / name
            if self.force or not path.exists() or (name == SUMMARY and name in self._own):
                continue
            if name not in self._own:
                what = "exists and was not made by this command; --force replaces it"
                raise OutputError(what, path=path)
            if not path.is_file() or _digest(path.read_bytes()) != self._own[name]:
                what = "was changed since this command made it; --force replaces it"
                raise OutputError(what, path=path)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
