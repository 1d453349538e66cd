"""The published tables of this checkout: every file of theirs is what its runs and notes make."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.pages import build as pages
from lrbench.publish.layout import is_measured, table_folders
from lrbench.publish.rebuild import rebuild

RESULTS = Path(__file__).resolve().parents[2] / "results"
TABLES = table_folders(RESULTS)


@pytest.mark.parametrize("folder", TABLES, ids=[folder.name for folder in TABLES])
def test_a_table_is_what_its_runs_make(folder: Path) -> None:
    made = pages.rebuild if is_measured(folder) else rebuild
    assert list(made(folder, check=True).findings()) == []


def test_there_are_published_tables() -> None:
    assert {"fan2024_table2", "fixed_point", "length_curves"} <= {path.name for path in TABLES}
    assert set(pages.TABLES) == {path.name for path in TABLES if is_measured(path)}


def test_the_index_and_the_front_page_are_what_they_make() -> None:
    found = rebuild(RESULTS, RESULTS.parent / "README.md", check=True).findings()
    assert list(found) == []
