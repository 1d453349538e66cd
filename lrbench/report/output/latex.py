r"""A table as LaTeX: a booktabs tabular with caption, label and notes, every character escaped.

What is printed compiles with pdflatex, and needs `\usepackage{booktabs}`; a table too wide for a
page is scaled to it and needs `\usepackage{graphicx}` too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise

from lrbench.report.output.cells import Column, PrintedCell, Table
from lrbench.report.output.display import group_starts

WIDEST = 85  # characters of a row that fit a page as they are
LONG = 60  # characters from which the text of a cell is broken into lines
BARE = "-"  # what stands where there is no number

# "<" and '"' are other glyphs in TeX's oldest fonts.
SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "†": r"\dag{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",
    "`": "{`}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "→": r"$\to$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "≈": r"$\approx$",
    "∞": r"$\infty$",
    "–": "{--}",
    "—": "{---}",
    "…": r"\dots{}",
}
DOUBLED = "-,'"  # two of these in a row would be one other glyph
ARGUMENT = ("[", "*")  # after the \\\\ of the line above these would be its argument
# What LaTeX's oldest fonts can write beside ASCII: a letter with one of these accents, and these.
ACCENTS = "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0327"
LETTERS = "ßæÆøØłŁœŒ"
HEAD = "% lrbench report: needs \\usepackage{booktabs}"
LABEL = "abcdefghijklmnopqrstuvwxyz0123456789"


def to_latex(tables: Sequence[Table], unused_files: Sequence[str] = ()) -> str:
    """Return all tables; `unused_files`, lines on what could not be used, as comments below."""
    wide = any(map(_wide, tables))
    head = HEAD + (" and \\usepackage{graphicx}" if wide else "")
    labels = _labels(tables)
    parts = [_environment(table, label) for table, label in zip(tables, labels, strict=True)]
    comments = ["\n".join(f"% {_line(text)}" for text in unused_files)] if unused_files else []
    return "\n\n".join([head, *parts, *comments]) + "\n"


def escape(text: str) -> str:
    """Return `text` as LaTeX shows it: no character of it is a command, none breaks the line."""
    line = _line(text)
    apart = ["{}" if c in DOUBLED and c == before else "" for before, c in pairwise(" " + line)]
    return "".join(gap + _escaped(c) for gap, c in zip(apart, line, strict=True))


def _escaped(c: str) -> str:
    if c in SPECIAL:
        return SPECIAL[c]
    letter, *accents = list(unicodedata.normalize("NFD", c))
    known = c.isascii() or c in LETTERS
    accented = letter.isascii() and len(accents) == 1 and accents[0] in ACCENTS and c < "\u0180"
    return c if known or accented else rf"\texttt{{U+{ord(c):04X}}}"


def _line(text: str) -> str:
    """Return `text` on one line, control characters written out."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(text.split()))


def _environment(table: Table, label: str) -> str:
    wide = _wide(table)
    name = "table*" if wide else "table"
    grid = _tabular(table)
    if wide:
        grid = ["\\resizebox{\\textwidth}{!}{%", *grid, "}"]
    lines = [
        "\\centering",
        f"\\caption{{{escape(table.title)}}}",
        f"\\label{{tab:{label}}}",
        "\\smallskip",
        "\\small",
        *grid,
        *_notes(table.styled_notes),
    ]
    return "\n".join(
        [f"\\begin{{{name}}}[tbp]", *(f"  {one}" for one in lines), f"\\end{{{name}}}"]
    )


def _wide(table: Table) -> bool:
    grid = [[column.title for column in table.columns]]
    grid += [[cell.text for cell in row] for row in table.rows]
    widths = [min(max(map(len, column)), LONG) + 2 for column in zip(*grid, strict=True)]
    return sum(widths) > WIDEST


def _tabular(table: Table) -> list[str]:
    indices = range(len(table.columns))
    shape = "".join("r" if table.columns[i].right else _left_aligned(table, i) for i in indices)
    return [
        f"\\begin{{tabular}}{{{shape}}}",
        "  \\toprule",
        f"  {' & '.join(_title(column) for column in table.columns)} \\\\",
        "  \\midrule",
        *(f"  {row}" for row in _rows(table)),
        "  \\bottomrule",
        "\\end{tabular}",
    ]


def _left_aligned(table: Table, index: int) -> str:
    """A column of words: as wide as they are, or of lines where one is too long."""
    longest = max((len(row[index].text) for row in table.rows), default=0)
    return "l" if longest <= LONG else "p{7cm}"


def _rows(table: Table) -> Iterator[str]:
    """Yield the lines of a table; a name shared by several rows is printed once, set apart."""
    starts = group_starts(table)
    above = ""
    for row, start in zip(table.rows, starts, strict=True):
        if start:
            yield "\\addlinespace"
        texts = [_cell(cell) for cell in row]
        name, texts[0] = texts[0], "" if any(starts) and texts[0] == above else texts[0]
        above = name
        guard = "{}" if texts[0].startswith(ARGUMENT) else ""
        yield f"{guard}{' & '.join(texts)} \\\\".lstrip()


def _title(column: Column) -> str:
    """A heading over numbers is centred, one over words stands with them."""
    text = escape(column.title)
    return text if not column.right else f"\\multicolumn{{1}}{{c}}{{{text}}}"


def _cell(cell: PrintedCell) -> str:
    """A dash for no number, a minus sign before one, a bold number where it is the best."""
    if cell.text == BARE:
        return "{--}"
    negative = re.fullmatch(r"-(\d[\d.,]*)", cell.text)
    bold, gap, rest = cell.parts
    if bold:
        return f"\\textbf{{{escape(bold)}}}{gap}{escape(rest)}"
    return f"$-${escape(negative[1])}" if negative else escape(cell.text)


def _notes(notes: Sequence[str]) -> list[str]:
    r"""Return the notes as paragraphs below; a path in them may break after each slash."""
    if not notes:
        return []
    texts = [escape(note).replace("/", "/\\allowbreak{}") for note in notes]
    return [
        "\\par\\medskip",
        "\\begin{minipage}{\\linewidth}\\scriptsize\\raggedright",
        *(f"  {text}\\par" for text in texts),
        "\\end{minipage}",
    ]


def _labels(tables: Sequence[Table]) -> list[str]:
    """Return a label for each table: the words of its title, numbered where two are the same."""
    labels: list[str] = []
    for table in tables:
        kept = "".join(c if c in LABEL else "-" for c in table.title.lower())
        name = re.sub("-+", "-", kept).strip("-") or "report"
        taken = sum(re.fullmatch(rf"{name}(-\d+)?", other) is not None for other in labels)
        labels.append(f"{name}-{taken + 1}" if taken else name)
    return labels
