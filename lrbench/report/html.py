"""The report as one page: tables, figures and notes in a single file that loads nothing.

No script and no address in it; a policy forbids the browser to run or fetch anything all the same.
Every text is escaped here, and figures hold no text at all (letters are outlines). The page is
well-formed XML too, which is how the tests read it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape as _escape

from lrbench.report.cells import Cell, Column, Table
from lrbench.report.display import group_starts
from lrbench.report.page_style import STYLE

LONG = 60  # characters from which the text of a cell is broken into lines
POINTS = 9.7  # of a figure, to a rem of the page
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
HOW_TO_READ = (
    "Models are trained on short strings and tested on longer ones: whoever learnt the rule stays"
    " at 1, whoever learnt the training length falls to chance. A row of a table holds runs of one"
    " configuration, which differ in nothing but the seed; mean ± sample standard deviation (n) is"
    " over n such runs. Hold every accuracy against chance, the best that a rule without memory was"
    " measured to score, and a best of several looks against what guessing gives when it may look"
    " as often."
)
FIGURES = (
    "Thin lines and small marks are single runs, thick lines and large marks their means; the"
    " number in brackets counts the runs. Dashed: chance. Dotted: the length trained on."
)


@dataclass(frozen=True)
class Page:
    """What stands on the page besides its tables. `figures` are (caption, SVG)."""

    title: str
    about: tuple[str, ...]
    tables: Sequence[Table]
    figures: Sequence[tuple[str, str]] = ()
    problems: Sequence[str] = ()


def to_html(page: Page) -> str:
    """Return the page."""
    parts = [
        f"<header><h1>{escape(page.title)}</h1>",
        f'<p class="about">{" · ".join(map(escape, page.about))}</p></header>',
        f'<p class="how"><strong>How to read this.</strong> {escape(HOW_TO_READ)}</p>',
        *map(_table, page.tables),
        *_figures(page.figures),
        *_problems(page.problems),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f"<title>{escape(page.title)}</title>\n<style>\n{STYLE}</style>\n</head>\n"
        "<body>\n<main>\n" + "\n".join(parts) + "\n</main>\n</body>\n</html>\n"
    )


def escape(text: str) -> str:
    """Return `text` as the page shows it; control characters, which XML forbids, written out."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(text.split()))
    return _escape(shown, quote=True)


def inline(svg: str, prefix: str, label: str) -> str:
    """Return an SVG file's drawing for use in the page, its ids made unique by `prefix`."""
    drawing = svg[svg.index("<svg") :]
    drawing = re.sub(r"<!--.*?-->\s*|<metadata>.*?</metadata>\s*", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r'\s(?:xmlns(?::\w+)?|version|width|height)="[^"]*"', "", drawing, count=5)
    drawing = drawing.replace("xlink:href=", "href=")
    drawing = re.sub(r'(\bid="|\bhref="#|url\(#)', rf"\1{prefix}-", drawing)
    return drawing.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1).strip()


def _table(table: Table) -> str:
    heads = "".join(_head(column) for column in table.columns)
    rows = "\n".join(
        _row(row, table.columns, starts)
        for row, starts in zip(table.rows, group_starts(table), strict=True)
    )
    notes = "".join(f"<li>{escape(note)}</li>\n" for note in table.notes)
    return (
        f'<section>\n<h2>{escape(table.title)}</h2>\n<div class="wide"><table>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>\n"
        + (f'<ul class="notes">\n{notes}</ul>\n' if notes else "")
        + "</section>"
    )


def _head(column: Column) -> str:
    side = ' class="number"' if column.right else ""
    return f'<th scope="col"{side}>{escape(column.title)}</th>'


def _row(row: Sequence[Cell], columns: Sequence[Column], starts: bool) -> str:
    texts = []
    for cell, column in zip(row, columns, strict=True):
        kinds = ["number"] if column.right else []
        kinds += ["long"] if len(cell.text) > LONG else []
        kinds += [f"is-{re.sub('[^a-z]+', '-', cell.mark.lower())}"] if cell.mark else []
        attribute = f' class="{" ".join(kinds)}"' if kinds else ""
        texts.append(f"<td{attribute}>{escape(cell.text)}</td>")
    start = '<tr class="first">' if starts else "<tr>"
    return f"{start}{''.join(texts)}</tr>"


def _figures(figures: Sequence[tuple[str, str]]) -> list[str]:
    if not figures:
        return []
    numbered = enumerate(figures, 1)
    shown = "\n".join(_figure(f"f{number}", *figure) for number, figure in numbered)
    return [
        f"<section>\n<h2>Figures</h2>\n<p>{escape(FIGURES)}</p>\n"
        f'<div class="figures">\n{shown}\n</div>\n</section>'
    ]


def _figure(prefix: str, caption: str, svg: str) -> str:
    """As wide as it would be in a paper, so that all figures have letters of one size."""
    box = re.search(r'viewBox="0 0 ([\d.]+)', svg)
    width = float(box[1]) / POINTS if box else 26.0
    return (
        f'<figure style="width: {width:.1f}rem">{inline(svg, prefix, caption)}'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _problems(problems: Sequence[str]) -> list[str]:
    if not problems:
        return []
    lines = "".join(f"<li>{escape(problem)}</li>\n" for problem in problems)
    return [
        f'<section class="problems">\n<h2>Left out</h2>\n<ul class="notes">\n{lines}</ul>\n'
        "</section>"
    ]
