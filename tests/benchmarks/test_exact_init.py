"""The first row is of the very weights that were written, and the table says what was found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks import exact_init
from lrbench.certificates.witness import SearchBudget
from lrbench.cli.hydra.compose import composed
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.runs.folder import checkpoints

SMALL = ["protocol.test_size=20", "protocol.look_size=8", "protocol.validation_size=8"]


def test_before_training_the_weights_are_those_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(exact_init, "COMMON", [*exact_init.COMMON, *SMALL])
    monkeypatch.setattr(exact_init, "SETTINGS", {})
    monkeypatch.setattr(exact_init, "BUDGET", SearchBudget(1000, 100, 10, 50))
    monkeypatch.setattr(exact_init, "RESULTS", tmp_path)
    arguments = [
        "--tasks",
        "parity",
        "--models",
        "rnn",
        "--folder",
        str(tmp_path / "runs"),
        "--write",
    ]
    exact_init.main(arguments)
    assert "as written, 1: certified, least margin" in capsys.readouterr().out
    (row,) = json.loads((tmp_path / "exact_init.json").read_text())["verdicts"]
    assert (row["verdict"], row["string"], row["at_4999"]) == ("certified", None, 1.0)
    (file,) = tmp_path.glob("runs/**/last.pt")
    config = composed(["task=parity", "model=rnn", *exact_init.COMMON])
    written = LengthTrial(config, 0).model.state_dict()
    kept = checkpoints.load(file)["model"]
    assert all(torch.equal(kept[name], value) for name, value in written.items())
