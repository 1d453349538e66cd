"""Tables as YAML files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lrbench.errors import UserError
from lrbench.tables import load_table

TABLE = """
protocol: fan2024
columns: [sum]
common: [protocol.max_steps=10, trials=3]
cells:
  - {overrides: [task=sum, model=blockdiag]}
  - {overrides: [task=sum, model=blockdiag, protocol.max_steps=40], label: longer}
"""


def test_a_cells_own_word_stands_for_the_common_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(TABLE)
    first, second = load_table(str(path)).cells
    assert first.overrides == (
        *("protocol.max_steps=10", "trials=3"),
        *("task=sum", "model=blockdiag"),
    )
    assert second.overrides == ("trials=3", "task=sum", "model=blockdiag", "protocol.max_steps=40")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no table file at 'nowhere\.yaml'"):
        load_table("nowhere.yaml")


def test_a_cell_says_that_its_recipe_is_ours(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(TABLE.replace("label: longer", "recipe: ours"))
    assert [cell.own_recipe for cell in load_table(str(path)).cells] == [False, True]
    path.write_text(TABLE.replace("label: longer", "recipe: theirs"))
    with pytest.raises(UserError, match="'recipe' of a cell is 'ours' or left out"):
        load_table(str(path))


@pytest.mark.parametrize("key", ["label", "reference"])
@pytest.mark.parametrize("value", ["{a: 1}", "[5]", "7", "true"])
def test_names_in_a_cell_are_texts(key: str, value: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(TABLE.replace("label: longer", f"{key}: {value}"))
    with pytest.raises(UserError, match=f"'{key}' of a cell is a text, not "):
        load_table(str(path))
