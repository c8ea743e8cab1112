"""What of a picture in SVG is let into a page? Shapes and text, and nothing that acts or links.

Pictures are graphviz's, and what stands in them comes from foreign files. So a picture is read,
and put together again from the elements and attributes that are known to do nothing but draw.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from dtrdiag.errors import UsageError
from dtrdiag.rendering.pages.parts import Drawing

_SPACE = "{http://www.w3.org/2000/svg}"
_SHAPES = frozenset(
    {"g", "path", "polygon", "polyline", "ellipse", "circle", "rect", "line", "text", "tspan"}
)
_UNWRAPPED = frozenset({"a"})
"""What is in a link is drawn, without the link."""
_ATTRIBUTES = frozenset(
    [
        "cx", "cy", "d", "dominant-baseline", "dx", "dy", "fill", "fill-opacity", "font-family",
        "font-size", "font-style", "font-weight", "height", "opacity", "points", "r", "rx", "ry",
        "stroke", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "stroke-miterlimit",
        "stroke-opacity", "stroke-width", "text-anchor", "transform", "width", "x", "x1", "x2",
        "y", "y1", "y2",
    ]
)  # fmt: skip
_ID = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]*\Z")
_LENGTH = re.compile(r"([0-9.]+)(pt|px)?\Z")
_VIEW_BOX = re.compile(r"[-0-9.e]+([ ,]+[-0-9.e]+){3}\Z")
_PIXELS_PER_POINT = 4 / 3
_DEPTH = 100


def safe_svg(drawing: Drawing) -> str:
    """A drawing's picture as an `svg` element for HTML, its nodes ready to be chosen. O(n).

    A node with details is a button in the focus order, whose name is the first text of its details;
    all other `id`s go, as they might be those of another part of the page.

    Raises:
        UsageError: the picture is not SVG, declares entities, or is nested as no drawing is.
    """
    root = _parsed(drawing)
    box = root.get("viewBox", "")
    width, height = (_pixels(root.get(name, "")) for name in ("width", "height"))
    if not _VIEW_BOX.match(box):
        box = f"0 0 {width or 100} {height or 100}"
    made = ElementTree.Element(
        "svg", {"viewBox": box, "role": "group", "aria-label": drawing.words, "class": "picture"}
    )
    if width and height:
        made.attrib |= {"data-width": f"{width:g}", "data-height": f"{height:g}"}
    waiting = [(root, made, 0)]
    while waiting:
        source, target, depth = waiting.pop()
        if depth > _DEPTH:
            raise UsageError(f"the picture {drawing.id} is nested more than {_DEPTH} deep")
        for child in source:
            kept = _kept(child, target, drawing)
            if kept is not None:
                waiting.append((child, kept, depth + 1))
    return ElementTree.tostring(made, encoding="unicode", short_empty_elements=False)


def _parsed(drawing: Drawing) -> ElementTree.Element:
    text = drawing.svg or ""
    if "<!ENTITY" in text:
        raise UsageError(f"the picture {drawing.id} declares entities, which graphviz does not")
    try:
        root = ElementTree.fromstring(text.encode("utf-8", "replace"))
    except ElementTree.ParseError as error:
        raise UsageError(f"the picture {drawing.id} is not well-formed XML: {error}") from None
    if root.tag not in ("svg", f"{_SPACE}svg"):
        raise UsageError(f"the picture {drawing.id} is not SVG")
    return root


def _kept(
    child: ElementTree.Element, target: ElementTree.Element, drawing: Drawing
) -> ElementTree.Element | None:
    """What stands for an element in the page; its children go there. None: they go nowhere."""
    name = str(child.tag).removeprefix(_SPACE)
    if name in _UNWRAPPED:
        return target
    if name not in _SHAPES:
        return None
    kept = ElementTree.SubElement(target, name)
    if name in ("text", "tspan"):
        kept.text = child.text
    for key, value in child.attrib.items():
        if key in _ATTRIBUTES and "url(" not in value.lower():
            kept.set(key, value)
    identity = child.get("id", "")
    details = drawing.details.get(identity)
    if details and _ID.match(identity):
        kept.attrib |= {"id": identity, "tabindex": "0", "role": "button"}
        kept.set("aria-label", ": ".join(part for part in details[0] if part))
        kept.set("aria-controls", f"{drawing.id}-details")
    return kept


def _pixels(length: str) -> float | None:
    found = _LENGTH.match(length)
    if found is None:
        return None
    return float(found[1]) * (_PIXELS_PER_POINT if found[2] == "pt" else 1)
