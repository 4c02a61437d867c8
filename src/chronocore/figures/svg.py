"""Charts -> SVG: compact, accessible, and coloured by the page they stand on."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["COLOURS", "FONT", "MODELS", "colour", "for_file", "for_page"]

#: Measured as Arial, which Helvetica and Liberation Sans match.
FONT = "Helvetica, Arial, Liberation Sans, sans-serif"

#: Every colour of a figure, by role: (light, dark). The light ones must differ from each other,
#: because they are how a colour is found again in a finished drawing.
COLOURS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "surface": ("#fefefe", "#161b22"),
        "ink": ("#1b2330", "#e6ebf1"),
        "muted": ("#566070", "#a7b1bf"),
        "grid": ("#e2e6eb", "#2c343f"),
        "rule": ("#98a2af", "#68737f"),
        "model": ("#174f8f", "#6db3f8"),
        "model-mid": ("#76ade2", "#2f6aa3"),
        "rest": ("#e7eaee", "#29313b"),
        "reference": ("#6a7482", "#98a3b1"),
        "reference-mid": ("#b4bbc5", "#56606d"),
        "separated": ("#0b7d68", "#3cc9ad"),
        "older": ("#2c5fa5", "#78aef2"),
        "newer": ("#a5c8ee", "#b5d3fa"),
        "reversed": ("#bb4b16", "#f29a5e"),
        "tied": ("#c3c8cf", "#555c66"),
        "on-strong": ("#fdfdfd", "#0c1117"),
        "on-pale": ("#1c2431", "#0d1218"),
        # Cells of a heat map, from few to many.
        "h1": ("#eef4fb", "#1b2a3d"),
        "h2": ("#cfe1f4", "#24456b"),
        "h3": ("#9cc3e8", "#2f659f"),
        "h4": ("#3877b8", "#5b97d6"),
        "h5": ("#174a86", "#a9cdf2"),
        # Six models: hues of Okabe and Ito's palette, moved until each has a contrast of three to
        # the page and every two stay apart in normal and in red-, green- and blue-blind vision.
        "m1": ("#005db9", "#488bff"),
        "m2": ("#e03a1e", "#e0793b"),
        "m3": ("#07865b", "#3fe0a0"),
        "m4": ("#a6488b", "#bd7cb4"),
        "m5": ("#648828", "#f0d848"),
        "m6": ("#428df0", "#d1f1ff"),
    }
)

#: Colour role and shape of each model, in the order of their labels.
MODELS = (
    ("m1", "circle"),
    ("m2", "square"),
    ("m3", "triangle-up"),
    ("m4", "diamond"),
    ("m5", "triangle-down"),
    ("m6", "cross"),
)

#: On a page a figure may be so much larger than in print.
PAGE_SCALE = 1.25

_NAMES = {light: name for name, (light, _) in COLOURS.items()}
_SVG = "{http://www.w3.org/2000/svg}"
_DROPPED = {
    "class", "role", "pointer-events", "aria-hidden", "aria-roledescription", "font-family",
    "stroke-miterlimit",
}  # fmt: skip
_NUMBER = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")


def colour(name: str) -> str:
    """Return the light colour of a role; it becomes a variable on the page."""
    return COLOURS[name][0]


def _round(match: re.Match[str]) -> str:
    return f"{float(match[0]):.2f}".rstrip("0").rstrip(".")


def _empty(element: ET.Element) -> bool:
    if element.attrib.get("display") == "none":
        return True
    if element.tag == f"{_SVG}path":
        return element.attrib.get("d", "") in ("", "M0,0h0v0h0Z")
    return element.tag == f"{_SVG}g" and not len(element)


def _clean(element: ET.Element) -> None:
    for child in list(element):
        _clean(child)
        if _empty(child):
            element.remove(child)
    label = element.attrib.pop("aria-label", None)
    if label is not None and element.attrib.get("aria-roledescription") == "mark":
        title = ET.Element(f"{_SVG}title")
        title.text = label
        element.insert(0, title)
    for name in list(element.attrib):
        value = element.attrib[name]
        if name in _DROPPED or (name == "opacity" and value == "1"):
            del element.attrib[name]
        elif name in ("d", "transform") or name.startswith(("x", "y", "width", "height")):
            element.attrib[name] = _NUMBER.sub(_round, value)
    if element.attrib.get("transform") == "translate(0,0)":
        del element.attrib["transform"]


def _renumber(root: ET.Element) -> None:
    """Give a drawing ids of its own; the renderer counts on from one drawing to the next."""
    named = [element for element in root.iter() if "id" in element.attrib]
    ids = {element.attrib["id"]: f"part{index}" for index, element in enumerate(named)}
    for element in root.iter():
        for name, value in element.attrib.items():
            if name == "id":
                element.attrib[name] = ids[value]
            elif value.startswith("url(#"):
                element.attrib[name] = f"url(#{ids[value[5:-1]]})"


def _parse(drawing: str, description: str) -> ET.Element:
    root = ET.fromstring(drawing)
    _clean(root)
    _renumber(root)
    root.attrib.pop("version", None)
    root.set("role", "img")
    root.set("aria-label", description)
    root.set("font-family", FONT)
    return root


def for_file(drawing: str, description: str) -> bytes:
    """Return a drawing as an SVG file, in the light colours."""
    ET.register_namespace("", "http://www.w3.org/2000/svg")
    root = _parse(drawing, description)
    content: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return content


def for_page(drawing: str, description: str, prefix: str) -> str:
    """Return a drawing to stand in an HTML page, coloured by the page's variables.

    Parameters
    ----------
    drawing : str
        As the renderer made it.
    description : str
        Alternative text.
    prefix : str
        Put before every id, so that the drawings of a page do not share one.
    """
    root = _parse(drawing, description)
    width = float(root.attrib.pop("width"))
    root.attrib.pop("height", None)
    root.set("style", f"max-width:{PAGE_SCALE * width:.0f}px")
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        for name, value in list(element.attrib.items()):
            if name in ("fill", "stroke") and value in _NAMES:
                element.set(name, f"var(--fig-{_NAMES[value]})")
            elif name == "id":
                element.set(name, prefix + value)
            elif name == "clip-path":
                element.set(name, value.replace("url(#", f"url(#{prefix}"))
    # The background is the page's; the first rectangle is the renderer's.
    if len(root) and root[0].tag == "rect":
        root.remove(root[0])
    return ET.tostring(root, encoding="unicode")
