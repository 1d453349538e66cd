"""A bundle of torch modules by their dotted path: it holds the source, which runs if trusted."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from lrbench import plugins
from lrbench.bundles.check.verify import BAD, GOOD, OPEN, Options, open_bundle, verify
from lrbench.bundles.choice import TableChoice
from lrbench.bundles.pack import pack
from lrbench.cli.hydra.compose import composed
from lrbench.runs.train.job import run_cell
from tests.named_layers import WORDS

from .conftest import TINY

SOURCE = """
from pathlib import Path
from torch import nn
Path("ran").write_text("!")

class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.rnn = nn.GRU(dim, dim, batch_first=True)

    def forward(self, x):
        return self.rnn(x)
"""
CELL = [word for word in TINY if not word.startswith(("model.mixer", "model=", "model.backbone"))]


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a process that nobody told anything."""
    monkeypatch.setattr(plugins, "_loaded", {})
    os.environ.pop(plugins.VARIABLE, None)
    sys.modules.pop("bundled_layer", None)


def bundled(*words: str) -> Path:
    run_cell(composed([*CELL, "model=foreign", *words, "output_dir=runs"]))
    Path("b.zip").write_bytes(pack(Path("runs"), TableChoice(), "b.zip").data)
    return Path("b.zip")


def looked_at(path: Path, **options: bool) -> tuple[dict[str, tuple[str, str]], int]:
    findings, scores = verify(open_bundle(path), Options(strings=200, **options))
    return {one.what: (one.status, one.text) for one in findings}, len(scores)


@pytest.mark.parametrize("left_behind", [True, False], ids=["another file of that name", "no file"])
def test_a_strangers_layer_is_run_only_where_trusted(
    left_behind: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(monkeypatch)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("bundled_layer.py").write_text(SOURCE)
    path = bundled("model.mixer.target=bundled_layer.Layer")
    forget(monkeypatch)
    os.remove("ran")
    if not left_behind:
        os.remove("bundled_layer.py")
    found, scores = looked_at(path)
    assert not Path("ran").exists() and "bundled_layer" not in sys.modules
    assert found["plugins"][0] == OPEN and found["plugins"][1].startswith("bundled_layer: code")
    assert (found["scores"][0], scores) == (OPEN, 0)
    (status,) = (status for status, text in found.values() if "add --trust-plugins" in text)
    assert status == OPEN
    found, scores = looked_at(path, trust_plugins=True)
    assert Path("ran").exists() and scores == 3
    assert {status for status, _ in found.values()} == {GOOD}


def test_a_librarys_layer_is_scored_by_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch)
    path = bundled(*WORDS)
    forget(monkeypatch)
    assert not [name for name in open_bundle(path).files if name.startswith("plugins/")]
    found, scores = looked_at(path)
    assert (found["plugins"][0], scores) == (OPEN, 0)
    found, scores = looked_at(path, trust_plugins=True)
    assert (found["plugins"], scores) == ((GOOD, "torch: run, as you asked"), 3)
    monkeypatch.setattr("lrbench.mixers.foreign.target.version", lambda name: "0.1")
    found, scores = looked_at(path, trust_plugins=True)
    (refused,) = (text for status, text in found.values() if status == BAD)
    assert scores == 0 and "was trained with other code: torch" in refused
