"""What does a comparison of live with simulated runs say, in sentences and tables?

Everything takes a `dtrdiag.fidelity/1` document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from dtrdiag.rendering.tables import outcome_text
from dtrdiag.units import (
    LONG_NAME,
    NOT_KNOWN,
    both_bytes,
    count,
    duration,
    exact_bytes,
    plain_name,
    short_bytes,
)

Document = Mapping[str, Any]


def fidelity_words(document: Document) -> list[str]:
    """The answer in sentences, what differs first."""
    summary = document["summary"]
    unequal = [point for point in document["points"] if not point["equal"]]
    ended = ", ".join(f"{number} {outcome}" for outcome, number in summary["outcomes"].items())
    return [
        f"{plain_name(document['target'], LONG_NAME)}: {_recorded_words(document)}",
        f"At {summary['equal']:,} of {count(summary['points'], 'point')} the live run decides as "
        f"the simulator does on the recording, from the first decision to the last ({ended}).",
        *(words for point in unequal for words in unequal_words(point)),
        *_remedy_words(document),
        *_byte_words(document),
        *_value_words(document),
        *_time_words(document),
    ]


def _recorded_words(document: Document) -> str:
    trace = document["trace"]
    words = (
        f"{count(trace['ops'], 'op')} recorded on {document['recorded_on']} tensors, a peak of "
        f"{both_bytes(document['peak'])}, of which {both_bytes(document['constant_bytes'])} are "
        "constants."
    )
    if document["recorded_because"] is not None:
        words += f" Not on fake ones: {plain_name(document['recorded_because'], 300)}."
    return words


def unequal_words(point: Document) -> list[str]:
    """Where the two sides of a point part, and why."""
    where = f"{_name(point)}:"
    if point["live"] is None:
        return [
            f"{where} the live run {point['outcome']}, the simulation ended "
            f"{point['simulated']['outcome']}: {plain_name(point['why'], 300)}."
        ]
    divergence, programs = point["first_divergence"], point["programs"]
    if divergence is None:
        counts = ", ".join(point["unequal_counts"])
        said = f"{where} all {count(point['common_prefix'], 'decision')} are equal"
        said += f", but {counts} at the end are not." if counts else "."
    else:
        said = (
            f"{where} the first {count(divergence['index'], 'decision')} are equal; then the "
            f"simulation does `{divergence['a']}` where the live run does `{divergence['b']}`"
            f"{_fit_words(divergence)}."
        )
    return [said + (f" {_program_words(programs)}" if programs is not None else _same(divergence))]


def _fit_words(divergence: Document) -> str:
    during = divergence["during_op"]
    words = "" if during is None else f", in op {during} ({_op(divergence['during_op_name'])})"
    if divergence["kind"] != "fit":
        return words
    side = {"a": "the simulation", "b": "the live run"}[divergence["fits_in"]]
    return (
        f"{words}: op {divergence['op']} ({_op(divergence['op_name'])}) wants "
        f"{exact_bytes(divergence['requested_bytes'])} with {exact_bytes(divergence['memory'])} "
        f"in use, which fits in {side} alone"
    )


def _op(name: str | None) -> str:
    return plain_name(name, LONG_NAME)


def _same(divergence: Document | None) -> str:
    if divergence is None:
        return ""
    return " Up to there the programs are the same: the runtimes decide differently."


def _program_words(programs: Document) -> str:
    sides = [NOT_KNOWN if programs[side] is None else _op(programs[side]) for side in "ab"]
    if programs["what"] == "missing":
        which = "recording" if programs["a"] is None else "live program"
        found = sides[1] if programs["a"] is None else sides[0]
        return f"The {which} ends before op {programs['op']}, where the other has {found}."
    what = {"name": "another op", "cost": "another cost", "references": "other releases"}
    return (
        f"The programs part at op {programs['op']} "
        f"({what.get(programs['what'], 'other ' + programs['what'])}): recorded {sides[0]}, live "
        f"{sides[1]}."
    )


def _remedy_words(document: Document) -> list[str]:
    wanted = document.get("warmup_wanted")
    if wanted is None:
        return []
    before = "the first step" if wanted == 1 else f"the first {count(wanted, 'step')}"
    return [
        f"The program does something else in {before} than in those after, as where an optimizer "
        f"makes its state or gradients begin to add up: --warmup {wanted} takes "
        f"{'it' if wanted == 1 else 'them'} before."
    ]


def _byte_words(document: Document) -> list[str]:
    over = document["summary"]["over_budget"]
    counted = [point["bytes"] for point in document["points"] if point["bytes"] is not None]
    counted = [each for each in counted if each["owned"] is not None]
    if over is None or not counted:
        return []
    same = sum(each["owned"] == each["accounted"] for each in counted)
    words = (
        f"Tensors own what the core accounts for, to the byte, at {same:,} of {len(counted):,} "
        f"points, and more than the budget at {over:,}."
    )
    beyond = [e["allocated"] / e["accounted"] - 1 for e in counted if e["allocated"] is not None]
    if beyond:
        words += (
            f" The allocator hands out {_range(map(_percent, (min(beyond), max(beyond))))} beyond "
            "what is accounted for."
        )
    return [words]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _range(figures: Iterable[str]) -> str:
    """The least and the largest of figures, or the one that both are."""
    return " to ".join(dict.fromkeys(figures))


def _value_words(document: Document) -> list[str]:
    values = document["summary"]["values"]
    if not values["compared"]:
        ended = [p for p in document["points"] if p["live"] and p["live"]["outcome"] == "ok"]
        words = (
            "Values were not compared: that takes a target that gives a Step with its model, whose "
            "state can be put back."
        )
        return [words] if ended else []
    words = (
        f"Loss, gradients, buffers and parameters are those of plain PyTorch, bit by bit, at "
        f"{values['equal']:,} of {count(values['compared'], 'point')} that ended."
    )
    wrong = [p for p in document["points"] if p["values"] and p["values"]["differing"]]
    for point in wrong[:3]:
        found = point["values"]
        apart = found["max_difference"]
        words += (
            f" {_name(point)}: {count(len(found['differing']), 'value')} "
            f"{'differs' if len(found['differing']) == 1 else 'differ'}, "
            f"{plain_name(found['differing'][0], LONG_NAME)} first, by at most "
            f"{'infinity' if apart is None else format(apart, '.3g')}."
        )
    return [words]


def _time_words(document: Document) -> list[str]:
    timed = [point["overhead"] for point in document["points"] if point["overhead"] is not None]
    if not timed:
        return []
    errors = [abs(each["roofline"] - each["kernels"]) for each in timed]
    words = (
        f"Predicted by the roofline, the overhead is off by {sum(errors) / len(errors):.3f} of the "
        f"baseline on average ({max(errors):.3f} at most) from the time in kernels at "
        f"{count(len(timed), 'point')}"
    )
    medians = [each for each in timed if each["medians"] is not None]
    if medians:
        errors = [abs(each["medians"] - each["kernels"]) for each in medians]
        words += f"; by measured medians, by {sum(errors) / len(errors):.3f} ({max(errors):.3f})"
    words += "."
    closer = document["summary"]["closer"]
    if closer is not None:
        first = max(closer, key=lambda name: (closer[name], name == "roofline"))
        name = {"roofline": "roofline is", "medians": "measured medians are"}[first]
        words += f" The {name} closer at {closer[first]:,} of {sum(closer.values()):,}."
    walls = [each["cpu"] for each in timed]
    return [
        words,
        f"A whole live step takes {_range(f'{w:.1f}' for w in (min(walls), max(walls)))} times the "
        "CPU time of a plain one, decisions in Python and rematerialisation together.",
    ]


def _name(point: Document) -> str:
    ratio = "" if point["ratio"] is None else f" ({point['ratio']:g})"
    return f"{plain_name(point['policy'])} at {exact_bytes(point['budget'])}{ratio}"


def points_table(document: Document, narrow: bool = False) -> Table:
    """Decisions of both sides at each point; narrow: what fits into 80 columns."""
    rows = []
    for point in document["points"]:
        run = point["live"] or point["simulated"]
        row: dict[str, Text | str] = {
            "policy": Text(plain_name(point["policy"])),
            "ratio": NOT_KNOWN if point["ratio"] is None else f"{point['ratio']:g}",
            "budget": f"{point['budget']:,}",
            "simulated": outcome_text(point["simulated"]["outcome"]),
            "live": outcome_text(point["outcome"]),
            "decisions": f"{point['common_prefix']:,}",
            "remats": f"{run['remats']:,}",
            "evictions": f"{run['evictions']['total']:,}",
            "equal": "yes" if point["equal"] else "NO",
        }
        rows.append(row)
    left_out = ("ratio", "remats", "evictions") if narrow else ()
    return _table("decisions, simulated and live", rows, left_out, ("policy", "simulated", "live"))


def _table(
    title: str,
    rows: Sequence[Mapping[str, Text | str]],
    left_out: Sequence[str],
    left: Sequence[str] = ("policy",),
) -> Table:
    """Rows as a table, without some columns; those that are no numbers stand to the left."""
    table = Table(title=title)
    names = [name for name in (rows[0] if rows else ()) if name not in left_out]
    for name in names:
        table.add_column(name, justify="left" if name in left else "right")
    for row in rows:
        table.add_row(*(row[name] for name in names))
    return table


def bytes_table(document: Document) -> Table:
    """The most memory of each live run, counted three ways."""
    cuda = any((point["bytes"] or {}).get("cuda") for point in document["points"])
    table = Table(title="most memory of the live runs")
    table.add_column("policy")
    names = ["budget", "accounted", "owned by tensors", "allocated", "beyond accounted"]
    for name in names + (["reserved", "fragmentation", "retries"] if cuda else []):
        table.add_column(name, justify="right")
    for point in document["points"]:
        if point["bytes"] is None:
            continue
        found = point["bytes"]
        accounted, allocated = found["accounted"], found["allocated"]
        cells = [exact_bytes(point["budget"]), exact_bytes(accounted)]
        cells.append(NOT_KNOWN if found["owned"] is None else exact_bytes(found["owned"]))
        if allocated is None:
            cells += [NOT_KNOWN] * 2
        else:
            cells += [exact_bytes(allocated), _percent(allocated / accounted - 1)]
        if cuda:
            figures = found["cuda"]
            part = figures["fragmentation"]
            cells += [
                short_bytes(figures["reserved"]),
                NOT_KNOWN if part is None else f"{part:.3f}",
                str(figures["retries"]),
            ]
        table.add_row(Text(plain_name(point["policy"])), *cells)
    return table


def overhead_table(document: Document, narrow: bool = False) -> Table:
    """Overhead predicted and measured of each live run that ended; narrow: ratios alone."""
    rows = []
    for point in document["points"]:
        found = point["overhead"]
        if found is None:
            continue
        medians = found["medians"]
        row: dict[str, Text | str] = {
            "policy": Text(plain_name(point["policy"])),
            "budget": exact_bytes(point["budget"]),
            "roofline": f"{found['roofline']:.4f}",
            "medians": NOT_KNOWN if medians is None else f"{medians:.4f}",
            "in kernels": f"{found['kernels']:.4f}",
            "elapsed": f"{found['wall_least']:.2f}",
            "CPU time": f"{found['cpu']:.2f}",
            "live": duration(found["live_ns"]),
            "plain": duration(found["eager_ns"]),
        }
        rows.append(row)
    left_out = ("live", "plain") if narrow else ()
    return _table("overhead, predicted and measured", rows, left_out)
