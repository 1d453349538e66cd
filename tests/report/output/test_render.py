"""A report in each format, and what a user may choose of it."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from lrbench.errors import UserError
from lrbench.report.output.cells import Column, PrintedCell, Table
from lrbench.report.output.render import render, tables_csv
from lrbench.report.runs.collect import collect
from lrbench.report.tables.request import Request, narrowed, rounded
from lrbench.tables import TableCell, TableSpec

Write = Callable[..., Path]
B = "b" * 12
SPEC = TableSpec("mine", "My table", (TableCell(("task=sum", "model=blockdiag")),), rule="id")


@pytest.fixture
def rivals(write: Write, runs: Path) -> Path:
    """Two configurations of one cell, and another task."""
    write()
    write(fingerprint=B, lr=1e-3, accuracy=0.5)
    write(task="even_pair", fingerprint="c" * 12)
    return runs


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def test_csv_is_every_number_unless_cells_are_chosen(rivals: Path, references: Path) -> None:
    collection = collect(rivals)
    every = rows(render(collection, "csv", references))
    assert {row["fingerprint"][0] for row in every} == {"a", "b", "c"} and "value" in every[0]
    chosen = Request(rows=("blockdiag",), columns=("even_pair",))
    table = rows(render(collection, "csv", references, chosen))
    assert "table" in table[0] and "value" not in table[0]


def test_csv_of_several_tables() -> None:
    one = Table(
        "A",
        (Column("x"), Column("x"), Column("y")),
        ((PrintedCell("1"), PrintedCell("2"), PrintedCell(",")),),
    )
    two = Table("B", (Column("y"), Column("z")), ((PrintedCell("3"), PrintedCell('"')),))
    assert rows(tables_csv([one, two])) == [
        {"table": "A", "x": "1", "x 2": "2", "y": ",", "z": ""},
        {"table": "B", "x": "", "x 2": "", "y": "3", "z": '"'},
    ]
    assert tables_csv([]) == "table\n"


def test_a_fingerprint_decides_between_rivals_only(rivals: Path) -> None:
    collection = collect(rivals)
    kept = narrowed(collection, Request(fingerprints=("bbbb",)))
    assert sorted(kept.runs["fingerprint"].str[0]) == ["b", "c"]
    assert set(kept.frame["fingerprint"].str[0]) == {"b", "c"}
    assert narrowed(collection, Request()) is collection


def test_a_table_narrows_the_figures_to_its_cells(rivals: Path) -> None:
    collection = collect(rivals)
    assert set(narrowed(collection, Request(table=SPEC)).runs["task"]) == {"sum"}
    columns = Request(columns=("even_pair",))
    assert set(narrowed(collection, columns).runs["task"]) == {"even_pair"}
    assert narrowed(collection, Request(rows=("S4D",))).runs.empty


@pytest.mark.parametrize("word", ["bbb", "dddd"])
def test_an_unknown_fingerprint(rivals: Path, references: Path, word: str) -> None:
    with pytest.raises(UserError, match=f"'{word}' unknown") as error:
        render(collect(rivals), "markdown", references, Request(fingerprints=(word,)))
    assert B in str(error.value) and error.value.exit_code == 2


def test_digits_change_what_was_measured_and_not_what_was_printed(
    rivals: Path, references: Path
) -> None:
    text = render(collect(rivals), "markdown", references, Request(digits=2))
    assert "1.00 " in text and "1.0000" not in text and " 0.90 " in text and "0.20 " in text
    assert "50,885" in text


def test_digits_leave_other_cells_alone() -> None:
    cells = (
        PrintedCell("5 finished", (5.0,)),
        PrintedCell("0.123"),
        PrintedCell("0.2500", (0.25,)),
    )
    [row] = rounded(Table("t", (Column("x"),) * 3, (cells,)), 1).rows
    assert [cell.text for cell in row] == ["5 finished", "0.123", "0.2"]


def test_the_rule_is_the_tables_own_unless_another_is_asked_for() -> None:
    assert Request().one_rule == "best"
    assert Request(table=SPEC).one_rule == "id"
    assert Request(table=SPEC, rule="last").one_rule == "last"


@pytest.mark.parametrize("format", ["markdown", "latex", "html", "csv"])
def test_a_table_in_each_format(rivals: Path, references: Path, format: str) -> None:
    chosen = Request(table=SPEC, fingerprints=("aaaa",))
    text = render(collect(rivals), format, references, chosen)
    assert "My table" in text and "blockdiag" in text


def test_an_unknown_format(rivals: Path) -> None:
    with pytest.raises(UserError, match="Did you mean 'html'"):
        render(collect(rivals), "htm")
