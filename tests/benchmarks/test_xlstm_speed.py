"""What is timed is compared first, and what is told is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks import xlstm_speed

pytest.importorskip("xlstm")


def test_what_does_not_agree_is_not_timed() -> None:
    pairs = xlstm_speed.layers()
    xlstm_speed.check(pairs)
    ours, _ = pairs["mlstm"]
    with torch.no_grad():
        ours.skip += 0.1
    with pytest.raises(AssertionError):
        xlstm_speed.check(pairs)


def test_numbers_are_told_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(xlstm_speed, "RESULTS", tmp_path)
    monkeypatch.setattr(xlstm_speed, "STRINGS", 4)
    xlstm_speed.main(["--rounds", "3", "--seconds", "0", "--write"])
    assert "times slstm, ours" in capsys.readouterr().out
    kept = json.loads((tmp_path / "xlstm_speed.json").read_text())
    assert {side: len(seconds) for side, seconds in kept["mlstm"].items()} == {
        "mlstm, ours": 3, "mlstm, theirs": 3,
    }  # fmt: skip
