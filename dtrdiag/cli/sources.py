"""What do the arguments TRACE and RUN stand for?

A TRACE is the name of a known trace, a DTR log file, or `archive.zip::MEMBER`. A RUN is a saved
event log, told by how it begins and not by its name, or a TRACE with run options; then the run is
simulated and its log kept in a temporary file, because a long run does not fit into memory.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from dtrdiag.cli.activity import doing, reading, tell
from dtrdiag.cli.options import Rules, option_name
from dtrdiag.cli.output import note
from dtrdiag.cli.pieces import check_no_file_of_sweep, check_no_later_part, first_fields
from dtrdiag.cli.values import parse_ratio, parse_size
from dtrdiag.errors import AnalysisError, LogError, SimulationError, UsageError
from dtrdiag.events.parquet import parquet_available
from dtrdiag.experiments.map_files import holds_map
from dtrdiag.files import ARCHIVE_SEPARATOR
from dtrdiag.hooks import Hooks
from dtrdiag.log import LogReader, is_parquet, is_snapshot, open_log
from dtrdiag.simulator import (
    RunConfig,
    RunResult,
    baseline_peak_bytes,
    budget_from_ratio,
    simulate,
    simulate_in_columns,
)
from dtrdiag.trace import Trace
from dtrdiag.trace.catalog import known_traces, resolve_with_notes
from dtrdiag.units import plain_name


@attrs.frozen
class RunOptions:
    """Policy, budget and rules of one run as given on the command line; None: not given."""

    policy: str | None = None
    ratio: str | None = None
    budget: str | None = None
    rules: Rules = Rules()

    def given(self) -> list[str]:
        """The options that were given, as people write them."""
        own = ("policy", "ratio", "budget")
        return [option_name(name) for name in own if getattr(self, name) is not None] + (
            self.rules.given()
        )

    def config(self, trace: Trace) -> RunConfig:
        """The run that the options ask for on a trace.

        Raises:
            UsageError: an option cannot be used, both a ratio and a budget are given, or the trace
                has no peak that a ratio could refer to.
        """
        config = self.rules.config(self.policy)
        if self.ratio is not None and self.budget is not None:
            raise UsageError("give a ratio (-r) or a budget (-b), not both")
        if self.ratio is not None:
            return at_ratio(config, trace, parse_ratio(self.ratio))
        budget = None if self.budget is None else parse_size(self.budget)
        return at_budget(config, trace, budget)

    def check(self) -> None:
        """Refuse options that no trace could make usable, before one is read."""
        if self.ratio is not None and self.budget is not None:
            raise UsageError("give a ratio (-r) or a budget (-b), not both")
        if self.ratio is not None:
            parse_ratio(self.ratio)
        if self.budget is not None:
            parse_size(self.budget)
        self.rules.config(self.policy)


def peak_of(trace: Trace) -> int | None:
    """The base of ratios; None where the trace uses a tensor after its last release."""
    try:
        return baseline_peak_bytes(trace)
    except SimulationError:
        return None


def at_ratio(config: RunConfig, trace: Trace, ratio: float) -> RunConfig:
    """The run at a ratio of the trace's peak.

    Raises:
        UsageError: the trace has no peak, or the budget is below 1 byte.
    """
    peak_bytes = peak_of(trace)
    if peak_bytes is None:
        raise UsageError(
            "a ratio needs the peak of a run that frees dead storages, and this trace uses a "
            "tensor after its last release: give a budget (-b)",
            path=trace.path,
        )
    budget_bytes = budget_from_ratio(peak_bytes, ratio)
    return attrs.evolve(config, budget_bytes=budget_bytes, peak_bytes=peak_bytes, ratio=ratio)


def at_budget(config: RunConfig, trace: Trace, budget_bytes: int | None) -> RunConfig:
    """The run at a budget in bytes; None: unlimited."""
    return attrs.evolve(config, budget_bytes=budget_bytes, peak_bytes=peak_of(trace))


def load_trace(text: str) -> Trace:
    """The trace that an argument TRACE stands for.

    Raises:
        DtrdiagError: no such trace, or it cannot be read.
    """
    if holds_map(text):
        raise UsageError("this is a saved map, not a trace", path=text)
    check_no_snapshot(text)
    if is_event_log(text):
        raise UsageError(
            "an event log (of a run), not a trace; oom, chains, diff, graph and replay read it",
            path=text,
        )
    reading(text)
    if os.path.isfile(text) and zipfile.is_zipfile(text):
        raise UsageError(f"an archive: name a member of it, as {text}::PART", path=text)
    trace, notes = resolve_with_notes(text)
    for each in notes:
        note(f"dtrdiag: note: {text}: {each}")
    return trace


def record(trace: Trace, config: RunConfig, path: str | Path, force: bool = False) -> RunResult:
    """Simulate a run and write its log as it goes.

    Raises:
        DtrdiagError: of the simulation, or of writing the log.
    """
    # Loaded here, so that a verb about a saved log does not wait for what writes one.
    from dtrdiag.instrumentation import ParquetWriter, log_writer

    doing(f"simulating {plain_name(trace.name)} under {plain_name(config.policy)}")
    with log_writer(path, force=force) as writer:
        if isinstance(writer, ParquetWriter):
            return simulate_in_columns(trace, config, writer.write_batch)
        hooks = Hooks()
        hooks.subscribe(writer)
        return simulate(trace, config, hooks)


def is_event_log(text: str) -> bool:
    """Whether an argument names a file or member that begins with the header of an event log.

    Any Parquet file passes for one: it is no trace, and the reader of logs says what it is.

    Raises:
        UsageError: it is a later part of a log, or out of a sweep's folder.
    """
    if not os.path.isfile(text) and ARCHIVE_SEPARATOR not in text:
        return False
    if os.path.isfile(text):
        check_no_file_of_sweep(text)
    if is_parquet(text):
        return True
    fields = first_fields(text)
    if fields.get("event") == "run":
        return True
    check_no_later_part(text, fields)
    return False


def check_no_map(text: str) -> None:
    """Refuse a saved map where an event log is wanted.

    Raises:
        UsageError: the argument names one.
    """
    if holds_map(text):
        raise UsageError("this is a saved map, not an event log", path=text)


def is_file_of_snapshot(text: str) -> bool:
    """Whether an argument names a file or member that begins like a memory snapshot."""
    return (os.path.isfile(text) or ARCHIVE_SEPARATOR in text) and is_snapshot(text)


def check_no_snapshot(text: str) -> None:
    """Refuse a memory snapshot where a trace or a log is wanted.

    Raises:
        UsageError: the argument names one.
    """
    if is_file_of_snapshot(text):
        raise UsageError(
            "a memory snapshot (or another pickle), which names no operators and cannot be "
            "simulated; dtrdiag report shows one",
            path=text,
        )


@attrs.frozen
class OpenRun:
    """A run whose log can be read.

    Attributes:
        log: the log, saved or temporary.
        result: what the simulation came to; None for a saved log.
    """

    log: LogReader
    result: RunResult | None = None

    def complete(self, document: dict[str, Any]) -> dict[str, Any]:
        """A `dtrdiag.run/1` document made from the log, with what only the simulation knows."""
        if self.result is None:
            return document
        seconds = self.result.simulate_seconds
        return document | {"engine": self.result.engine, "simulate_seconds": seconds}


def watched_log(path: str) -> LogReader:
    """The reader of a log, whose reading is told to people who watch a terminal.

    Raises:
        DtrdiagError: it is no log.
    """
    if not os.path.exists(path) and path in {entry.name for entry in known_traces()}:
        raise UsageError(f"{path} is a trace; write a log of it: dtrdiag run {path} -o LOG.jsonl")
    check_no_snapshot(path)
    reading(path)
    log = open_log(path)
    log.watch = tell
    return log


@contextmanager
def opened_run(text: str, options: RunOptions) -> Iterator[OpenRun]:
    """The log of the run that an argument RUN stands for.

    Raises:
        UsageError: run options were given for a saved log, or one of them cannot be used.
        DtrdiagError: the log or trace cannot be read, or the run cannot be simulated.
    """
    check_no_map(text)
    if is_event_log(text):
        given = options.given()
        if given:
            raise UsageError(f"{given[0]} does not apply to a saved log, which is a run", path=text)
        try:
            yield OpenRun(watched_log(text))
        except (AnalysisError, LogError) as error:
            if error.path is not None:
                raise
            # An analysis sees events, not files.
            raise type(error)(error.what, path=text) from error
        return
    options.check()
    trace = load_trace(text)
    with recorded(trace, options.config(trace)) as run:
        yield run


@contextmanager
def recorded(trace: Trace, config: RunConfig) -> Iterator[OpenRun]:
    """A simulated run, its log in a temporary file that goes away afterwards."""
    with tempfile.TemporaryDirectory(prefix="dtrdiag-") as folder:
        # Parquet is written several times faster, and some analyses read it in columns.
        path = Path(folder) / ("run.parquet" if parquet_available() else "run.jsonl.zst")
        result = record(trace, config, path)
        doing(f"reading what {plain_name(trace.name)} came to")
        log = open_log(path)
        log.watch = tell
        yield OpenRun(log, result)
