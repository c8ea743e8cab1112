"""What the replay in a terminal shows: of any size, any log, and of two."""

import asyncio
import json

import pytest

from dtrdiag.cli.tui import app as app_module
from dtrdiag.cli.tui.app import ReplayApp
from dtrdiag.cli.tui.cursor import Cursor
from dtrdiag.cli.tui.eventfile import EventFile
from dtrdiag.cli.tui.panes import header_lines, memory_parts
from dtrdiag.log import read_events
from dtrdiag.units import duration, short_bytes

HOSTILE = ("[bold]x[/bold]", "[@click=app.quit]", "\x1b[31mred", "a\nb", "</script>", "\u202emm")


def position(app):
    return app.cursor.event.seq


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60), (72, 20)])
def test_sizes_of_terminals(driven, small, size, shown):
    text = driven([small], shown, "e", size=size)
    for words in ("event ", "pinned", "evictable", "events", "stack: 1 op", "victim", "quit"):
        assert words in text


def test_a_terminal_that_is_too_small_says_what_it_needs(driven, small, shown, driven_anew):
    text = " ".join(driven([small], shown, size=(60, 18)).split())
    assert "This terminal has 60 columns and 18 lines; the replay needs 72 and 20." in text
    assert "stack" not in text
    assert driven_anew([small], lambda app: app.is_running, "q", size=(60, 18)) is False
    assert "needs 72 and 24" in driven([small, small], shown, size=(90, 22))


def test_a_log_of_another_runtime(driven, shown, foreign):
    last = len(read_events(foreign)) - 1
    text = driven([foreign], shown, ("right",) * (last + 1))
    assert "five-ops, lru, budget 100 B" in text
    assert "OUT OF MEMORY" in text
    assert "This is the last event." in text
    assert driven([foreign], position, ("right",) * last + ("left",) * (last - 1)) == 1


def test_a_cut_log_says_where_it_ends(small, tmp_path, shown, driven_anew):
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(small.read_bytes()[:50_000])
    text = driven_anew([cut], shown, "o")
    assert "LOG ENDS HERE" in text
    assert "The log is cut in line" in text


def test_a_log_that_breaks_off_under_the_cursor(small, tmp_path, monkeypatch, shown, driven_anew):
    monkeypatch.setattr(app_module, "AT_ONCE", 5)
    lines = small.read_text().splitlines()
    lines[300] = '{"event":"lock","seq":300}'
    bad = tmp_path / "bad.jsonl"
    bad.write_text("\n".join(lines) + "\n")
    there, text = driven_anew([bad], lambda app: (position(app), shown(app)), "o")
    assert there == 299
    assert "cannot be read after event 299" in text


def test_what_has_not_been_read_is_read_when_asked_for(small, monkeypatch):
    monkeypatch.setattr(app_module, "AT_ONCE", 5)
    monkeypatch.setattr(app_module, "PIECE", 50)

    async def drive():
        app = ReplayApp((Cursor(EventFile(small)),))
        before = app.cursor.reading.complete
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("o")
            await pilot.pause()
            return before, position(app)

    assert asyncio.run(drive()) == (False, len(read_events(small)) - 1)


def test_names_are_shown_as_the_text_they_are(tmp_path, shown, driven_anew, foreign):
    events = [json.loads(line) for line in foreign.read_text().splitlines()]
    names = iter(HOSTILE)
    for event in events:
        if event["event"] == "op":
            event["name"] = next(names)
        elif event["event"] == "run":
            event |= {"trace_name": "[red]t[/red]", "policy": "\x1b]0;p\x07"}
    log = tmp_path / "hostile.jsonl"
    log.write_text("".join(json.dumps(event) + "\n" for event in events))
    text = driven_anew([log], shown, size=(160, 60))
    assert "[red]t[/red], \\x1b]0;p\\x07" in text
    for name in ("[bold]x[/bold]", "[@click", "\\x1b[31mred", "a\\nb", "</script>"):
        assert name in text
    assert not set(text) & {"\x1b", "\x07", "\u202e"}
    found = driven_anew([log], shown, "slash", tuple("[bold]x"), "enter", "s", size=(160, 60))
    assert "Made by op 0 ([bold]x[/bold])" in found


def test_two_logs_go_in_step_and_part(driven, works, fails, shown):
    def both(app):
        return [cursor.event.seq for cursor in app.cursors]

    wide = (120, 40)
    alike = driven([works, works], both, "n", "n")
    assert driven([works, fails], both, "n", "n", size=wide) == alike
    there, text = driven([works, fails], lambda app: (both(app), shown(app)), "d", size=wide)
    assert there == [4045, 4045]
    assert "FIRST DIFFERENCE: op 163 (tanh) fits in b with 0 B to spare" in text
    assert "It wants 524,288 B" in text
    assert "misses in a by 1 B." in text
    assert "a: recurrent-16, dtr, budget 38,359,635 B" in text
    assert "b: recurrent-16, dtr, budget 38,359,636 B" in text
    before = driven([works, fails], shown, "d", "left", size=wide)
    assert "Before the first difference (after " in before
    after = driven([works, fails], shown, "d", "right", size=wide)
    assert "After the first difference: both are as far in the schedule." in after


def test_two_logs_in_80_columns_keep_their_figures(driven, works, fails, shown):
    text = driven([works, fails], shown, "d", size=(80, 30))
    first = text.partition("FIRST DIFFERENCE: ")[2]
    assert first.startswith("op 163 (tanh) fits in b with 0 B to spare and misses in a by")
    cursor = Cursor(EventFile(works))
    cursor.seek(len(cursor) - 1)
    for position in (4045, 0, len(cursor) - 1):
        cursor.seek(position)
        clock, size = duration(cursor.state.clock_ns), memory_parts(cursor.state)["evictable"]
        for width in (38, 44, 60, 100):
            _, where, _, legend = (line.plain for line in header_lines(cursor, width, "a"))
            assert "…" not in where + legend
            assert f"{position:,}" in where
            assert clock in where
            figures = short_bytes(size), short_bytes(size).replace(" ", "").removesuffix("iB")
            assert any(figure in legend for figure in figures)


def test_either_of_two_logs_can_lead(driven, works, fails, shown):
    stop = next(e.seq for e in read_events(fails) if e.kind == "oom")
    text, there = driven(
        [works, fails], lambda app: (shown(app), position(app)), "tab", "o", size=(120, 40)
    )
    assert there == stop
    assert "events of b, which leads" in text
    assert driven([works, fails], lambda app: app.leader, "tab", "tab") == 0


def test_two_equal_logs_have_no_difference(driven, works, shown):
    text = driven([works, works], shown, "d")
    assert "The two runs decide alike to the end." in text


def test_one_log_has_no_other(driven, small, shown):
    for key in ("d", "tab"):
        assert "There is one log alone: give another with --with." in driven([small], shown, key)


def test_no_color_leaves_every_colour_out(small, monkeypatch, driven_anew):
    monkeypatch.setenv("NO_COLOR", "1")

    def colours(app):
        filters = app.get_line_filters() if hasattr(app, "get_line_filters") else app._filters
        return [type(one).__name__ for one in filters]

    assert "NoColor" in driven_anew([small], colours)
