"""Which commands make a run again, and ask more of it?"""

from __future__ import annotations

import shlex

import attrs

from dtrdiag.analyses.summary import RunSummary
from dtrdiag.rendering.commands import changed, run_command
from dtrdiag.rendering.pages.parts import Commands, Section
from dtrdiag.units import both_bytes, plain_name

_LOG = "run.parquet"


def commands_section(
    summary: RunSummary, log_name: str, seq: int | None, forbid: str | None = None
) -> Section:
    """The section of commands.

    Args:
        summary: of the run.
        log_name: the file name of its log.
        seq: an event that is worth looking at; None: none is.
        forbid: the option of `whatif` that keeps an eviction from happening; None: there is none.
    """
    header = summary.header
    if header.runtime != "dtrdiag":
        log = shlex.quote(plain_name(log_name, 200))
        lines = _about_log(summary, log, seq)
        parts = [Commands("The run is another runtime's. These ask more of its log.", lines)]
        return Section("commands", "Go on from here", tuple(parts))
    budgets = () if header.budget_bytes is None else (header.budget_bytes,)
    again = run_command(header, *budgets)
    parts = [
        Commands(
            f"Make this run again, and keep its log.{_file_words(summary)}",
            (f"{again} -o {_LOG}",),
        ),
        Commands("Ask more of it.", _about_log(summary, _LOG, seq, forbid)),
    ]
    beside = _neighbour(summary)
    if beside is not None and not changed(header):
        words = (
            "See where the run at the nearest budget that decides otherwise parts from it: "
            f"{beside.words}."
        )
        command = run_command(header, *budgets, beside.budget_bytes, verb="diff")
        parts.append(Commands(words, (command,)))
    return Section("commands", "Go on from here", tuple(parts))


def _file_words(summary: RunSummary) -> str:
    sha256 = summary.header.trace_sha256
    if sha256 is None:
        return ""
    name = plain_name(summary.header.trace_name, 60)
    return (
        f" If `dtrdiag traces list` does not know {name}, put the trace's file in its place; the "
        f"SHA-256 of its text, unpacked, begins {sha256[:12]}."
    )


def _about_log(
    summary: RunSummary, log: str, seq: int | None, forbid: str | None = None
) -> tuple[str, ...]:
    lines = [f"dtrdiag oom {log}"] if summary.outcome == "oom" else []
    lines.append(f"dtrdiag chains {log}")
    if seq is not None:
        lines.append(f"dtrdiag replay {log} --at {seq}")
    if forbid is not None:
        lines.append(f"dtrdiag whatif {log} {forbid}")
    return tuple(lines)


@attrs.frozen
class _Neighbour:
    """A budget at which something is decided otherwise, and where it lies."""

    budget_bytes: int
    words: str


def _neighbour(summary: RunSummary) -> _Neighbour | None:
    """The nearest budget that changes anything; of two as near the larger; None: there is none."""
    budget = summary.header.budget_bytes
    if budget is None:
        return None
    low, high = summary.interval_lo_bytes - 1, summary.interval_hi_bytes
    if low >= 1 and (high is None or budget - low < high - budget):
        return _Neighbour(low, f"{both_bytes(budget - low)} less")
    if high is None:
        return None
    return _Neighbour(high, f"{both_bytes(high - budget)} more")
