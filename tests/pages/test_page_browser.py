"""What people do with a page: zoom, read, keep, choose, sort; with a pointer or with keys alone."""

import json

import pytest
from axe_playwright_python.sync_playwright import Axe

WHOLE = [0.0, 1000.0]


@pytest.fixture
def shown(show_page, hostile_page):
    return lambda **options: show_page(hostile_page, **options)


def domain_of(page, chart="memory"):
    text = page.get_attribute(f"#{chart}", "data-domain")
    return [float(end) for end in (text or "0 1000").split()]


def reading(page, chart="memory"):
    return page.inner_text(f"#{chart}-reading")


def settle(page):
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
    settle(page)


def button(page, name, chart="memory"):
    page.click(f"#{chart} button[data-do={name}]")
    settle(page)


def box_of(page, chart="memory"):
    page.locator(f"#{chart} .plot").scroll_into_view_if_needed()
    return page.locator(f"#{chart} .plot").bounding_box()


def labels(page, chart="memory"):
    return page.locator(f"#{chart} svg .role-axis-label text").all_inner_texts()


def test_buttons_and_keys_zoom_all_charts_of_a_group(shown):
    page = shown()
    before = labels(page)
    button(page, "in")
    low, high = domain_of(page)
    assert [low, high] == pytest.approx([187.5, 812.5])
    assert domain_of(page, "cost") == [low, high]
    assert page.inner_text("#memory-extent") == "63 % of the whole is shown"
    assert labels(page) != before
    button(page, "right")
    assert domain_of(page) == pytest.approx([375, 1000])
    button(page, "left")
    assert domain_of(page) == pytest.approx([187.5, 812.5])
    button(page, "out")
    assert domain_of(page) == pytest.approx(WHOLE)
    button(page, "in", "cost")
    button(page, "all")
    assert domain_of(page) == WHOLE
    assert page.inner_text("#memory-extent") == ""
    assert labels(page) == before

    page.focus("#memory .plot")
    press(page, "+", "+")
    assert domain_of(page) == pytest.approx([304.6875, 695.3125])
    press(page, "Shift+ArrowLeft")
    assert domain_of(page)[0] < 304
    press(page, "-")
    low, high = domain_of(page)
    assert high - low == pytest.approx(625)
    press(page, "Home")
    assert domain_of(page) == WHOLE
    press(page, "ArrowUp", "Escape")
    assert domain_of(page) == WHOLE


def test_wheel_and_dragging_zoom_where_the_pointer_is(shown):
    page = shown()
    box = box_of(page)
    at = (box["x"] + box["width"] - 12, box["y"] + 60)
    page.mouse.move(*at)
    page.mouse.wheel(0, -1)
    settle(page)
    assert domain_of(page) == WHOLE, "without the focus, the wheel scrolls the page"
    page.focus("#memory .plot")
    page.mouse.move(*at)
    page.mouse.wheel(0, -200)
    page.wait_for_function("document.querySelector('#memory').dataset.domain")
    low, high = domain_of(page)
    assert low > 200
    assert high > 980
    button(page, "all")

    box = box_of(page)
    left = box["x"] + box["width"] * 0.4
    page.mouse.move(left, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(left + 200, box["y"] + 60, steps=4)
    assert page.is_visible("#memory .chosen")
    page.mouse.up()
    settle(page)
    low, high = domain_of(page)
    assert 200 < low < high < 700
    assert page.is_hidden("#memory .chosen")
    assert page.is_hidden("#memory-kept"), "a stretch is no reading"


def test_pointer_and_arrows_read_and_keep(shown):
    page = shown()
    assert "Point at the chart" in reading(page)
    box = box_of(page)
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60)
    settle(page)
    read = reading(page)
    number = int(read.split("op ")[1].split()[0])
    assert 40 < number < 60
    assert f"op {number} " in reading(page, "cost")
    assert f"--at {10 * number}" in read
    assert f"of {10 * number + 10} B</script><script>alert(1)</script>" in read
    assert page.is_visible("#memory .cursor")
    assert page.is_visible("#cost .cursor")
    page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + 60)
    page.mouse.move(5, 5)
    assert f"op {number} " in page.inner_text("#memory-kept")
    assert f"op {number} " in page.inner_text("#cost-kept")
    page.click("#memory-kept button:has-text('Drop')")
    assert page.is_hidden("#memory-kept")

    page.focus("#alone .plot")
    press(page, "ArrowRight", "ArrowRight")
    assert "op 1 " in reading(page, "alone"), "points without zoom are read too"
    assert page.locator("#alone button").count() == 0


