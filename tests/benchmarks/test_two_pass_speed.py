"""What is timed is the reference over the two passes, of the same results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks import two_pass_speed
from lrbench.bench.timing import Rounds


def test_both_ways_compute_the_same() -> None:
    calls = two_pass_speed.sides(3, 7, 8)
    assert list(calls) == ["reference", "forward"]
    torch.testing.assert_close(calls["forward"](), calls["reference"](), rtol=1e-4, atol=1e-4)
    assert two_pass_speed.difference(9, 8) < 1e-12


def test_the_ratio_is_the_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = Rounds({"reference": [4.0, 8.0, 6.0], "forward": [1.0, 1.0, 1.0]})
    monkeypatch.setattr(two_pass_speed, "alternate", lambda *_: measured)
    monkeypatch.setattr(two_pass_speed, "RESULTS", tmp_path)
    two_pass_speed.main(["--length", "7", "--batch", "2", "--width", "8", "--write"])
    assert "ratio 6.0 (4.0..8.0)" in capsys.readouterr().out
    written = json.loads((tmp_path / "two_pass_speed.json").read_text())
    assert written["seconds"]["forward"] == [1.0, 1.0, 1.0]
