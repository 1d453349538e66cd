"""What is timed are the same passes, with and without subnormal weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import subnormal_speed
from lrbench.bench.timing import Rounds
from lrbench.training.arithmetic import are_flushed
from tests.bundles.conftest import TINY


def test_a_share_of_the_weights_is_subnormal() -> None:
    weights = [w for w in subnormal_speed.trial_with(0.5, TINY).model.parameters() if w.dim() > 1]
    small = sum(int((w == subnormal_speed.SUBNORMAL).sum()) for w in weights)
    assert 0.4 < small / sum(w.numel() for w in weights) < 0.6


def test_only_one_side_is_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def arithmetic_of(trial: object) -> subnormal_speed.Call:
        return lambda: seen.append(are_flushed())

    monkeypatch.setattr(subnormal_speed, "arithmetic_of", arithmetic_of)
    for call in subnormal_speed.sides(0.5, TINY).values():
        call()
    assert seen == [False, True, False]


def test_the_ratio_is_that_of_the_slow_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = Rounds({"as they are": [4.0, 8.0], "flushed": [1.0, 1.0], "none": [2.0, 2.0]})
    monkeypatch.setattr(subnormal_speed, "sides", lambda *_: {})
    monkeypatch.setattr(subnormal_speed, "alternate", lambda *_: measured)
    monkeypatch.setattr(subnormal_speed, "RESULTS", tmp_path)
    subnormal_speed.main(["--write"])
    assert "flushed 1.000 s, ratio 6.0 (4.0..8.0)" in capsys.readouterr().out
    written = json.loads((tmp_path / "subnormal_speed.json").read_text())
    assert written["seconds"]["none"] == [2.0, 2.0]
