"""An SVG file as an element of a page: the same drawing in a third of the bytes.

What the page is sure to say once is left out of each drawing: namespaces, joins and caps of lines.
Equal styles are one class, groups that set nothing are dissolved, coordinates have two decimals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

DECIMALS = 2  # of a point, 1/72 inch
UNUSED = (" font-family: 'DejaVu Sans';",)  # of a style: the page's own font for figures
TURN_BY_NOTHING = re.compile(r"rotate\(-?0(?: [^)]*)?\)")
PLACES = ("d", "points", "x", "y", "width", "height", "transform")  # attributes of coordinates
REFERENCE = re.compile(r"url\(#([^)]*)\)")
NUMBER = re.compile(r"-?\d+\.\d{3,}")
SPACED = re.compile(r"([:;]) ")
AROUND_COMMAND = re.compile(r"\s*([MLQCHVSTAZmlqchvstaz])\s*")
LINK = "{http://www.w3.org/1999/xlink}href"


def inline_svg(svg: str, prefix: str, label: str) -> str:
    """Return the <svg> element of a file, for a page; its ids and classes begin with `prefix`.

    `label` says what it shows to those who cannot see it. Raises ParseError for what is no XML.
    """
    root = ElementTree.fromstring(svg[svg.index("<svg") :])
    _keep_what_is_drawn(root)
    linked = {match for one in root.iter() for match in _linked(one)}
    for one in root.iter():
        _attributes(one, prefix, linked)
    _dissolve(root)
    styles: dict[str, str] = {}
    for one in root.iter():
        _classed(one, prefix, styles)
    for one in list(root.iter("g")):
        _gathered(one)
    root.attrib = {"role": "img", "aria-label": label, "viewBox": root.get("viewBox", "")}
    if styles:
        sheet = Element("style")
        sheet.text = "".join(f".{name}{{{style}}}" for style, name in styles.items())
        root.insert(0, sheet)
    text = ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)
    return text.replace(" />", "/>")  # of a tag: in text and in values > is written &gt;


def _keep_what_is_drawn(root: Element) -> None:
    """Take away metadata and the style that the page has for all figures, and every namespace."""
    for one in root.iter():
        one.tag = one.tag.rpartition("}")[2]
        one.text = one.text if (one.text or "").strip() else None
        one.tail = None
        if link := one.attrib.pop(LINK, None):
            one.set("href", link)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in ("metadata", "style"):
                parent.remove(child)


def _linked(one: Element) -> Iterator[str]:
    """Yield the ids that an element refers to."""
    for value in one.attrib.values():
        yield from REFERENCE.findall(value)
    if (href := one.get("href", "")).startswith("#"):
        yield href[1:]


def _attributes(one: Element, prefix: str, linked: set[str]) -> None:
    """Shorten what an element says of itself, and make its ids those of this drawing."""
    if one.get("id") in linked:
        one.set("id", f"{prefix}-{one.get('id')}")
    else:
        one.attrib.pop("id", None)
    if one.get("href", "").startswith("#"):
        one.set("href", f"#{prefix}-{one.get('href', '')[1:]}")
    if TURN_BY_NOTHING.fullmatch(one.get("transform", "")):
        one.attrib.pop("transform")
    for name, value in list(one.attrib.items()):
        if name in PLACES:
            value = NUMBER.sub(_rounded, value)
        if name == "d":
            value = AROUND_COMMAND.sub(r"\1", " ".join(value.split()))
        if name == "style":
            for unused in UNUSED:
                value = value.replace(unused, "")
        one.set(name, REFERENCE.sub(rf"url(#{prefix}-\1)", value))


def _rounded(found: re.Match[str]) -> str:
    text = f"{float(found[0]):.{DECIMALS}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _dissolve(parent: Element) -> None:
    """Put the children of groups without attributes in their place; drop empty groups."""
    children: list[Element] = []
    for child in parent:
        _dissolve(child)
        if child.tag in ("g", "defs") and not len(child):
            continue
        children += list(child) if child.tag == "g" and not child.attrib else [child]
    parent[:] = children


def _classed(one: Element, prefix: str, styles: dict[str, str]) -> None:
    """Say a style by the name of its class."""
    style = one.attrib.pop("style", None)
    if style:
        style = SPACED.sub(r"\1", style)
        one.set("class", styles.setdefault(style, f"{prefix}-s{len(styles)}"))


def _gathered(parent: Element) -> None:
    """Put marks that follow each other with one class into a group that has it."""
    children: list[Element] = []
    for key, run in groupby(parent, key=lambda child: (child.tag, child.get("class"))):
        marks = list(run)
        if key[0] != "use" or key[1] is None or len(marks) < 2:
            children += marks
            continue
        group = Element("g", {"class": key[1]})
        for mark in marks:
            del mark.attrib["class"]
        group[:] = marks
        children.append(group)
    parent[:] = children
