"""The replay in a terminal, driven by keys as somebody would press them."""

import asyncio
import html
import io
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("textual")

from textual.app import App
from textual.events import Key

from dtrdiag.cli.tui import app as app_module
from dtrdiag.cli.tui import starting
from dtrdiag.cli.tui.app import ReplayApp
from dtrdiag.cli.tui.cursor import Cursor
from dtrdiag.cli.tui.eventfile import EventFile
from dtrdiag.cli.tui.keys import KEYS, bar
from dtrdiag.cli.tui.panes import header_lines, memory_parts
from dtrdiag.cli.tui.screens import Help, StorageScreen
from dtrdiag.errors import AnalysisError, UsageError
from dtrdiag.log import read_events
from dtrdiag.units import duration, short_bytes

CELL = 12.2
"""Width of a character in a screenshot."""
FOREIGN = Path(__file__).parents[1] / "data" / "foreign-runtime.jsonl"


def shown(app):
    """What is on the screen, as lines of text."""
    rows = {}
    texts = r'<text[^>]* x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>'
    for x, y, text in re.findall(texts, app.export_screenshot()):
        rows.setdefault(float(y), []).append((round(float(x) / CELL), html.unescape(text)))
    lines = []
    for _, row in sorted(rows.items()):
        line = ""
        for column, text in sorted(row):
            line = line.ljust(column) + text
        lines.append(line.replace("\xa0", " "))
    return "\n".join(lines)


class Opened:
    """An application that stays open, so that tests about the same logs share it."""

    def __init__(self, logs, size, loop):
        self._loop = loop
        self._asked = asyncio.Queue()
        self._served = loop.create_task(self._serve(logs, size))

    async def _serve(self, logs, size):
        app = ReplayApp(tuple(Cursor(EventFile(log)) for log in logs))
        async with app.run_test(size=size) as pilot:
            await app.workers.wait_for_complete(list(app.workers))
            while (asked := await self._asked.get()) is not None:
                look, keys, answer = asked
                try:
                    answer.set_result(await self._driven(app, pilot, look, keys))
                except BaseException as error:
                    answer.set_exception(error)

    async def _driven(self, app, pilot, look, keys):
        while len(app.screen_stack) > 1:
            app.pop_screen()
        app.sought, app.status, app.leader = None, "", 0
        for cursor in app.cursors:
            cursor.seek(0)
        return await pressed(app, pilot, look, keys)

    def drive(self, look, keys):
        answer = self._loop.create_future()
        self._asked.put_nowait((look, keys, answer))
        waited = asyncio.wait([answer, self._served], return_when=asyncio.FIRST_COMPLETED)
        self._loop.run_until_complete(waited)
        if not answer.done():
            self._served.result()
        return answer.result()

    def close(self):
        self._asked.put_nowait(None)
        self._loop.run_until_complete(self._served)


OPENS = ("g", "slash", "s", "enter", "escape", "question_mark")
"""Keys that open or close a screen, which takes several turns of the application."""


async def pressed(app, pilot, look, keys):
    """Press keys, and then look; a key may also be a typed text, or keys pressed in a row.

    The screen is painted where it is looked at, and where another one opens.
    """
    for key in keys:
        if key in OPENS:
            await pilot.press(key)
            await pilot.pause()
            continue
        # `press` waits for an idle processor, which takes long beside other tests.
        with app.batch_update():
            for one in key if isinstance(key, tuple) else [key]:
                app.post_message(Key(one, one if len(one) == 1 else None))
                await pilot.pause(0)
    await pilot.pause()
    found = look(app)
    return await found if asyncio.iscoroutine(found) else found


@pytest.fixture(scope="module")
def opened():
    """The applications that are open, by logs and size."""
    loop = asyncio.new_event_loop()
    apps = {}

    def open_app(logs, size):
        key = (tuple(map(str, logs)), size)
        if key not in apps:
            apps[key] = Opened(logs, size, loop)
        return apps[key]

    yield open_app
    for app in apps.values():
        app.close()
    loop.close()


@pytest.fixture
def driven(opened):
    """Shows logs from their beginning, presses keys, and returns what is found by looking."""

    def drive(logs, look, *keys, size=(100, 30)):
        return opened(logs, size).drive(look, keys)

    return drive


def driven_anew(logs, look, *keys, size=(100, 30)):
    """The same in an application of its own."""

    async def drive():
        app = ReplayApp(tuple(Cursor(EventFile(log)) for log in logs))
        async with app.run_test(size=size) as pilot:
            await app.workers.wait_for_complete(list(app.workers))
            return await pressed(app, pilot, look, keys)

    return asyncio.run(drive())


