"""What people do with a page on maps: point at a budget, step along by key, zoom to one byte."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe

from dtrdiag.rendering.pages.mappage import map_page
from dtrdiag.rendering.pages.page import page_html
from dtrdiag.rendering.palette import OUTCOME_COLOURS

LINEAR = "steps-linear-1"


@pytest.fixture(scope="module")
def path(tmp_path_factory, by_hand, made_map):
    """A page on two maps of one trace; in the first a sliver of one byte is out of memory."""
    one = made_map(by_hand, 1_000, 1_000_999)
    other = made_map([(900, None, "ok", 100)], 1_000, 1_000_999, policy="dtr")
    path = tmp_path_factory.mktemp("pages") / "map.html"
    path.write_text(page_html(map_page([one, other], "dtrdiag report a.parquet b.parquet")))
    return path


def opened(open_page, path, **options):
    page = open_page(path, **options)
    page.wait_for_selector(f"#{LINEAR}[data-ready]")
    return page


def settle(page):
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def reading(page, chart=LINEAR):
    return page.inner_text(f"#{chart}-reading")


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
    settle(page)


def column_widths(page, chart=LINEAR):
    """Pixels of each column that is out of memory, from left to right."""
    drawn = page.locator(f'#{chart} svg path[fill="{OUTCOME_COLOURS["oom"]}"]').evaluate_all(
        "paths => paths.map((path) => path.getAttribute('d'))"
    )
    columns = (re.fullmatch(r"M[\d.e-]+,0h([\d.]+)v240h-[\d.]+Z", d) for d in drawn)
    return [float(column[1]) for column in columns if column]


def test_pointing_at_a_budget_reads_its_interval_to_the_byte(open_page, path):
    page = opened(open_page, path)
    page.locator(f"#{LINEAR} .plot").scroll_into_view_if_needed()
    box = page.locator(f"#{LINEAR} .plot").bounding_box()
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 60)
    settle(page)
    text = reading(page)
    assert "[700,000, 1,001,000) B" in text
    assert "finishes" in text
    assert "1.2x" in text
    assert "dtrdiag run tree-4 -p lru -b 700000" in text
    assert "[900, 1,001,000) B" in reading(page, "steps-linear-2")
    assert "lru\nfinishes, 1.2000x" in reading(page, "outcomes")
    assert "dtr\nfinishes, 2.0000x" in reading(page, "outcomes")


def test_keys_step_from_interval_to_interval_and_skip_none(open_page, path, by_hand):
    page = opened(open_page, path)
    page.focus(f"#{LINEAR} .plot")
    seen = []
    for _ in by_hand:
        press(page, "ArrowRight")
        seen.append(reading(page))
    for (lo, hi, _, _), text in zip(by_hand, seen, strict=True):
        assert f"[{lo:,}, {hi:,}) B" in text
        assert f"-b {lo}" in text
    assert "out of memory" in seen[2]
    assert "stopped by the limit" in seen[4]


def test_a_sliver_of_one_byte_is_seen_and_zooming_widens_it(open_page, path):
    page = opened(open_page, path)
    assert column_widths(page) == [pytest.approx(2), pytest.approx(2)]
    page.focus(f"#{LINEAR} .plot")
    press(page, "ArrowRight", "ArrowRight", "ArrowRight")
    assert "[500,000, 500,001) B" in reading(page)
    # Zooming keeps the middle, and the sliver is a little beside it.
    for _ in range(30):
        press(page, "+")
        low, high = map(float, page.get_attribute(f"#{LINEAR}", "data-domain").split())
        if high - low < 40:
            break
        press(page, "ArrowLeft", "ArrowRight")
    assert max(column_widths(page), default=0) > 10


@pytest.mark.parametrize("dark", [False, True])
def test_nobody_is_shut_out(open_page, path, dark):
    page = opened(open_page, path, dark=dark)
    found = Axe().run(page).response["violations"]
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []


def test_a_narrow_page_does_not_scroll_sideways(open_page, path):
    page = opened(open_page, path, width=390, height=844)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
