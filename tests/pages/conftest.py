"""A browser for pages, which is the machine's own Chromium, without a window or a network."""

import os
import shutil

import pytest

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    """Chromium, driven by playwright; the test is skipped where there is none.

    With ``DTRDIAG_BROWSER=1`` it fails instead. For a module and no longer: playwright's event loop
    would be in the way of tests that run one of their own.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        if os.environ.get("DTRDIAG_BROWSER") == "1":
            pytest.fail("DTRDIAG_BROWSER=1, but there is no chromium")
        pytest.skip("no chromium to open pages with")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def watched_page(browser):
    """Opens a file in a window of its own; gives the page, and a list of what goes wrong in it.

    That is: an error on the console, one that no script caught, a request but for the file itself.
    """
    windows = []

    def opened(path, width=1280, height=800, dark=False, **more):
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            **more,
        )
        windows.append(context)
        page, wrong = context.new_page(), []
        address = path.resolve().as_uri()

        def asked(request):
            url = request.url
            if url.partition("#")[0] != address and not url.startswith(("data:", "blob:")):
                wrong.append(f"asked for {url}")

        page.on("console", lambda said: said.type == "error" and wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", asked)
        page.goto(address)
        return page, wrong

    yield opened
    for context in windows:
        context.close()


@pytest.fixture
def open_page(watched_page):
    """Opens a file in a window of its own; at the end nothing may have gone wrong in any."""
    watched = []

    def opened(path, **options):
        page, wrong = watched_page(path, **options)
        watched.append(wrong)
        return page

    yield opened
    assert not any(watched), watched
