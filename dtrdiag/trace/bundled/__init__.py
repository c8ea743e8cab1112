"""Which traces are installed with dtrdiag: generated ones, and recorded steps of PyTorch models.

`bundled.json` lists them with the digest of their uncompressed bytes and the command that makes
them again. Reading a recorded one needs no PyTorch.
"""

from __future__ import annotations

import gzip
from functools import cache
from importlib import resources
from typing import Any

import attrs
import orjson
import zstandard

from dtrdiag.errors import InputError
from dtrdiag.trace.dtrlog import parse_dtr_log
from dtrdiag.trace.model import Trace

INDEX = "bundled.json"


@attrs.frozen(slots=True)
class BundledTrace:
    """One entry of the index."""

    name: str
    kind: str
    """`generated` by a generator of ours, or `recorded` from a PyTorch program."""
    file: str
    """Name of the compressed DTR log in this package."""
    description: str
    sha256: str
    """SHA-256 of the uncompressed bytes."""
    ops: int
    tensors: int
    command: str
    """What writes the same bytes; a recorded one with the version of PyTorch that `torch` names."""
    torch: str | None = None
    """Version of PyTorch that a recorded one was made with."""
    sizes: dict[str, Any] = attrs.field(factory=dict)
    """The sizes of a recorded model."""

    @property
    def where(self) -> str:
        """Path of the file."""
        return str(resources.files(__name__) / self.file)

    def content(self) -> bytes:
        """The DTR log.

        Raises:
            InputError: the installed file is missing or not the one of the index.
        """
        try:
            packed = (resources.files(__name__) / self.file).read_bytes()
            if self.file.endswith(".zst"):
                return zstandard.ZstdDecompressor().decompress(packed)
            return gzip.decompress(packed)
        except (OSError, EOFError, zstandard.ZstdError) as error:
            raise InputError(f"bundled trace is damaged: {error}", path=self.where) from None

    def load(self) -> Trace:
        """The trace; see `content` for errors."""
        trace = parse_dtr_log(self.content(), name=self.name, path=self.where)
        check_digest(trace, self.sha256)
        return trace


@cache
def bundled_traces() -> dict[str, BundledTrace]:
    """The bundled traces by name, in the order of the index."""
    entries = orjson.loads((resources.files(__name__) / INDEX).read_bytes())
    return {entry["name"]: BundledTrace(**entry) for entry in entries}


def check_digest(trace: Trace, expected: str) -> None:
    """Refuse a trace that is not the known one of that name.

    Raises:
        InputError: the digests differ; the text has both.
    """
    if trace.sha256 != expected:
        raise InputError(
            f"not the known trace {trace.name!r}: SHA-256 {trace.sha256}, expected {expected}",
            path=trace.path,
        )
