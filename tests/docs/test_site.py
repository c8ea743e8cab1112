"""The documentation builds as a site without a warning, has what it should, and fetches nothing."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import attrs
import pytest

from dtrdiag.cli.app import VERBS
from dtrdiag.events import EVENT_TYPES
from dtrdiag.events.fields import FIELDS

ROOT = Path(__file__).parents[2]
yaml = pytest.importorskip("yaml")
pytest.importorskip("material")
pytest.importorskip("mkdocstrings")

FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""Elements for which a browser goes and gets something, and where they say what."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    alone = "-P" if sys.version_info >= (3, 11) else "-I"  # the checkout is no place of modules
    done = subprocess.run(
        [sys.executable, alone, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1", "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


class _Elements(HTMLParser):
    def __init__(self):
        super().__init__()
        self.fetched, self.ids, self.links = [], set(), []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids.add(given.get("id"))
        address = given.get(FETCHED.get(tag, ""))
        if address is not None:
            self.fetched.append(address)
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])


@pytest.fixture(scope="module")
def pages(site):
    """The elements of each page, by its path in the site."""
    read = {}
    for path in sorted(site.rglob("*.html")):
        elements = _Elements()
        elements.feed(path.read_text())
        read[path.relative_to(site).as_posix()] = elements
    return read


def nav_pages(entries):
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from nav_pages(value) if isinstance(value, list) else [value]


def test_all_pages_of_the_navigation_are_there(pages):
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    listed = list(nav_pages(navigation))
    assert {"index.md", "tutorial.md", "howto/find-a-flip.md", "explanation/dtr.md"} < set(listed)
    for page in listed:
        assert page.removesuffix(".md") + ".html" in pages


def test_every_page_of_docs_is_in_the_navigation():
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    written = {p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")}
    listed = list(nav_pages(navigation))
    assert written <= set(listed)
    assert len(listed) == len(set(listed))


def test_nothing_is_fetched_from_anywhere(site, pages):
    for page, elements in pages.items():
        assert elements.fetched, page
        for address in elements.fetched:
            assert not re.match(r"(?:https?:)?//", address), (page, address)
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", sheet.read_text()), sheet


def test_links_lead_to_pages_and_places_that_exist(site, pages):
    for page, elements in pages.items():
        for link in elements.links:
            target, _, place = link.partition("#")
            if re.match(r"[a-z]+:", link) or page == "404.html":
                continue
            reached = os.path.normpath(Path(page).parent / target) if target else page
            assert (site / reached).exists(), (page, link)
            if place and reached.endswith(".html") and not place.startswith("__"):
                assert place in pages[reached].ids, (page, link)


def test_the_reference_has_every_verb_event_and_field(site, pages):
    assert set(VERBS) <= pages["reference/help.html"].ids
    assert set(EVENT_TYPES) <= pages["reference/schema.html"].ids
    schema = (site / "reference/schema.html").read_text()
    by_hand = (ROOT / "docs/events.md").read_text()
    for kind in EVENT_TYPES:
        for field in FIELDS[kind]:
            assert f"<code>{field.name}</code>" in schema
            assert f"| `{field.name}` |" in by_hand
    assert '"oneOf"' in (site / "reference/schema-1.1.json").read_text()


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("analyses", "dtrdiag.analyses.frontier.pinned_frontier"),
        ("log", "dtrdiag.log.replay.Replay.at"),
        ("events", "dtrdiag.events.records.Evict"),
        ("hooks", "dtrdiag.hooks.Hooks.subscribe"),
        ("instrumentation", "dtrdiag.instrumentation.jsonl.JsonlWriter"),
        ("simulator", "dtrdiag.simulator.config.RunConfig"),
        ("trace", "dtrdiag.trace.builder.TraceBuilder.call"),
        ("experiments", "dtrdiag.experiments.sweeps.sweep"),
        ("errors", "dtrdiag.errors.DtrdiagError"),
    ],
)
def test_docstrings_are_on_the_page_of_their_package(pages, page, name):
    assert name in pages[f"reference/{page}.html"].ids


@attrs.frozen
class Opened:
    """A page in a browser, and what went wrong in it."""

    page: object
    wrong: list[str]


@pytest.fixture(scope="module")
def opened(browser, site):
    """The site's front page, opened from its file."""
    page, wrong = browser.new_page(), []
    page.on("console", lambda said: said.type == "error" and wrong.append(said.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda asked: not _is_local(asked.url) and wrong.append(asked.url))
    page.goto((site / "index.html").as_uri())
    return Opened(page, wrong)


def _is_local(address):
    return address.startswith(("file:", "data:", "blob:", "about:"))


def test_the_site_works_from_its_files(opened):
    page = opened.page
    page.get_by_role("link", name="Tutorial").first.click()
    assert "inversion" in page.inner_text("h1").lower()
    page.get_by_role("textbox", name="Search").first.click()
    page.keyboard.type("half-open")
    page.wait_for_selector(".md-search-result__item a")
    assert page.locator(".md-search-result__item").count() > 1
    assert opened.wrong == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", ["tutorial", "reference/hooks"])
def test_nothing_shuts_people_out(opened, site, page, scheme):
    from axe_playwright_python.sync_playwright import Axe

    opened.page.emulate_media(color_scheme=scheme)
    opened.page.goto((site / f"{page}.html").as_uri())
    opened.page.wait_for_selector("footer")
    found = Axe().run(opened.page).response["violations"]
    assert [v["id"] for v in found if v["impact"] in ("serious", "critical")] == []
