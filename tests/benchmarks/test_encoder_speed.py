"""Both sides train on the same batches, and what is told of them is what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks import encoder_speed
from lrbench.bench.timing import Rounds
from tests.made_up_corpora import write

SMALL = ("task=listops", "protocol=rir2023", "protocol.train_split=train", "model.width=8")


def test_both_sides_make_the_same_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LRBENCH_DATA", str(write(tmp_path)))
    monkeypatch.setattr(encoder_speed, "SETTINGS", (*SMALL, "model.encoder.dropout=0"))
    made = []
    real = encoder_speed.make_trial

    def remembered(*given):
        made.append(real(*given))
        return made[-1]

    monkeypatch.setattr(encoder_speed, "make_trial", remembered)
    measured, updates = encoder_speed.measure("bbt_grc", list(encoder_speed.SIDES), 3)
    assert updates == made[0].updates_per_epoch == 1
    assert [len(seconds) for seconds in measured.seconds.values()] == [3, 3]
    assert [trial.step for trial in made] == [4, 4]
    for one, other in zip(*(trial.model.parameters() for trial in made), strict=True):
        torch.testing.assert_close(one, other, atol=1e-3, rtol=0)


def test_numbers_are_of_the_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rounds = Rounds({"whole": [2.0, 2.0, 5.0], "halves": [1.0, 1.5, 2.0]})
    monkeypatch.setattr(encoder_speed, "measure", lambda *_: (rounds, 600))
    monkeypatch.setattr(encoder_speed, "KEPT", tmp_path / "kept.json")
    encoder_speed.main(["--models", "ebt_grc", "--write"])
    found = json.loads((tmp_path / "kept.json").read_text())["models"]["ebt_grc"]
    assert found["whole"] == {"seconds an update": 2.0, "minutes an epoch": 30.0}
    assert found["share"] == {"of all": 0.5, "least": 0.4, "most": 0.75}
    assert "ebt_grc" in capsys.readouterr().out
