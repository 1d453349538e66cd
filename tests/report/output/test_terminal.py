"""Tables on a terminal: they fit the window, and no number is lost."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from rich.console import Console

from lrbench.report.output.cells import Column, PrintedCell, Table, spread, with_best
from lrbench.report.output.display import columns_table
from lrbench.report.output.terminal import print_tables

TITLES = ("updates", "test: best", "test: last", "test: id", "paper", "chance")
ROWS = (
    ("sum", "gru", "2,000", "1.0000", "1.0000", "0.9500", "-", "0.200"),
    ("sum", "s4", "2,000", "0.2000", "0.2000", "0.2100", "-", "0.200"),
    ("parity", "gru", "2,000", "0.5000", "0.5000", "0.5100", "-", "0.500"),
)


def table(rows: tuple[tuple[str, ...], ...] = ROWS) -> Table:
    heads = (Column("task", right=False), Column("model", right=False), *map(Column, TITLES))
    return Table("A title", heads, tuple(tuple(map(PrintedCell, row)) for row in rows), ("a note",))


def printed(given: Table, width: int = 80, wide: bool = False) -> str:
    console = Console(file=StringIO(), width=width)
    print_tables([given], ["a file was not used"], console, wide)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_columns_that_agree_are_one_and_constants_are_said_once() -> None:
    text = printed(table())
    assert re.search(r"task +model +test: best=last +test: id +chance\n", text)
    assert re.search(r"sum +gru +1\.0000 +0\.9500 +0\.200\n", text)
    assert re.search(r"\n +s4 +0\.2000 +0\.2100 +0\.200\n", text)  # its task stands above
    assert "in all rows: updates 2,000" in text
    assert "paper" not in text  # there is none
    assert text.index("a note") < text.index("a file was not used")


def test_scores_that_agree_in_all_rows_stay_in_the_table() -> None:
    text = printed(table((ROWS[0], ("parity", *ROWS[0][1:]))))
    assert re.search(r"task +model +test: best=last +test: id\n", text)


def test_a_single_row_keeps_its_columns() -> None:
    text = printed(table(ROWS[:1]))
    assert "updates" in text and "in all rows" not in text


@pytest.mark.parametrize("width", [40, 52, 200])
def test_no_line_is_wider_than_the_window_and_no_number_is_lost(width: int) -> None:
    text = printed(table(), width)
    assert max(map(len, text.splitlines())) <= width
    for number in ("1.0000", "0.9500", "0.2100", "0.5100", "0.500", "2,000"):
        assert number in text


def test_wide_is_every_column_in_one_line() -> None:
    text = printed(table(), 40, wide=True)
    head = next(line for line in text.splitlines() if line.startswith("task"))
    assert head.split("  ") != head and all(title in head for title in TITLES)
    assert "in all rows" not in text


def prose() -> Table:
    """Two columns of words and one of numbers, as the table of a paper has them."""
    heads = (Column("model", right=False), Column("number", right=False), Column("accuracy"))
    row = ("blockdiag_release", "paper: Ours (block-diagonal LRNN, as the code has it)", "1.00")
    return Table("t", heads, (tuple(map(PrintedCell, row)),))


@pytest.mark.parametrize("width", [46, 60, 80])
def test_no_word_breaks_where_all_words_fit(width: int) -> None:
    text = printed(prose(), width)
    assert max(map(len, text.splitlines())) <= width
    for word in ("blockdiag_release", "(block-diagonal", "LRNN,", "accuracy", "1.00"):
        assert word in text


def test_wide_cuts_no_name() -> None:
    assert "paper: Ours (block-diagonal LRNN, as the code has it)" in printed(prose(), 40, True)


def test_a_long_name_is_folded_not_cut() -> None:
    name = "a" * 45
    text = printed(table(((name, *ROWS[0][1:]), ROWS[1])), 60)
    assert re.search(r"\na{30} .*\na{15} ", text)


def test_the_best_number_is_bold() -> None:
    cells = with_best([spread([0.5, 1.0]), spread([0.25])])
    rows = tuple((PrintedCell(name), cell) for name, cell in zip("ab", cells, strict=True))
    given = Table("t", (Column("model", right=False), Column("accuracy", right=False)), rows)
    console = Console(file=StringIO(), width=80, force_terminal=True, color_system="standard")
    print_tables([given], (), console)
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    assert "\x1b[1m0.7500\x1b[0m ± 0.3536 (2)" in text and "0.2500\x1b" not in text
    assert "bold: " in text


def test_a_column_without_rows_is_its_title() -> None:
    out = StringIO()
    columns_table(Console(file=out, width=40), {"length": [], "right": []})
    assert out.getvalue().split() == ["length", "right"]


def test_no_number_is_broken_where_the_width_is_too_small() -> None:
    out = StringIO()
    columns = {f"radius {n}": ["2.79e-12", "1.93e-14"] for n in range(9)}
    columns_table(Console(file=out, width=80), {"": ["0 ...", "random"], **columns})
    rows = [line.split() for line in out.getvalue().splitlines()[-2:]]
    assert rows == [["0", "...", *["2.79e-12"] * 9], ["random", *["1.93e-14"] * 9]]
