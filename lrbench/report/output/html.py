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

from lrbench.report.output.cells import Column, PrintedCell, Table
from lrbench.report.output.display import group_starts
from lrbench.report.output.inline_svg import inline_svg

LONG = 60  # characters from which the text of a cell is broken into lines
POINTS = 9.7  # of a figure, to a rem of the page
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
HOW_TO_READ = (
    "Models are trained on short strings and tested on longer ones. A model that learnt the rule"
    " stays at 1; one that learnt the training length falls to chance. The runs of a row differ in"
    " their seed alone; mean ± sample standard deviation (n) is over n runs. Compare an accuracy"
    " with chance, the best score of a rule without memory. Compare the best of several"
    " looks with guessing, the best of as many looks by chance."
)
FIGURES = (
    "Thin lines and small marks are single runs, thick lines and large marks their means; the"
    " number in brackets counts the runs. Dashed: chance. Dotted: the length trained on. Grey: not"
    " learned, or at chance."
)


@dataclass(frozen=True)
class Page:
    """What stands on the page besides its tables. `figures` are (caption, SVG).

    `lead` are sentences that stand first, a line each; with them, figures stand before the tables.
    `how` says how to read the page, `figures_how` its figures.
    """

    title: str
    about: tuple[str, ...]
    tables: Sequence[Table]
    figures: Sequence[tuple[str, str]] = ()
    problems: Sequence[str] = ()
    lead: Sequence[str] = ()
    how: str = HOW_TO_READ
    figures_how: str = FIGURES


def to_html(page: Page) -> str:
    """Return the page."""
    parts = [
        f"<header><h1>{escape(page.title)}</h1>",
        f'<p class="about">{" · ".join(map(escape, page.about))}</p></header>',
        *_lead(page.lead),
        f'<p class="how"><strong>How to read this.</strong> {escape(page.how)}</p>',
        *(_figures(page) if page.lead else ()),
        *map(_table, page.tables),
        *(() if page.lead else _figures(page)),
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
    return _escape(_shown(text), quote=True)


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(text.split()))


def _table(table: Table) -> str:
    heads = "".join(_head(column) for column in table.columns)
    rows = "\n".join(
        _row(row, table.columns, starts)
        for row, starts in zip(table.rows, group_starts(table), strict=True)
    )
    notes = "".join(f"<li>{escape(note)}</li>\n" for note in table.styled_notes)
    return (
        f'<section>\n<h2>{escape(table.title)}</h2>\n<div class="wide"><table>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>\n"
        + (f'<ul class="notes">\n{notes}</ul>\n' if notes else "")
        + "</section>"
    )


def _head(column: Column) -> str:
    side = ' class="number"' if column.right else ""
    return f'<th scope="col"{side}>{escape(column.title)}</th>'


def _row(row: Sequence[PrintedCell], columns: Sequence[Column], starts: bool) -> str:
    texts = []
    for cell, column in zip(row, columns, strict=True):
        classes = ["number"] if column.right else []
        classes += ["long"] if len(cell.text) > LONG else []
        classes += [f"is-{re.sub('[^a-z]+', '-', cell.mark.lower())}"] if cell.mark else []
        attribute = f' class="{" ".join(classes)}"' if classes else ""
        bold, gap, rest = cell.parts
        number = f"<b>{escape(bold)}</b>{gap}" if bold else ""
        texts.append(f"<td{attribute}>{number}{escape(rest)}</td>")
    start = '<tr class="first">' if starts else "<tr>"
    return f"{start}{''.join(texts)}</tr>"


def _lead(sentences: Sequence[str]) -> list[str]:
    if not sentences:
        return []
    items = "".join(f"<li>{escape(one)}</li>\n" for one in sentences)
    return [f"<ul>\n{items}</ul>"]


def _figures(page: Page) -> list[str]:
    if not page.figures:
        return []
    numbered = enumerate(page.figures, 1)
    shown = "\n".join(_figure(f"f{number}", *figure) for number, figure in numbered)
    return [
        f"<section>\n<h2>Figures</h2>\n<p>{escape(page.figures_how)}</p>\n"
        f'<div class="figures">\n{shown}\n</div>\n</section>'
    ]


