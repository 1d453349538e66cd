"""The far examination is foretold by a line through two shorter ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import examination_speed


def test_a_line_through_two_lengths() -> None:
    assert examination_speed.foretold([1000, 4000], [2.0, 5.0], 101_000) == pytest.approx(102.0)


def test_numbers_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[int] = []

    def seconds_of(trial: object, length: int) -> float:
        asked.append(length)
        return length / 1000

    monkeypatch.setattr(examination_speed, "RESULTS", tmp_path)
    monkeypatch.setattr(examination_speed, "trial_of", lambda name: name)
    monkeypatch.setattr(examination_speed, "seconds_of", seconds_of)
    words = ["--models", "gru", "--rounds", "2", "--lengths", "1000", "3000", "--write"]
    examination_speed.main(words)
    assert asked == [40, 1000, 3000, 1000, 3000]
    assert "over a minute: gru of 1" in capsys.readouterr().out
    kept = json.loads((tmp_path / "examination_speed.json").read_text())
    assert kept["models"] == {"gru": {"seconds": [1.0, 3.0], "foretold": 100.0}}
