"""What is measured is what is said: whole updates, each mode, the memory of updates."""

from __future__ import annotations

import pytest
import torch

from lrbench.bench.modes import LOOP, by_steps, mode_costs
from lrbench.bench.updates import arithmetic_of, peak_of, update_costs
from lrbench.cli.hydra.compose import composed
from lrbench.config import Config
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.registry import MIXERS


def tiny(*arguments: str) -> Config:
    return composed(
        [
            "device=cpu",
            "model.width=8",
            "protocol.batch_size=4",
            "protocol.train_length=6",
            *arguments,
        ]
    )


def test_updates_are_compared_with_the_first_model() -> None:
    costs = update_costs([tiny(), tiny("model=blockdiag_release")], 3, 0.0)
    assert [cost.model for cost in costs] == ["blockdiag", "blockdiag_release"]
    assert costs[0].ratio == 1.0
    for cost in costs:
        assert len(cost.rounds) == 3 and cost.seconds > 0 and cost.outside < 1
        assert cost.strings_per_second == pytest.approx(4 / cost.seconds)


def test_the_model_alone_moves_no_weight() -> None:
    trial = LengthTrial(tiny(), 0)
    before = [p.detach().clone() for p in trial.model.parameters()]
    arithmetic_of(trial)()
    assert all(torch.equal(a, b) for a, b in zip(before, trial.model.parameters(), strict=True))
    assert all(p.grad is not None for p in trial.model.parameters())
    assert trial.step == 0


def test_memory_grows_with_the_batch() -> None:
    small, large = (peak_of(tiny(f"protocol.batch_size={n}")) for n in (4, 20_000))
    assert large > small + 10 * 2**20


def test_every_mode_is_timed_against_the_loop() -> None:
    config = tiny()
    mixer = MIXERS.get("blockdiag").cls(config.model.mixer, 8)
    costs = mode_costs("blockdiag", mixer, 6, 2, 3, 0.0)
    assert [cost.mode for cost in costs] == [LOOP, *mixer.modes]
    assert costs[0].speed_up == 1.0
    u = torch.randn(2, 6, 8)
    torch.testing.assert_close(by_steps(mixer, u), mixer(u)[0], rtol=1e-4, atol=1e-5)
