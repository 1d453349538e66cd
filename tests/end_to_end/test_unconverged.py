"""A run whose solver stops converging says so: once on the console, in its record and result."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import pytest

from lrbench.cli import main

OVERRIDES = [
    "task=sum",
    "model=elman_plain_solve",
    "model.mixer.max_iterations=2",
    "model.width=8",
    "protocol.train_length=9",
    "protocol.test_lengths=[11]",
    "protocol.further_lengths=[]",
    "protocol.band=[10,11]",
    "protocol.max_steps=4",
    "protocol.look_every=2",
    "protocol.look_size=4",
    "protocol.validation_size=4",
    "protocol.test_size=4",
    "protocol.batch_size=4",
    "output_dir=runs",
]


def test_it_says_so_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["lrbench", "train", *OVERRIDES])
    with contextlib.suppress(SystemExit):
        main()
    assert capsys.readouterr().err.count("not converged within the cap in 100.0%") == 1
    (file,) = tmp_path.glob("runs/sum/elman_plain_solve/*/*/s0/result.json")
    reported = json.loads(file.read_text())["telemetry"]
    assert reported == {"iterations": 2.0, "converged": 0.0, "failed_at": 2}
    kept = (file.parent / "metrics.jsonl").read_text().splitlines()
    lines = [json.loads(line) for line in kept]
    assert [line["iterations"] for line in lines if "loss" in line] == [2.0, 2.0]
    assert sum("notice" in line for line in lines) == 1
    assert "not converged" in (file.parent / "run.log").read_text()