def position(app):
    return app.cursor.event.seq


def neighbours(events, here, wanted):
    """The event before and the one after a position that are wanted."""
    seqs = [event.seq for event in events if wanted(event)]
    return (
        max((seq for seq in seqs if seq < here), default=None),
        min((seq for seq in seqs if seq > here), default=None),
    )


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["right"], 1),
        (["j", "j", "down"], 3),
        (["j", "j", "left"], 1),
        (["j", "j", "j", "k", "up"], 1),
        (["pagedown", "pagedown", "pageup"], 20),
        (["pagedown", "home"], 0),
        (["left"], 0),
    ],
)
def test_steps(driven, small, keys, expected):
    assert driven([small], position, *keys) == expected


def test_going_beyond_either_end_says_so(driven, small):
    assert "This is the first event." in driven([small], shown, "left")
    assert "This is the end of the log." in driven([small], shown, "o", "o")


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("n", lambda e: e.kind in ("compute", "rematerialise", "evict")),
        ("e", lambda e: e.kind == "evict" and e.cause == "pressure"),
        ("r", lambda e: e.kind == "rematerialise"),
    ],
)
def test_jumps_forward_and_back(driven, small, key, wanted):
    events = read_events(small)
    # In the middle of those that are wanted.
    seqs = [event.seq for event in events if wanted(event)]
    here = seqs[len(seqs) // 2] - 1
    go = ("g", tuple(str(here)), "enter")
    earlier, later = neighbours(events, here, wanted)
    assert driven([small], position, *go, key) == later
    assert driven([small], position, *go, key.upper()) == earlier
    _, second = neighbours(events, later, wanted)
    assert driven([small], position, *go, key, key) == second


def test_a_jump_to_what_is_not_there_stays_and_says_so(driven, small):
    words = driven([small], lambda app: (position(app), shown(app)), "home", "R")
    assert words[0] == 0
    assert "There is no rematerialisation before this event." in words[1]


def test_to_the_out_of_memory_stop_and_then_the_end(driven, fails):
    events = read_events(fails)
    stop = next(e.seq for e in events if e.kind == "oom")
    found, text = driven([fails], lambda app: (position(app), shown(app)), "o")
    assert found == stop
    assert "OUT OF MEMORY" in text
    assert "Out of memory: op 44 (addmm) wants" in text
    assert "163 ops pending" in text
    assert driven([fails], position, "o", "o") == events[-1].seq


def test_go_to_an_event(driven, small):
    assert driven([small], position, "g", tuple("1,000"), "enter") == 1000
    nowhere = driven([small], shown, "g", tuple("99999"), "enter")
    assert "The log has no event 99,999." in nowhere
    assert "lunch is no number of an event." in driven([small], shown, "g", tuple("lunch"), "enter")
    told = driven([small], shown, "g", tuple("s612"), "enter")
    assert "s612 is no number of an event: s shows storage 612, / finds what" in told
    assert driven([small], position, "j", "g", "escape") == 1


def test_search_of_an_operator_goes_on_until_escaped(driven, small):
    events = read_events(small)
    back = {e.op for e in events if e.kind == "op" and e.name == "layer_backward"}
    hits = [e.seq for e in events if e.kind in ("op", "compute", "rematerialise") and e.op in back]
    find = ("slash", tuple("LAYER_B"), "enter")
    assert driven([small], position, *find) == hits[0]
    assert driven([small], position, *find, "n", "n", "N") == hits[1]
    text = driven([small], shown, *find, "n")
    assert f"operators like LAYER_B: match 2 of {len(hits):,}" in text
    decisions = [e.seq for e in events if e.kind in ("compute", "rematerialise", "evict")]
    after = next(seq for seq in decisions if seq > hits[0])
    assert driven([small], position, *find, "escape", "n") == after


def test_search_of_a_storage_finds_what_happens_to_it(driven, small):
    events = read_events(small)
    evict = next(e for e in events if e.kind == "evict" and e.cause == "pressure")
    first = next(e.seq for e in events if e.kind == "op" and evict.storage in e.storages)
    assert driven([small], position, "slash", tuple(f"s{evict.storage}"), "enter") == first
    assert (
        driven([small], position, "e", "slash", tuple(f"{evict.storage}"), "enter", "N")
        <= evict.seq
    )


def test_search_of_nothing_says_so_and_is_forgotten(driven, small):
    text = driven([small], shown, "slash", tuple("nosuch"), "enter")
    assert "Nothing in the log is about operators like nosuch." in text
    assert driven([small], lambda app: app.sought, "slash", tuple("nosuch"), "enter") is None


def test_an_eviction_shows_victim_and_scores(driven, small):
    event = next(e for e in read_events(small) if e.kind == "evict" and e.cause == "pressure")
    text = driven([small], shown, "e")
    assert f"storage {event.storage} of {event.size_bytes:,} B" in text
    assert f"✗ s{event.storage} " in text
    assert f"{event.score:.5g}" in text
    assert f"the victim of {event.pool_size}" in text
    assert "The log lists no losers" in text


def test_details_of_a_storage(driven, small):
    event = next(e for e in read_events(small) if e.kind == "evict" and e.cause == "pressure")
    text = driven([small], shown, "e", "s")
    assert f"storage {event.storage}:" in text
    assert "evicted to make room for" in text
    assert "rematerialised for" in text
    assert "Made by op" in text
    another = ("s", *["backspace"] * 6, tuple("0"), "enter")
    assert "storage 0:" in driven([small], shown, "e", *another)
    missing = ("s", *["backspace"] * 6, tuple("99999"), "enter")
    assert "The log names no storage 99999." in driven([small], shown, "e", *missing)
    assert driven([small], lambda app: len(app.screen_stack), "e", "s", "escape") == 1


def test_details_are_asked_for_where_an_event_is_about_no_storage(driven, small):
    assert "Which storage? Give its number." in driven([small], shown, "s")
    assert driven([small], lambda app: type(app.screen), "s") is StorageScreen


def test_help_names_every_key(driven, small):
    text = driven([small], shown, "question_mark", size=(100, 60))
    assert all(key.help in text for key in KEYS)
    assert "clicked" in text
    assert driven([small], lambda app: type(app.screen), "question_mark") is Help
    assert driven([small], lambda app: len(app.screen_stack), "question_mark", "escape") == 1


def test_quit(small):
    assert driven_anew([small], lambda app: app.is_running, "q") is False


def test_words_in_the_bar_can_be_clicked(small):
    async def drive():
        app = ReplayApp((Cursor(EventFile(small)),))
        async with app.run_test(size=(100, 30)) as pilot:
            line = bar(False, False, 98)[0]
            words = "".join(text for text, _ in line)
            for word in ("decision", "evict"):
                await pilot.click("#bar", offset=(1 + words.index(word), 0))
                await pilot.pause()
            return position(app)

    events = read_events(small)
    assert asyncio.run(drive()) == next(
        e.seq for e in events if e.kind == "evict" and e.cause == "pressure"
    )


def test_every_command_is_in_the_palette(driven, small):
    async def run(app):
        commands = {c.title: c.callback for c in app.get_system_commands(app.screen)}
        await commands["Next eviction to make room"]()
        return set(commands), position(app)

    titles, there = driven([small], run)
    alone = {key.help for key in KEYS if key.action not in ("part", "other")}
    assert titles == alone | {"Theme", "Screenshot"}
    assert there == driven([small], position, "e")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60), (72, 20)])
