"""Section 4.5 is measured as it was told: what is trained, what is only read, and whose numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from lrbench.bench.paper_speed import SETTINGS, _run, paper_speeds
from lrbench.bench.pscan import added
from lrbench.cli.hydra.compose import composed
from lrbench.config import Config
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.report.paper.times import speeds


def tiny(arguments: Sequence[str]) -> Config:
    return composed([*arguments, "model.width=16", "protocol.batch_size=2"])


def test_the_papers_numbers_stand_beside_ours() -> None:
    printed = speeds()
    assert [row.setting for row in printed][:2] == ["train T=40 b=8", "test T=500 b=8"]
    assert (printed[0].sequential, printed[0].pscan) == ("0.033", "0.021")
    assert printed[2].ratio == pytest.approx(2.5)


def test_each_setting_is_measured() -> None:
    found = paper_speeds(tiny, 3, 0.0, torch.device("cpu"))
    assert [row.setting for row in found] == list(SETTINGS)
    for row in found:
        assert row.sequential > 0 and row.pscan > 0 and row.paper is not None
        assert len(row.rounds["pscan"]) == 3


def test_training_makes_gradients_and_testing_none() -> None:
    training, testing = SETTINGS[0], SETTINGS[1]
    trial = LengthTrial(tiny(["task=sum", "model=blockdiag_release"]), 0)
    _run(trial, testing, "sequential")
    assert all(p.grad is None for p in trial.model.parameters())
    with added():
        _run(trial, training, "pscan")
    assert all(p.grad is not None for p in trial.model.parameters())
