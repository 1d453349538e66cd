"""What is timed is compared first, and what is told is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import mamba_speed

pytest.importorskip("mambapy")


def test_what_does_not_agree_is_not_timed() -> None:
    found = mamba_speed.layers(8)
    mamba_speed.check(found, 8)
    theirs = found["mambapy"]
    with pytest.raises(AssertionError):
        mamba_speed.check({**found, "another": lambda u: theirs(u) + 0.01}, 8)


def test_numbers_are_told_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mamba_speed, "RESULTS", tmp_path)
    monkeypatch.setattr(mamba_speed, "STRINGS", 4)
    monkeypatch.setattr(mamba_speed, "MODELS", {"mamba [-1,1]": ["model.mixer.range=signed"]})
    mamba_speed.main(["--rounds", "3", "--seconds", "0", "--write"])
    assert "times ours, sequential" in capsys.readouterr().out
    kept = json.loads((tmp_path / "mamba_speed.json").read_text())
    assert {name: len(seconds) for name, seconds in kept["layer"].items()} == {
        "mambapy": 3, "ours, sequential": 3, "ours, scan": 3,
    }  # fmt: skip
    assert list(kept["updates"]) == ["mamba [-1,1]"]
