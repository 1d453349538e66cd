"""Tables as YAML files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lrbench.cli.hydra.compose import completed
from lrbench.errors import UserError
from lrbench.locations import conf_dir
from lrbench.registry import DEFAULT_PROTOCOL
from lrbench.tables import TableSpec, load_table, register_table, table_names

TABLE = """
protocol: fan2024
columns: [sum]
common: [protocol.max_steps=10, trials=3]
cells:
  - {overrides: [task=sum, model=blockdiag]}
  - {overrides: [task=sum, model=blockdiag, protocol.max_steps=40], label: longer}
"""
LONGER = "label: longer, overrides: [task=sum, model=blockdiag"


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
    path.write_text(TABLE.replace("protocol: fan2024", "").replace("[pro", "[protocol=walks, pro"))
    spec = load_table(str(path))
    assert spec.protocol == "walks"  # or a report would look for runs of another
    for cell in spec.cells:
        assert [one for one in cell.overrides if one.startswith("protocol=")] == ["protocol=walks"]


def test_a_table_is_read_by_its_protocols_usual_rule(tmp_path: Path) -> None:
    """`best` is no rule of it: all cells were empty."""
    path = tmp_path / "mine.yaml"
    path.write_text(TABLE.replace("fan2024", "grazzi2025"))
    assert load_table(str(path)).rule == "last"
    path.write_text(TABLE.replace("columns", "kind: [paper]\ncolumns"))
    with pytest.raises(UserError, match=r"kind of table .* unknown"):
        load_table(str(path))


@pytest.mark.parametrize("name", ["fan2024_table2", "a/b c"])
def test_a_registered_table_takes_no_name_of_another(name: str) -> None:
    with pytest.raises(UserError, match=r"already registered by lrbench|that is no name"):
        register_table(TableSpec(name, "Mine", ()))


@pytest.mark.parametrize("place", ["common: [", "label: longer, overrides: ["])
def test_a_table_is_of_one_protocol(place: str, tmp_path: Path) -> None:
    """A sweep would train the others, and no report of the table would show them."""
    path = tmp_path / "mine.yaml"
    text = TABLE.replace("overrides: [task=sum, model=blockdiag, protocol", f"{LONGER}, protocol")
    text = text.replace("], label: longer", "]").replace("fan2024", "suite_v1")
    path.write_text(text.replace(place, f"{place}protocol=walks, "))
    with pytest.raises(UserError, match="is of protocol suite_v1, and a cell of it is of another"):
        load_table(str(path))


SUITE = """
kind: suite
protocol: suite_v1
tasks:
  - {overrides: [task=sum], label: sum 5}
models:
  - {overrides: [model=lstm]}
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[model=lstm]", "[model=lstm], recipe: ours", "a cell is 'overrides' and perhaps 'label'"),
        ("[model=lstm]", "[model=lstm], reference: LSTM", "'overrides' and perhaps 'label':"),
        ("label: sum 5", "reference: Sum", "'overrides' and perhaps 'label':"),
        ("tasks:", "columns: [sum]\ntasks:", "columns"),
        ("tasks:", "printed: grazzi2025\ntasks:", "printed"),
    ],
)
def test_a_suite_takes_no_key_that_it_does_not_heed(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(SUITE)
    assert [cell.column for cell in load_table(str(path)).cells] == ["sum 5"]
    path.write_text(SUITE.replace(old, new))
    with pytest.raises(UserError, match=said):
        load_table(str(path))


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
