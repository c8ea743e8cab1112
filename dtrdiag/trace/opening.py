"""Which format is a file of a trace in? It is told by how the content begins, never by its name."""

from __future__ import annotations

import os
import re
from typing import Any

import orjson

from dtrdiag.errors import TraceError
from dtrdiag.files import ARCHIVE_SEPARATOR, open_source, read_bytes
from dtrdiag.trace.builder import shown
from dtrdiag.trace.chakra import CHAKRA, durations_beside, parse_execution_trace
from dtrdiag.trace.dtrlog import parse_dtr_log, short_name
from dtrdiag.trace.graphjson import parse_graph
from dtrdiag.trace.model import Trace

HEAD_BYTES = 4096
"""A document says within these what it is."""
GRAPH = "dtrdiag.graph/"
PROTOBUF = ".et"
_PROTO, _PROTOCOLS = b"\x80", (b"\x02", b"\x03", b"\x04", b"\x05")
_SCHEMA = re.compile(rb'\A\s*\{[^{}\[\]]*?"schema"\s*:\s*"([^"\\]{1,80})"')


def read_trace(source: str | os.PathLike[str], *, name: str | None = None) -> Trace:
    """Read a trace in whichever format it is: DTR log, graph or execution trace.

    Args:
        source: a file (plain, .gz, .zst) or `archive.zip::PART`. The durations of an execution
            trace stand beside it; see `read_execution_trace`.
        name: short name of the trace; by default that of the file or member.

    Raises:
        InputError: the file cannot be read.
        TraceError: it is in none of the formats, says too little, or something impossible.
    """
    return read_with_notes(source, name=name)[0]


def read_with_notes(
    source: str | os.PathLike[str], *, name: str | None = None
) -> tuple[Trace, list[str]]:
    """A trace, and what to know of it where its format says less; see `read_trace`."""
    path = os.fspath(source)
    content = read_bytes(path)
    name = name or short_name(path)
    schema = schema_of(content)
    if schema is None:
        _check_readable(content, path)
        return _dtr_log(content, name, path), []
    if schema.startswith(GRAPH):
        return parse_graph(content, name=name, path=path), []
    if CHAKRA in schema:
        beside = durations_beside(path)
        found = parse_execution_trace(content, name=name, path=path, durations=beside)
        return found.trace, found.notes()
    raise TraceError(f"a document of schema {shown(schema)}, which is no trace", path=path)


def schema_of(content: bytes) -> str | None:
    """What a JSON object says of itself at its beginning; None: nothing there.

    >>> schema_of(b'{"schema": "dtrdiag.graph/1", "nodes": []}')
    'dtrdiag.graph/1'
    """
    found = _SCHEMA.match(content[:HEAD_BYTES])
    return found[1].decode("utf-8", "replace") if found else None


def is_execution_trace(source: str) -> bool:
    """Whether there is such a file, and it says at its beginning that it is an execution trace.

    Raises:
        InputError: the file cannot be read.
    """
    if not os.path.exists(source) and ARCHIVE_SEPARATOR not in source:
        return False
    with open_source(source) as (stream, _):
        try:
            return CHAKRA in (schema_of(stream.read(HEAD_BYTES)) or "")
        except (OSError, EOFError):
            return False


def _dtr_log(content: bytes, name: str, path: str) -> Trace:
    try:
        return parse_dtr_log(content, name=name, path=path)
    except TraceError:
        fields = _document(content)
        if fields is None:
            raise
        if isinstance(fields.get("schema"), str):
            schema = shown(fields["schema"])
            what = f'a document of schema {schema}, which is told by a "schema" that comes first'
        else:
            what = 'a JSON document, and no DTR log: one of another kind begins with its "schema"'
        raise TraceError(what, path=path) from None


def _document(content: bytes) -> dict[str, Any] | None:
    """The one JSON object that a file is; None: it is not, or an instruction of a DTR log."""
    if content.lstrip()[:1] != b"{":
        return None
    try:
        fields = orjson.loads(content)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) and "INSTRUCTION" not in fields else None


def _check_readable(content: bytes, path: str) -> None:
    """Refuse what is known not to be read, by what it is."""
    if content[:1] == _PROTO and content[1:2] in _PROTOCOLS:
        raise TraceError("a pickle, which may run what it holds, and is never read", path=path)
    if path.removesuffix(".gz").removesuffix(".zst").endswith(PROTOBUF) and not _is_text(content):
        raise TraceError(
            "a Chakra trace as protobuf, which does not say which storage a tensor is of: take the "
            "JSON that it was converted from, as PyTorch's ExecutionTraceObserver writes it",
            path=path,
        )


def _is_text(content: bytes) -> bool:
    return content.lstrip()[:1] == b"{"
