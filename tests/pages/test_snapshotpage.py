"""Does the page of a memory snapshot say when memory was fullest, of what, and what runs had?"""

import attrs
import pytest
from axe_playwright_python.sync_playwright import Axe

from dtrdiag.analyses import summarise
from dtrdiag.analyses.allocations import memory_history
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import EventRecorder
from dtrdiag.log.snapshots import AllocatorEvent, Block, CallFrame, DeviceHistory, MemorySnapshot
from dtrdiag.log.snapshots import Segment as Held
from dtrdiag.rendering.allocationcharts import MOST_ROWS, allocation_chart
from dtrdiag.rendering.pages.page import page_html
from dtrdiag.rendering.pages.parts import Chart, Table
from dtrdiag.rendering.pages.snapshotpage import snapshot_page
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace.catalog import resolve

HERE = CallFrame("/home/model.py", 7, "forward")
EVIL = CallFrame("</script><script>alert(1)</script>.py", 1, '"><img src=x onerror=alert(1)>')


def alloc(address, size, *frames):
    return AllocatorEvent("alloc", address, size, frames, None, None)


def failed(size):
    return AllocatorEvent("oom", None, size, (HERE,), None, 4096)


def free(address, size):
    kinds = "free_requested", "free_completed"
    return [AllocatorEvent(kind, address, size, (), None, None) for kind in kinds]


def snapshot(*events, device=0, segments=()):
    history = DeviceHistory(device, tuple(events), tuple(segments))
    return MemorySnapshot("runs/step.pickle", (history,))


@pytest.fixture(scope="module")
def step():
    held = Held(0, 1 << 20, (Block(4096, 65536, 65000, "active_allocated", (HERE,)),))
    return snapshot(
        alloc(0, 3000, EVIL),
        alloc(4096, 65000, HERE),
        alloc(81920, 500_000, HERE),
        failed(1 << 30),
        *free(81920, 500_000),
        *free(0, 3000),
        segments=[held],
    )


@pytest.fixture(scope="module")
def page(step):
    return snapshot_page(step, "dtrdiag report step.pickle (dtrdiag 0)")


def parts(page, kind):
    return [part for section in page.sections for part in section.parts if isinstance(part, kind)]


def test_the_answer_is_the_peak_and_who_had_it(page):
    first, second, third = page.answer
    assert "after event 3 of 8, 568,000 B (554.7 KiB) were allocated, in 3 allocations" in first
    assert "had reserved 1,048,576 B (1.0 MiB)" in first
    assert second.startswith("Most of it by one line, model.py:7 forward: 565,000 B")
    assert third.startswith(
        "1 allocation failed; the first, after event 3, asked for 1,073,741,824"
    )
    assert dict(page.facts)["peak of allocated"].startswith("568,000 B")


def test_tables_have_the_largest_first_and_what_failed(page):
    places, largest, broken = parts(page, Table)
    assert [row[1] for row in places.rows] == ["565,000 B (551.8 KiB)", "3,000 B (2.9 KiB)"]
    assert [row[1] for row in largest.rows] == ["3", "2", "1"]
    assert broken.rows[0][:2] == ("3", "1,073,741,824 B (1.0 GiB)")


def test_the_chart_is_the_memory_after_each_event(page):
    (chart,) = parts(page, Chart)
    assert chart.columns["x"] == list(range(9))
    assert chart.columns["allocated_text"][3] == "568,000 B (554.7 KiB)"
    assert chart.more["peak"]["x"] == [3]
    assert chart.more["oom"]["x"] == [3]


def test_a_long_history_is_shown_in_stretches_that_keep_the_most():
    events = [each for at in range(4000) for each in (alloc(64, at + 1), *free(64, at + 1))]
    found = memory_history(snapshot(*events).devices[0])
    chart = allocation_chart(found)
    assert len(chart.columns["x"]) == MOST_ROWS
    assert chart.columns["x2"][-1] == found.events + 1
    assert max(chart.columns["allocated"]) == pytest.approx(4000 / 1024, rel=1e-5)
    assert "is shown at its fullest" in chart.words


def test_devices_have_a_section_each_and_the_fullest_answers(step):
    second = DeviceHistory(3, (alloc(0, 1 << 30, HERE),), ())
    found = snapshot_page(attrs.evolve(step, devices=(*step.devices, second)), "x")
    assert [section.heading for section in found.sections] == ["Device 0", "Device 3"]
    assert "on device 3, 1,073,741,824 B" in found.answer[0]
    assert dict(found.facts)["peak of allocated of device 0"].startswith("568,000 B")


def test_a_snapshot_without_a_history_has_no_chart(step):
    (device,) = step.devices
    found = snapshot_page(snapshot(segments=device.segments), "x")
    assert not parts(found, Chart)
    assert "when the snapshot was taken, 65,000 B" in found.answer[0]
    assert dict(found.facts)["events"] == "none: no history was recorded"


def test_what_does_not_fit_together_is_told():
    found = snapshot_page(snapshot(alloc(0, 10), alloc(0, 20)), "x")
    (words,) = found.warnings
    assert ": Device 0: 1 allocations were made where another was" in words


def test_runs_are_laid_beside_it(step):
    hooks, events = Hooks(), EventRecorder()
    hooks.subscribe(events)
    result = simulate(resolve("chain-64"), RunConfig("dtr", 8_000_000), hooks)
    found = snapshot_page(step, "x", [("a/run.jsonl", summarise(events.events))])
    table = parts(found, Table)[0]
    most = result.end.max_memory_bytes
    assert table.rows[0][1:] == ("568,000 B", "1.0000")
    assert table.rows[1][1:] == ("1,048,576 B", f"{(1 << 20) / 568_000:.4f}")
    assert table.rows[2] == (
        "run.jsonl, chain-64 under dtr", f"{most:,} B", f"{most / 568_000:.4f}",
    )  # fmt: skip


def test_the_same_snapshot_gives_the_same_bytes(step):
    made = [page_html(snapshot_page(step, "x")) for _ in range(2)]
    assert made[0] == made[1]


def test_the_page_works_and_shuts_nobody_out(page, show_page):
    shown = show_page(page)
    assert Axe().run(shown).violations_count == 0
    assert shown.evaluate("document.querySelectorAll('img').length") == 0
    shown.focus("#device-0 .plot")
    shown.keyboard.press("ArrowRight")
    found = "document.querySelector('#device-0-reading').innerText.includes('reserved')"
    shown.wait_for_function(found, timeout=10_000)