def test_sizes_of_terminals(driven, small, size):
    text = driven([small], shown, "e", size=size)
    for words in ("event ", "pinned", "evictable", "events", "stack: 1 op", "victim", "quit"):
        assert words in text


def test_a_terminal_that_is_too_small_says_what_it_needs(driven, small):
    text = " ".join(driven([small], shown, size=(60, 18)).split())
    assert "This terminal has 60 columns and 18 lines; the replay needs 72 and 20." in text
    assert "stack" not in text
    assert driven_anew([small], lambda app: app.is_running, "q", size=(60, 18)) is False
    assert "needs 72 and 24" in driven([small, small], shown, size=(90, 22))


def test_a_log_of_another_runtime(driven):
    last = len(read_events(FOREIGN)) - 1
    text = driven([FOREIGN], shown, ("right",) * (last + 1))
    assert "five-ops, lru, budget 100 B" in text
    assert "OUT OF MEMORY" in text
    assert "This is the last event." in text
    assert driven([FOREIGN], position, ("right",) * last + ("left",) * (last - 1)) == 1


def test_a_cut_log_says_where_it_ends(small, tmp_path):
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(small.read_bytes()[:50_000])
    text = driven_anew([cut], shown, "o")
    assert "LOG ENDS HERE" in text
    assert "The log is cut in line" in text


def test_a_log_that_breaks_off_under_the_cursor(small, tmp_path, monkeypatch):
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


