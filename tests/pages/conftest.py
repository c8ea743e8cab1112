"""What tests of pages share: windows that are watched, pages to put into them, maps."""

import shutil

import attrs
import graphviz
import pytest

from dtrdiag.analyses import BudgetMap
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace.catalog import resolve

PEAK, BASELINE = 1_000_000, 100
BY_HAND = [
    (1_000, 2_000, "oom", 0),
    (2_000, 500_000, "ok", 100),
    (500_000, 500_001, "oom", 0),
    (500_001, 600_000, "ok", 50),
    (600_000, 700_000, "thrashed", 900),
    (700_000, 1_001_000, "ok", 20),
]


@pytest.fixture(scope="session")
def by_hand():
    """Intervals (lo, hi, outcome, remat cost) of a map; a sliver of one byte is out of memory."""
    return list(BY_HAND)


@pytest.fixture(scope="session")
def made_map():
    """Makes a map of intervals such as `by_hand` has them; its peak is 1,000,000 B."""
    result = simulate(resolve("tree-4"), RunConfig("lru"))

    def made(intervals, low=None, high=None, peak=PEAK, **header):
        about = attrs.evolve(
            result.header, **{"peak_bytes": peak, "baseline_cost_ns": BASELINE} | header
        )
        runs = tuple(
            attrs.evolve(
                result.end,
                interval_lo_bytes=lo,
                interval_hi_bytes=hi,
                outcome=outcome,
                remat_cost_ns=remat,
            )
            for lo, hi, outcome, remat in intervals
        )
        if high is None:
            high = runs[-1].interval_hi_bytes - 1
        return BudgetMap(about, runs, intervals[0][0] if low is None else low, high)

    return made


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


@pytest.fixture
def show_page(open_page, tmp_path):
    """Writes a `Page` to a file and opens that; gives the page when its charts are drawn."""
    from dtrdiag.rendering.pages.page import page_html

    def shown(page, **options):
        path = tmp_path / "shown.html"
        path.write_text(page_html(page), encoding="utf-8")
        opened = open_page(path, **options)
        opened.wait_for_selector("html[data-ready=yes]")
        return opened

    return shown


HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onfocus='alert(1)' x='",
    "<!--<script>",
    "{{ 7 * 7 }}",
    "a & b &lt; c",
)
"""Names that would do harm where a text is taken for HTML, a script or a template."""


@pytest.fixture
def hostile_page():
    """A page with every kind of part, in which every text is a hostile name."""
    from dtrdiag.rendering.pages import parts

    name = " ".join(HOSTILE)
    details = {"s_1": [("storage", name)], "s_2": [("storage", "2"), ("size", "64 B")]}
    graph = graphviz.Digraph(node_attr={"shape": "box"})
    for node in details:
        graph.node(node, graphviz.nohtml(graphviz.escape(name)), id=node)
    graph.edge("s_1", "s_2")
    svg = graph.pipe("svg", encoding="utf-8") if shutil.which("dot") else _SVG
    commands = parts.Commands(name, (name, "dtrdiag run unet"))
    columns = (parts.Column(name, code=True), parts.Column("size", parts.RIGHT))
    rows = [[name, "1.5 MiB"], ["b", "12.0 KiB"], ["a", "2.0 MiB"]]
    return parts.Page(
        name,
        (name, name),
        ((name, name), ("peak", "64 B")),
        (
            parts.Section("time", name, (parts.Words((name, name)), *_charts(name))),
            parts.Section("tables", name, (parts.Table(name, columns, rows, name), commands)),
            parts.Section(
                "graphs",
                name,
                (
                    parts.Drawing("frontier", name, name, svg, name, details),
                    parts.Drawing("undrawn", name, name, None, name, {}),
                ),
            ),
        ),
        name,
    )


_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="90pt" height="90pt" viewBox="0 0 90 90">'
    '<g id="s_1"><polygon points="5,5 85,5 85,40 5,40"/></g>'
    '<g id="s_2"><polygon points="5,50 85,50 85,85 5,85"/></g></svg>'
)


def _charts(name):
    from dtrdiag.rendering.pages import parts

    x = {"field": "at", "type": "quantitative", "scale": {"nice": False}}
    x["scale"]["domain"] = [{"expr": "domain[0]"}, {"expr": "domain[1]"}]
    limit = {"data": {"name": "limit"}, "mark": "rule", "encoding": {"y": {"field": "budget"}}}
    limit["encoding"]["y"]["type"] = "quantitative"
    y = {"field": "held", "type": "quantitative"}
    bars = {"mark": "rect", "encoding": {"x": x, "x2": {"field": "until"}, "y": y}}
    bars["encoding"]["y2"] = {"datum": 0}
    spec = {"height": 120, "layer": [bars, limit]}
    starts = [10 * row for row in range(100)]
    columns = {
        "at": starts,
        "until": [start + 10 for start in starts],
        "held": [row % 7 for row in range(100)],
        "op": [f"op {row} {name}" for row in range(100)],
        "command": [f"dtrdiag replay run.jsonl --at {start}" for start in starts],
    }
    readings = (parts.Reading("op", "op"), parts.Reading("held", name))
    command = parts.Reading("command", "to stop here", code=True)
    filled = parts.Reading("held", "held here", template="{held} of {until:,} B" + name)
    more = {"limit": {"budget": [6]}}
    memory = parts.Chart(
        "memory", name, name, spec, columns, "at", "until", (*readings, command, filled),
        (0, 1000), "time", more,
    )  # fmt: skip
    cost = parts.Chart(
        "cost", name, name, spec, columns, "at", "until", readings, (0, 1000), "time", more
    )
    dots = {"mark": "point", "encoding": {"x": {**x, "scale": {}}, "y": y}}
    alone = parts.Chart("alone", name, name, dots, columns, "at", None, readings)
    return memory, cost, alone
