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


def test_buttons_zoom_all_charts_of_a_group(shown):
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


def test_keys_zoom_a_chart_that_has_the_focus(shown):
    page = shown()
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


def test_the_wheel_zooms_where_the_pointer_is_once_the_chart_has_the_focus(shown):
    page = shown()
    box = box_of(page)
    page.mouse.move(box["x"] + box["width"] - 12, box["y"] + 60)
    page.mouse.wheel(0, -200)
    settle(page)
    assert domain_of(page) == WHOLE
    page.focus("#memory .plot")
    box = box_of(page)
    page.mouse.move(box["x"] + box["width"] - 12, box["y"] + 60)
    page.mouse.wheel(0, -200)
    page.wait_for_function("document.querySelector('#memory').dataset.domain")
    low, high = domain_of(page)
    assert low > 200
    assert high > 980


def test_a_stretch_is_chosen_by_dragging(shown):
    page = shown()
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
    assert page.is_hidden("#memory-kept")


def test_the_pointer_reads_all_charts_of_a_group(shown):
    page = shown()
    assert "Point at the chart" in reading(page)
    box = box_of(page)
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60)
    settle(page)
    read = reading(page)
    assert "</script><script>alert(1)</script>" in read
    number = int(read.split("op ")[1].split()[0])
    assert 40 < number < 60
    assert f"op {number} " in reading(page, "cost")
    assert f"--at {10 * number}" in read
    assert page.is_visible("#memory .cursor")
    assert page.is_visible("#cost .cursor")


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


def test_a_reading_is_filled_into_a_text(shown):
    page = shown()
    page.focus("#memory .plot")
    press(page, "ArrowRight", *["PageDown"] * 10)
    assert "1 of 1,000 B</script><script>alert(1)</script>" in reading(page)


def test_the_cursor_stays_in_sight_when_zoomed(shown):
    page = shown()
    page.focus("#memory .plot")
    press(page, *["+"] * 8)
    for _ in range(9):
        press(page, "ArrowRight")
    low, high = domain_of(page)
    number = int(reading(page).split("op ")[1].split()[0])
    assert low <= 10 * number + 5 <= high
    assert number > 55


def test_points_without_zoom_are_read_too(shown):
    page = shown()
    assert page.locator("#alone button").count() == 0
    page.focus("#alone .plot")
    press(page, "ArrowRight", "ArrowRight")
    assert "op 1 " in reading(page, "alone")


def test_a_command_is_copied(shown, browser):
    page = shown(permissions=["clipboard-read", "clipboard-write"])
    line = page.locator(".commands .line", has_text="dtrdiag run unet")
    line.locator("button").click()
    line.locator("text=Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "dtrdiag run unet"


def test_a_node_tells_about_itself(shown):
    page = shown()
    page.click("#s_1")
    told = page.inner_text("#frontier-details")
    assert "storage" in told
    assert "</script><script>alert(1)</script>" in told
    page.focus("#s_2")
    press(page, "Enter")
    assert page.inner_text("#frontier-details").split("\n") == ["storage", "2", "size", "64 B"]
    assert page.get_attribute("#s_2", "aria-pressed") == "true"
    assert page.get_attribute("#s_1", "aria-pressed") is None


def test_a_drawing_is_zoomed_and_moved(shown):
    page = shown()
    view = lambda: [float(x) for x in page.get_attribute("#frontier svg", "viewBox").split()]  # noqa: E731
    whole = view()
    button(page, "in", "frontier")
    assert view()[2] == pytest.approx(whole[2] / 1.6)
    page.focus("#frontier .canvas")
    left = view()[0]
    press(page, "ArrowRight")
    assert view()[0] > left
    press(page, "Home")
    assert view() == whole
    box = page.locator("#frontier .canvas").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.wheel(0, -100)
    page.wait_for_function(
        f"+document.querySelector('#frontier svg').viewBox.baseVal.width < {whole[2]}"
    )


def test_a_table_is_sorted_by_amounts(shown):
    page = shown()
    column = lambda: page.locator("figure.table td:nth-child(2)").all_inner_texts()  # noqa: E731
    page.click("th:nth-child(2) button")
    assert column() == ["12.0 KiB", "1.5 MiB", "2.0 MiB"]
    page.click("th:nth-child(2) button")
    assert column() == ["2.0 MiB", "1.5 MiB", "12.0 KiB"]
    assert page.get_attribute("th:nth-child(2)", "aria-sort") == "descending"


def test_a_narrow_window_scrolls_in_one_direction_only(shown):
    page = shown(width=390, height=844)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.focus("#memory .plot")
    press(page, "ArrowRight", "Enter", "+")
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_dark_and_print_change_colours_and_not_states(shown):
    page = shown(dark=True)
    colour = "getComputedStyle(document.querySelector('#memory .role-axis-label text')).fill"
    bar = "getComputedStyle(document.querySelector('#memory .mark-rect path')).fill"
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = [page.evaluate(each) for each in (colour, bar, paper)]
    page.emulate_media(color_scheme="light")
    light = [page.evaluate(each) for each in (colour, bar, paper)]
    assert dark[0] != light[0]
    assert dark[1] == light[1]
    assert light[2] == "rgb(255, 255, 255)" != dark[2]
    page.emulate_media(color_scheme="dark", media="print")
    assert page.evaluate(paper) == "rgb(255, 255, 255)"
    assert page.is_hidden("#memory .tools")


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_shuts_people_out(shown, dark):
    page = shown(dark=dark)
    page.focus("#memory .plot")
    press(page, "ArrowRight", "Enter")
    page.click("#s_2")
    found = Axe().run(page).response["violations"]
    grave = [each for each in found if each["impact"] in ("serious", "critical")]
    assert grave == [], json.dumps(grave, indent=1)[:4000]
