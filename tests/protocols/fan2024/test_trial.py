"""A trial is a pure function of its configuration and seeds, and comes back from its state."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch.nn.functional import cross_entropy

from lrbench.config import Config
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.training.optim import make_optimiser

Make = Callable[..., Config]


def weights(trial: LengthTrial) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in trial.model.parameters()])


def test_same_seed_same_weights_whatever_happened_before(tiny: Make) -> None:
    first = LengthTrial(tiny(), seed=3)
    torch.rand(5)
    state = torch.get_rng_state()
    second = LengthTrial(tiny(), seed=3)
    assert torch.equal(weights(first), weights(second))
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(weights(first), weights(LengthTrial(tiny(), seed=4)))


def test_data_seed_changes_data_and_nothing_else(tiny: Make) -> None:
    plain, other = LengthTrial(tiny(), 3), LengthTrial(tiny("data_seed=9"), 3)
    assert torch.equal(weights(plain), weights(other))
    assert not torch.equal(plain.batch(1).tokens, other.batch(1).tokens)
    assert torch.equal(other.batch(1).tokens, LengthTrial(tiny("data_seed=9"), 4).batch(1).tokens)


def test_an_update_is_the_plain_one(tiny: Make) -> None:
    """The same update written out with torch alone."""
    config = tiny("optim.name=adamw", "optim.lr=0.01", "optim.clip=0.1", "optim.weight_decay=0.1")
    trial = LengthTrial(config, 0)
    model = copy.deepcopy(trial.model)
    optimiser = make_optimiser(config.optim, model)
    batch = trial.batch(1)
    loss = cross_entropy(model(batch.tokens)[0].flatten(0, 1), batch.targets.flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimiser.step()
    assert trial.update().item() == pytest.approx(loss.item())
    expected = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert torch.allclose(weights(trial), expected, atol=1e-7)


def test_state_brings_a_trial_back_bit_for_bit(tiny: Make) -> None:
    whole, first = LengthTrial(tiny(), 0), LengthTrial(tiny(), 0)
    for _ in range(6):
        whole.update()
    for _ in range(3):
        first.update()
    resumed = LengthTrial(tiny(), 0)
    resumed.load(first.state())
    for _ in range(3):
        resumed.update()
    assert torch.equal(weights(resumed), weights(whole))
    assert resumed.take_loss() == whole.take_loss()


def test_a_mean_loss_is_of_the_updates_since_the_last_one(tiny: Make) -> None:
    trial = LengthTrial(tiny(), 0)
    for updates in (1, 2, 3):
        losses = [float(trial.update()) for _ in range(updates)]
        assert trial.take_loss() == pytest.approx(sum(losses) / updates)


def test_supervision_of_the_last_position_only(tiny: Make) -> None:
    trial = LengthTrial(tiny("protocol.supervision=last"), 0)
    batch = trial.batch(1)
    logits, _ = trial.model(batch.tokens)
    expected = cross_entropy(logits[:, -1], batch.targets[:, -1])
    assert trial.loss(logits, batch.targets).item() == pytest.approx(expected.item())
