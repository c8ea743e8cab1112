"""Charts and graphs become pictures in files, the same bytes each time, that say what they show."""

import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
import zlib

import attrs
import pytest

from dtrdiag.errors import OutputError, UsageError
from dtrdiag.rendering.pages.parts import Chart, Drawing
from dtrdiag.rendering.pdffiles import same_pdf
from dtrdiag.rendering.pictures import KINDS, WIDTH, chart_picture, chart_spec, drawing_picture

FOREIGN = (
    "</script><script>alert(1)</script> \"><img src=x onerror=alert(1)> url(#clip7) id='clip8'"
)
SCALE = {"domain": [{"expr": "domain[0]"}, {"expr": "domain[1]"}]}
CHART = Chart(
    id="some",
    heading=FOREIGN,
    words="points",
    spec={
        "encoding": {
            "x": {"field": "at", "type": "quantitative", "scale": SCALE, "title": None},
            "y": {"field": "value", "type": "quantitative"},
        },
        "layer": [
            {"mark": {"type": "line", "clip": True}},
            {"mark": {"type": "area", "opacity": 0.4}},
            {
                "data": {"name": "marks"},
                "mark": {"type": "text", "fontStyle": "italic"},
                "encoding": {"text": {"field": "name"}},
            },
        ],
    },
    columns={"at": [0, 1, 2, 3], "value": [1.5, None, 4, 2]},
    x="at",
    domain=(0, 3),
    more={"marks": {"at": [1], "value": [2], "name": [FOREIGN]}},
)
GRAPH = Drawing("graph", "A graph", "two boxes", None, 'digraph { a [label="é"]; a -> b }', {})


def texts(svg):
    root = ET.fromstring(svg)
    return ["".join(node.itertext()) for node in root.iter() if node.tag.endswith("}text")]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_chart_gives_the_same_bytes(kind):
    first = chart_picture(CHART, kind)
    # PDF objects come in one of six orders, and SVG counts clips through a process's life.
    assert all(chart_picture(CHART, kind) == first for _ in range(5))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_graph_gives_the_same_bytes(kind):
    first, second = (drawing_picture(GRAPH, kind) for _ in range(2))
    assert first == second
    assert {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}[kind] in first


def test_svg_has_heading_and_foreign_names_as_text():
    svg = chart_picture(CHART, "svg").decode()
    assert texts(svg).count(FOREIGN) == 2  # the heading, and a mark of a further source
    assert "<script" not in svg
    assert "<img" not in svg


def test_what_looks_like_a_clip_in_a_name_is_left_alone():
    svg = chart_picture(CHART, "svg").decode()
    clips = {int(at) for at in re.findall(r'\bid="clip(\d+)"', svg)}
    assert clips == set(range(1, len(clips) + 1))
    assert FOREIGN in texts(svg)


def test_a_picture_is_zoomed_as_the_page_shows_it_first():
    every = texts(chart_picture(CHART, "svg"))
    few = texts(chart_picture(attrs.evolve(CHART, domain=(1, 1.4)), "svg"))
    assert "3.0" in every
    assert "1.38" in few
    assert not {"2.00", "2.20"} & set(few)


def test_a_chart_by_itself_is_light_and_of_one_width():
    spec = chart_spec(CHART)
    assert (spec["width"], spec["background"], spec["title"]) == (WIDTH, "#ffffff", FOREIGN)
    assert spec["datasets"]["rows"][1] == {"at": 1, "value": None}
    assert list(spec["datasets"]) == ["rows", "marks"]


def test_png_is_twice_as_large_as_the_svg_on_white():
    svg = ET.fromstring(chart_picture(CHART, "svg"))
    png = chart_picture(CHART, "png")
    width, height = struct.unpack(">II", png[16:24])
    assert width == pytest.approx(2 * float(svg.get("width")), abs=2)
    assert height == pytest.approx(2 * float(svg.get("height")), abs=2)


def objects_of(pdf):
    """Objects by number, at the offsets that the table at the end gives."""
    start = int(re.search(rb"startxref\n(\d+)\n%%EOF", pdf)[1])
    table = pdf[start : pdf.index(b"trailer", start)]
    offsets = [int(at) for at in re.findall(rb"^(\d{10}) 00000 n", table, re.MULTILINE)]
    objects = {}
    for number, at in enumerate(offsets, start=1):
        assert pdf.startswith(b"%d 0 obj\n" % number, at)
        objects[number] = pdf[at : pdf.index(b"endobj", at)]
    return objects


def test_pdf_keeps_all_that_was_drawn_and_its_table_of_objects_is_right():
    pdf = chart_picture(CHART, "pdf")
    objects = objects_of(pdf)
    named = {int(at) for text in objects.values() for at in re.findall(rb"\b(\d+) 0 R\b", text)}
    assert named <= objects.keys()
    assert sum(b"/Type /Page\n" in text for text in objects.values()) == 1
    for text in objects.values():
        if b"/FlateDecode" in text:
            length = int(re.search(rb"/Length (\d+)", text)[1])
            content = text[text.index(b"\nstream\n") + 8 :]
            assert zlib.decompress(content[:length])


def test_pdf_of_a_graph_has_no_time_of_day():
    dates = set(re.findall(rb"/CreationDate ?\(([^)]*)\)", drawing_picture(GRAPH, "pdf")))
    assert dates <= {b"D:19700101000000Z"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"%PDF-1.7\nno table at all\n",
        b"%PDF-1.7\n\nxref\n0 2\n0000000003 00000 n \ntrailer\n<< /Size 2 >>\nstartxref\n9\n",
    ],
)
def test_pdf_of_another_layout_is_left_as_it_is(data):
    assert same_pdf(data) == data


def test_a_graph_that_the_page_shows_is_written_as_shown():
    shown = attrs.evolve(GRAPH, svg="<svg>shown</svg>")
    assert drawing_picture(shown, "svg") == b"<svg>shown</svg>"


@pytest.mark.parametrize("draw", [(chart_picture, CHART), (drawing_picture, GRAPH)])
def test_unknown_kinds_are_refused(draw):
    make, what = draw
    with pytest.raises(UsageError, match="no kind of picture 'gif'; there are svg, png, pdf"):
        make(what, "gif")


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(UsageError, match=r"pip install 'dtrdiag\[charts\]'"):
        chart_picture(CHART, "svg")


def test_without_dot_it_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="apt install graphviz"):
        drawing_picture(GRAPH, "png")


def test_a_graph_that_takes_too_long_is_given_up(monkeypatch):
    def slow(command, timeout, **options):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr("subprocess.run", slow)
    with pytest.raises(UsageError, match="did not finish within 60 s"):
        drawing_picture(GRAPH, "pdf")


def test_a_graph_that_is_none_is_an_error_in_one_line():
    with pytest.raises(OutputError, match="`dot` failed: ") as caught:
        drawing_picture(attrs.evolve(GRAPH, source="digraph {"), "png")
    assert "\n" not in str(caught.value)