def _figure(prefix: str, caption: str, svg: str) -> str:
    """As wide as it would be in a paper, so that all figures have letters of one size."""
    box = re.search(r'viewBox="0 0 ([\d.]+)', svg)
    width = float(box[1]) / POINTS if box else 26.0
    return (
        f'<figure style="width: {width:.1f}rem">{inline_svg(svg, prefix, _shown(caption))}'
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


STYLE = """\
:root {
  color-scheme: light dark;
  --ink: #1c1e21; --soft: #5a6068; --line: #d5d9de; --page: #ffffff; --band: #5a60680f;
  --good: #00694b; --bad: #a33d00; --unsure: #5a6068;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6e8ea; --soft: #a5acb4; --line: #3a4047; --page: #16181b; --band: #ffffff0d;
    --good: #55c9a0; --bad: #f0945a; --unsure: #a5acb4;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif;
}
main { max-width: 80rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; overflow-wrap: anywhere; }
p { max-width: 46rem; }
.about { color: var(--soft); margin: 0; max-width: none; }
.how { border-left: 3px solid var(--line); padding-left: .9rem; }
.wide { /* scrolls where it does not fit; a shadow at a side tells that there is more */
  overflow-x: auto;
  background:
    linear-gradient(to right, var(--page) 30%, transparent) local 0 / 3rem 100% no-repeat,
    linear-gradient(to left, var(--page) 30%, transparent) local 100% / 3rem 100% no-repeat,
    linear-gradient(to right, #00000038, transparent) 0 / 1rem 100% no-repeat,
    linear-gradient(to left, #00000038, transparent) 100% / 1rem 100% no-repeat;
}
table {
  border-collapse: collapse; font-size: .84rem; font-variant-numeric: tabular-nums lining-nums;
  border-top: 2px solid var(--ink); border-bottom: 2px solid var(--ink);
}
th, td { padding: .3rem .7rem; text-align: left; vertical-align: baseline; white-space: nowrap; }
th:first-child, td:first-child {
  padding-left: .2rem; position: sticky; left: 0; background: var(--page);
}
tbody tr:nth-child(even) td:first-child {
  background: linear-gradient(var(--band), var(--band)) var(--page);
}
th { font-weight: 600; border-bottom: 1px solid var(--ink); vertical-align: bottom; }
.number { text-align: right; }
td.long { white-space: normal; min-width: 20rem; }
tr.first td { border-top: 1px solid var(--line); }
tbody tr:nth-child(even) { background: var(--band); }
.is-reproduced, .is-above { color: var(--good); }
.is-below, .is-failed { color: var(--bad); }
.is-not-learned, .is-at-chance, .is-below-chance { color: var(--unsure); }
.is-inconclusive, .is-not-comparable { color: var(--unsure); }
.notes {
  color: var(--soft); font-size: .82rem; margin: .6rem 0 0; padding-left: 1.1rem;
  max-width: 60rem; overflow-wrap: anywhere;
}
.figures { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; }
figure {
  margin: 0; padding: .7rem; background: #ffffff; color: #222222;
  border: 1px solid var(--line); border-radius: 4px; min-width: 0; max-width: 100%;
}
figure svg { display: block; width: 100%; height: auto; }
figure svg * { stroke-linejoin: round; stroke-linecap: butt; }
figure svg text { font-family: 'DejaVu Sans', Verdana, sans-serif; }
figcaption { font-size: .8rem; color: #5a6068; margin-top: .4rem; }
.problems h2 { color: var(--bad); }
@media (max-width: 82rem) { th, td { padding: .3rem .45rem; } }
@media print {
  @page { size: A4 landscape; margin: 12mm; }
  html { font-size: 12px; }
  :root {
    --ink: #000000; --soft: #333333; --line: #bbbbbb; --page: #ffffff; --band: #f3f3f3;
    --good: #004d37; --bad: #7a2e00; --unsure: #333333;
  }
  body { font-size: 9pt; }
  main { max-width: none; padding: 0; }
  .wide { overflow: visible; background: none; }
  table { font-size: 6.6pt; }
  th, td { padding: .15rem .35rem; }
  tr, figure { break-inside: avoid; }
  h2, h2 + p { break-after: avoid; }
  p { break-inside: avoid; }
  .figures { display: block; }
  figure { display: inline-block; vertical-align: top; margin: 0 2mm 3mm 0; }
}
"""
