"""The example of docs/adding-a-model.md is a model: it registers, is checked, and trains."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from lrbench.registry import MIXERS


def page(root: Path) -> str:
    return (root / "docs" / "adding-a-model.md").read_text()


@pytest.fixture
def mine(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    example = re.search(r"^```python\n(.*?)^```", page(root), re.M | re.S)
    assert example
    (tmp_path / "mine.py").write_text(example[1])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(MIXERS, "_entries", dict(MIXERS._entries))
    yield importlib.import_module("mine")
    del sys.modules["mine"]


def test_example_model_is_causal_and_its_modes_agree(mine: ModuleType) -> None:
    entry = MIXERS.get("mine")
    torch.manual_seed(0)
    mixer = entry.cls(entry.config(), 8).double()
    u = torch.randn(2, 13, 8, dtype=torch.float64)
    outputs = {mode: mixer(u, mode=mode)[0] for mode in mixer.modes}
    for y in outputs.values():
        torch.testing.assert_close(y, outputs["reference"], rtol=1e-9, atol=1e-12)
    y, state = mixer(u[:, :6])
    rest, _ = mixer(u[:, 6:], state)
    torch.testing.assert_close(torch.cat([y, rest], 1), outputs["reference"])
    assert state[0].numel() == mixer.state_size


def test_the_commands_of_the_page_run(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In processes of their own, as a user's: the check of the page's file, a short training."""
    example = re.search(r"^```python\n(.*?)^```", page(root), re.M | re.S)
    assert example
    (tmp_path / "mine.py").write_text(example[1])
    monkeypatch.setenv("LRBENCH_PLUGINS", "mine")
    commands = re.findall(r"^    LRBENCH_PLUGINS=mine lrbench (.*)$", page(root), re.M)
    assert [command.split()[0] for command in commands] == ["check", "train"]
    short = ["protocol.max_steps=3", "protocol.test_size=16", "protocol.further_lengths=[]"]
    for command in commands:
        arguments = [*command.split(), *(short if command.startswith("train") else [])]
        assert "mine" in lrbench(tmp_path, *arguments)


def test_the_table_of_the_page_has_the_published_rows_and_mine(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's commands are what is typed here, but for what takes hours."""
    blocks = dict(re.findall(r"^```(\w+)\n(.*?)^```", page(root), re.M | re.S))
    (tmp_path / "mine.py").write_text(blocks["python"])
    monkeypatch.setenv("LRBENCH_PLUGINS", "mine")
    (tmp_path / "lrbench").symlink_to(root)  # the clone, as the page has it
    copied, into = re.search(r"^    cp (\S+) (\S+)$", page(root), re.M).groups()
    (tmp_path / into).write_text((tmp_path / copied).read_text() + blocks["yaml"])
    typed = re.findall(r"^    lrbench ((?:tune|sweep|report) .*)$", page(root), re.M)
    tune, deep, sweep, report = (command.split() for command in typed)
    for search in (tune, deep):
        tiny = ["protocol.max_steps=2", "protocol.test_size=8", "protocol.further_lengths=[]"]
        arguments = [argument for argument in search if "max_steps" not in argument]
        lrbench(
            tmp_path, *arguments, *tiny, "task=even_pair" if search is tune else "task=mod_arith"
        )
    planned = lrbench(tmp_path, *sweep, "--dry-run")
    assert "9 runs: 0 finished, 9 to do" in planned
    (tmp_path / "outputs").mkdir()
    table = lrbench(tmp_path, *report)
    assert "| mine " in table and "| blockdiag, plain " in table and "paper: Ours" in table


def lrbench(folder: Path, *arguments: str) -> str:
    """Run a command as a user's, in a process of its own; return what it printed."""
    command = [sys.executable, "-m", "lrbench", *arguments]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
