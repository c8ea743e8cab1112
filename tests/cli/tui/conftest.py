"""An application that shows logs, driven by keys as somebody would press them."""

import asyncio
import html
import re
from pathlib import Path

import pytest
from textual.events import Key

from dtrdiag.cli.tui.app import ReplayApp
from dtrdiag.cli.tui.cursor import Cursor
from dtrdiag.cli.tui.eventfile import EventFile

CELL = 12.2
"""Width of a character in a screenshot."""


def _shown(app):
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


def _driven_anew(logs, look, *keys, size=(100, 30)):
    """The same in an application of its own."""

    async def drive():
        app = ReplayApp(tuple(Cursor(EventFile(log)) for log in logs))
        async with app.run_test(size=size) as pilot:
            await app.workers.wait_for_complete(list(app.workers))
            return await pressed(app, pilot, look, keys)

    return asyncio.run(drive())


@pytest.fixture
def shown():
    """A look at an application: what is on its screen, as lines of text."""
    return _shown


@pytest.fixture
def driven_anew():
    """Shows logs as `driven` does, in an application of its own."""
    return _driven_anew


@pytest.fixture
def foreign():
    """The log of a runtime that is none of ours."""
    return Path(__file__).parents[2] / "data" / "foreign-runtime.jsonl"
