"""Tables for a terminal: as wide as the window, with nothing left out.

Values that are equal in all rows are printed once, and equal columns become one. A table that is
still too wide continues below itself, with the columns of names again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from lrbench.report.output.cells import MISSING, Column, PrintedCell, Table
from lrbench.report.output.display import group_starts, plain, say, say_wrapped

GAP = 2  # spaces between columns
LONGEST_NAME = 30  # characters of a name before it is folded
SCORES = "test"  # so begin the titles of columns that are never said once for all
Line = tuple[Column, tuple[PrintedCell, ...]]


def print_tables(
    tables: Iterable[Table], notes: Sequence[str], console: Console, wide: bool = False
) -> None:
    """Print tables to a console; `notes` come last.

    wide: every column as it is, in one row of columns whatever the window.
    """
    for table in tables:
        console.print()
        say(console, table.title, "bold")
        same: list[str] = []
        columns = _columns(table)
        if not wide:
            columns, same = _constant(columns, len(table.rows))
            columns = _agreeing(columns)
        blocks = [columns] if wide else _blocks(columns, console.width)
        starts = group_starts(table)
        for block in blocks:
            _print(block, starts, console, wide)
        if same:
            say_wrapped(console, f"in all rows: {'; '.join(same)}", "dim")
        for note in table.styled_notes:
            say_wrapped(console, note, "dim")
    for note in notes:
        say_wrapped(console, note)


def _columns(table: Table) -> list[Line]:
    return [
        (column, tuple(row[index] for row in table.rows))
        for index, column in enumerate(table.columns)
    ]


def _constant(columns: Sequence[Line], rows: int) -> tuple[list[Line], list[str]]:
    """Return the columns that differ between rows, and 'title text' of those that do not.

    Of a single row nothing is constant; columns of names stay, and scores of tests, which are what
    one looks for. A column without any text is left out.
    """
    kept, same = [], []
    for column, cells in columns:
        texts = _texts(cells)
        if set(texts) <= {MISSING}:
            continue
        same_text = len(set(texts)) == 1 and not column.title.startswith(SCORES)
        if rows > 1 and column.right and same_text:
            same.append(f"{column.title} {texts[0]}")
        else:
            kept.append((column, cells))
    return (kept, same) if any(column.right for column, _ in kept) else (list(columns), [])


def _agreeing(columns: Sequence[Line]) -> list[Line]:
    """Return columns of numbers with the same texts as one: 'test: best=last'."""
    merged: list[Line] = []
    for column, cells in columns:
        twin = next(
            (i for i, (other, known) in enumerate(merged) if _twins(other, column, known, cells)),
            None,
        )
        if twin is None:
            merged.append((column, cells))
        else:
            other = merged[twin][0]
            rest = column.title.removeprefix(_family(column))
            merged[twin] = Column(f"{other.title}={rest}"), cells
    return merged


def _twins(
    one: Column, other: Column, cells: Sequence[PrintedCell], others: Sequence[PrintedCell]
) -> bool:
    same = bool(_family(one)) and _family(one) == _family(other)
    return one.right and other.right and same and _texts(cells) == _texts(others)


def _texts(cells: Sequence[PrintedCell]) -> tuple[str, ...]:
    return tuple(cell.text for cell in cells)


def _family(column: Column) -> str:
    """What comes before a rule in a title: 'test: ' of 'test: best'."""
    head, colon, _ = column.title.partition(": ")
    return head + colon if colon else ""


def _blocks(columns: Sequence[Line], width: int) -> list[list[Line]]:
    """Return the columns in as many blocks as fit a width, each with the columns of names."""
    names = [line for line in columns if not line[0].right]
    room = width - sum(_width(line) + GAP for line in names)
    blocks: list[list[Line]] = []
    used = room + 1
    for line in columns:
        if not line[0].right:
            continue
        needed = _width(line) + GAP
        if used + needed > room or not blocks:
            blocks.append(list(names))
            used = 0
        blocks[-1].append(line)
        used += needed
    return blocks or [list(columns)]


def _width(line: Line, wide: bool = False) -> int:
    column, cells = line
    widest = max(map(len, (column.title, *_texts(cells))))
    return widest if wide or column.right else min(widest, LONGEST_NAME)


def _longest_word(line: Line) -> int:
    column, cells = line
    texts = " ".join((column.title, *_texts(cells)))
    return min(max(map(len, texts.split()), default=0), LONGEST_NAME)


def _least_width(columns: Sequence[Line], line: Line, width: int, wide: bool) -> int | None:
    """How narrow a column may become: no word of it breaks, if the words of all leave room."""
    if wide or line[0].right:
        return _width(line, wide)
    taken = sum((_width(one) if one[0].right else _longest_word(one)) + GAP for one in columns)
    return _longest_word(line) if taken <= width else None


def _styled(cell: PrintedCell, console: Console) -> Text:
    bold, gap, rest = cell.parts
    return Text.assemble((plain(console, bold), "bold"), plain(console, gap + rest))


def _print(columns: Sequence[Line], starts: Sequence[bool], console: Console, wide: bool) -> None:
    table = RichTable(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
    for line in columns:
        column = line[0]
        table.add_column(
            Text(plain(console, column.title)),
            justify="right" if column.right else "left",
            min_width=_least_width(columns, line, console.width, wide),
            max_width=None if wide or column.right else LONGEST_NAME,
            overflow="fold",
            no_wrap=wide or column.right,
            header_style="dim",
        )
    above = ""
    for index, row in enumerate(zip(*(cells for _, cells in columns), strict=True)):
        if starts[index]:
            table.add_row()
        repeated = row[0].text == above and len(columns) > 1
        above = row[0].text
        shown = (PrintedCell(""), *row[1:]) if repeated else row
        table.add_row(*(_styled(cell, console) for cell in shown))
    if wide:  # rich never prints wider than its console
        needed = sum(_width(line, wide) + GAP for line in columns)
        console = Console(
            file=console.file,
            width=max(console.width, needed),
            force_terminal=console.is_terminal,
        )
    console.print(table, highlight=False)
