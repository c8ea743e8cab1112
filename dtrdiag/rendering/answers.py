"""What do a run and a sweep say in a sentence or two?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from dtrdiag.rendering.units import both_bytes, count, overhead_words, plain_name

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
    ended = {
        "ok": f"it finishes with an overhead of {overhead_words(run['overhead'])}",
        "oom": "it runs out of memory",
        "thrashed": "it is stopped by the overhead limit",
    }.get(run["outcome"], f"it ends as {plain_name(run['outcome'])}")
    return [
        f"{plain_name(run['trace']['name'])} under {plain_name(run['policy'])}, {where}: {ended}, "
        f"after {count(run['evictions']['pressure'], 'eviction')} to make room and "
        f"{count(run['remats'], 'rematerialisation')}."
    ]


def sweep_words(runs: Iterable[Document]) -> list[str]:
    """The stretches of budgets with the same outcome, a line for each trace and policy.

    Args:
        runs: `dtrdiag.run/1` documents, those of a trace and policy side by side, in the order of
            their budgets.
    """
    sentences = []
    for (trace, policy), group in groupby(runs, lambda r: (r["trace"]["name"], r["policy"])):
        stretches = [
            _stretch(outcome, list(same)) for outcome, same in groupby(group, lambda r: r["outcome"])
        ]
        sentences.append(f"{plain_name(trace)} under {plain_name(policy)}: {', '.join(stretches)}.")
    return sentences


def _stretch(outcome: str, runs: Sequence[Document]) -> str:
    first, last = _place(runs[0]), _place(runs[-1])
    return f"{outcome} at {first}" if len(runs) == 1 else f"{outcome} from {first} to {last}"


def _place(run: Document) -> str:
    if run["ratio"] is not None:
        return f"{run['ratio']:.12g}"
    return "no budget" if run["budget"] is None else f"{run['budget']:,} B"
