"""Which commands make a run again, and ask more of it?"""

from __future__ import annotations

import shlex

from dtrdiag.analyses.summary import RunSummary
from dtrdiag.rendering.commands import changed, run_command
from dtrdiag.rendering.pages.parts import Commands, Section
from dtrdiag.rendering.units import plain_name

_LOG = "run.parquet"


def commands_section(summary: RunSummary, log_name: str, seq: int | None) -> Section:
    """The section of commands.

    Args:
        summary: of the run.
        log_name: the file name of its log.
        seq: an event that is worth looking at; None: none is.
    """
    header = summary.header
    if header.runtime != "dtrdiag":
        log = shlex.quote(plain_name(log_name, 200))
        parts = [Commands("The run is another runtime's. Of its log one may ask:", ())]
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
        Commands("Ask more of it.", _about_log(summary, _LOG, seq)),
    ]
    beside = _neighbour(summary)
    if beside is not None and not changed(header):
        parts.append(
            Commands(
                "See where the run at the nearest budget that decides otherwise parts from it.",
                (run_command(header, *budgets, beside, verb="diff"),),
            )
        )
    return Section("commands", "Go on from here", tuple(parts))


def _file_words(summary: RunSummary) -> str:
    sha256 = summary.header.trace_sha256
    if sha256 is None:
        return ""
    name = plain_name(summary.header.trace_name, 60)
    return (
        f" If `dtrdiag traces list` does not know {name}, put the trace's file in its place; its "
        f"SHA-256 begins {sha256[:12]}."
    )


def _about_log(summary: RunSummary, log: str, seq: int | None) -> tuple[str, ...]:
    lines = [f"dtrdiag oom {log}"] if summary.outcome == "oom" else []
    lines.append(f"dtrdiag chains {log}")
    if seq is not None:
        lines.append(f"dtrdiag replay {log} --at {seq}")
    return tuple(lines)


def _neighbour(summary: RunSummary) -> int | None:
    """The next budget above that changes anything, or else the next below."""
    if summary.header.budget_bytes is None:
        return None
    if summary.interval_hi_bytes is not None:
        return summary.interval_hi_bytes
    return summary.interval_lo_bytes - 1 if summary.interval_lo_bytes > 1 else None
