"""The replay in a terminal, driven by keys as somebody would press them."""

import asyncio

import pytest

from dtrdiag.cli.tui.app import ReplayApp
from dtrdiag.cli.tui.cursor import Cursor
from dtrdiag.cli.tui.eventfile import EventFile
from dtrdiag.cli.tui.keys import KEYS, bar
from dtrdiag.cli.tui.screens import Help, StorageScreen
from dtrdiag.log import read_events


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


def test_going_beyond_either_end_says_so(driven, small, shown):
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


def test_a_jump_to_what_is_not_there_stays_and_says_so(driven, small, shown):
    words = driven([small], lambda app: (position(app), shown(app)), "home", "R")
    assert words[0] == 0
    assert "There is no rematerialisation before this event." in words[1]


def test_to_the_out_of_memory_stop_and_then_the_end(driven, fails, shown):
    events = read_events(fails)
    stop = next(e.seq for e in events if e.kind == "oom")
    found, text = driven([fails], lambda app: (position(app), shown(app)), "o")
    assert found == stop
    assert "OUT OF MEMORY" in text
    assert "Out of memory: op 44 (addmm) wants" in text
    assert "163 ops pending" in text
    assert driven([fails], position, "o", "o") == events[-1].seq


def test_go_to_an_event(driven, small, shown):
    assert driven([small], position, "g", tuple("1,000"), "enter") == 1000
    nowhere = driven([small], shown, "g", tuple("99999"), "enter")
    assert "The log has no event 99,999." in nowhere
    assert "lunch is no number of an event." in driven([small], shown, "g", tuple("lunch"), "enter")
    told = driven([small], shown, "g", tuple("s612"), "enter")
    assert "s612 is no number of an event: s shows storage 612, / finds what" in told
    assert driven([small], position, "j", "g", "escape") == 1


def test_search_of_an_operator_goes_on_until_escaped(driven, small, shown):
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


def test_search_of_nothing_says_so_and_is_forgotten(driven, small, shown):
    text = driven([small], shown, "slash", tuple("nosuch"), "enter")
    assert "Nothing in the log is about operators like nosuch." in text
    assert driven([small], lambda app: app.sought, "slash", tuple("nosuch"), "enter") is None


def test_an_eviction_shows_victim_and_scores(driven, small, shown):
    event = next(e for e in read_events(small) if e.kind == "evict" and e.cause == "pressure")
    text = driven([small], shown, "e")
    assert f"storage {event.storage} of {event.size_bytes:,} B" in text
    assert f"✗ s{event.storage} " in text
    assert f"{event.score:.5g}" in text
    assert f"the victim of {event.pool_size}" in text
    assert "The log lists no losers" in text


def test_details_of_a_storage(driven, small, shown):
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


def test_details_are_asked_for_where_an_event_is_about_no_storage(driven, small, shown):
    assert "Which storage? Give its number." in driven([small], shown, "s")
    assert driven([small], lambda app: type(app.screen), "s") is StorageScreen


def test_help_names_every_key(driven, small, shown):
    text = driven([small], shown, "question_mark", size=(100, 60))
    assert all(key.help in text for key in KEYS)
    assert "clicked" in text
    assert driven([small], lambda app: type(app.screen), "question_mark") is Help
    assert driven([small], lambda app: len(app.screen_stack), "question_mark", "escape") == 1


def test_quit(small, driven_anew):
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
