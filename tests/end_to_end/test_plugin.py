"""A user's own model is one file outside the package: check and train take it as it is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import programs

MINE = '''
"""x_k = sigmoid(W u_k) x_{k-1} + V u_k, elementwise, from a learnt start."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from lrbench import register_mixer
from lrbench.mixers.base import LinearMixer
from lrbench.scan import Diagonal


@dataclass
class MineConfig:
    bias: float = 1.0


@register_mixer("mine", MineConfig)
class Mine(LinearMixer):
    """A gated diagonal linear RNN."""

    def __init__(self, config, width):
        super().__init__(config, width)
        self.gate, self.value = nn.Linear(width, width), nn.Linear(width, width)
        self.start = nn.Parameter(torch.zeros(width))

    @property
    def state_size(self):
        return self.width

    def initial_state(self, batch):
        return self.start.expand(batch, -1)

    def coefficients(self, u):
        return Diagonal(torch.sigmoid(self.gate(u) + self.config.bias)), self.value(u)

    def readout(self, states, u):
        return states
'''

SHORT = ("protocol.max_steps=20", "protocol.look_every=10", "protocol.test_size=20")


@pytest.fixture
def lrbench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return lrbench(plugins, words): the program, run in a folder that holds mine.py."""
    (tmp_path / "mine.py").write_text(MINE)

    def run(plugins: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.setenv("LRBENCH_PLUGINS", plugins)
        return programs.lrbench(*arguments, cwd=tmp_path)

    return run


def test_check_passes(lrbench) -> None:
    done = lrbench("mine", "check", "model=mine", "model.width=6", "model.mixer.bias=0.5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 FAILED" in done.stdout.splitlines()[-1]


def test_train_writes_a_result(lrbench, tmp_path: Path) -> None:
    arguments = ("task=sum", "model=mine", *SHORT, "protocol.further_lengths=[]", "output_dir=out")
    done = lrbench("mine", "train", *arguments)
    assert done.returncode == 0, done.stderr
    [path] = (tmp_path / "out").rglob("result.json")
    result = json.loads(path.read_text())
    assert (result["model"], result["task"], result["steps"]) == ("mine", "sum", 20)
    assert path.relative_to(tmp_path / "out").parts[:2] == ("sum", "mine")
    assert {row["length"] for row in result["evaluations"]} >= {40, 500}


def few_lines(done: subprocess.CompletedProcess[str]) -> str:
    """Return stderr of a program that refused in at most six lines, with exit code 1."""
    assert done.returncode == 1 and done.stdout == ""
    assert "Traceback" not in done.stderr
    assert 1 <= len(done.stderr.strip().splitlines()) <= 6
    return done.stderr


@pytest.mark.parametrize(
    "command", [("check", "model=mine"), ("train", "model=mine", "output_dir=out")]
)
def test_missing_plugin(lrbench, tmp_path: Path, command: tuple[str, ...]) -> None:
    text = few_lines(lrbench("mein", *command))
    assert "plugin 'mein' (LRBENCH_PLUGINS) not found" in text
    assert not (tmp_path / "out").exists()


def test_plugin_with_a_syntax_error(lrbench, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def f(:\n    pass\n")
    text = few_lines(lrbench("mine", "check", "model=mine"))
    assert "plugin 'mine'" in text and "SyntaxError" in text and "line 1" in text


def test_plugin_registers_a_taken_name(lrbench, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE.replace('"mine"', '"blockdiag"'))
    text = few_lines(lrbench("mine", "train", "model=blockdiag", "output_dir=out"))
    assert (
        "model 'blockdiag' is already registered by lrbench.mixers.block_diagonal.blockdiag" in text
    )
    assert not (tmp_path / "out").exists()


def test_plugin_that_needs_what_is_not_installed(lrbench, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import no_such_module_anywhere\n")
    text = few_lines(lrbench("mine", "check", "model=mine"))
    assert "needs a module that is missing" in text and "no_such_module_anywhere" in text
