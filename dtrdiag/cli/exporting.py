"""Which formats does ``dtrdiag export`` know, and how is each of them written?

A file is written under another name and takes its own when it is finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import attrs

from dtrdiag.analyses import dependency_graph, neighbourhood
from dtrdiag.analyses.map_table import map_columns
from dtrdiag.cli.output import write_file
from dtrdiag.errors import OutputError, UsageError
from dtrdiag.events.parquet import load_pyarrow
from dtrdiag.experiments.map_files import read_map, write_map
from dtrdiag.instrumentation import JsonlWriter, ParquetWriter
from dtrdiag.instrumentation.partial import PartialFile
from dtrdiag.log import LogReader
from dtrdiag.log.parquet import ParquetReader
from dtrdiag.rendering.dot import DRAWN_EDGES, graph_dot
from dtrdiag.rendering.eventtable import write_event_table, write_table
from dtrdiag.rendering.graphml import graphml
from dtrdiag.rendering.perfetto import Timeline, write_timeline
from dtrdiag.rendering.trackevents import load_perfetto
from dtrdiag.units import both_bytes, count, duration, plain_name


def _nothing() -> None:
    """What a format needs that is always there."""


def _pyarrow() -> None:
    load_pyarrow()


def _perfetto() -> None:
    load_perfetto()


@attrs.frozen
class Format:
    """A format of files.

    Attributes:
        suffixes: names that suit it, the usual one first.
        opens: which tools take it, in a sentence.
        check: raises `UsageError` where something is not installed that it needs.
        graph: whether it holds a graph, and so may hold a part of one.
    """

    suffixes: tuple[str, ...]
    opens: str
    check: Callable[[], None] = _nothing
    graph: bool = False


FORMATS = {
    "perfetto": Format(
        (".pftrace", ".perfetto-trace", ".perfetto"),
        "Open it at https://ui.perfetto.dev (it stays on your machine).",
        _perfetto,
    ),
    "graphml": Format(
        (".graphml", ".xml"), "Gephi, yEd, Cytoscape and networkx read it.", graph=True
    ),
    "dot": Format((".dot", ".gv"), "Graphviz draws it.", graph=True),
    "csv": Format((".csv",), "Spreadsheets, R and pandas read it."),
    "parquet": Format(
        (".parquet",), "pandas, Polars, DuckDB and every verb of dtrdiag read it.", _pyarrow
    ),
    "jsonl": Format((".jsonl", ".jsonl.gz", ".jsonl.zst"), "Every verb of dtrdiag reads it."),
}
"""Every format by its name, in the order of the help text."""
MAP_FORMATS = ("csv", "parquet")


@attrs.frozen
class Exported:
    """What a file holds.

    Attributes:
        words: what it holds, in sentences.
        counts: the same in numbers.
        problem: where the log is cut; None if it is complete.
    """

    words: list[str]
    counts: dict[str, Any]
    problem: str | None = None


def export_run(
    log: LogReader,
    name: str,
    target: str,
    force: bool,
    *,
    at: int | None = None,
    around: int | None = None,
    hops: int | None = None,
) -> Exported:
    """Write a run in a format.

    Args:
        log: the run.
        name: one of `FORMATS`.
        target: the file.
        force: replace it if it exists.
        at: for graphs, `seq` of the last event to take in.
        around: for graphs, the storage in the middle.
        hops: for graphs, the largest distance from it; None: 2.

    Raises:
        DtrdiagError: the log cannot be read or has no such event or storage, a package is not
            installed, or the file cannot be written.
    """
    if FORMATS[name].graph:
        return _export_graph(log, name, target, at, (around, 2 if hops is None else hops))
    if name == "perfetto":
        with _opened(target, force) as stream:
            made = write_timeline(log, stream)
        return _timeline(log, made)
    if name == "csv":
        with _opened(target, force) as stream:
            rows = write_event_table(log, stream)
    else:
        rows = _write_log(log, name, target, force)
    words = f"{count(rows, 'event')} of {_run(log)}, one a row."
    return Exported([words], {"events": rows}, log.problem)


def export_map(path: str, name: str, target: str, force: bool) -> Exported:
    """Write a saved map, a row for each interval.

    Raises:
        UsageError: the format has no rows, or a package is not installed.
        DtrdiagError: the map cannot be read, or the file not be written.
    """
    if name not in MAP_FORMATS:
        raise UsageError(f"a saved map goes as {' or '.join(MAP_FORMATS)}, not {name}", path=path)
    FORMATS[name].check()
    saved = read_map(path)
    known = saved.between(saved.from_bytes, saved.to_bytes)
    if name == "parquet":
        write_map(target, saved)
    else:
        columns = map_columns(known)
        with _opened(target, force) as stream:
            write_table(tuple(columns), zip(*columns.values(), strict=True), stream)
    rows = len(known.runs)
    words = (
        f"{count(rows, 'interval')} of budgets of {plain_name(known.header.trace_name)}, one a row."
    )
    return Exported([words], {"intervals": rows})


def _export_graph(
    log: LogReader, name: str, target: str, at: int | None, part: tuple[int | None, int]
) -> Exported:
    found = dependency_graph(log, at)
    around, hops = part
    if around is not None:
        found = neighbourhood(found, around, hops)
    write_file(target, graphml(found) if name == "graphml" else graph_dot(found).encode())
    nodes, edges = found.number_of_nodes(), found.number_of_edges()
    words = [
        f"{count(nodes, 'storage')} and {count(edges, 'edge')} of {_run(log)}, after event "
        f"{found.graph['seq']:,}."
    ]
    if name == "dot" and edges > DRAWN_EDGES:
        words.append(
            f"That is more than {DRAWN_EDGES} edges, which `dot` may not draw in a minute: "
            "take --around STORAGE --hops N for a part of it."
        )
    counts = {"seq": found.graph["seq"], "storages": nodes, "edges": edges}
    return Exported(words, counts, log.problem)


def _timeline(log: LogReader, made: Timeline) -> Exported:
    evictions = sum(made.evictions.values())
    words = [
        f"{_run(log)} over {duration(made.clock_ns)} of its clock: "
        f"{count(made.computes, 'first execution')}, "
        f"{count(made.remats, 'rematerialisation')} and {count(evictions, 'eviction')}, "
        f"at most {both_bytes(made.peak_bytes)} in use."
    ]
    if made.unfinished:
        words.append(f"{count(made.unfinished, 'op')} had begun and had not run at the end.")
    counts = attrs.asdict(made) | {"evictions": dict(made.evictions)}
    return Exported(words, counts, log.problem)


def _write_log(log: LogReader, name: str, target: str, force: bool) -> int:
    rows = 0
    if name == "jsonl":
        with JsonlWriter(target, force=force) as lines:
            for rows, event in enumerate(log, 1):  # noqa: B007 - the last number counts
                lines(event)
        return rows
    with ParquetWriter(target, force=force) as writer:
        if isinstance(log, ParquetReader):
            for columns in log.batches():
                writer.write_batch(columns)
                rows += len(columns)
            return rows
        for rows, event in enumerate(log, 1):  # noqa: B007 - the last number counts
            writer(event)
    return rows


@contextmanager
def _opened(target: str, force: bool) -> Iterator[BinaryIO]:
    """A stream to a file that is there only if the block is left without an error."""
    partial = PartialFile(target, force=force)
    try:
        yield partial.stream
    except OSError as error:
        partial.discard()
        what = f"cannot be written: {error.strerror or error}"
        raise OutputError(what, path=target) from None
    except BaseException:
        partial.discard()
        raise
    partial.publish()


def _run(log: LogReader) -> str:
    return f"{plain_name(log.header.trace_name)} under {plain_name(log.header.policy)}"
