"""The example of docs/adding-a-task.md is a task: it is shown, asked in pieces, and trained on."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lrbench.errors import UserError
from lrbench.registry import TASKS
from lrbench.tasks import make_task
from tests.pages import SHORT, commands, lrbench, write

PAGE = "adding-a-task"


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    write(PAGE, "majority.py", tmp_path)
    check, show, train = commands(PAGE, "LRBENCH_PLUGINS=majority ")
    checked = lrbench(tmp_path, *check, plugins="majority")
    assert checked.splitlines()[-1] == "majority: 6 ok, 0 FAILED, 1 not applicable"
    shown = lrbench(tmp_path, *show, plugins="majority").splitlines()
    assert shown[0] == "majority: were there more symbols 0 than all others?"
    assert sum(line.startswith("answer") for line in shown) == 20
    long = [word for word in train if "max_steps" not in word]
    assert "majority" in lrbench(tmp_path, *long, *SHORT, plugins="majority")


def test_one_that_is_an_automaton_is_certified(tmp_path: Path) -> None:
    write(PAGE, "zeros.py", tmp_path)
    check, train = commands(PAGE, "LRBENCH_PLUGINS=zeros ")
    checked = lrbench(tmp_path, *check, plugins="zeros")
    assert checked.splitlines()[-1] == "zeros: 7 ok, 0 FAILED, 0 not applicable"
    long = [word for word in train if "max_steps" not in word]
    lrbench(tmp_path, *long, *SHORT, plugins="zeros")
    (run,) = (path.parent for path in tmp_path.glob("outputs/**/result.json"))
    command = [sys.executable, "-m", "lrbench", "certify", str(run)]
    environment = {**os.environ, "LRBENCH_PLUGINS": "zeros"}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ended.returncode == 3 and "the shortest there is" in ended.stdout, ended.stderr


def test_pieces_are_the_whole_and_the_oracle_agrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(PAGE, "majority.py", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(TASKS, "_entries", dict(TASKS._entries))
    importlib.import_module("majority")
    task = make_task(TASKS.get("majority").config(symbols=3))
    stream = task.stream(0, "test")
    whole = task.sample(stream, 0, 4, 23, "cpu")
    parts = list(task.segments(stream, 4, 23, 5, "cpu"))
    assert torch.equal(torch.cat([part.tokens for part in parts], 1), whole.tokens)
    assert torch.equal(torch.cat([part.targets for part in parts], 1), whole.targets)
    assert [task.oracle(row) for row in whole.tokens.tolist()] == whole.targets.tolist()
    with pytest.raises(ValueError, match=r"task.symbols must be at least 2, not 1"):
        TASKS.get("majority").config(symbols=1)
    del sys.modules["majority"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('name: str = "majority"', "size: int = 1"), 'fix: name: str = "majority"'),
        (("class Majority(Task)", "class Majority(object)"), "is not a subclass of lrbench.tasks"),
        (("def oracle", "def oracles"), "Majority does not define oracle"),
    ],
)
def test_what_is_forgotten_is_told(
    change: tuple[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(PAGE, "majority.py", tmp_path)
    path = tmp_path / "majority.py"
    path.write_text(path.read_text().replace(*change))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(TASKS, "_entries", dict(TASKS._entries))
    monkeypatch.delitem(sys.modules, "majority", raising=False)
    with pytest.raises(UserError, match=message):
        importlib.import_module("majority")
        make_task(TASKS.get("majority").config())
    sys.modules.pop("majority", None)
