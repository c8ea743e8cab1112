"""What does a page say of the point where two runs part: the check, the choices, their scores?"""

from __future__ import annotations

from collections.abc import Iterator

from dtrdiag.analyses.course import Course
from dtrdiag.analyses.diff import RunDiff
from dtrdiag.analyses.divergence import FIT, Decision, Divergence
from dtrdiag.events.records import Score
from dtrdiag.ids import StorageId
from dtrdiag.rendering.pages.parts import RIGHT, Column, Part, Section, Table, Words
from dtrdiag.rendering.words import divergence_words
from dtrdiag.units import LONG_NAME, NOT_KNOWN, both_bytes, duration, plain_name

SIDES = ("a", "b")
_CAUSES = {"pressure": "to make room", "release": "on release", "banish": "for good"}
_NO_CANDIDATES = (
    "Which other storages could have been evicted is not in these logs: `dtrdiag run` writes the "
    "best of them with --candidates N."
)


def parting_section(found: RunDiff, divergence: Divergence) -> Section:
    """Where two runs part, and over what."""
    parts: list[Part] = [Words(tuple(divergence_words(divergence)[:2]))]
    if divergence.kind == FIT:
        parts += [_check_table(found, divergence), Words((_WHY_FIT,))]
    parts.append(_next_table(divergence))
    choices = [part for side in SIDES for part in _choice_parts(found, divergence, side)]
    return Section("parting", "Where they part", (*parts, *choices))


_WHY_FIT = (
    "Up to this check both runs did the same, so the same memory is in use in both. The check "
    "compares what is in use and what is wanted with the budget, and the budget alone differs."
)


_EXECUTED = {"remat": "executed again", "first": "executed for the first time"}


def _check_table(found: RunDiff, divergence: Divergence) -> Table:
    in_use, wanted = divergence.memory_bytes or 0, divergence.requested_bytes or 0
    rows = [("in use", both_bytes(in_use)), ("wanted", both_bytes(wanted))]
    rows.append(("together", both_bytes(in_use + wanted)))
    for side, margin in zip(
        SIDES, (divergence.margin_a_bytes, divergence.margin_b_bytes), strict=True
    ):
        if margin is None:
            rows.append((f"budget of {side}", "unlimited"))
            continue
        answer = f"to spare: {both_bytes(margin)}" if margin >= 0 else "too little"
        budget = both_bytes(in_use + wanted + margin)
        rows.append((f"budget of {side} at this check", budget))
        missing = answer if margin >= 0 else f"too little by {both_bytes(-margin)}"
        rows.append((f"so in {side}", missing))
    op = f"op {divergence.op} ({plain_name(divergence.op_name)})"
    kind = _EXECUTED.get(divergence.reason or "", "executed")
    note = f"The check is event {_number(divergence.seq_a)} of a, {_number(divergence.seq_b)} of b."
    return Table(f"The check: {op}, to be {kind}", (Column(""), Column("", RIGHT)), rows, note)


def _number(seq: int | None) -> str:
    return NOT_KNOWN if seq is None else f"{seq:,}"


def _next_table(divergence: Divergence) -> Table:
    ways = ((divergence.a, *divergence.a_next), (divergence.b, *divergence.b_next))
    length = max(map(len, ways))
    rows = [
        (f"{divergence.index + at:,}", *(_did(way[at]) if at < len(way) else "" for way in ways))
        for at in range(length)
    ]
    columns = (Column("decision", RIGHT), Column("a"), Column("b"))
    return Table("What each does from there", columns, rows, "Decisions are counted from 0.")


def _did(decision: Decision) -> str:
    if decision.kind == "stop":
        return f"ends: {plain_name(decision.text)}"
    if decision.kind == "evict":
        why = _CAUSES.get(decision.cause or "", plain_name(decision.cause))
        score = "" if decision.score is None else f", score {decision.score:.6g}"
        size = both_bytes(decision.bytes or 0)
        return f"evicts storage {decision.storage} {why}: {size}{score}"
    again = "computes again" if decision.kind == "rematerialise" else "computes"
    cost = "" if decision.cost_ns is None else f": {duration(decision.cost_ns)}"
    return f"{again} op {decision.op} ({plain_name(decision.op_name)}){cost}"


def _choice_parts(found: RunDiff, divergence: Divergence, side: str) -> Iterator[Part]:
    """The victim of one run and the best losers, if it evicted something there."""
    decision = divergence.a if side == "a" else divergence.b
    if decision.kind != "evict" or decision.score is None:
        return
    if not decision.candidates:
        yield Words((f"Run {side} evicts storage {decision.storage}. {_NO_CANDIDATES}",))
        return
    course = None
    if found.trajectory is not None:
        alignment = found.trajectory.alignment
        course = alignment.a if side == "a" else alignment.b
    rows = [
        (
            f"{place + 1}",
            str(storage),
            _maker(course, storage),
            _size(course, storage),
            score_text(score),
            _beyond(decision.score, score) if place else "evicted",
        )
        for place, (storage, score) in enumerate(
            ((decision.storage or StorageId(0), decision.score), *decision.candidates)
        )
    ]
    columns = (
        Column("", RIGHT), Column("storage", RIGHT), Column("made by"), Column("size", RIGHT),
        Column("score", RIGHT), Column("above the victim's", RIGHT),
    )  # fmt: skip
    pool = f"{decision.pool_size:,} storages" if decision.pool_size else "the pool"
    caption = f"What {side} chose from: the lowest scores of {pool}"
    yield Table(caption, columns, rows, _margin_words(decision, side))


def _margin_words(decision: Decision, side: str) -> str:
    storage, score = decision.candidates[0]
    if score == decision.score:
        return (
            f"The lowest score goes. Storage {storage} has the same one: which of equals goes is a "
            "rule of the run, the last in its pool unless another was asked for."
        )
    return (
        f"The lowest score goes. The margin, by which {side} chose storage {decision.storage} and "
        f"not {storage}, is {_beyond(decision.score, score)}."
    )


def score_text(score: Score) -> str:
    """A score with as many digits as tell close ones apart."""
    return NOT_KNOWN if score is None else f"{score:.9g}"


def _beyond(least: Score, score: Score) -> str:
    if least is None or score is None:
        return NOT_KNOWN
    more = score - least
    share = f" ({100 * more / abs(least):.3g} %)" if least else ""
    return f"{more:.6g}{share}"


def _maker(course: Course | None, storage: StorageId) -> str:
    op = None if course is None else course.producer.get(storage)
    if course is None or op is None:
        return NOT_KNOWN
    return f"op {op}, {plain_name(course.names.get(op), LONG_NAME)}"


def _size(course: Course | None, storage: StorageId) -> str:
    size_bytes = None if course is None else course.size_bytes.get(storage)
    return NOT_KNOWN if size_bytes is None else both_bytes(size_bytes)