HOSTILE = ("[bold]x[/bold]", "[@click=app.quit]", "\x1b[31mred", "a\nb", "</script>", "\u202emm")


def test_names_are_shown_as_the_text_they_are(tmp_path):
    events = [json.loads(line) for line in FOREIGN.read_text().splitlines()]
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
    for name in ("[bold]x[/bold]", "[@click=app.qui", "\\x1b[31mred", "a\\nb", "</script>"):
        assert name in text
    assert not set(text) & {"\x1b", "\x07", "\u202e"}
    found = driven_anew([log], shown, "slash", tuple("[bold]x"), "enter", "s", size=(160, 60))
    assert "Made by op 0 ([bold]x[/bold])" in found


def test_two_logs_go_in_step_and_part(driven, works, fails):
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


def test_two_logs_in_80_columns_keep_their_figures(driven, works, fails):
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


def test_either_of_two_logs_can_lead(driven, works, fails):
    stop = next(e.seq for e in read_events(fails) if e.kind == "oom")
    text, there = driven(
        [works, fails], lambda app: (shown(app), position(app)), "tab", "o", size=(120, 40)
    )
    assert there == stop
    assert "events of b, which leads" in text
    assert driven([works, fails], lambda app: app.leader, "tab", "tab") == 0


def test_two_equal_logs_have_no_difference(driven, works):
    text = driven([works, works], shown, "d")
    assert "The two runs decide alike to the end." in text


def test_one_log_has_no_other(driven, small):
    for key in ("d", "tab"):
        assert "There is one log alone: give another with --with." in driven([small], shown, key)


def test_no_color_leaves_every_colour_out(small, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")

    def colours(app):
        filters = app.get_line_filters() if hasattr(app, "get_line_filters") else app._filters
        return [type(one).__name__ for one in filters]

    assert "NoColor" in driven_anew([small], colours)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def on_terminal(monkeypatch):
    """Standard streams that pass for a terminal, and an application that only notes that it ran."""
    ran = []
    monkeypatch.setattr(App, "run", lambda self, **_: ran.append(self))
    monkeypatch.setenv("TERM", "xterm-256color")
    streams = SimpleNamespace(stdin=Terminal(), stdout=Terminal(), stderr=Terminal())
    monkeypatch.setattr(starting, "sys", streams)
    return ran


def test_the_verb_opens_one_log_or_two(on_terminal, works, fails):
    starting.replay_in_terminal([str(works)], [])
    starting.replay_in_terminal([str(works), str(fails)], [])
    assert [len(app.cursors) for app in on_terminal] == [1, 2]
    told = starting.sys.stderr.getvalue().splitlines()
    assert told[0].startswith("dtrdiag: reading ")
    assert " and " in told[1]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda m: m.setattr("dtrdiag.cli.tui.starting.sys.stdin", io.StringIO()),
            "standard input is none",
        ),
        (
            lambda m: m.setattr("dtrdiag.cli.tui.starting.sys.stdout", io.StringIO()),
            "standard output is none",
        ),
        (
            lambda m: m.setattr("dtrdiag.cli.tui.starting.sys.stderr", io.StringIO()),
            "standard error is none",
        ),
        (lambda m: m.setenv("TERM", "dumb"), "TERM is dumb"),
        (
            lambda m: m.setattr("importlib.util.find_spec", lambda name: None),
            r"pip install 'dtrdiag\[tui\]'",
        ),
    ],
)
@pytest.mark.usefixtures("on_terminal")
def test_where_there_is_nothing_to_draw_on(works, monkeypatch, change, why):
    change(monkeypatch)
    with pytest.raises(UsageError, match=why):
        starting.replay_in_terminal([str(works)], [])


@pytest.mark.usefixtures("on_terminal")
def test_logs_of_different_traces_are_refused(works, small):
    with pytest.raises(AnalysisError, match="trace"):
        starting.replay_in_terminal([str(works), str(small)], [])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--tui"], "--tui needs a terminal, and standard"),
        (["--tui", "--json"], "does not go with --json"),
        (["--tui", "--verify"], "does not go with --verify"),
        (["--tui", "--at", "5"], "does not go with --at"),
        (["--tui", "--from", "5"], "does not go with --from"),
        (["--tui", "--to", "5"], "does not go with --to"),
        (["--with", "other.jsonl"], "--with goes with --tui"),
    ],
)
def test_what_does_not_go_together(refuses, small, options, why):
    assert why in refuses("replay", small, *options)
