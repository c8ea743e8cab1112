"""What does the page of a memory snapshot say: when was memory fullest, and of what?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from dtrdiag.analyses.allocations import (
    Allocation,
    Allocations,
    OutOfMemory,
    PlaceTotal,
    memory_history,
)
from dtrdiag.analyses.summary import RunSummary
from dtrdiag.log.snapshots import CallFrame, MemorySnapshot
from dtrdiag.rendering.allocationcharts import allocation_chart
from dtrdiag.rendering.pages.parts import RIGHT, Column, Page, Part, Section, Table, Words
from dtrdiag.units import LONG_NAME, both_bytes, count, cut_words, exact_bytes, plain_name

TOP = 25
FRAMES = 4
"""Of an allocation, how many lines are told."""
_BEFORE = "before the history"


def snapshot_page(
    snapshot: MemorySnapshot, made_by: str, runs: Sequence[tuple[str, RunSummary]] = ()
) -> Page:
    """The page of a memory snapshot.

    Args:
        snapshot: read by `dtrdiag.log.read_snapshot`.
        made_by: the command line that makes the page, and the version of dtrdiag.
        runs: names of logs and what they come to, to be laid beside it.
    """
    found = [memory_history(history) for history in snapshot.devices]
    fullest = max(found, key=lambda each: each.peak_bytes)
    sections = [_device_section(each) for each in found]
    if runs:
        sections.insert(0, _comparison(fullest, runs))
    problems = [f"Device {each.device}: {words}." for each in found for words in each.problems]
    name = plain_name(PurePath(snapshot.path).name, LONG_NAME)
    return Page(
        title=f"Memory snapshot {name}",
        answer=tuple(_answer(fullest, len(found))),
        facts=tuple(_facts(found)),
        sections=tuple(sections),
        made_by=made_by,
        warnings=tuple(f"{name}: {words}" for words in problems),
    )


def _answer(found: Allocations, devices: int) -> list[str]:
    on = f" on device {found.device}" if devices > 1 else ""
    when = (
        f"after event {found.peak_at:,} of {found.events:,}"
        if found.peak_at
        else ("when the history begins" if found.events else "when the snapshot was taken")
    )
    sentences = [
        f"At the peak, {when}{on}, {both_bytes(found.peak_bytes)} were allocated, in "
        f"{count(len(found.at_peak), 'allocation')}; the allocator had reserved "
        f"{both_bytes(int(found.reserved_bytes[found.peak_at]))} then."
    ]
    largest = found.by_place()[:1]
    if largest and largest[0].place is not None:
        share = 100 * largest[0].size_bytes / found.peak_bytes if found.peak_bytes else 0.0
        sentences.append(
            f"Most of it by one line, {_place(largest[0].place)}: "
            f"{both_bytes(largest[0].size_bytes)}, {share:.0f} %."
        )
    if found.out_of_memory:
        first = found.out_of_memory[0]
        sentences.append(
            f"{count(len(found.out_of_memory), 'allocation')} failed; the first, after event "
            f"{first.at:,}, asked for {both_bytes(first.requested_bytes)}."
        )
    return sentences


def _facts(found: Sequence[Allocations]) -> list[tuple[str, str]]:
    facts = []
    for each in found:
        of = f" of device {each.device}" if len(found) > 1 else ""
        facts += [
            (f"events{of}", f"{each.events:,}" if each.events else "none: no history was recorded"),
            (f"peak of allocated{of}", both_bytes(each.peak_bytes)),
            (f"peak of reserved{of}", both_bytes(each.peak_reserved_bytes)),
            (f"there before the history{of}", both_bytes(each.before_bytes)),
            (f"failed allocations{of}", f"{len(each.out_of_memory):,}"),
        ]
    return facts


def _device_section(found: Allocations) -> Section:
    parts: list[Part] = []
    if found.events:
        parts.append(allocation_chart(found))
    parts += [_places_table(found.by_place()), _largest_table(found.at_peak)]
    if found.out_of_memory:
        parts.append(_failed_table(found.out_of_memory))
    return Section(f"device-{found.device}-section", f"Device {found.device}", tuple(parts))


def _places_table(places: Sequence[PlaceTotal]) -> Table:
    return Table(
        cut_words("What was alive at the peak, by line", TOP, len(places), "the largest"),
        (Column("line", code=True), Column("size", RIGHT), Column("allocations", RIGHT)),
        [
            (_place(each.place), both_bytes(each.size_bytes), f"{each.allocations:,}")
            for each in places[:TOP]
        ],
        "The innermost line that is Python and not PyTorch's own, or else the innermost.",
    )


def _largest_table(alive: Sequence[Allocation]) -> Table:
    return Table(
        cut_words("What was alive at the peak", TOP, len(alive), "the largest"),
        (Column("size", RIGHT), Column("since event", RIGHT), Column("from", code=True)),
        [
            (
                both_bytes(each.size_bytes),
                _BEFORE if each.since is None else f"{each.since:,}",
                _stack(each.frames),
            )
            for each in alive[:TOP]
        ],
    )


def _failed_table(failed: Sequence[OutOfMemory]) -> Table:
    columns = ("after event", "asked for", "allocated", "reserved", "left on the device")
    return Table(
        cut_words("Allocations that failed", TOP, len(failed), "the first"),
        (*(Column(name, RIGHT) for name in columns), Column("from", code=True)),
        [
            (
                f"{each.at:,}",
                both_bytes(each.requested_bytes),
                both_bytes(each.allocated_bytes),
                both_bytes(each.reserved_bytes),
                both_bytes(each.device_free_bytes),
                _stack(each.frames),
            )
            for each in failed[:TOP]
        ],
    )


def _comparison(found: Allocations, runs: Sequence[tuple[str, RunSummary]]) -> Section:
    """The peak of a snapshot beside what runs had in memory by their logs."""
    peak = found.peak_bytes
    rows = [
        (f"snapshot, allocated on device {found.device}", exact_bytes(peak), "1.0000"),
        (
            f"snapshot, reserved on device {found.device}",
            exact_bytes(found.peak_reserved_bytes),
            _ratio(found.peak_reserved_bytes, peak),
        ),
    ]
    for path, summary in runs:
        name = plain_name(PurePath(path).name, LONG_NAME)
        rows.append(
            (
                f"{name}, {plain_name(summary.header.trace_name)} under "
                f"{plain_name(summary.header.policy)}",
                exact_bytes(summary.max_memory_bytes),
                _ratio(summary.max_memory_bytes, peak),
            )
        )
    words = (
        "A log counts the storages of a trace; the allocator counts whatever was asked for, such "
        "as workspaces and what other code keeps. Nothing in a snapshot says that it is of the "
        "same step as a log: that is for whoever puts them together."
    )
    table = Table(
        "Most bytes in memory",
        (Column("by"), Column("most in memory", RIGHT), Column("to the snapshot's peak", RIGHT)),
        rows,
    )
    return Section("comparison", "Beside the log of a run", (Words((words,)), table))


def _ratio(value: int, peak: int) -> str:
    return f"{value / peak:.4f}" if peak else "-"


def _place(frame: CallFrame | None) -> str:
    if frame is None:
        return "not recorded"
    file = plain_name(PurePath(frame.file).name, LONG_NAME)
    return f"{file}:{frame.line} {plain_name(frame.function, LONG_NAME)}"


def _stack(frames: Sequence[CallFrame]) -> str:
    if not frames:
        return "not recorded"
    shown = [_place(frame) for frame in frames[:FRAMES]]
    more = [f"{len(frames) - FRAMES:,} more"] if len(frames) > FRAMES else []
    return " < ".join([*shown, *more])
