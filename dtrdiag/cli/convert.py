"""``dtrdiag traces convert``: how does a trace get into another format?"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Annotated, Any

import typer
import zstandard

from dtrdiag.cli.options import Force, Json, TraceArgument
from dtrdiag.cli.output import check_outputs, note, print_json, print_sentences, write_file
from dtrdiag.cli.sources import load_trace
from dtrdiag.errors import UsageError
from dtrdiag.trace import Trace, write_dtr_log, write_graph
from dtrdiag.trace.chakra import read_execution_trace
from dtrdiag.trace.dtrlog import short_name
from dtrdiag.trace.opening import is_execution_trace
from dtrdiag.units import count, plain_name, short_bytes

CONVERT_SCHEMA = "dtrdiag.convert/1"
GRAPH_FORMAT, LOG_FORMAT = "dtrdiag.graph/1", "DTR log"
_PACKED = (".gz", ".zst")
_FORMATS = {".json": GRAPH_FORMAT, ".log": LOG_FORMAT, ".jsonl": LOG_FORMAT}


def convert(
    trace: TraceArgument,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="The file to write: .log (a DTR log) or .json (a graph), also .gz, .zst.",
        ),
    ],
    durations: Annotated[
        str | None,
        typer.Option(metavar="KINETO", help="The profiler's trace of the same run as TRACE."),
    ] = None,
    costs: Annotated[
        str | None,
        typer.Option(metavar="bytes", help="What stands in for durations that there are not."),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a trace in another format: a DTR log or a graph as JSON.

    The format is that of the file's name. --durations and --costs are for an execution trace of
    PyTorch, which has no costs itself.
    """
    kind = _format(output)
    check_outputs([output], force, inputs=[trace])
    loaded = _loaded(trace, durations, costs)
    content = _packed(
        write_graph(loaded) if kind == GRAPH_FORMAT else write_dtr_log(loaded), output
    )
    write_file(output, content)
    if json:
        print_json(_document(loaded, kind, output, len(content)))
        return
    print_sentences(
        [
            f"Wrote {plain_name(loaded.name)}, a step of {count(loaded.ops, 'op')}, to {output} "
            f"({kind}, {short_bytes(len(content))})."
        ]
    )


def _loaded(text: str, durations: str | None, costs: str | None) -> Trace:
    if durations is None and costs is None:
        return load_trace(text)
    if durations is not None and costs is not None:
        raise UsageError("give --durations or --costs, not both")
    if not is_execution_trace(text):
        option = "--durations" if costs is None else "--costs"
        raise UsageError(f"{option} is for an execution trace of PyTorch", path=text)
    found = read_execution_trace(text, durations=durations, costs=costs, name=short_name(text))
    for each in found.notes():
        note(f"dtrdiag: note: {text}: {each}")
    return found.trace


def _format(output: str) -> str:
    path = Path(output)
    suffix = Path(path.stem).suffix if path.suffix in _PACKED else path.suffix
    if suffix not in _FORMATS:
        raise UsageError(
            f"a name that ends in {', '.join(_FORMATS)} says the format, also before .gz or .zst",
            path=output,
        )
    return _FORMATS[suffix]


def _packed(content: bytes, output: str) -> bytes:
    if output.endswith(".gz"):
        return gzip.compress(content, mtime=0)
    if output.endswith(".zst"):
        return zstandard.ZstdCompressor(level=10).compress(content)
    return content


def _document(trace: Trace, kind: str, output: str, size: int) -> dict[str, Any]:
    return {
        "schema": CONVERT_SCHEMA,
        "file": output,
        "format": kind,
        "bytes": size,
        "trace": {
            "name": trace.name,
            "sha256": trace.sha256,
            "ops": trace.ops,
            "tensors": trace.tensors,
        },
    }
