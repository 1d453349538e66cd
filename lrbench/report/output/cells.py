"""A table as cells, and its markdown. Knows nothing of runs; `table.py` fills it.

Cells are objects, not marked-up strings, so that another format is one more function here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from lrbench.report import PARTS
from lrbench.statistics import Share, mean, sample_std

GOES_ON = "goes on with: "  # in a note, before the command that does
MISSING = "-"
LEADING = re.compile(r"\d[\d.,]*\d|\d")  # the number that begins a text
BOLD = "bold: the best of our runs in a column, at the digits shown; never what is at chance"
# An underscore marks nothing inside a word (even_pair), so there it stays readable.
# Two dollar signs are a formula on GitHub.
SPECIAL = re.compile(r"([\\|`*<&~$\[\]]|(?<![^\W_])_|_(?![^\W_]))")
PERHAPS_SPECIAL = re.compile(r"[\\|`*<&~$\[\]_]")  # found in a fraction of the time


@dataclass(frozen=True)
class Column:
    """A heading; numbers stand to the right."""

    title: str
    right: bool = True


@dataclass(frozen=True)
class PrintedCell:
    """What one cell says, unescaped. The values behind it stay with it.

    `mark` is the verdict among the words of `text`, for formats that can colour it; the number that
    begins the text of the `best` of a column is bold in formats that have bold letters.
    """

    text: str = MISSING
    values: tuple[float, ...] = ()
    mark: str = ""
    best: bool = False

    @property
    def parts(self) -> tuple[str, str, str]:
        """The text as what is bold, the space after it, and the rest."""
        number = LEADING.match(self.text) if self.best else None
        if number is None:
            return "", "", self.text
        rest = self.text[number.end() :]
        return number[0], " " if rest.startswith(" ") else "", rest.lstrip()


@dataclass(frozen=True)
class Table:
    """A titled grid of cells with notes below; `part` is that of a report that it belongs to."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[PrintedCell, ...], ...]
    notes: tuple[str, ...] = ()
    part: str = PARTS[0]

    @property
    def styled_notes(self) -> tuple[str, ...]:
        """The notes below it in a format that has bold letters."""
        return (*self.notes, BOLD) if any(c.best for row in self.rows for c in row) else self.notes


def spread(values: Sequence[float], digits: int = 4, missing: str = MISSING) -> PrintedCell:
    """Return 'mean ± sample std (n)', the plain number for one value, `missing` for none."""
    if not values:
        return PrintedCell(missing)
    if len(values) == 1:
        return PrintedCell(f"{values[0]:.{digits}f}", tuple(values))
    centre = mean(values)
    text = f"{centre:.{digits}f} ± {sample_std(values, centre):.{digits}f} ({len(values)})"
    return PrintedCell(text, tuple(values))


def span(values: Sequence[int]) -> PrintedCell:
    """Return a count that all runs share, or from the smallest to the largest."""
    if not values:
        return PrintedCell()
    low, high = min(values), max(values)
    text = f"{low:,}" if low == high else f"{low:,}–{high:,}"
    return PrintedCell(text, tuple(values))


def share(part: Share, digits: int = 2) -> PrintedCell:
    """Return '4/5 [0.38, 0.96]': a count of all, and its Wilson interval."""
    return PrintedCell(f"{part.count}/{part.n} {interval((part.low, part.high), digits)}")


def estimate(value: float, ends: tuple[float, float] | None, digits: int = 4) -> PrintedCell:
    """Return '0.9853 [0.9560, 1.0000]', or the value alone where it has no interval."""
    text = f"{value:.{digits}f}"
    return PrintedCell(f"{text} {interval(ends, digits)}" if ends else text, (value,))


def interval(ends: tuple[float, float], digits: int = 4) -> str:
    """Return '[0.9560, 1.0000]'."""
    low, high = ends
    return f"[{low:.{digits}f}, {high:.{digits}f}]"


def duration(seconds: float) -> str:
    """Return seconds as '34 s', '2 min 5 s' or '3 h 20 min'."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def marked(cell: PrintedCell, mark: str | None) -> PrintedCell:
    """Return `cell` with a verdict after its text; nothing is added for '-' and none."""
    if not mark or mark in (MISSING, cell.text):
        return cell
    return replace(cell, text=f"{cell.text}, {mark}", mark=str(mark))


def with_best(
    cells: Sequence[PrintedCell], lower: bool = False, unranked: Collection[str] = ()
) -> list[PrintedCell]:
    """Return the cells of a column with the highest number marked as best, or the `lower`est.

    They are compared as they are printed. Cells without values or with a mark in `unranked` take no
    part, and where all cells are alike none is best.
    """
    shown = [_printed_number(cell) for cell in cells]
    ranked = [
        number
        for cell, number in zip(cells, shown, strict=True)
        if number is not None and cell.mark not in unranked
    ]
    if not ranked or len({number for number in shown if number is not None}) == 1:
        return list(cells)
    top = min(ranked) if lower else max(ranked)
    return [
        replace(cell, best=number == top and cell.mark not in unranked)
        for cell, number in zip(cells, shown, strict=True)
    ]


def _printed_number(cell: PrintedCell) -> float | None:
    found = LEADING.match(cell.text) if cell.values else None
    return float(found[0].replace(",", "")) if found else None


def escape(text: str) -> str:
    """Return `text` so that it stays inside its markdown cell and is shown as it is."""
    line = " ".join(text.split())
    return SPECIAL.sub(r"\\\1", line) if PERHAPS_SPECIAL.search(line) else line


def to_markdown(table: Table) -> str:
    """Return heading, padded pipe table and notes."""
    grid = [[escape(column.title) for column in table.columns]]
    grid += [[escape(cell.text) for cell in row] for row in table.rows]
    widths = [max(3, *(len(row[i]) for row in grid)) for i in range(len(table.columns))]
    ruler = [
        "-" * (width - 1) + ":" if column.right else "-" * width
        for column, width in zip(table.columns, widths, strict=True)
    ]
    lines = [_line(row, table.columns, widths) for row in [grid[0], ruler, *grid[1:]]]
    notes = [f"- {_note(note)}" for note in table.notes]
    parts = [[f"## {escape(table.title)}"], lines, notes]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _note(text: str) -> str:
    """Escape a note; a command at its end that cannot stay as it is typed becomes code."""
    before, sign, command = text.partition(GOES_ON)
    if not sign or escape(command) == command or "`" in command:
        return escape(text)
    return f"{escape(before)}{sign}`{command}`"


def _line(row: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    cells = [
        text.rjust(width) if column.right else text.ljust(width)
        for text, column, width in zip(row, columns, widths, strict=True)
    ]
    return f"| {' | '.join(cells)} |"
