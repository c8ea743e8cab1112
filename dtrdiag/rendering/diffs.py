"""What do two runs do after they have parted, in sentences and tables?"""

from __future__ import annotations

import numpy as np
from rich.table import Table
from rich.text import Text

from dtrdiag.analyses.alignment import Place
from dtrdiag.analyses.diff import RunDiff
from dtrdiag.analyses.reevicted import OneSided, ReEvictions
from dtrdiag.analyses.trajectory import YES, Trajectory
from dtrdiag.units import LONG_NAME, count, duration, plain_name, short_bytes


def trajectory_words(diff: RunDiff) -> list[str]:
    """How far apart two runs get after they have parted, and when the cost accrues."""
    found = diff.trajectory
    if found is None:
        return []
    if found.last is None:
        parted = _at(found.alignment.place(found.alignment.parted))
        return [
            f"A run is stopped in the very step in which they part, {parted}, so there is no "
            "later step after which they could be compared.",
            *_beyond_words(found),
        ]
    return [
        _extent_words(diff, found, found.last),
        *_jaccard_words(found),
        *_accrual_words(found),
        *_beyond_words(found),
        _rejoined_words(found),
    ]


def _extent_words(diff: RunDiff, found: Trajectory, last: Place) -> str:
    parted = _at(found.alignment.place(found.alignment.parted))
    words = f"They part in {parted}, and are compared after each step of the schedule from there "
    if found.alignment.stopped is None:
        return f"{words}to the end, {count(len(found.steps), 'step')}."
    stops = [
        f"{side} {_STOPPED.get(run.outcome, 'ends')} in step {int(course.steps[-1]):,}"
        for side, run, course in (
            ("a", diff.a, found.alignment.a),
            ("b", diff.b, found.alignment.b),
        )
        if run.outcome != "ok" and len(course.steps)
    ]
    return (
        f"{words}to step {last.step:,}, the last that both completed, "
        f"{count(len(found.steps), 'step')}: {', and '.join(stops)}."
    )


_STOPPED = {
    "oom": "runs out of memory",
    "thrashed": "is stopped by the overhead limit",
    "incomplete": "has an incomplete log that ends",
}


def _at(place: Place) -> str:
    op = "" if place.op is None else f" (op {place.op}, {plain_name(place.op_name)}"
    share = "" if place.fraction is None else f"{100 * place.fraction:.1f} % of the schedule"
    if op and share:
        return f"step {place.step:,}{op}; {share})"
    return f"step {place.step:,}" + (f"{op})" if op else f" ({share})" if share else "")


def _jaccard_words(found: Trajectory) -> list[str]:
    lowest, in_bytes = found.lowest_jaccard, found.lowest_jaccard_bytes
    if lowest is None or in_bytes is None:
        return []
    if lowest.value == 1:
        return ["The resident sets are equal after each of these steps."]
    at = int(np.searchsorted(found.steps, lowest.place.step))
    return [
        f"Their resident sets are least alike after {_at(lowest.place)}: Jaccard "
        f"{lowest.value:.3f} by storages, {found.jaccard_bytes[at]:.3f} by bytes. After the last "
        f"of these steps it is {found.jaccard[-1]:.3f} and {found.jaccard_bytes[-1]:.3f}."
    ]


def _accrual_words(found: Trajectory) -> list[str]:
    extra_ns = found.final_extra_ns
    low, high = found.lowest_extra, found.highest_extra
    if extra_ns is None or low is None or high is None:
        return []
    swing = _swing_words(extra_ns, int(low.value), int(high.value))
    if not extra_ns:
        return [f"By then both have paid the same for rematerialisation.{swing}"]
    dearer, other = ("b", "a") if extra_ns > 0 else ("a", "b")
    half, most = found.accrued(50), found.accrued(90)
    words = (
        f"By then {dearer} has paid {duration(abs(extra_ns))} more for rematerialisation than "
        f"{other}"
    )
    if half is not None and most is not None:
        both = "half of that, and 90 %, from" if half == most else "half of that from"
        words += f": {both} {_at(half)} on"
        words += "" if half == most else f", 90 % from {_at(most)} on"
    return [f"{words}.{swing}"]


def _swing_words(final_ns: int, low_ns: int, high_ns: int) -> str:
    """Where the extra cost went on the way, if it was not between 0 and what it came to."""
    ahead = [
        f"{side} had paid up to {duration(abs(most_ns))} more"
        for side, most_ns, outside in (
            ("a", low_ns, low_ns < min(0, final_ns)),
            ("b", high_ns, high_ns > max(0, final_ns)),
        )
        if outside
    ]
    return f" On the way {', and '.join(ahead)}." if ahead else ""


