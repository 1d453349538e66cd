"""A drawing inside a page is the drawing of the file, in fewer bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from lrbench.report.figures.axes import drawable
from lrbench.report.figures.draw import PAGE, saved, settings
from lrbench.report.output.inline_svg import inline_svg

LINK = "{http://www.w3.org/1999/xlink}href"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
GEOMETRY = ("d", "x", "y", "width", "height", "points")
SVG = (
    '<?xml version="1.0"?><!-- <b> --><svg xmlns:xlink="http://www.w3.org/1999/xlink"'
    ' width="10pt" height="5pt" viewBox="0 0 97 5" xmlns="http://www.w3.org/2000/svg">'
    '<metadata>http://x</metadata><defs><path id="a"/><clipPath id="p1"/></defs><!-- name -->'
    '<g id="unused"><use xlink:href="#a"/></g><g clip-path="url(#p1)"><path d="M 0 0"/></g></svg>'
)


@dataclass(frozen=True)
class Drawn:
    """A shape as it is painted, whatever said so: itself, a group around it, or a class."""

    words: tuple[object, ...]  # what has to be equal
    numbers: tuple[float, ...]  # what may be rounded


def painted(svg: str) -> list[Drawn]:
    """Every shape in the order of painting: a slow reading of the few parts of SVG there are."""
    root = ElementTree.fromstring(svg[svg.index("<svg") :])
    for one in root.iter():
        one.tag = one.tag.rpartition("}")[2]
    by_id = {one.get("id", ""): one for one in root.iter() if one.get("id")}
    rules = dict(
        pair
        for sheet in root.iter("style")
        for pair in re.findall(r"\.([\w-]+)\{([^}]*)\}", sheet.text or "")
    )
    return list(_painted(root, {}, (), by_id, rules))


def _painted(
    one: Element,
    style: dict[str, str],
    around: tuple[str, ...],
    by_id: dict[str, Element],
    rules: dict[str, str],
) -> Iterator[Drawn]:
    if one.tag in ("defs", "metadata", "style"):
        return
    said = rules[one.get("class", "")] if one.get("class") else one.get("style", "")
    pairs = (part.split(":", 1) for part in said.split(";") if part.strip())
    style = style | {name.strip(): value.strip() for name, value in pairs}
    clip = re.fullmatch(r"url\(#(.*)\)", one.get("clip-path", ""))
    if clip:
        around += tuple(ElementTree.tostring(by_id[clip[1]][0], "unicode").split('"')[3::2])
    turn = one.get("transform", "")
    around += (turn,) if turn and not turn.startswith("rotate(-0 ") else ()
    if one.tag == "use":
        target = by_id[(one.get("href") or one.get(LINK, "")).removeprefix("#")]
        around += (f"at {one.get('x')} {one.get('y')}",)
        yield from _painted(target, style, around, by_id, rules)
    elif one.tag in ("path", "text", "rect"):
        style = {name: value for name, value in style.items() if name != "font-family"}
        text = " ".join([*(one.get(name, "") for name in GEOMETRY), *around])
        words = "".join(NUMBER.sub("#", text).split())
        shape = (one.tag, one.text and one.text.strip(), words, tuple(sorted(style.items())))
        yield Drawn(shape, tuple(map(float, NUMBER.findall(text))))
    for child in one:
        yield from _painted(child, style, around, by_id, rules)


def drawing() -> str:
    """Lines, marks, a legend, turned letters and what a frame cuts off."""
    matplotlib = pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    with matplotlib.rc_context(settings()):
        figure = Figure(figsize=(3.5, 2.2), layout="constrained")
        axes = figure.subplots()
        for place in range(3):
            values = [(7 * x * (place + 1) % 11) / 10 for x in range(20)]
            axes.plot(values, marker="os^"[place], label=f"a_{place} & <b>")
        axes.axhline(0.5, color="#888888", linestyle="--")
        axes.annotate("here", (3, 0.5), rotation=90)
        axes.set_ylim(0.2, 0.9)
        axes.set_ylabel(drawable("accuracy"))
        axes.legend()
        return saved(figure, [PAGE])[PAGE].decode()


def test_the_same_is_painted_in_half_the_bytes() -> None:
    svg = drawing()
    inlined = inline_svg(svg, "f1", "a figure")
    before, after = painted(svg), painted(inlined)
    assert len(before) > 100
    assert [one.words for one in after] == [one.words for one in before]
    for old, new in zip(before, after, strict=True):
        assert new.numbers == pytest.approx(old.numbers, abs=0.0051)
    assert len(inlined) < len(svg) / 2
    side_by_side = [list(parent) for parent in ElementTree.fromstring(inlined).iter()]
    followers = [pair for children in side_by_side for pair in pairwise(children)]
    marks = [
        (a.get("class"), b.get("class"))
        for a, b in followers
        if a.tag == b.tag and a.tag.endswith("use")
    ]
    assert len(marks) > 20
    assert not any(first == second is not None for first, second in marks)  # their group says it


def test_a_drawing_keeps_its_ids_to_itself() -> None:
    inlined = inline_svg(SVG, "f7", 'a "name"')
    svg = ElementTree.fromstring(inlined)
    assert (svg.get("role"), svg.get("aria-label")) == ("img", 'a "name"')
    assert svg.get("viewBox") == "0 0 97 5" and svg.get("width") is None
    assert 'id="f7-a"' in inlined and 'href="#f7-a"' in inlined and "url(#f7-p1)" in inlined
    assert "unused" not in inlined and "http" not in inlined and "<!--" not in inlined
    names = [set(re.findall(r'(?:id|class)="([^"]*)"', inline_svg(drawing(), p, ""))) for p in "ab"]
    assert len(names[0]) > 10 and not names[0] & names[1]
