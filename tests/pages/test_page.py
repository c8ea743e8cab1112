"""A page is one file in which every text stays text, and which asks for nothing."""

import json
import re
from html.parser import HTMLParser

import attrs
import numpy as np
import pytest

from dtrdiag.errors import UsageError
from dtrdiag.rendering.pages import page as page_module
from dtrdiag.rendering.pages.page import as_json, bundle, page_html
from dtrdiag.rendering.pages.parts import (
    Chart,
    Column,
    Commands,
    Drawing,
    Page,
    Section,
    Table,
    Words,
)

PLAIN = Page(
    "a title", ("an answer",), (), (Section("s", "S", (Words(("w",)),)),), "dtrdiag report"
)


class Elements(HTMLParser):
    """Elements and attributes of a document, and the text outside scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text, self.open, self.scripts = [], [], None, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag in self.CDATA_CONTENT_ELEMENTS:
            self.open = tag
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.open = None

    def handle_data(self, text):
        if self.open is None:
            self.text.append(text)
        else:
            self.scripts[-1] += text


def with_drawing(svg, details=None):
    drawing = Drawing("graph", "Graph", "words", svg, "digraph {}", details or {})
    return attrs.evolve(PLAIN, sections=(Section("s", "S", (drawing,)),))


def svg(inner):
    return f'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg">{inner}</svg>'


def test_every_text_stays_text(hostile_page):
    found = Elements(page_html(hostile_page))
    names = {name for name, _ in found.elements}
    assert not names & {"img", "iframe", "object", "embed", "form", "base"}
    handlers = [key for _, attributes in found.elements for key in attributes if key[:2] == "on"]
    assert handlers == []
    kinds = [attributes.get("type") for name, attributes in found.elements if name == "script"]
    assert kinds == ["application/json"] * 4 + [None, None]
    # As often as it is put: none is lost, none is taken for a template.
    assert "".join(found.text).count(hostile_page.title) >= 20
    assert "49" not in "".join(found.text)


def test_data_survives_as_it_is(hostile_page):
    found = Elements(page_html(hostile_page))
    chart = hostile_page.sections[0].parts[1]
    data = json.loads(next(text for text in found.scripts if text.startswith('{"spec"')))
    assert data["columns"]["op"] == chart.columns["op"]
    assert data["readings"][2] == {
        "field": "command", "label": "to stop here", "code": True, "template": None
    }  # fmt: skip


def test_data_holds_nothing_that_html_would_notice():
    text = as_json(
        {"a": "</script>&<!--", "b": "\u2028\u2029", "c": np.arange(2), "d": np.int64(3)}
    )
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == {"a": "</script>&<!--", "b": "\u2028\u2029", "c": [0, 1], "d": 3}


def test_a_number_that_is_none_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        as_json([float("nan")])


def test_the_same_page_gives_the_same_bytes(hostile_page):
    first = page_html(hostile_page)
    page_module._template.cache_clear()
    assert page_html(hostile_page) == first


def test_nothing_is_fetched_from_anywhere(hostile_page):
    text = page_html(hostile_page)
    found = Elements(text)
    (policy,) = (each["content"] for _, each in found.elements if "http-equiv" in each)
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.partition("style-src")[0]
    addresses = [
        value
        for _, attributes in found.elements
        for key, value in attributes.items()
        if key in ("src", "href", "action", "xlink:href", "data", "srcset", "poster")
    ]
    assert all(value.startswith(("#", "data:,")) for value in addresses)
    assert "@import" not in text
    assert "url(" not in page_module._own("page.css")


def test_a_page_without_charts_is_small():
    text = page_html(PLAIN)
    assert len(text) < 60_000
    assert "vegaEmbed=" not in text


def test_a_page_with_charts_holds_the_script_once(hostile_page):
    text = page_html(hostile_page)
    assert text.count("window.vegaEmbed=") == 1
    assert len(text) < len(bundle()) + 300_000


def test_what_turns_the_direction_of_reading_is_written_out():
    text = page_html(attrs.evolve(PLAIN, title="add\u202egpj\u0000\ud800"))
    assert "<h1>add\\u202egpj\\x00\\ud800</h1>" in text


def test_anchors_lead_to_sections(hostile_page):
    found = Elements(page_html(hostile_page))
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] for name, attributes in found.elements if name == "a"]
    assert {link[1:] for link in links} <= set(ids)
    for _, attributes in found.elements:
        for key in ("aria-describedby", "aria-labelledby", "aria-controls"):
            assert set(attributes.get(key, "").split()) <= set(ids)


@pytest.mark.parametrize(
    "inner",
    [
        "<script>alert(1)</script>",
        '<g onclick="alert(1)"/>',
        "<foreignObject><body xmlns='http://www.w3.org/1999/xhtml'>x</body></foreignObject>",
        '<a xmlns:xlink="http://www.w3.org/1999/xlink" xlink:href="javascript:alert(1)"><g/></a>',
        '<image href="http://example.org/x.png"/>',
        "<style>@import 'http://example.org/x.css';</style>",
        '<rect fill="url(http://example.org/x.svg#p)" style="background:url(x)"/>',
        '<animate attributeName="href" to="javascript:alert(1)"/>',
        '<use href="#x"/>',
        "<?xml-stylesheet href='http://example.org/x.css'?>",
    ],
)
def test_whatever_acts_or_links_is_left_out_of_a_drawing(inner):
    text = page_html(with_drawing(svg(inner)))
    picture = text[text.index("<svg") : text.index("</svg>")]
    for banned in ("script", "on", "foreign", "href", "image", "url(", "style", "animate", "use"):
        assert not re.search(rf"[<\s:]{re.escape(banned)}\w*[\s=>(]", picture), picture
    assert "example.org" not in picture
    assert "alert" not in picture


def test_what_is_in_a_link_is_drawn_without_it():
    text = page_html(with_drawing(svg('<a href="x"><text x="1">kept</text></a>')))
    assert '<text x="1">kept</text>' in text


def test_nodes_with_details_are_buttons():
    inner = '<g id="s_1"><title>s</title><text>x</text></g><g id="s_2"><text>y</text></g>'
    text = page_html(with_drawing(svg(inner), {"s_1": [("storage", '7 <"b">')]}))
    assert 'id="s_1"' in text
    assert 'aria-label="storage: 7 &lt;&quot;b&quot;&gt;"' in text
    assert 'id="s_2"' not in text
    assert "<title>s</title>" not in text


@pytest.mark.parametrize(
    ("picture", "said"),
    [
        ("<svg", "well-formed"),
        ("<html/>", "not SVG"),
        ('<!DOCTYPE svg [<!ENTITY a "b">]><svg>&a;</svg>', "entities"),
    ],
)
def test_a_picture_that_is_none_is_refused(picture, said):
    with pytest.raises(UsageError, match=said):
        page_html(with_drawing(picture))


def test_a_picture_that_is_nested_without_end_is_refused():
    with pytest.raises(UsageError, match="nested"):
        page_html(with_drawing(svg("<g>" * 3000 + "</g>" * 3000)))


def test_parts_of_one_id_are_refused():
    section = Section("s", "S", ())
    with pytest.raises(UsageError, match=r"two parts .* 's'"):
        page_html(attrs.evolve(PLAIN, sections=(section, section)))


def test_columns_of_different_length_are_refused():
    chart = Chart("c", "C", "w", {"mark": "point"}, {"x": [1, 2], "y": [1]}, "x")
    with pytest.raises(UsageError, match="'c' differ in length"):
        page_html(attrs.evolve(PLAIN, sections=(Section("s", "S", (chart,)),)))


@pytest.mark.parametrize("missing", ["jinja2", "vl_convert"])
def test_without_a_library_there_is_one_clear_error(monkeypatch, hostile_page, missing):
    bundle.cache_clear()
    page_module._template.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, missing, None)
    with pytest.raises(UsageError, match=r"pip install 'dtrdiag\[report\]'"):
        page_html(hostile_page)


def test_a_long_name_in_a_table_may_break_between_its_parts():
    row = ["aten.max_pool2d_with_indices_backward.default of <b>", "1.5e-09"]
    table = Table("names", (Column("name"), Column("score")), [row])
    section = Section("s", "s", (table,))
    text = page_html(Page("t", ("a",), (), (section,), "x"))
    assert "aten.<wbr>max_<wbr>pool2d_<wbr>with_<wbr>indices_<wbr>backward.<wbr>default of" in text
    assert "of &lt;b&gt;</td>" in text
    assert ">1.5e-09</td>" in text


def test_what_stands_between_backticks_is_code():
    commands = Commands("If `dtrdiag <x>` does not:", ("dtrdiag run",))
    words = Words(("`a` and `b`, but ` alone",))
    page = attrs.evolve(
        PLAIN, answer=("see `oom`",), sections=(Section("s", "S", (words, commands)),)
    )
    text = page_html(page)
    assert "<p>see <code>oom</code></p>" in text
    assert "<p>If <code>dtrdiag &lt;x&gt;</code> does not:</p>" in text
    assert '<p class="words"><code>a</code> and <code>b</code>, but ` alone</p>' in text


def test_a_figure_and_its_unit_stay_on_one_line():
    words = Words(("1 B of 2.0 MiB, 5 % of 3 ms; `4 B`, 6 bytes",))
    page = attrs.evolve(PLAIN, sections=(Section("s", "S", (words,)),))
    expected = "1&nbsp;B of 2.0&nbsp;MiB, 5&nbsp;% of 3&nbsp;ms; <code>4 B</code>, 6 bytes"
    assert expected in page_html(page)