def _beyond_words(found: Trajectory) -> list[str]:
    if not found.beyond_a_ns and not found.beyond_b_ns:
        return []
    return [
        f"What they pay after that cannot be compared: {duration(found.beyond_a_ns)} in a, "
        f"{duration(found.beyond_b_ns)} in b."
    ]


def _rejoined_words(found: Trajectory) -> str:
    if found.rejoined is not None:
        if found.last is not None and found.rejoined.step == found.last.step:
            return "They are equal again only after the last of these steps."
        return (
            f"After {_at(found.rejoined)} they are equal again: the same storages are resident, "
            "and each later decision is the same in both."
        )
    words = "They do not become equal again"
    if found.equal_steps:
        words += (
            f", although after {found.equal_steps:,} of these steps the same storages are resident"
        )
    if found.rejoined_is == "unknown":
        words += "; a run was cut short, so whether they would have is not known"
    return f"{words}."


def re_evicted_words(found: ReEvictions | None) -> list[str]:
    """Which re-evictions exist in one run only."""
    if found is None:
        return []
    until = found.until_step
    within = "" if until is None else f" up to step {until:,}, in which the first of them ends"
    if not found.storages_a and not found.storages_b:
        again = "evicts a storage under pressure that it had evicted so before"
        return [f"Neither run {again}{',' if within else ''}{within}."]
    sides = [
        _one_sided_words(name, side)
        for name, side in (("a", found.only_a), ("b", found.only_b))
        if side.storages
    ]
    return [
        "Re-evicted, so evicted under pressure, brought back and evicted under pressure again"
        f"{within}: {found.storages_a:,} storages in a and {found.storages_b:,} in b, "
        f"{found.storages_both:,} of them in both.",
        *sides,
    ]


def _one_sided_words(name: str, side: OneSided) -> str:
    top = side.storages[0]
    maker = "" if top.op is None else f" (of op {top.op}, {plain_name(top.op_name)})"
    return (
        f"Only {name} re-evicts {count(len(side.storages), 'storage')}, "
        f"{count(side.re_evictions, 'time')}; bringing them back cost {duration(side.cost_ns)}, "
        f"most of all storage {top.storage}{maker} with {duration(top.cost_ns)} for "
        f"{count(top.returns, 'return')}."
    )


def trajectory_table(found: Trajectory) -> Table:
    """The steps that matter after two runs have parted."""
    table = Table(title="after the runs have parted")
    table.add_column("")
    table.add_column("step", justify="right")
    table.add_column("op", overflow="fold")
    for name in ("Jaccard", "in bytes", "b - a"):
        table.add_column(name, justify="right")
    for name, place in _rows(found):
        if place is None:
            continue
        at = int(np.searchsorted(found.steps, place.step))
        table.add_row(
            name,
            f"{place.step:,}",
            Text(plain_name(place.op_name, LONG_NAME)),
            f"{found.jaccard[at]:.4f}",
            f"{found.jaccard_bytes[at]:.4f}",
            duration(int(found.extra_ns[at])),
        )
    return table


def _rows(found: Trajectory) -> list[tuple[str, Place | None]]:
    lowest, in_bytes = (
        None if extreme is None else extreme.place
        for extreme in (found.lowest_jaccard, found.lowest_jaccard_bytes)
    )
    rows = [
        ("first", found.first),
        ("least alike", lowest),
        ("least alike, bytes", None if in_bytes == lowest else in_bytes),
        ("50 % of b - a", found.accrued(50)),
        ("90 % of b - a", found.accrued(90)),
        ("equal again", found.rejoined if found.rejoined_is == YES else None),
        ("last", found.last),
    ]
    return sorted(rows, key=lambda row: -1 if row[1] is None else row[1].step)


def re_evicted_table(found: ReEvictions, top: int = 10) -> Table:
    """Storages that are re-evicted in one run only, the dearest first.

    Args:
        found: of two runs.
        top: how many storages of each run to show at most; the title says of how many.
    """
    title = "re-evicted under pressure in one run only"
    sides = (("a", found.only_a), ("b", found.only_b))
    cut = [
        f"{top:,} of {len(side.storages):,} in {name}"
        for name, side in sides
        if len(side.storages) > top
    ]
    table = Table(title=f"{title}: the dearest {' and '.join(cut)}" if cut else title)
    table.add_column("in")
    table.add_column("storage", justify="right")
    table.add_column("made by", overflow="fold")
    for name in ("size", "times", "cost", "evicted in the other"):
        table.add_column(name, justify="right")
    for name, side in sides:
        for each in side.storages[:top]:
            table.add_row(
                name,
                str(each.storage),
                Text(plain_name(each.op_name, LONG_NAME)),
                short_bytes(each.size_bytes),
                f"{each.re_evictions:,}",
                duration(each.cost_ns),
                f"{each.other_pressure:,}",
            )
    return table
