"""The page is well-formed, loads nothing, runs nothing, and shows every name as it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lrbench.report.output.cells import Column, PrintedCell, Table, spread, with_best
from lrbench.report.output.html import Page, to_html
from lrbench.report.output.render import render
from lrbench.report.runs.collect import collect

Write = Callable[..., Path]
NAMES = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "--><!-- & &amp; ]]>",
    "\x00\x1b]0;x\x07",
    "模型 {x} $y$",
]
SVG = (
    '<?xml version="1.0"?><!-- <b> --><svg xmlns:xlink="http://www.w3.org/1999/xlink"'
    ' width="10pt" height="5pt" viewBox="0 0 97 5" xmlns="http://www.w3.org/2000/svg">'
    '<metadata>http://x</metadata><defs><path id="a"/></defs><!-- name --><use xlink:href="#a"/>'
    "</svg>"
)


def parsed(page: str) -> ElementTree.Element:
    return ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))


def texts(page: str, tag: str) -> list[str]:
    return ["".join(found.itertext()) for found in parsed(page).iter(tag)]


def page(*names: str) -> str:
    columns = (Column("model", right=False), Column("accuracy"))
    rows = tuple((PrintedCell(name), PrintedCell("0.5", mark="at chance")) for name in names)
    tables = [Table(names[0], columns, rows, names)]
    return to_html(Page(names[0], names, tables, [(name, SVG) for name in names], names))


def test_every_name_is_text() -> None:
    found = page(*NAMES)
    shown = [name if name.isprintable() else ascii(name)[1:-1] for name in NAMES]
    assert [text for text in texts(found, "td") if text != "0.5"] == shown
    assert texts(found, "li") == shown * 2
    assert texts(found, "title") == texts(found, "h1") == shown[:1]
    assert texts(found, "figcaption") == shown
    tags = {element.tag for element in parsed(found).iter()}
    assert not tags & {"script", "img", "link", "iframe", "object"}
    assert not [name for one in parsed(found).iter() for name in one.attrib if name[:2] == "on"]


def test_the_best_number_is_bold() -> None:
    cells = with_best([spread([0.5, 1.0]), spread([0.25])])
    rows = tuple((cell,) for cell in cells)
    made = to_html(Page("t", (), [Table("t", (Column("a"),), rows)]))
    assert texts(made, "b") == ["0.7500"]
    assert texts(made, "td") == ["0.7500 ± 0.3536 (2)", "0.2500"]
    assert any(text.startswith("bold: ") for text in texts(made, "li"))


def test_nothing_is_loaded_and_no_script_may_run() -> None:
    found = page(*NAMES)
    assert not re.search(r"https?:|@import|url\((?!#)|\ssrc=", re.sub(r"&.*?<", "<", found))
    policies = [m.get("content") for m in parsed(found).iter("meta") if m.get("http-equiv")]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_numbers_stand_to_the_right_and_verdicts_are_marked() -> None:
    found = parsed(page("a"))
    assert [cell.get("class") for cell in found.iter("td")] == [None, "number is-at-chance"]
    assert [cell.get("class") for cell in found.iter("th")] == [None, "number"]
    assert "tabular-nums" in page("a") and "@media print" in page("a")
    assert "prefers-color-scheme: dark" in page("a")


def test_a_page_of_runs(runs: Path, write: Write, fail: Write, references: Path) -> None:
    hostile = '<b onload="x">'
    write(seed=0)
    write(seed=1, accuracy=0.5)
    write(model=hostile.replace("/", ""), fingerprint="b" * 12, train_seconds=5.0)
    fail(model="mine", fingerprint="c" * 12, error="<i>boom</i>")
    (runs / "x" / "s0").mkdir(parents=True)
    (runs / "x" / "s0" / "result.json").write_text("{")
    cell = runs / "sum" / "blockdiag" / "fan2024" / ("a" * 12)
    (cell / "environment.json").write_text(
        '{"date": "2026-03-04T05:06:07+00:00", "torch": "2.13.0", "commit": "0123456789abcdef"}'
    )
    (runs / "sum" / "mine" / "fan2024" / ("c" * 12) / "environment.json").write_text("[]")
    found = render(collect(runs), "html", references)
    assert hostile in texts(found, "td")
    assert "<i>boom</i>" in "".join(texts(found, "li"))
    [about] = [p for p in parsed(found).iter("p") if p.get("class") == "about"]
    said = "4 runs of 3 cells · newest run 2026-03-04 · torch 2.13.0 · commit 0123456789"
    assert f"{about.text} ".startswith(f"{said} ")
    assert len(texts(found, "svg")) == len(texts(found, "figcaption")) == 2
    assert "not used" in texts(found, "section")[-1]
    ids = [one.get("id") for one in parsed(found).iter() if one.get("id")]
    assert len(ids) == len(set(ids)) > 8
    used = set(re.findall(r'(?:href="|url\()#([\w-]+)', found))
    assert used <= set(ids)
    assert not re.search("https?:", found)


@pytest.mark.slow
@pytest.mark.parametrize("content", ["[]", "{", '{"date": 5}', '{"date": "2026-01-01T00:00:00"}'])
def test_an_environment_that_tells_nothing(
    runs: Path, write: Write, references: Path, content: str
) -> None:
    folder = write()
    (folder.parent / "environment.json").write_text(content)
    found = render(collect(runs), "html", references)
    assert "newest" not in found and "1 run of 1 cell" in found
