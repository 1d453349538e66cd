"""What a look measures."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lrbench.config import Config
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.training.scoring import score
from lrbench.training.trial import unwatched

Make = Callable[..., Config]


def look(trial: LengthTrial) -> dict[str, float]:
    return trial.look(unwatched)


def test_looks_are_repeatable_and_their_test_strings_fresh(tiny: Make) -> None:
    trial = LengthTrial(tiny("protocol.look_size=64"), 0)
    trial.step = 4
    first = look(trial)
    assert look(trial) == first
    trial.step = 8
    second = look(trial)
    assert second["validation_loss"] == first["validation_loss"]
    streams = [trial.stream("look", 9, step) for step in (4, 8)]
    tokens = [trial.task.sample(stream, 0, 64, 9, "cpu").tokens for stream in streams]
    assert not bool((tokens[0] == tokens[1]).all())


@pytest.mark.slow
def test_band_is_spread_over_valid_lengths(tiny: Make) -> None:
    assert LengthTrial(tiny(), 0).band_lengths() == [7, 8]
    wide = LengthTrial(tiny("protocol.band=[60,120]"), 0).band_lengths()
    assert (len(wide), wide[0], wide[-1]) == (16, 60, 120)
    assert wide == sorted(set(wide))
    odd = ["task=mod_arith", "protocol.train_length=5", "protocol.test_lengths=[9]"]
    assert LengthTrial(tiny(*odd, "protocol.band=[6,12]"), 0).band_lengths() == [7, 9, 11]
    assert LengthTrial(tiny(*odd, "protocol.band=[8,8]"), 0).band_lengths() == [7]


def test_band_accuracy_is_that_of_its_lengths(tiny: Make) -> None:
    trial = LengthTrial(tiny(), 0)
    parts = [
        score(trial.model, trial.task, trial.stream("validation", n), n, 8, "cpu") for n in (7, 8)
    ]
    assert look(trial)["band_accuracy"] == pytest.approx(sum(s.correct for s in parts) / 16)
    assert look(trial)["band_n"] == 16
