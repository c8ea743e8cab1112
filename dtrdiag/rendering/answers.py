"""What do a run and a sweep say in a sentence or two?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.table import Table
from rich.text import Text

from dtrdiag.analyses.summary import RunSummary
from dtrdiag.rendering.tables import outcome_text
from dtrdiag.units import (
    NOT_KNOWN,
    both_bytes,
    changes_words,
    count,
    overhead_words,
    plain_name,
)

Document = Mapping[str, Any]


def run_words(run: Document) -> list[str]:
    """How a run ended.

    Args:
        run: a `dtrdiag.run/1` document.
    """
    budget, ratio = run["budget"], run["ratio"]
    where = "without a budget" if budget is None else f"at a budget of {both_bytes(budget)}"
    if ratio is not None:
        where += f", {ratio:.12g} of the peak"
    overhead = run["overhead"]
    # A live run need not know what its program costs without rematerialisation.
    known = "" if overhead is None else f" with an overhead of {overhead_words(overhead)}"
    ended = {
        "ok": f"it finishes{known}",
        "oom": "it runs out of memory",
        "thrashed": "it is stopped by the overhead limit",
    }.get(run["outcome"], f"it ends as {plain_name(run['outcome'])}")
    return [
        f"{plain_name(run['trace']['name'])} under {_under(run)}, {where}: {ended}, "
        f"after {count(run['evictions']['pressure'], 'eviction')} to make room and "
        f"{count(run['remats'], 'rematerialisation')}."
    ]


def contradiction_words(summary: RunSummary, which: str = "the log") -> list[str]:
    """That a log states counts which are not those of its events; nothing where they are.

    Args:
        summary: of the log, by `summarise` or `diff_runs`.
        which: what to call it.
    """
    if not summary.differing:
        return []
    said = "; ".join(
        f"{name} is {stated:,} there and {counted:,} by its events"
        for name, stated, counted in summary.differing
    )
    return [f"Careful: {which} contradicts itself in what its last event counts: {said}."]


def next_words(run: Document, log: str | None) -> list[str]:
    """Which verb says more about how a run ended.

    Args:
        run: a `dtrdiag.run/1` document.
        log: the file that has its events; None: there is none.
    """
    verb = {"oom": "oom", "thrashed": "chains"}.get(run["outcome"])
    if verb is None:
        return []
    how = f"dtrdiag {verb} {log}" if log is not None else f"dtrdiag {verb}, with the same options,"
    return [f"{how} says why."]


def sweep_words(runs: Iterable[Document]) -> list[str]:
    """The outcomes of the budgets tried, a line for each trace and policy.

    Neighbours with the same outcome are told together; of budgets between them nothing is said.

    Args:
        runs: `dtrdiag.run/1` documents, those of a trace and policy side by side, in the order of
            their budgets.
    """
    sentences = []
    for (trace, under), group in groupby(runs, lambda r: (r["trace"]["name"], _under(r))):
        same = [list(each) for _, each in groupby(group, lambda r: r["outcome"])]
        tried = sum(map(len, same))
        where = "at the budget tried" if tried == 1 else f"at the {tried:,} budgets tried"
        stretches = ", ".join(_stretch(each) for each in same)
        sentences.append(f"{plain_name(trace)} under {under}, {where}: {stretches}.")
        sentences += _surprise([run for each in same for run in each])
    return sentences


def _surprise(runs: Sequence[Document]) -> list[str]:
    """Where more memory does harm: a run that is out of memory above one that finishes."""
    sized = sorted((run for run in runs if run["budget"] is not None), key=lambda r: r["budget"])
    done = [run for run in sized if run["outcome"] == "ok"]
    if not done:
        nowhere = len(runs) > 1 and all(run["outcome"] != "ok" for run in runs)
        return ["It finishes at none of them."] if nowhere else []
    least = done[0]
    worse = [r for r in sized if r["outcome"] == "oom" and r["budget"] > least["budget"]]
    if worse:
        return [
            f"So more memory does not always help: it finishes at {_place(least)}, and runs out of "
            f"memory at {_place(worse[-1])}."
        ]
    dearest = max(done, key=lambda run: (run["overhead"] or 0, run["budget"]))
    if (dearest["overhead"] or 0) > (least["overhead"] or 0):
        return [
            f"So more memory does not always help: it costs {overhead_words(least['overhead'])} at "
            f"{_place(least)}, and {overhead_words(dearest['overhead'])} at {_place(dearest)}."
        ]
    return []


def sweep_tables(runs: Iterable[Document]) -> Iterator[Table]:
    """A table for each trace and policy, a run a row, in the order given; arguments as above.

    A table for each keeps them narrow: long sweeps are read in terminals of 80 columns.
    """
    for (trace, under), group in groupby(runs, lambda r: (r["trace"]["name"], _under(r))):
        table = Table(title=Text(f"{plain_name(trace)}, {under}"))
        rows = list(group)
        ratios = any(run["ratio"] is not None for run in rows)
        for name in ("ratio", "budget") if ratios else ("budget",):
            table.add_column(name, justify="right")
        table.add_column("outcome")
        for name in ("overhead", "remats", "evicted for room", "evicted in all"):
            table.add_column(name, justify="right")
        for run in rows:
            ratio = NOT_KNOWN if run["ratio"] is None else f"{run['ratio']:.12g}"
            table.add_row(
                *([ratio] if ratios else []),
                NOT_KNOWN if run["budget"] is None else f"{run['budget']:,}",
                outcome_text(run["outcome"]),
                overhead_words(run["overhead"]),
                f"{run['remats']:,}",
                f"{run['evictions']['pressure']:,}",
                f"{run['evictions']['total']:,}",
            )
        yield table


def _under(run: Document) -> str:
    changes = changes_words(run.get("semantics"), run.get("interventions"))
    return plain_name(run["policy"]) + changes


def _stretch(runs: Sequence[Document]) -> str:
    first, last, outcome = _place(runs[0]), _place(runs[-1]), plain_name(runs[0]["outcome"])
    return f"{outcome} at {first}" if len(runs) == 1 else f"{outcome} at {first} to {last}"


def _place(run: Document) -> str:
    if run["ratio"] is not None:
        return f"{run['ratio']:.12g}"
    return "no budget" if run["budget"] is None else f"{run['budget']:,} B"
