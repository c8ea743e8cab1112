"""What do people see who open the page of a run: do charts and graph answer what they point at?"""

import pytest

from dtrdiag.analyses import pinned_frontier, run_timeline
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import JsonlWriter
from dtrdiag.log import open_log
from dtrdiag.rendering.pages.page import page_html
from dtrdiag.rendering.pages.runpage import run_page
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace.catalog import resolve
from dtrdiag.units import both_bytes


@pytest.fixture(scope="module")
def oom(tmp_path_factory):
    """The log of a run out of memory, and its page in a file."""
    folder = tmp_path_factory.mktemp("pages")
    hooks = Hooks()
    with JsonlWriter(folder / "run.jsonl") as writer:
        hooks.subscribe(writer)
        simulate(resolve("recurrent-16"), RunConfig("dtr", 38_359_636), hooks)
    log = open_log(folder / "run.jsonl")
    (folder / "page.html").write_text(page_html(run_page(log, "dtrdiag")), encoding="utf-8")
    return log, folder / "page.html"


@pytest.fixture
def opened(oom, open_page):
    """Opens the page, and waits until its charts are drawn."""

    def page(**options):
        window = open_page(oom[1], **options)
        window.wait_for_selector("html[data-ready]")
        return window

    return page


def readings(window, chart):
    labels = window.locator(f"#{chart}-reading dt").all_inner_texts()
    return dict(zip(labels, window.locator(f"#{chart}-reading dd").all_inner_texts(), strict=True))


def test_a_storage_of_the_graph_tells_size_holder_and_history(oom, opened):
    if not (frontier := pinned_frontier(oom[0])).stack:
        pytest.fail("nothing is pending")
    window = opened()
    if not window.locator("#frontier svg").count():
        pytest.skip("no program `dot` to draw with")
    storage = next(s for s in frontier.storages if s.id in frontier.stack[0].locks)
    assert storage.state == "locked"
    window.locator(f"#s_{storage.id}").click()
    told = window.locator("#frontier-details").inner_text()
    assert f"storage {storage.id}" in told
    assert both_bytes(storage.bytes) in told
    assert f"op {frontier.stack[0].op} ({frontier.stack[0].name})" in told
    assert "computed by op" in told
    window.locator("#requested").press("Enter")
    told = window.locator("#frontier-details").inner_text()
    assert f"{frontier.passes_at_bytes:,} B" in told


def test_a_zoomed_timeline_is_read_to_the_byte(oom, opened):
    window, found = opened(), run_timeline(oom[0])
    plot = window.locator("#memory .plot")
    plot.scroll_into_view_if_needed()
    for _ in range(4):
        window.locator("#memory [data-do=in]").click()
    extent = window.locator("#memory").get_attribute("data-domain").split()
    assert float(extent[1]) - float(extent[0]) < 0.2 * float(found.x2[-1])
    box = plot.bounding_box()
    window.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    read = readings(window, "memory")
    row = found.high_seq.tolist().index(int(read["after event"].replace(",", "")))
    assert float(extent[0]) <= found.x2[row]
    assert found.x[row] <= float(extent[1])
    assert read["most in memory"] == both_bytes(int(found.high_bytes[row]))
    assert read["step of the schedule"] == f"{found.step[row]:,}"
    # The other charts are zoomed with it and tell of the same place.
    assert window.locator("#depth").get_attribute("data-domain").split() == extent
    assert readings(window, "depth")["clock"] == read["clock"]
    assert readings(window, "depth")["pending at most"].startswith(f"{found.depth[row]:,} op")


def test_all_of_it_is_there_on_a_telephone_in_the_dark(opened):
    window = opened(width=390, height=844, dark=True)
    assert window.evaluate("document.documentElement.scrollWidth") <= 390
    legend = window.locator("#memory svg").text_content()
    for word in ("pinned", "locked", "evictable", "budget 36.6 MiB"):
        assert word in legend
