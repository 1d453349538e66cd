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
        words = [*command.split(), *(short if command.startswith("train") else [])]
        ended = subprocess.run(
            [sys.executable, "-m", "lrbench", *words], cwd=tmp_path, capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stderr
        assert "mine" in ended.stdout
