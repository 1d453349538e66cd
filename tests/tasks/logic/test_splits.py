"""Splits on disk: made, read, missing, and released apart from ours."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from lrbench.errors import UserError
from lrbench.tasks.corpus.recipe import make
from lrbench.tasks.logic import load
from lrbench.tasks.logic.generator import draw
from lrbench.tasks.logic.splits import MADE, SPLITS, released_recipe, store_released
from lrbench.tasks.logic.task import Logic


def quiet(*_: object) -> None:
    pass


@pytest.fixture(scope="module")
def made_once(released_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of data with the splits of the released files."""
    data = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LRBENCH_DATA", str(data))
        assert store_released(released_folder, quiet, quiet) == list(SPLITS)
    return data


@pytest.fixture
def stored(made_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The released splits in a folder of data that a test may spoil."""
    monkeypatch.setenv("LRBENCH_DATA", str(tmp_path / "data"))
    return shutil.copytree(made_once, tmp_path / "data") / "logic_released"


def test_released_splits(stored: Path, released_folder: Path) -> None:
    counts = {name: len(load(name)) for name in ("train", "dev", "test_8", "test_12")}
    assert counts == {"train": 121_977, "dev": 13_552, "test_8": 3347, "test_12": 853}
    part = load("test_12")
    assert part.sides == Logic.sides == 2 and part.text(0) == "( e ( and a ) )"
    settings = part.made["settings"]
    assert settings["source"] == "released" and len(settings["sha256"]) == 20
    assert part.made["version"] == 1  # another one and what is on disk is refused
    assert store_released(released_folder, quiet, quiet) == []


def test_what_is_damaged_is_reported_and_made_again(stored: Path, released_folder: Path) -> None:
    (stored / "dev" / "labels.npy").write_bytes(b"")
    with pytest.raises(UserError, match=r"labels\.npy cannot be used"):
        load("dev")
    shutil.rmtree(stored / "test_9")
    assert store_released(released_folder, quiet, quiet) == ["dev", "test_9"]
    assert len(load("dev")) == 13_552


def test_ours_are_kept_apart(stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lrbench.tasks.logic.splits.draw", lambda seed, tell: draw(seed, 2000))
    recipe = MADE
    make(recipe, [], 3, False, quiet, quiet)
    ours, theirs = load("dev", source="made"), load("dev", source="released")
    assert (ours.made["settings"]["source"], ours.made["seed"]) == ("made", 3)
    assert len(ours) != len(theirs) == 13_552
    assert recipe.folder == tmp_path / "data" / "logic"
    assert np.array_equal(load("dev").tokens, theirs.tokens)


@pytest.mark.parametrize("source", ["released", "made"])
def test_missing_data_name_the_command(source: str) -> None:
    with pytest.raises(UserError) as error:
        load("test_8", source=source)
    reported = str(error.value)
    command = {"released": "lrbench data fetch logic", "made": "lrbench data make logic"}[source]
    assert f"get them with: {command}\n" in reported and "LRBENCH_DATA" in reported
    assert len(reported.splitlines()) <= 6


def test_released_files_are_read_where_fetch_puts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LRBENCH_DATA", str(tmp_path))
    with pytest.raises(UserError, match=f"there is no train0, .* in {tmp_path}/released/logic"):
        next(iter(released_recipe().draw(["train"], 0, quiet)))


def test_unknown_names() -> None:
    with pytest.raises(UserError, match="Did you mean 'test_12'"):
        load("test12")
    with pytest.raises(
        UserError, match=r"logic: source 'releasd' unknown\. Did you mean 'released'"
    ):
        load("dev", source="releasd")


def test_other_files_are_not_taken_for_the_released_ones(
    released_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where every label in them is right."""
    monkeypatch.setenv("LRBENCH_DATA", str(tmp_path / "data"))
    folder = shutil.copytree(released_folder, tmp_path / "copy")
    (folder / "test12").unlink()
    with pytest.raises(UserError, match=r"there is no test12 in .*\n.*lrbench data fetch logic"):
        store_released(folder, quiet, quiet)
    (folder / "test12").write_text("#\ta\tb\n")
    with pytest.raises(UserError, match="test12 is not the released file"):
        store_released(folder, quiet, quiet)
    assert not (tmp_path / "data" / "logic_released" / "train").exists()
