"""The published tables of this checkout: every file of theirs is what its runs and notes make."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.pages import build as pages
from lrbench.publish.layout import is_measured, table_folders
from lrbench.publish.rebuild import rebuild

RESULTS = Path(__file__).resolve().parents[2] / "results"
TABLES = table_folders(RESULTS)
MEASURED = [folder for folder in TABLES if is_measured(folder)]


@pytest.mark.parametrize("folder", MEASURED, ids=[folder.name for folder in MEASURED])
def test_a_table_is_what_was_measured(folder: Path) -> None:
    assert list(pages.rebuild(folder, check=True).findings()) == []


def test_there_are_published_tables() -> None:
    assert {"fan2024_table2", "fixed_point", "length_curves"} <= {path.name for path in TABLES}
    assert set(pages.TABLES) == {path.name for path in MEASURED}


def test_a_table_of_walks_has_walks_in_the_index_not_rows_and_columns() -> None:
    """The index is what the code makes of the folders: the next test."""
    lines = (RESULTS / "README.md").read_text(encoding="utf-8").splitlines()
    (line,) = (line for line in lines if "(protocols/README.md)" in line)
    assert "| 3 walks | " in line


def test_tables_index_and_front_page_are_what_runs_and_notes_make() -> None:
    made = rebuild(RESULTS, RESULTS.parent / "README.md", check=True)
    assert made.measured == MEASURED
    assert list(made.findings()) == []
