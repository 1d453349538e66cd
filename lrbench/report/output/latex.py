r"""A table as LaTeX: a booktabs tabular with caption, label and notes, every character escaped.

What is printed compiles with pdflatex, and needs `\usepackage{booktabs}`. A table too wide for a
column of a paper goes across both, in smaller letters; one too wide for that continues below
itself, with the columns of names again. Only a single column too wide for a page is scaled to it,
which needs `\usepackage{graphicx}` too.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile

from lrbench.report.output.cells import Column, PrintedCell, Table
from lrbench.report.output.display import group_starts

WIDEST = 85  # characters of a row that fit in one column or a page, in small letters
ACROSS = 127  # characters that fit across both columns of a paper, in letters for footnotes
FOLDED = 22  # characters of a cell that stay on a line in a table too wide for that
TALLEST = 36  # lines of text in a float; a table of more is several
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
    "‡": r"\ddag{}",
    "§": r"\S{}",
    "¶": r"\P{}",
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
    blocks = [block for table in tables for block in _blocks(table)]
    scaled = any(map(_scaled, blocks))
    head = HEAD + (" and \\usepackage{graphicx}" if scaled else "")
    labels = _labels(tables)
    parts = [
        part
        for table, label in zip(tables, labels, strict=True)
        for part in _environments(table, label)
    ]
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


def _environments(table: Table, label: str) -> Iterator[str]:
    """Yield the floats of a table: one, or one for each of its blocks where they are tall."""
    blocks = _blocks(table)
    wide = _width(table) > WIDEST
    together = sum(map(_height, blocks)) <= TALLEST
    floats = [blocks] if together else [[part] for block in blocks for part in _parts(block)]
    for number, inside in enumerate(floats):
        last = number == len(floats) - 1
        caption = escape(table.title) + (" (continued)" if number else "")
        grids = [_grid(block) for block in inside]
        lines = [
            "\\centering",
            f"\\caption{{{caption}}}",
            f"\\label{{tab:{label}{f'-{number + 1}' if number else ''}}}",
            "\\smallskip",
            *(["\\footnotesize", "\\setlength{\\tabcolsep}{3pt}"] if wide else ["\\small"]),
            *grids[0],
            *(line for grid in grids[1:] for line in ("\\par\\medskip", *grid)),
            *(_notes(table.styled_notes) if last else []),
        ]
        name = "table*" if wide else "table"
        yield "\n".join(
            [f"\\begin{{{name}}}[tbp]", *(f"  {one}" for one in lines), f"\\end{{{name}}}"]
        )


def _grid(block: Table) -> list[str]:
    grid = _tabular(block)
    return ["\\resizebox{\\textwidth}{!}{%", *grid, "}"] if _scaled(block) else grid


def _scaled(block: Table) -> bool:
    return _width(block) > ACROSS


def _widths(table: Table) -> list[int]:
    """Return how many characters each column needs, with the space between columns."""
    grid = [[column.title for column in table.columns]]
    grid += [[cell.text for cell in row] for row in table.rows]
    return [min(max(map(_longest, column)), LONG) + 2 for column in zip(*grid, strict=True)]


def _longest(text: str) -> int:
    return max(map(len, text.split("\n")))


def _fold(text: str) -> list[str]:
    """Return a text on lines: what follows a comma below it, names of several words broken."""
    if len(text) <= FOLDED:
        return [text]
    head, comma, rest = text.rpartition(", ")
    if comma:
        return [f"{head},", rest]
    return textwrap.wrap(text, FOLDED, break_long_words=False, break_on_hyphens=False) or [text]


def _width(table: Table) -> int:
    return sum(_widths(table))


def _blocks(table: Table) -> list[Table]:
    """Return a table in parts that fit across a page, each with the columns of names."""
    if _width(table) <= ACROSS:
        return [table]
    indices = range(len(table.columns))
    names = list(takewhile(lambda at: _are_names(table, at), indices))
    named = _folded(table, names)
    if _width(named) <= ACROSS:
        return [named]
    folded = _folded(table, indices)
    widths = _widths(folded)
    room = ACROSS - sum(widths[at] for at in names)
    blocks: list[list[int]] = []
    used = room
    for at in indices[len(names) :]:
        if used + widths[at] > room or not blocks:
            blocks.append(list(names))
            used = 0
        blocks[-1].append(at)
        used += widths[at]
    return [_with_columns(folded, block) for block in _evened(blocks, len(names))] or [table]


def _evened(blocks: Sequence[Sequence[int]], names: int) -> list[list[int]]:
    """Return blocks with about as many columns each, no block longer than the longest was."""
    numbers = [at for block in blocks for at in block[names:]]
    each = -(-len(numbers) // max(1, len(blocks)))
    if each > min((len(block) - names for block in blocks[:-1]), default=each):
        return [list(block) for block in blocks]
    return [[*blocks[0][:names], *numbers[i : i + each]] for i in range(0, len(numbers), each)]


def _folded(table: Table, columns: Sequence[int]) -> Table:
    """Return a table with line breaks in the long cells of these columns."""

    def cell(at: int, one: PrintedCell) -> PrintedCell:
        return replace(one, text="\n".join(_fold(one.text))) if at in columns else one

    rows = tuple(tuple(cell(at, one) for at, one in enumerate(row)) for row in table.rows)
    return replace(table, rows=rows)


def _lines(row: Sequence[PrintedCell]) -> int:
    return max(cell.text.count("\n") + 1 for cell in row)


def _height(block: Table) -> int:
    return 2 + sum(map(_lines, block.rows))


def _parts(block: Table) -> Iterator[Table]:
    """Yield the rows of a block a page at a time; rows of one name stay together."""
    starts = group_starts(block)
    groups: list[list[tuple[PrintedCell, ...]]] = []
    for row, start in zip(block.rows, starts, strict=True):
        if start or not groups or not any(starts):
            groups.append([])
        groups[-1].append(row)
    rows: list[tuple[PrintedCell, ...]] = []
    for group in groups:
        if rows and sum(map(_lines, [*rows, *group])) > TALLEST:
            yield replace(block, rows=tuple(rows))
            rows = []
        rows += group
    yield replace(block, rows=tuple(rows))


def _are_names(table: Table, at: int) -> bool:
    """Whether a column says what the rows are: no cell of it begins with a number."""
    texts = (row[at].text for row in table.rows)
    return not table.columns[at].right and not any(re.match(r"[-<>=]*\s*\d|-$", x) for x in texts)


def _with_columns(table: Table, kept: Sequence[int]) -> Table:
    return replace(
        table,
        columns=tuple(table.columns[at] for at in kept),
        rows=tuple(tuple(row[at] for at in kept) for row in table.rows),
    )


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
    longest = max((_longest(row[index].text) for row in table.rows), default=0)
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
        yield f"{' & '.join([_guarded(texts[0]), *texts[1:]])} \\\\".lstrip()


def _guarded(text: str) -> str:
    """Return what stands below a line, so that it is no argument of that line's end."""
    return f"{{}}{text}" if text.startswith(ARGUMENT) else text


def _title(column: Column) -> str:
    """A heading over numbers is centred, one over words stands with them."""
    text = escape(column.title)
    return text if not column.right else f"\\multicolumn{{1}}{{c}}{{{text}}}"


def _cell(cell: PrintedCell) -> str:
    """A dash for no number, a minus sign before one, a bold number where it is the best."""
    first, *below = cell.text.split("\n")
    lines = [_one_line(replace(cell, text=first)), *map(_guarded, map(escape, below))]
    if not below:
        return lines[0]
    return "".join(["\\begin{tabular}[t]{@{}l@{}}", " \\\\ ".join(lines), "\\end{tabular}"])


def _one_line(cell: PrintedCell) -> str:
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
