"""Small tables in a page outside results/, between `<!-- table: NAME -->` and `<!-- end -->`.

`<!-- table: NAME, rows: A; B -->` has these rows alone, in this order.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from lrbench.errors import UserError, unknown
from lrbench.publish.disagreements import Judged, judged
from lrbench.publish.layout import PAGE, is_table, spec_of
from lrbench.report.output.cells import MISSING, Column, PrintedCell, Table, spread, to_markdown
from lrbench.report.runs.archive import read_archive
from lrbench.report.tables.grid import missing
from lrbench.statistics import mean

DIGITS = 3
LEGEND = (
    "Accuracy on fresh strings, mean ± sample std (runs), by the paper's rule; of the same"
    " checkpoints at the training length; the paper's number. How sure, and how it was made:"
)
BLOCK = re.compile(
    r"(?P<head><!-- table: (?P<name>[\w.-]+)(?:, rows: (?P<rows>[^\n]+))? -->\n)"
    r".*?(?P<end><!-- end -->)",
    re.DOTALL,
)
OPENING = re.compile(r"<!-- table: ")


def with_tables(page: Path, results: Path) -> bytes:
    """Return the content of `page` with its tables filled in; one of no results stays as it is.

    Raises UserError where the page cannot be read or a block has no end.
    """
    try:
        text = page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"'{page}' cannot be read: {error}") from error
    if len(OPENING.findall(text)) != len(BLOCK.findall(text)):
        raise UserError(f"'{page}': a line <!-- table: NAME --> has no line <!-- end --> after it")

    def fill(block: re.Match[str]) -> str:
        folder = results / block["name"]
        if not is_table(folder):
            return block[0]
        place = os.path.relpath(folder / PAGE, page.absolute().parent)
        return (
            f"{block['head']}{compact(folder, _rows(block['rows']))}\n"
            f"{LEGEND} [{PAGE}]({Path(place).as_posix()}).\n{block['end']}"
        )

    return BLOCK.sub(fill, text).encode()


def _rows(words: str | None) -> list[str] | None:
    return None if words is None else [word.strip() for word in words.split(";")]


def compact(folder: Path, rows: Sequence[str] | None = None) -> str:
    """Return models x tasks: fresh strings by the paper's rule, training length, the paper's.

    Of these `rows`, or of all. Raises UserError for a row that the table does not have.
    """
    spec = spec_of(folder)
    cells = judged(read_archive(folder), spec)
    by_place = {(cell.filled.label, cell.filled.column): cell for cell in cells}
    labels = list(dict.fromkeys(cell.filled.label for cell in cells if len(cell.filled.runs)))
    for row in rows or ():
        if row not in labels:
            raise unknown(f"row of table '{folder.name}'", row, labels)
    labels = labels if rows is None else list(rows)
    names = list(dict.fromkeys(cell.filled.column for cell in cells))
    lines = tuple(
        (PrintedCell(label), *(_cell(by_place.get((label, name)), spec.rule) for name in names))
        for label in labels
    )
    columns = (Column("", right=False), *(_column(name, cells) for name in names))
    return to_markdown(Table("", columns, lines)).partition("\n\n")[2]


def _cell(cell: Judged | None, rule: str) -> PrintedCell:
    """Return 'mean ± std (n) / at the training length / paper's'."""
    if cell is None or not len(cell.filled.runs):
        return PrintedCell()
    filled = cell.filled
    values = filled.values(rule, "test")
    fresh = spread(values, DIGITS, missing=missing(filled)).text
    fresh += " (1)" if len(values) == 1 else ""
    trained = filled.values(rule, "test", "train_length")
    parts = [fresh]
    if not filled.split:
        parts.append(f"{mean(trained):.{DIGITS}f}" if trained else MISSING)
    parts.append(filled.reference.text if filled.reference else MISSING)
    return PrintedCell(" / ".join(parts))


def _column(name: str, cells: Sequence[Judged]) -> Column:
    """Return the task with its lengths, in the order of the numbers below."""
    mine = [cell.filled for cell in cells if cell.filled.column == name]
    if any(filled.split for filled in mine):
        return Column(f"{name} / paper", right=False)
    shown = [filled.length for filled in mine if filled.length and len(filled.runs)]
    trained = [n for filled in mine if (n := filled.settings.get("protocol.train_length"))]
    at = [f"at {group[0]}" if group else MISSING for group in (shown, trained)]
    return Column(f"{name}: {at[0]} / {at[1]} / paper", right=False)
