"""Schedules are pure functions of the update; optimisers are torch's own."""

from __future__ import annotations

import pytest
import torch

from lrbench.config import OptimConfig
from lrbench.training.optim import learning_rate, make_optimiser, set_learning_rate


def test_constant_rate_has_no_warm_up_by_default() -> None:
    assert [learning_rate(OptimConfig(lr=0.5), k, 10) for k in (1, 5, 10)] == [0.5, 0.5, 0.5]


def test_warm_up_is_linear_and_reaches_the_rate() -> None:
    config = OptimConfig(lr=1.0, warmup=4)
    assert [learning_rate(config, k, 10) for k in (1, 2, 4, 5)] == [0.25, 0.5, 1.0, 1.0]


@pytest.mark.parametrize(("schedule", "half"), [("cosine", 0.5), ("linear", 0.5)])
def test_decay_starts_after_warm_up_and_ends_at_zero(schedule: str, half: float) -> None:
    config = OptimConfig(lr=1.0, warmup=2, schedule=schedule)
    assert learning_rate(config, 2, 12) == 1.0
    assert learning_rate(config, 7, 12) == pytest.approx(half)
    assert learning_rate(config, 12, 12) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_updates_equal_the_textbook(name: str) -> None:
    """One step of Adam with L2, or decoupled, weight decay, by hand (Kingma & Ba; Loshchilov)."""
    weight = torch.nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    config = OptimConfig(name=name, lr=0.1, weight_decay=0.5)
    optimiser = make_optimiser(config, [weight])
    set_learning_rate(optimiser, 0.2)
    weight.grad = torch.tensor([3.0], dtype=torch.float64)
    optimiser.step()
    gradient = 3.0 + (0.5 * 2.0 if name == "adam" else 0.0)
    before = 2.0 if name == "adam" else 2.0 * (1 - 0.2 * 0.5)
    assert weight.item() == pytest.approx(before - 0.2 * gradient / (abs(gradient) + 1e-8))