def test_arrows_read_row_by_row_and_enter_keeps(shown):
    page = shown()
    page.focus("#memory .plot")
    press(page, "ArrowRight")
    assert "op 0 " in reading(page)
    press(page, "ArrowRight", "ArrowRight", "ArrowLeft")
    assert "op 1 " in reading(page)
    press(page, "PageDown", "Enter", "ArrowRight")
    assert "op 12 " in reading(page)
    assert "op 11 " in page.inner_text("#memory-kept")
    assert page.locator("#memory-kept button.copy").count() == 1
    assert page.locator("#cost-kept button.copy").count() == 0
    press(page, "Escape")
    assert page.is_hidden("#memory-kept")
    press(page, *["PageDown"] * 9)
    assert "1 of 1,000 B" in reading(page), "numbers are filled into a text"

    press(page, *["+"] * 6)
    for _ in range(3):
        press(page, "ArrowLeft")
    low, high = domain_of(page)
    number = int(reading(page).split("op ")[1].split()[0])
    assert number == 96
    assert low <= 10 * number + 5 <= high, "the cursor stays in sight"


def test_drawings_tables_and_commands(shown):
    page = shown(permissions=["clipboard-read", "clipboard-write"])
    page.click("#s_1")
    told = page.inner_text("#frontier-details")
    assert "storage" in told
    assert "</script><script>alert(1)</script>" in told
    page.focus("#s_2")
    press(page, "Enter")
    assert page.inner_text("#frontier-details").split("\n") == ["storage", "2", "size", "64 B"]
    assert page.get_attribute("#s_2", "aria-pressed") == "true"
    assert page.get_attribute("#s_1", "aria-pressed") is None

    # It opens with all of a picture whose text can then be read: this one has the whole line.
    whole = view_of(page)
    assert scale_of(page) > 0.8
    page.locator("#frontier .canvas").focus()
    press(page, "Home")
    assert view_of(page) == whole
    button(page, "in", "frontier")
    assert view_of(page)[2] == pytest.approx(whole[2] / 1.6)
    page.focus("#frontier .canvas")
    left = view_of(page)[0]
    press(page, "ArrowRight")
    assert view_of(page)[0] > left
    press(page, "Home")
    assert view_of(page) == whole
    box = page.locator("#frontier .canvas").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.wheel(0, -100)
    width = "document.querySelector('#frontier svg').viewBox.baseVal.width"
    page.wait_for_function(f"{width} < {whole[2]}")

    page.click("th:nth-child(2) button")
    assert sizes(page) == ["12.0 KiB", "1.5 MiB", "2.0 MiB"]
    page.click("th:nth-child(2) button")
    assert sizes(page) == ["2.0 MiB", "1.5 MiB", "12.0 KiB"]
    assert page.get_attribute("th:nth-child(2)", "aria-sort") == "descending"

    line = page.locator(".commands .line", has_text="dtrdiag run unet")
    line.locator("button").click()
    line.locator("text=Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "dtrdiag run unet"


def scale_of(page):
    """Pixels of the screen for one that the picture would have by itself."""
    return page.evaluate("document.querySelector('#frontier svg').getScreenCTM().a") * 3 / 4


def view_of(page):
    return [float(x) for x in page.get_attribute("#frontier svg", "viewBox").split()]


def sizes(page):
    return page.locator("figure.table td:nth-child(2)").all_inner_texts()


def test_a_narrow_window_scrolls_in_one_direction_only(shown):
    page = shown(width=390, height=844)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    # All of so wide a picture could not be read here.
    part = view_of(page)
    assert scale_of(page) > 0.8
    page.focus("#frontier .canvas")
    press(page, "Home")
    assert part[2] < view_of(page)[2]
    page.focus("#memory .plot")
    press(page, "ArrowRight", "Enter", "+")
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_dark_and_print_change_colours_and_not_states_and_shut_nobody_out(shown):
    page = shown(dark=True)
    page.focus("#memory .plot")
    press(page, "ArrowRight", "Enter")
    page.click("#s_2")
    assert grave_faults(page) == []
    colour = "getComputedStyle(document.querySelector('#memory .role-axis-label text')).fill"
    bar = "getComputedStyle(document.querySelector('#memory .mark-rect path')).fill"
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = [page.evaluate(each) for each in (colour, bar, paper)]
    page.emulate_media(color_scheme="light")
    assert grave_faults(page) == []
    light = [page.evaluate(each) for each in (colour, bar, paper)]
    assert dark[0] != light[0]
    assert dark[1] == light[1]
    assert light[2] == "rgb(255, 255, 255)" != dark[2]
    page.emulate_media(color_scheme="dark", media="print")
    assert page.evaluate(paper) == "rgb(255, 255, 255)"
    assert page.is_hidden("#memory .tools")


def grave_faults(page):
    found = Axe().run(page).response["violations"]
    grave = [each for each in found if each["impact"] in ("serious", "critical")]
    return [json.dumps(each)[:800] for each in grave]
