"""Tables as YAML files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lrbench.cli.hydra.compose import completed
from lrbench.errors import UserError
from lrbench.locations import conf_dir
from lrbench.registry import DEFAULT_PROTOCOL
from lrbench.tables import load_table, table_names

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


def test_every_cell_is_trained_by_the_protocol_that_the_table_names(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(TABLE.replace("protocol: fan2024", "protocol: suite_v1"))
    assert all("protocol=suite_v1" in cell.overrides for cell in load_table(str(path)).cells)
    typed = TABLE.replace("protocol: fan2024", "protocol: suite_v1")
    path.write_text(typed.replace("common: [", "common: [protocol=walks, "))
    for cell in load_table(str(path)).cells:
        assert [one for one in cell.overrides if one.startswith("protocol=")] == ["protocol=walks"]


@pytest.mark.parametrize("name", table_names())
def test_the_cells_of_a_built_in_table_have_its_protocol(name: str) -> None:
    spec = load_table(name)
    words = completed(spec.cells[0].overrides, [conf_dir()])
    named = [word for word in words if word.startswith("protocol=")]
    assert named == ([] if spec.protocol == DEFAULT_PROTOCOL else [f"protocol={spec.protocol}"])


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
