"""How does a comparison of policies over a range of budgets look, in words and as tables?

All of it is made from a `dtrdiag.ablate/1` document.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from dtrdiag.analyses.effects import CANNOT_SHOW, CENSORED, LACKS, SHOWS, WEAKER
from dtrdiag.units import (
    LONG_NAME,
    NOT_KNOWN,
    changes_words,
    count,
    exact_bytes,
    plain_name,
)

Document = Mapping[str, Any]

_EFFECTS = {
    "inversions": "inverted",
    "upward": "rise",
    "cliff": "cliff",
    "thrash": "stopped",
    "entropy": "entropy",
}
"""What each effect is called in sentences and tables alike."""
_SHARES = ("inversions", "thrash")
_TERMS = {"size-staleness": "size x staleness", "neighbours": "estar or eq"}
_ANSWERS = {"yes": "yes", "no": "no", "in_part": "in part", "undecided": "?"}
_ANSWERS_TOLD = _ANSWERS | {"undecided": "undecided"}
_VERDICTS = {"knife_edge": "knife-edge"}
_STATES = (
    (SHOWS, "shows it", "show it"),
    (WEAKER, "is weaker", "are weaker"),
    (LACKS, "lacks it", "lack it"),
    (CENSORED, "is censored", "are censored"),
    (CANNOT_SHOW, "cannot show it", "cannot show it"),
)
_TOLD_TERMS = ("size", "staleness", "size-staleness", "neighbours")


def ablation_words(document: Document) -> list[str]:
    """What the comparison comes to: the range, then each effect of the reference policy.

    Args:
        document: of an ablation.
    """
    return [_range_words(document), *_noise_words(document), *_effect_words(document)]


def _range_words(document: Document) -> str:
    low, high = (exact_bytes(document[name]) for name in ("from", "to"))
    runs = sum(variant["measures"]["intervals"]["total"] for variant in document["variants"])
    limit = document["overhead_limit"]
    changes = changes_words(document["semantics"], document["interventions"])
    return (
        f"{plain_name(document['trace']['name'])}{changes}, budgets from {low} to {high}, under "
        f"{count(len(document['variants']), 'policy', 'policies')}: {count(runs, 'interval')} in "
        f"all, {'without an overhead limit' if limit is None else f'overhead limit {limit:g}'}."
    )


def _noise_words(document: Document) -> list[str]:
    noise = document["noise"]
    if noise is None:
        return []
    return [
        f"Each policy was also mapped with the costs of all ops changed by up to "
        f"{100 * noise['epsilon']:g} %, for {count(len(noise['seeds']), 'seed')}."
    ]


def _effect_words(document: Document) -> Iterator[str]:
    reference = _label(document, document["reference"])
    for name, effect in document["effects"].items():
        what = _EFFECTS[name]
        figure = _figure(name, effect["policies"][document["reference"]])
        if not effect["terms"]:
            yield f"{what.capitalize()}: {reference} has none to speak of here ({figure})."
            continue
        yield f"{what.capitalize()}: {reference} has {figure}."
        for term in _TOLD_TERMS:
            if not any(effect["terms"][term]["without"].values()):
                continue  # nothing to compare with
            yield "- " + _term_words(name, effect, term)
    if _compared(document) < 2:
        yield (
            "Nothing is said of the terms of a score: that takes policies with and without a term, "
            "each a cost (estar, eq, local, none) over size, staleness, both or neither, such as "
            "-p ablations; see docs/instability.md."
        )


def _compared(document: Document) -> int:
    """How many policies the terms of a score could be told from."""
    return max((len(effect["policies"]) for effect in document["effects"].values()), default=0)


def _term_words(name: str, effect: Document, term: str) -> str:
    about = effect["terms"][term]
    without = [
        f"{len(about['without'][state])} {one if len(about['without'][state]) == 1 else many}"
        for state, one, many in _STATES
        if about["without"][state]
    ]
    text = f"Without {_TERMS.get(term, term)} {', '.join(without)}"
    most = _strongest(effect, about["without"][SHOWS])
    if most is not None:
        figure = _figure(name, effect["policies"][most])
        text += f", most of all {plain_name(most)} with {figure}"
    text += f". Necessary here: {_ANSWERS_TOLD[about['necessary']]}."
    alone = about["alone"]
    if alone is not None:
        text += f" Alone, under {plain_name(alone)}: {_figure(name, effect['policies'][alone])}."
        text += f" Sufficient here: {_ANSWERS_TOLD[about['sufficient']]}."
    return text


def _strongest(effect: Document, names: Sequence[str]) -> str | None:
    return max(names, key=lambda name: effect["policies"][name]["least"], default=None)


def _figure(effect: str, bounds: Document) -> str:
    """A figure as the table has it, with its unit, and whether it is a lower bound."""
    least, most = bounds["least"], bounds["most"]
    if least is None:
        return "no budget finishes"
    at_least = "at least " if most is None or most > least else ""
    number = f"{at_least}{_number(effect, least)}"
    if effect in _SHARES:
        return f"{number} % of the budgets"
    if effect == "cliff":
        return f"{at_least}a factor of {_number(effect, least)}"
    return number + (" bits" if effect == "entropy" else " in ln overhead")


def _number(effect: str, figure: float) -> str:
    """A figure in the unit that it has everywhere: %, bits, a factor (cliff) or ln (rise)."""
    if effect in _SHARES:
        return _percent(figure)
    return f"{math.exp(figure) if effect == 'cliff' else figure:.3f}"


def _label(document: Document, policy: str) -> str:
    also = next(v["also"] for v in document["variants"] if v["policy"] == policy)
    names = ", ".join(plain_name(name) for name in also)
    return f"{plain_name(policy)} ({names})" if names else plain_name(policy)


def measures_table(document: Document, narrow: bool = False) -> Table:
    """Measures side by side, a policy a row; those that need a budget that finishes, only then.

    Args:
        document: of an ablation.
        narrow: leave out what follows from the rest, so that it fits into 80 columns.
    """
    table = Table(title="measures, policy by policy", pad_edge=not narrow)
    table.add_column("policy", overflow="fold")
    unit = "" if narrow else " %"
    shares = [f"{name}{unit}" for name in ("ok", "oom", "stopped", "inverted")]
    wide = () if narrow else ("median", "max", "changes", "intervals")
    for name in (*shares, "rise", "cliff", "entropy", *wide):
        table.add_column(name, justify="right", no_wrap=True)
    for variant in document["variants"]:
        found = variant["measures"]
        overhead = found["overhead"]
        row = _effect_cells(found, narrow)
        if not narrow:
            row += [
                _bounded(overhead["median"], False, 3),
                _bounded(overhead["max"], False, 3),
                f"{found['outcome_changes']:,}",
                f"{found['intervals']['total']:,}",
            ]
        label = variant["policy"] if narrow else _label(document, variant["policy"])
        table.add_row(Text(plain_name(label, LONG_NAME)), *row)
    return table


def _effect_cells(found: Document, narrow: bool) -> list[str]:
    share, inverted = found["budgets"], found["inversions"]
    percent = _short_percent if narrow else _percent
    cells = [percent(share[f"{outcome}_share"]) for outcome in ("ok", "oom", "thrashed")]
    decimals = 2 if narrow else 3
    entropy = f"{found['entropy_bits']:.{decimals}f}"
    if not found["intervals"]["ok"]:
        return [*cells, NOT_KNOWN, NOT_KNOWN, NOT_KNOWN, entropy]
    more = ">" if inverted["share_at_most"] > inverted["share"] else ""
    # One censored run may hide a larger rise, and a larger cliff than the worst that is seen.
    rise, at_least = found["log_overhead"], found["log_overhead"]["variation_is"] == "lower_bound"
    factor = found["worst_cliff"]["factor"]
    return [
        *cells,
        more + percent(inverted["share"]),
        _bounded(rise["upward"], at_least, decimals),
        _bounded(1.0 if factor is None else factor, at_least, decimals),
        entropy,
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.{2 if not 0 < share < 0.0001 else 5}f}"


def _short_percent(share: float) -> str:
    return f"{100 * share:.3g}" if share >= 0.001 else f"{100 * share:.2f}"


def _bounded(figure: float | None, at_least: bool, decimals: int) -> str:
    return NOT_KNOWN if figure is None else f"{'>' if at_least else ''}{figure:.{decimals}f}"


def measures_legend(document: Document) -> str:
    """What the columns of `measures_table` mean, and their units.

    Args:
        document: of an ablation.
    """
    return (
        "ok, oom, stopped (by the overhead limit) and inverted (out of memory above a budget that "
        "finishes): % of the budgets. rise: all rises of ln overhead together. cliff: the largest "
        f"factor between overheads of two budgets within {exact_bytes(document['within'])}. "
        "entropy of the outcomes: bits. >: at least. -: no budget finishes."
    )


TERMS_LEGEND = (
    "Necessary: yes, every policy without the term lacks the effect; no, one shows it; in part, "
    "none shows it and one is weaker. Sufficient: yes, the policy with the term alone shows it; "
    "no, it lacks it; in part, it is weaker. ?: undecided, since runs that were stopped leave it "
    "open, no budget finishes, or no such policy was compared."
)
"""What the cells of `terms_table` mean."""


def terms_table(document: Document) -> Table | None:
    """For each term of the score and each effect: necessary here, sufficient here.

    Args:
        document: of an ablation.

    Returns:
        None where the reference policy has no effect, or none of the others is made of terms.
    """
    effects = {name: each for name, each in document["effects"].items() if each["terms"]}
    if not effects or _compared(document) < 2:
        return None
    table = Table(title="necessary here / sufficient here")
    table.add_column("term", no_wrap=True)
    for name in effects:
        table.add_column(_EFFECTS[name], no_wrap=True)
    for term in next(iter(effects.values()))["terms"]:
        cells = [
            f"{_ANSWERS[each['terms'][term]['necessary']]} / "
            f"{_ANSWERS[each['terms'][term]['sufficient']]}"
            for each in effects.values()
        ]
        table.add_row(_TERMS.get(term, term), *cells)
    return table


def noise_table(document: Document) -> Table:
    """What noise does to each effect of each policy: figure without it, median with, and verdict.

    Args:
        document: of an ablation with noise.
    """
    table = Table(title="effects (at least) under noise: without it, and over its seeds")
    for name in ("effect", "policy"):
        table.add_column(name, no_wrap=True)
    for name in ("without", "least", "median", "most"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for effect in _EFFECTS:
        for variant in document["variants"]:
            found = variant["noise"]["effects"][effect]
            if found["verdict"] == "absent" and not found["appears"]:
                continue
            verdict = "appears" if found["appears"] else found["verdict"]
            figures = (_number(effect, found[n]) for n in ("plain", "least", "median", "most"))
            policy = Text(plain_name(variant["policy"]))
            name = _EFFECTS[effect] + (" %" if effect in _SHARES else "")
            table.add_row(name, policy, *figures, _VERDICTS.get(verdict, verdict))
    return table
