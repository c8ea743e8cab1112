"""Which format is a file of a trace in? It is told by how the content begins, never by its name."""

from __future__ import annotations

import os
import re

import orjson

from dtrdiag.errors import TraceError
from dtrdiag.files import read_bytes
from dtrdiag.trace.builder import shown
from dtrdiag.trace.dtrlog import parse_dtr_log, short_name
from dtrdiag.trace.graphjson import parse_graph
from dtrdiag.trace.model import Trace

HEAD_BYTES = 4096
"""A document says within these what it is."""
GRAPH = "dtrdiag.graph/"
_PROTO, _PROTOCOLS = b"\x80", (b"\x02", b"\x03", b"\x04", b"\x05")
_SCHEMA = re.compile(rb'\A\s*\{[^{}\[\]]*?"schema"\s*:\s*"([^"\\]{1,80})"')


def read_trace(source: str | os.PathLike[str], *, name: str | None = None) -> Trace:
    """Read a trace in whichever format it is: a DTR log or a `dtrdiag.graph/1` document.

    Args:
        source: a file (plain, .gz, .zst) or `archive.zip::PART`.
        name: short name of the trace; by default that of the file or member.

    Raises:
        InputError: the file cannot be read.
        TraceError: it is in none of the formats, or says something impossible.
    """
    path = os.fspath(source)
    content = read_bytes(path)
    name = name or short_name(path)
    schema = schema_of(content)
    if schema is None:
        _check_no_pickle(content, path)
        return _dtr_log(content, name, path)
    if schema.startswith(GRAPH):
        return parse_graph(content, name=name, path=path)
    raise TraceError(f"a document of schema {shown(schema)}, which is no trace", path=path)


def schema_of(content: bytes) -> str | None:
    """What a JSON object says of itself at its beginning; None: nothing there.

    >>> schema_of(b'{"schema": "dtrdiag.graph/1", "nodes": []}')
    'dtrdiag.graph/1'
    """
    found = _SCHEMA.match(content[:HEAD_BYTES])
    return found[1].decode("utf-8", "replace") if found else None


def _dtr_log(content: bytes, name: str, path: str) -> Trace:
    try:
        return parse_dtr_log(content, name=name, path=path)
    except TraceError:
        if _is_document(content):
            raise TraceError(
                'a JSON document, and no DTR log: one of another kind begins with its "schema"',
                path=path,
            ) from None
        raise


def _is_document(content: bytes) -> bool:
    """Whether the file is one JSON object of several lines."""
    if content.lstrip()[:1] != b"{" or not content.strip().count(b"\n"):
        return False
    try:
        return isinstance(orjson.loads(content), dict)
    except ValueError:
        return False


def _check_no_pickle(content: bytes, path: str) -> None:
    if content[:1] == _PROTO and content[1:2] in _PROTOCOLS:
        raise TraceError("a pickle, which may run what it holds, and is never read", path=path)
