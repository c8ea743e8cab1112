"""``dtrdiag traces``: which traces are known, what is in one, how are they got and converted?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import attrs
import typer

from dtrdiag.caching import cache_dir
from dtrdiag.cli.convert import convert
from dtrdiag.cli.helptext import GroupHelp, VerbHelp
from dtrdiag.cli.options import Force, Json, TraceArgument
from dtrdiag.cli.output import print_json, print_sentences, print_table
from dtrdiag.cli.sources import load_trace, peak_of
from dtrdiag.files import ARCHIVE_SEPARATOR, open_file
from dtrdiag.instrumentation.pytorch.logsink import recording_of
from dtrdiag.rendering.facts import known_words, trace_table, trace_words, traces_table
from dtrdiag.trace import Trace
from dtrdiag.trace.catalog import fetch as fetch_archive
from dtrdiag.trace.catalog import known_traces
from dtrdiag.trace.public import ARCHIVE_NAME, PUBLIC_TRACES, TRACES_VARIABLE

TRACES_SCHEMA = "dtrdiag.traces/1"
TRACE_SCHEMA = "dtrdiag.trace/1"
FETCH_SCHEMA = "dtrdiag.fetch/1"

app = typer.Typer(rich_markup_mode=None, cls=GroupHelp)


@app.callback(invoke_without_command=True)
def traces(context: typer.Context) -> None:
    """List known traces; facts of one; get the public ones; convert one."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list", cls=VerbHelp)
def list_traces(json: Json = False) -> None:
    """List the traces with a name: bundled and public ones."""
    known = known_traces()
    if json:
        print_json({"schema": TRACES_SCHEMA, "traces": [attrs.asdict(entry) for entry in known]})
        return
    here = sum(entry.available for entry in known)
    print_sentences(known_words(known))
    print_table(traces_table(known))
    if here < len(known):
        print_sentences(["", "Get the missing ones with: dtrdiag traces fetch"])


@app.command(cls=VerbHelp)
def info(trace: TraceArgument, json: Json = False) -> None:
    """Tell facts of a trace: sizes, cost, peak of memory."""
    loaded = load_trace(trace)
    document = trace_document(loaded)
    if json:
        print_json(document)
        return
    print_sentences(trace_words(document))
    print_table(trace_table(document))


@app.command(cls=VerbHelp)
def fetch(
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="PATH-OR-URL", help="The archive (where it is published)."),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Get the public traces into the cache, checked by SHA-256.

    Nothing is downloaded if the cache or DTRDIAG_TRACES has them already (unless --force or
    --from).
    """
    if source is not None and os.path.exists(source) and not os.path.isdir(source):
        with open_file(source):
            pass  # a pipe or device is refused: it may wait, or never end
    found = None if force or source is not None else _named_place()
    archive = found or str(fetch_archive(source, force=force))
    names = [entry.name for entry in known_traces() if entry.kind == "public"]
    if json:
        print_json({"schema": FETCH_SCHEMA, "archive": archive, "traces": names})
        return
    print_sentences([f"The public traces are in {archive}: {', '.join(names)}."])
    if found is not None:
        print_sentences([f"{TRACES_VARIABLE} leads there, so nothing was fetched."])


app.command(cls=VerbHelp)(convert)


def _named_place() -> str | None:
    """The archive or folder of all public traces to which DTRDIAG_TRACES leads; None: to none."""
    if not os.environ.get(TRACES_VARIABLE):
        return None
    sources = [trace.locate() for trace in PUBLIC_TRACES.values()]
    places = {None if source is None else _place(source) for source in sources}
    cached = str(cache_dir() / ARCHIVE_NAME)
    return places.pop() if len(places) == 1 and cached not in places else None


def _place(source: str) -> str:
    archive, separator, _ = source.rpartition(ARCHIVE_SEPARATOR)
    return archive if separator else str(Path(source).parent)


def trace_document(trace: Trace) -> dict[str, Any]:
    """Facts of a trace as a `dtrdiag.trace/1` document; a null `peak`: ratios have no base."""
    sizes = trace.tensor_size_bytes
    return {
        "schema": TRACE_SCHEMA,
        "name": trace.name,
        "path": trace.path,
        "sha256": trace.sha256,
        "ops": trace.ops,
        "tensors": trace.tensors,
        "storages": trace.storages,
        "steps": trace.steps,
        "constant_bytes": trace.constant_bytes,
        "total_bytes": int(sizes.sum()),
        "largest_storage_bytes": int(sizes.max(initial=0)),
        "baseline_cost": trace.baseline_cost_ns,
        "peak": peak_of(trace),
        "recording": recording_of(trace.preamble),
    }
