"""How does a comparison of policies over a range of budgets look, in words and as tables?

All of it is made from a `dtrdiag.ablate/1` document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from dtrdiag.analyses.effects import CANNOT_SHOW, CENSORED, LACKS, SHOWS, WEAKER
from dtrdiag.rendering.units import (
    LONG_NAME,
    NOT_KNOWN,
    changes_words,
    count,
    exact_bytes,
    plain_name,
)

Document = Mapping[str, Any]

_EFFECTS = {
    "inversions": "inverted budgets",
    "upward": "rise of log overhead",
    "cliff": "log of the worst cliff",
    "thrash": "stopped budgets",
    "entropy": "entropy of outcomes",
}
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
        if not effect["terms"]:
            yield f"{what.capitalize()}: {reference} has none to speak of here."
            continue
        yield f"{what.capitalize()}: {reference} has {_figure(name, effect['reference'])}."
        for term in _TOLD_TERMS:
            if not any(effect["terms"][term]["without"].values()):
                continue  # nothing to compare with
            yield "- " + _term_words(name, effect, term)


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
        figure = _figure(name, effect["policies"][most]["least"])
        text += f", most of all {plain_name(most)} with {figure}"
    text += f". Necessary here: {_ANSWERS_TOLD[about['necessary']]}."
    alone = about["alone"]
    if alone is not None:
        figure = effect["policies"][alone]["least"]
        has = "no budget finishes" if figure is None else _figure(name, figure)
        text += f" Alone, under {plain_name(alone)}: {has}."
        text += f" Sufficient here: {_ANSWERS_TOLD[about['sufficient']]}."
    return text


def _strongest(effect: Document, names: Sequence[str]) -> str | None:
    return max(names, key=lambda name: effect["policies"][name]["least"], default=None)


def _figure(effect: str, figure: float) -> str:
    if effect in ("inversions", "thrash"):
        return f"{100 * figure:.3g} % of the budgets"
    return f"{figure:.3g} bits" if effect == "entropy" else f"{figure:.3g}"


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
    table = Table(title="measures, policy by policy")
    table.add_column("policy", overflow="fold")
    wide = () if narrow else ("oom %", "number", "median", "max", "changes", "runs")
    for name in ("ok %", "stop %", "inv %", "rise", "cliff", "bits", *wide):
        table.add_column(name, justify="right", no_wrap=True)
    for variant in document["variants"]:
        found = variant["measures"]
        share, overhead, rise = found["budgets"], found["overhead"], found["log_overhead"]
        finishes = bool(found["intervals"]["ok"])
        row = [
            _percent(share["ok_share"]),
            _percent(share["thrashed_share"]),
            _percent(found["inversions"]["share"]) if finishes else NOT_KNOWN,
            _bounded(rise["upward"] if finishes else None, rise["variation_is"], 2),
            _bounded(found["worst_cliff"]["factor"], found["worst_cliff"]["factor_is"], 3),
            f"{found['entropy_bits']:.3f}",
        ]
        if not narrow:
            row += [
                _percent(share["oom_share"]),
                f"{found['inversions']['number']:,}",
                _bounded(overhead["median"], "exact", 3),
                _bounded(overhead["max"], "exact", 3),
                f"{found['outcome_changes']:,}",
                f"{found['intervals']['total']:,}",
            ]
        label = variant["policy"] if narrow else _label(document, variant["policy"])
        table.add_row(Text(plain_name(label, LONG_NAME)), *row)
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"


def _bounded(figure: float | None, figure_is: str | None, decimals: int) -> str:
    if figure is None:
        return NOT_KNOWN
    return f"{'>' if figure_is == 'lower_bound' else ''}{figure:.{decimals}f}"


def terms_table(document: Document) -> Table | None:
    """For each term of the score and each effect: necessary here, sufficient here.

    Args:
        document: of an ablation.

    Returns:
        None where the reference policy has no effect, or none of the others is made of terms.
    """
    effects = {name: each for name, each in document["effects"].items() if each["terms"]}
    if not effects or all(len(each["policies"]) < 2 for each in effects.values()):
        return None
    table = Table(title="necessary here / sufficient here")
    table.add_column("term", no_wrap=True)
    for name in effects:
        table.add_column(name, no_wrap=True)
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
    table = Table(title="effects under noise: without, least to largest with")
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
            scale = 100 if effect in ("inversions", "thrash") else 1
            figures = (f"{scale * found[n]:.3g}" for n in ("plain", "least", "median", "most"))
            policy = Text(plain_name(variant["policy"]))
            unit = " %" if scale == 100 else ""
            table.add_row(f"{effect}{unit}", policy, *figures, _VERDICTS.get(verdict, verdict))
    return table
