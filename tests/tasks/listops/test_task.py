"""ListOps as a task: splits that were made, released files by name or by path, and answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from lrbench.errors import UserError
from lrbench.tasks.listops.expressions import VOCABULARY
from lrbench.tasks.listops.released import FILES, FOLDER, parenthesised
from lrbench.tasks.listops.task import Listops, ListopsConfig
from tests import made_up_corpora

STRINGS = {"[MAX 5 [SM 3 9 ] 2 ]": 5, "[MED 3 4 ]": 3, "7": 7}


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Listops:
    monkeypatch.setenv("LRBENCH_DATA", str(tmp_path))
    return Listops(ListopsConfig())


def d20s(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{value}\t{parenthesised(text.split())}" for text, value in STRINGS.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def lra(path: Path) -> Path:
    lines = [f"{parenthesised(text.split())}\t{value}" for text, value in STRINGS.items()]
    path.write_text("\n".join(["Source\tTarget", *lines]) + "\n")
    return path


@pytest.mark.parametrize("write", [d20s, lra])
def test_a_file_by_its_path(task: Listops, tmp_path: Path, write) -> None:
    strings = task.load(str(write(tmp_path / "some.tsv")))
    assert [strings.text(row) for row in range(3)] == list(STRINGS)
    assert strings.labels.tolist() == list(STRINGS.values())


def test_the_released_test_file_by_its_name(task: Listops, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="lrbench data fetch listops_test"):
        task.load("released_test")
    d20s(tmp_path / FOLDER / FILES[0].name)
    assert len(task.load("released_test")) == 3
    with pytest.raises(UserError, match=r"split 'released' unknown.*released_test"):
        task.load("released")


def test_a_wrong_label_names_file_and_line(task: Listops, tmp_path: Path) -> None:
    path = d20s(tmp_path / "wrong.tsv")
    path.write_text(path.read_text().replace("7\t7", "6\t7"))
    with pytest.raises(UserError, match=r"wrong\.tsv.*3"):
        task.load(str(path))


def test_answers_are_those_on_disk(task: Listops, tmp_path: Path) -> None:
    made_up_corpora.write(tmp_path)
    strings = task.load("dev")
    for row in range(len(strings)):
        assert task.answer(strings.row(row).tolist()) == strings.labels[row]
    assert [VOCABULARY[token] for token in strings.row(0)] == strings.text(0).split()
