"""A tiny run of every built-in model as a user would do it: train, evaluate, report."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from lrbench.cli import main
from lrbench.registry import MIXERS
from tests.named_layers import words

SMALL = [
    "task=mod_arith",
    "model.layers=2",
    "model.width=16",
    "protocol.train_length=9",
    "protocol.test_lengths=[29]",
    "protocol.further_lengths=[19]",
    "protocol.band=[11,15]",
    "protocol.max_steps=4",
    "protocol.look_every=2",
    "protocol.look_size=8",
    "protocol.validation_size=16",
    "protocol.test_size=20",
    "protocol.batch_size=4",
]


def lrbench(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["lrbench", *arguments])
    try:
        main()
    except SystemExit as left:
        return int(str(left.code or 0))
    return 0


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all these runs."""
    return tmp_path_factory.mktemp("every_model")


@pytest.mark.parametrize("model", [name for name in MIXERS.names() if MIXERS.get(name).builtin])
def test_trained_and_evaluated(model: str, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lrbench(monkeypatch, "train", *words(model), *SMALL, f"output_dir={runs}") == 0
    (file,) = runs.glob(f"mod_arith/{model}/fan2024/*/s0/result.json")
    result = json.loads(file.read_text())
    assert (result["status"], result["steps"]) == ("finished", 4)
    before = {row["value"] for row in result["evaluations"] if row["metric"] == "loss"}
    assert len(before) > 1, "training changed nothing"
    assert lrbench(monkeypatch, "evaluate", str(file.parent), "--lengths", "101") == 0


def test_all_are_reported(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the tests above; of one model, if this test runs alone."""
    if not any(runs.iterdir()):
        assert lrbench(monkeypatch, "train", "model=lstm", *SMALL, f"output_dir={runs}") == 0
    models = sorted(path.name for path in runs.glob("mod_arith/*"))
    capsys.readouterr()
    assert lrbench(monkeypatch, "report", "--runs", str(runs), "--format", "csv") == 0
    lines = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    column = lines[0].index("model")
    assert sorted({line[column] for line in lines[1:]}) == models
